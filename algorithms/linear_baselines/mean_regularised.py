"""Mean-regularised multi-task learning: the sum of a common function and one of each task.

    min Σ_t ‖y_t − X_t(w_0 + v_t) − b_t‖² + γ Σ_t ‖v_t‖² + μ‖w_0‖²,   w_t = w_0 + v_t

γ → ∞ is one function for all tasks (with separate intercepts), μ → ∞ is ridge regression per task.
With H_t = γ(X_tX_tᵀ + γI)⁻¹, the common part solves (Σ_t X_tᵀH_tX_t + μI) w_0 = Σ_t X_tᵀH_ty_t, and
v_t is the ridge regression of the residuals. Leave-one-out errors follow from the diagonal of
Q⁻¹ = H − HX(XᵀHX + μI)⁻¹XᵀH. Cost: O(n_t² q + q³) per task and pair (γ, μ).

Reference: Evgeniou, Pontil, *Regularized multi-task learning*, KDD 2004,
doi:10.1145/1014052.1014067 (with the hinge loss; γ and μ are its λ₁/T and λ₂).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.interface.grid_ends import end_warnings
from algorithms.interface.params import Grid
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.units import units_of
from algorithms.linear.design import Design, Form, prepare
from algorithms.linear.functions import functions_of
from algorithms.linear.model import LinearModel, check_new_task
from algorithms.linear_baselines.baseline import LinearBaseline, solve_at_once
from algorithms.linear_baselines.choice import (
    choose_gamma,
    column_variance,
    mean_known,
)
from algorithms.linear_baselines.params import Gamma, LeaveOneOutParams
from algorithms.linear_baselines.pooling import check_two_classes
from algorithms.numerics.leave_one_out import intercept_roots, left_out_errors
from algorithms.numerics.ridge import ridge_regression

Array = NDArray[np.float64]
Indices = NDArray[np.intp]


class MeanRegularisedParams(LeaveOneOutParams):
    """Parameters of mean-regularised multi-task learning."""

    GRIDS: ClassVar = {"gamma": "grid", "common_share": "common_grid"}

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


@dataclass(frozen=True, slots=True, eq=False)
class _Eliminated:
    """Linear system of the common part w_0 after elimination of all v_t: (S + μI) w_0 = c.

    The symbols are those of the module.

    Parameters
    ----------
    H
        γ(X_tX_tᵀ + γI)⁻¹ of each task, (n_t, n_t).
    X, y
        Rows and targets, centred if there are intercepts, times the roots of the weights.
    S : (q, q)
        Σ_t X_tᵀH_tX_t.
    c : (q,)
        Σ_t X_tᵀH_ty_t.
    weights
        Weights of the rows of each task; None: 1.
    """

    gamma: float
    H: list[Array]
    X: list[Array]
    y: list[Array]
    S: Array
    c: Array
    weights: list[Array | None]

    def matrix(self, mu: float) -> Array:
        """Return S + μI."""
        return np.asarray(mu * np.eye(len(self.S)) + self.S)


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
    Params = MeanRegularisedParams

    def check(self, summaries: Sequence[TaskSummary], params: MeanRegularisedParams) -> None:
        """Raise InvalidData if the tasks do not meet the requirements."""
        super().check(summaries, params)
        check_two_classes(summaries, algorithm=self.name)

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
        design = prepare(
            tasks,
            Form(params.standardise),
            scale_targets=params.scale_targets,
            has_intercept=params.fit_intercept,
        )
        gamma, mu, fit_info, warnings = _choose(design, params, units_of(tasks).unit, trace=trace)
        parts = _eliminate(design, params, gamma)
        W, b = solve_at_once(lambda: _solve(parts, design, mu), trace)
        if not params.fit_intercept:
            b = np.zeros(len(W))
        w_0 = _common(parts, mu)
        common = design.target_unit * design.weights(w_0[np.newaxis])[:, 0]
        fit_info |= {
            "params": params.model_dump(mode="json"),
            "ridge": gamma * design.row_unit**2,
            "common_ridge": mu * design.row_unit**2,
            "common": [float(x) for x in common],
        }
        return LinearModel(
            functions_of(
                tasks, design, W, b, algorithm=self.name, fit_info=fit_info, warnings=warnings
            )
        )

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


def _choose(
    design: Design, params: MeanRegularisedParams, unit: Indices, *, trace: Trace
) -> tuple[float, float, dict[str, Any], tuple[str, ...]]:
    """Return γ and μ, the results of the selection as JSON, and warnings.

    Each γ is scored with its best μ.
    """
    size = column_variance(design)

    def errors_of(gamma: float) -> list[float]:
        parts = _eliminate(design, params, gamma * size)
        mus = [share * gamma * size for share in shares]
        return [design.target_unit**2 * one for one in _loo_errors(parts, params, unit, mus)]

    shares = sorted(set(params.common_grid))
    choice = choose_gamma(
        params, lambda gamma: min(errors_of(gamma)), trace=trace, task=design.names[0]
    )
    share, warnings = params.common_share, choice.warnings
    if params.selection == "loo":
        share = shares[int(np.argmin(errors_of(choice.gamma)))]
        warnings = (*warnings, *end_warnings(params, {"common_share": share}))
    gamma = choice.gamma * size
    return gamma, share * gamma, {**choice.fit_info, "common_share": share}, warnings


def _eliminate(design: Design, params: MeanRegularisedParams, gamma: float) -> _Eliminated:
    blocks = design.blocks(centre=params.fit_intercept)
    X, y = [block.X for block in blocks], [block.Y[:, 0] for block in blocks]
    H = [np.asarray(gamma * np.linalg.inv(x @ x.T + gamma * np.eye(len(x)))) for x in X]
    S = np.asarray(sum(x.T @ h @ x for x, h in zip(X, H, strict=True)))
    c = sum((x.T @ h @ t for x, h, t in zip(X, H, y, strict=True)), np.zeros(len(S)))
    return _Eliminated(gamma, H, X, y, S, c, [one.weights for one in design.targets])


def _common(parts: _Eliminated, mu: float) -> Array:
    return np.asarray(np.linalg.solve(parts.matrix(mu), parts.c))


def _solve(parts: _Eliminated, design: Design, mu: float) -> tuple[Array, Array, float]:
    """Return W (T, q), b (T,) and the objective, which is Σ_t y_tᵀH_t(y_t − X_tw_0)."""
    w_0 = _common(parts, mu)
    W, objective = [], 0.0
    for x, h, t in zip(parts.X, parts.H, parts.y, strict=True):
        rest = h @ (t - x @ w_0)
        W.append(w_0 + x.T @ rest / parts.gamma)
        objective += float(t @ rest)
    return np.stack(W), design.intercepts(np.stack(W)), objective


def _loo_errors(
    parts: _Eliminated, params: MeanRegularisedParams, unit: Indices, mus: Sequence[float]
) -> list[float]:
    """Return the mean squared leave-one-out error for each μ.

    For a unit with rows G, the errors are (Q⁻¹)_GG⁻¹ r_G, where r are the residuals of the fit with
    all rows. With intercepts, 1/n_t is subtracted from the entries of Q⁻¹ between rows of task t.
    With weights s, rows and targets are multiplied by √s, and 1/n_t is √(s_is_j)/Σs.
    """
    HX = np.concatenate([h @ x for h, x in zip(parts.H, parts.X, strict=True)])
    weights = _joint(parts.weights, parts.H)
    roots = [
        intercept_roots(len(h), w) * params.fit_intercept
        for h, w in zip(parts.H, parts.weights, strict=True)
    ]
    own = _TaskBlocks.of(parts.H, np.concatenate(roots))
    means = []
    for mu in mus:
        w_0 = _common(parts, mu)
        lifted = np.ascontiguousarray(np.linalg.solve(parts.matrix(mu), HX.T).T)

        def blocks_of(rows: Indices, lifted: Array = lifted) -> Array:
            return own.at(rows) - HX[rows] @ np.swapaxes(lifted[rows], 1, 2)

        diagonal = own.diagonal - np.einsum("nq,nq->n", HX, lifted)
        residuals = np.concatenate(
            [h @ (t - x @ w_0) for x, h, t in zip(parts.X, parts.H, parts.y, strict=True)]
        )
        errors = left_out_errors(residuals[:, np.newaxis], diagonal, blocks_of, unit=unit)
        means.append(mean_known(errors[:, 0] ** 2, weights))
    return means


def _joint(weights: Sequence[Array | None], H: Sequence[Array]) -> Array | None:
    if all(w is None for w in weights):
        return None
    pairs = zip(weights, H, strict=True)
    return np.concatenate([np.ones(len(h)) if w is None else w for w, h in pairs])


@dataclass(frozen=True, slots=True, eq=False)
class _TaskBlocks:
    """The block-diagonal matrix of H_t − r_tr_tᵀ over all tasks, where r_tr_tᵀ is 1/n_t.

    Parameters
    ----------
    entries
        The entries of all H_t, row by row.
    task, first : (n,)
        Task of each row, and the position of the row's first entry minus its column.
    roots : (n,)
        r_t, the roots of 1/n_t (with weights, of s_i/Σs) with intercepts, 0 without.
    diagonal : (n,)
        Diagonal of the matrix.
    """

    entries: Array
    task: Indices
    first: Indices
    roots: Array
    diagonal: Array

    @classmethod
    def of(cls, H: Sequence[Array], roots: Array) -> "_TaskBlocks":
        """Return the matrix with the given blocks."""
        sizes = np.array([len(h) for h in H])
        task = np.repeat(np.arange(len(H)), sizes)
        starts, rows = np.cumsum(sizes) - sizes, np.arange(sizes.sum())
        first = (np.cumsum(sizes**2) - sizes**2)[task] - starts[task]
        first += (rows - starts[task]) * sizes[task]
        diagonal = np.concatenate([np.diag(h) for h in H]) - roots**2
        return cls(np.concatenate([h.ravel() for h in H]), task, first, roots, diagonal)

    def at(self, rows: Indices) -> Array:
        """Return the blocks (n_units, k, k) between the rows (n_units, k) of each unit."""
        row, column = np.broadcast_arrays(rows[:, :, np.newaxis], rows[:, np.newaxis])
        is_same = self.task[row] == self.task[column]
        blocks = np.zeros(row.shape)
        row, column = row[is_same], column[is_same]
        shares = self.roots[row] * self.roots[column]
        blocks[is_same] = self.entries[self.first[row] + column] - shares
        return blocks
