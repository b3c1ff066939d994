"""Mean-regularised multi-task learning: the sum of a common function and a function of each task.

    min Σ_t ‖y_t − X_t(w_0 + v_t) − b_t‖² + γ Σ_t ‖v_t‖² + μ‖w_0‖²,   w_t = w_0 + v_t

γ → ∞ is one function for all tasks (with separate intercepts), μ → ∞ is ridge regression per task.
With H_t = γ(X_tX_tᵀ + γI)⁻¹, the common part solves (Σ_t X_tᵀH_tX_t + μI) w_0 = Σ_t X_tᵀH_ty_t, and
v_t is the ridge regression of the residuals. Leave-one-out errors follow from the diagonal of
Q⁻¹ = H − HX(XᵀHX + μI)⁻¹XᵀH. Cost: O(n_t q² + q³) per task and γ, and O(n q) for each μ.

A task of a single class takes part: its own targets only determine b_t and draw v_t, so that w_0
ranks its rows.

Reference: Evgeniou, Pontil, *Regularized multi-task learning*, KDD 2004,
doi:10.1145/1014052.1014067 (with the hinge loss; γ and μ are its λ₁/T and λ₂).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.baselines.linear.baseline import LinearBaseline, prepare_design, solve_at_once
from algorithms.baselines.linear.choice import (
    choose_gamma,
    column_variance,
    mean_known,
)
from algorithms.baselines.linear.clustered import COPIED
from algorithms.baselines.linear.elimination import Eliminated, TaskSpectrum, left_out_squares
from algorithms.baselines.linear.params import Gamma, LeaveOneOutParams
from algorithms.baselines.linear.pooling import check_two_classes
from algorithms.baselines.linear.unrelated import MIN_RELATED, find_unrelated
from algorithms.baselines.linear.work import estimate_mean_regularised
from algorithms.families.linear.design import Design
from algorithms.families.linear.model import LinearModel, check_new_task
from algorithms.interface.algorithm import Baseline
from algorithms.interface.params import Grid, end_warnings
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.units import units_of
from algorithms.interface.work import WorkEstimate
from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.leave_one_out import RidgePath, intercept_roots, units_by_size
from algorithms.numerics.ridge import ridge_regression


class MeanRegularisedParams(LeaveOneOutParams):
    """Parameters of mean-regularised multi-task learning."""

    GRIDS: ClassVar = {"gamma": "grid", "common_share": "common_grid"}

    unrelated: Literal["keep", "leave-out"] = Field(
        "keep",
        title="Unrelated tasks",
        description="'leave-out': tasks that leave-one-out errors show to be unrelated to the "
        "others have ridge regressions of their own, and the others are learned without them. "
        "'keep': all tasks are learned together.",
    )

    common_share: Annotated[float, Field(ge=1e-6, le=1e6)] = Field(
        0.1,
        title="Common part",
        description="Regularisation of the common part, relative to gamma, which regularises the "
        "tasks' own parts. Small values favour the common part, large ones separate tasks.",
    )
    common_grid: Grid[Gamma] = Field(
        (0.001, 0.03, 1.0, 30.0),
        max_length=100,
        title="Grid of the common part",
        description="Values of 'common_share' to try.",
    )


class MeanRegularised(LinearBaseline[MeanRegularisedParams]):
    """Multi-task learning with regularisation towards a common function."""

    name = "mean-regularised"
    title = "Mean-regularised multi-task learning"
    summary = (
        "Linear functions of tasks that are all close to one common function, with both "
        "regularisations selected by leave-one-out in closed form. For tasks that differ a little, "
        "in all directions."
    )
    reference = "Evgeniou and Pontil (2004), doi:10.1145/1014052.1014067"
    needs = replace(LinearBaseline.needs, sparse=True)
    baselines = (
        Baseline("ridge", "single_task", COPIED, {"form": "task"}),
        Baseline("ridge", "pooled", COPIED, {"form": "pooled"}),
    )
    Params = MeanRegularisedParams

    def check(self, summaries: Sequence[TaskSummary], params: MeanRegularisedParams) -> None:
        """Raise InvalidData if the tasks do not meet the requirements."""
        super().check(summaries, params)
        check_two_classes(summaries, algorithm=self.name)

    def work(self, summaries: Sequence[TaskSummary], params: MeanRegularisedParams) -> WorkEstimate:
        """Return the work of the leave-one-out errors of all pairs of candidates."""
        return estimate_mean_regularised(summaries, params)

    def fit(
        self,
        tasks: TaskSet,
        params: MeanRegularisedParams,
        *,
        trace: Trace,
        rng: np.random.Generator,
    ) -> LinearModel:
        """Return w_0 and the w_t, for the given or selected regularisation."""
        del rng
        self.check(tasks.summaries(), params)
        trace.expect_loops(1 + (params.selection == "loo"))
        design = prepare_design(tasks, params)
        spectra = [
            TaskSpectrum.of(block.X, block.Y[:, 0])
            for block in design.blocks(centre=params.fit_intercept)
        ]
        unit = units_of(tasks).unit
        is_alone = _tasks_alone(spectra, design, params, unit, trace=trace)
        kept = np.flatnonzero(~is_alone)
        related = design.take(kept)
        kept_units = unit[np.isin(_task_of_rows(design), kept)]
        few = [spectra[t] for t in kept]
        gamma, mu, fit_info, warnings = _choose(few, related, params, kept_units, trace=trace)
        parts = Eliminated.of(few, gamma)
        W = np.zeros((len(spectra), design.rows[0].shape[1]))
        W[kept], _ = solve_at_once(lambda: _solve(parts, related, mu), trace)
        if is_alone.any():
            names = [name for name, alone in zip(design.names, is_alone, strict=True) if alone]
            W[is_alone], ridge = _solve_alone(design, params, unit, np.flatnonzero(is_alone))
            fit_info |= {"unrelated": names, "ridge_alone": ridge * design.row_unit**2}
        w_0 = parts.common([mu])[:, 0]
        common = design.target_unit * design.weights(w_0[np.newaxis])[:, 0]
        fit_info |= {
            "params": params.model_dump(mode="json"),
            "ridge": gamma * design.row_unit**2,
            "common_ridge": mu * design.row_unit**2,
            "common": [float(x) for x in common],
        }
        return self.model_of(
            tasks,
            design,
            W,
            params=params,
            fit_info=fit_info,
            warnings=warnings,
            common=(w_0, _common_intercept(related, w_0, params)),
        )

    def has_common_part(self, params: MeanRegularisedParams) -> bool:
        """Return True: w_0 is the function of a task without rows."""
        del params
        return True

    def adapt_task(self, model: LinearModel, task: Task, *, trace: Trace) -> LinearModel:
        """Return the model with a new task, whose v_t is fitted with w_0 fixed."""
        del trace
        check_new_task(model, task)
        params = MeanRegularisedParams.model_validate(model.fit_info["params"])
        self.check([task.summary()], params)
        A, targets = model.functions.new_rows(task, has_intercept=params.fit_intercept)
        w_0 = np.array(model.fit_info["common"])[:, np.newaxis] / model.functions.target_unit
        V, b = ridge_regression(
            A,
            targets.Y - A @ w_0,
            ridge=model.fit_info["ridge"],
            has_intercept=params.fit_intercept,
            weights=targets.weights,
        )
        W = w_0 + V
        return LinearModel(
            model.functions.with_task(task.name, targets, W, intercept=b, fitted=A @ W + b)
        )


def _common_intercept(design: Design, w_0: Array, params: MeanRegularisedParams) -> float:
    """Return the mean over tasks of the intercepts that fit w_0 (q,); 0 without intercepts."""
    if not params.fit_intercept:
        return 0.0
    return float(design.intercepts(np.tile(w_0, (len(design.names), 1))).mean())


def _choose(
    spectra: list[TaskSpectrum],
    design: Design,
    params: MeanRegularisedParams,
    unit: Indices,
    *,
    trace: Trace,
) -> tuple[float, float, dict[str, Any], tuple[str, ...]]:
    """Return γ and μ, the results of the selection as JSON, and warnings.

    Each γ is scored with its best μ.
    """
    size, weights = column_variance(design), design.weights_of_rows
    roots, units = _roots(design, params), units_by_size(unit)

    def errors_of(gamma: float) -> list[float]:
        parts = Eliminated.of(spectra, gamma * size)
        mus = [share * gamma * size for share in shares]
        squares = left_out_squares(parts, roots, units, mus)
        return [design.target_unit**2 * mean_known(row, weights) for row in squares]

    shares = sorted(set(params.common_grid))
    choice = choose_gamma(
        params, lambda gamma: min(errors_of(gamma)), trace=trace, task=design.names[0]
    )
    share, warnings = params.common_share, choice.warnings
    if params.selection == "loo":
        errors = errors_of(choice.gamma)
        share = shares[int(np.argmin(errors))]
        along = {"common_share": dict(zip(shares, errors, strict=True))}
        warnings = (*warnings, *end_warnings(params, {"common_share": share}, losses=along))
    gamma = choice.gamma * size
    return gamma, share * gamma, {**choice.fit_info, "common_share": share}, warnings


def _roots(design: Design, params: MeanRegularisedParams) -> Array:
    """Return the roots (n,) whose products an intercept adds to the hat matrix; 0 without."""
    return np.concatenate(
        [
            intercept_roots(len(target.Y), target.weights) * params.fit_intercept
            for target in design.targets
        ]
    )


def _task_of_rows(design: Design) -> Indices:
    """Return the position of the task of each row, (n,)."""
    return np.repeat(np.arange(len(design.names)), [len(X) for X in design.rows])


def _tasks_alone(
    spectra: Sequence[TaskSpectrum],
    design: Design,
    params: MeanRegularisedParams,
    unit: Indices,
    *,
    trace: Trace,
) -> NDArray[np.bool_]:
    """Return whether each task is left out of the common fit, (n_tasks,)."""
    n_tasks = len(spectra)
    if params.unrelated == "keep" or n_tasks <= MIN_RELATED:
        return np.zeros(n_tasks, dtype=bool)
    task, roots, size = _task_of_rows(design), _roots(design, params), column_variance(design)

    def together(tasks: Indices) -> Array:
        squares, is_alone = np.full(len(task), np.nan), np.isin(task, tasks)
        few, units = [spectra[t] for t in tasks], units_by_size(unit[is_alone])
        candidates = [
            candidate
            for gamma in _values(params, "gamma")
            for candidate in left_out_squares(
                Eliminated.of(few, gamma * size),
                roots[is_alone],
                units,
                [share * gamma * size for share in _values(params, "common_share")],
            )
        ]
        squares[is_alone] = min(candidates, key=_size)
        return squares

    def search() -> Array:
        alone, _ = _alone(design, params, unit)
        return find_unrelated(together, alone, task=task, unit=unit).astype(np.float64)

    return trace.stage("unrelated tasks", search) > 0


def _alone(design: Design, params: MeanRegularisedParams, unit: Indices) -> tuple[Array, float]:
    """Return the squared leave-one-out errors (n,) of ridge regressions, and their best γ."""
    by_task = np.split(unit, np.cumsum([len(X) for X in design.rows])[:-1])
    units = [units_by_size(task_units) for task_units in by_task]
    paths = [
        RidgePath.of(X, target.Y, has_intercept=params.fit_intercept, weights=target.weights)
        for X, target in zip(design.rows, design.targets, strict=True)
    ]
    candidates = []
    for gamma in column_variance(design) * np.array(_values(params, "gamma")):
        pairs = zip(paths, units, strict=True)
        errors = [path.errors(float(gamma), units=task_units)[:, 0] for path, task_units in pairs]
        candidates.append((np.concatenate(errors) ** 2, float(gamma)))
    return min(candidates, key=lambda candidate: _size(candidate[0]))


def _solve_alone(
    design: Design, params: MeanRegularisedParams, unit: Indices, tasks: Indices
) -> tuple[Array, float]:
    """Return W (n, q) of the n tasks at some positions, each learned alone, and the γ of all."""
    _, gamma = _alone(design, params, unit)
    W = [
        ridge_regression(
            design.rows[t],
            design.targets[t].Y,
            ridge=gamma,
            has_intercept=params.fit_intercept,
            weights=design.targets[t].weights,
        )[0][:, 0]
        for t in tasks
    ]
    return np.stack(W), gamma


def _size(squares: Array) -> float:
    """Return the mean of squared errors; infinity if none is known."""
    mean = mean_known(squares)
    return np.inf if np.isnan(mean) else mean


def _values(params: MeanRegularisedParams, name: Literal["gamma", "common_share"]) -> list[float]:
    """Return the values of a parameter that are tried, the largest first."""
    if params.selection == "given":
        return [getattr(params, name)]
    return sorted(set(getattr(params, params.GRIDS[name])), reverse=True)


def _solve(parts: Eliminated, design: Design, mu: float) -> tuple[Array, Array, float]:
    """Return W (T, q), b (T,) and the objective, which is Σ_t y_tᵀH_t(y_t − X_tw_0)."""
    w_0 = parts.common([mu])
    W = w_0[:, 0] + parts.own(w_0[:, 0])
    pairs = zip(parts.spectra, parts.residuals(w_0), strict=True)
    objective = sum(float(spectrum.y @ residuals[:, 0]) for spectrum, residuals in pairs)
    return W, design.intercepts(W), objective
