"""Logistic regression of each task alone, or of all rows as one task.

    min_{w, b} Σ_i s_i log(1 + exp(−y_i(⟨w, x_i⟩ + b))) + γ‖w‖²,  y = ±1

with weights s_i of the rows, 1 by default. More than two classes are trained one against the rest.
A task of a single class that has no optimum gets half a row of the other class
(:meth:`algorithms.families.linear.design.Design.with_opposite_rows`), so that it always predicts
that class, with a probability below 1.
Newton's method runs on all tasks at once, with a step length for each. Cost: O(n q² + q³) per task
and step.

Reference: Hosmer, Lemeshow, Sturdivant, *Applied Logistic Regression*, 2013,
doi:10.1002/9781118548387
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.baselines.linear.baseline import LinearBaseline, losses_of
from algorithms.baselines.linear.choice import column_variance
from algorithms.baselines.linear.params import PooledParams
from algorithms.baselines.linear.pooling import adapt_linear_model, pooled
from algorithms.baselines.linear.work import estimate_logistic
from algorithms.evaluation import grid_candidates, select_per_task
from algorithms.evaluation.selection.failures import failure_warnings
from algorithms.families.linear.design import Design, Form, prepare
from algorithms.families.linear.functions import functions_of
from algorithms.families.linear.model import LinearModel, check_new_task
from algorithms.families.linear.targets import Targets
from algorithms.interface.algorithm import PreparedFold
from algorithms.interface.needs import Needs
from algorithms.interface.params import Folds, end_warnings, end_warnings_by_task
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import LoopState, Trace
from algorithms.interface.work import WorkEstimate
from algorithms.numerics.centering import column_means
from algorithms.numerics.losses import Logistic

Array = NDArray[np.float64]

_LOSS = Logistic()
#: Step lengths of the line search; the first one nearly always succeeds.
LENGTHS = 0.5 ** np.arange(30)
#: Relative increase of the objective that is accepted as a rounding error near the optimum.
ROUNDING = 1e-14
#: Gradients below this share of the sum of all absolute entries of the rows are rounding errors.
GRADIENT_ROUNDING = 1e-15


class LogisticParams(PooledParams):
    """Parameters of logistic regression."""

    selection: Literal["given", "cv"] = Field(
        "cv",
        title="Choice of gamma",
        description="'given': use 'gamma'. 'cv': select from 'grid' by stratified "
        "cross-validation of the training rows.",
    )
    n_folds: Folds = Field(3, description="Number of folds of the cross-validation.")
    rtol: float = Field(
        1e-8,
        ge=1e-13,
        le=1e-2,
        title="Tolerance",
        description="Stop once the norm of the gradient, relative to that at zero, is below this.",
    )
    max_iter: int = Field(
        100, ge=1, le=100_000, title="Iterations", description="Maximum number of Newton steps."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LogisticState(LoopState):
    """Coefficients with the intercept last, (T, q + 1)."""

    B: Array


class LogisticRegression(LinearBaseline[LogisticParams]):
    """Logistic regression."""

    name = "logistic-regression"
    title = "Logistic regression"
    summary = (
        "A linear classifier of each task alone, or of all rows as one task, with the "
        "regularisation selected by cross-validation. The standard baseline of multi-task "
        "classification."
    )
    reference = "Hosmer, Lemeshow, Sturdivant (2013), doi:10.1002/9781118548387"
    needs = Needs(same_features=True, target="classes", sparse=True, weights=True)
    Params = LogisticParams

    def work(self, summaries: Sequence[TaskSummary], params: LogisticParams) -> WorkEstimate:
        """Return the work of the Newton steps, and of the selection."""
        return estimate_logistic(
            summaries,
            n_candidates=len(set(params.grid)) if params.selection == "cv" else 0,
            n_folds=params.n_folds,
            max_iter=params.max_iter,
        )

    def fit(
        self, tasks: TaskSet, params: LogisticParams, *, trace: Trace, rng: np.random.Generator
    ) -> LinearModel:
        """Return the function of each task, or one for all, for the given or selected gamma."""
        self.check(tasks.summaries(), params)
        trace.expect_loops(1 + (params.selection == "cv"))
        fit_info: dict[str, Any] = {
            "params": params.model_dump(mode="json"),
            "selection": params.selection,
        }
        requested = params
        gammas: dict[str, float] = {}
        if params.selection == "cv" and params.is_chosen_per_task:
            params, gammas, chosen = self._choose_per_task(tasks, params, trace=trace, rng=rng)
            fit_info |= {**chosen, "gamma_by_task": gammas}
        elif params.selection == "cv":
            params, chosen = self.choose(
                tasks, params, n_folds=params.n_folds, scales={}, trace=trace, rng=rng
            )
            fit_info |= chosen
        design, parts = _designs(tasks, params)
        unit = column_variance(design)
        ridges = [gammas.get(name, params.gamma) * unit for name in parts.names]
        W, b = newton(parts, params, ridges=ridges, trace=trace)
        fit_info |= {"gamma": params.gamma, "ridge": params.gamma * unit * design.row_unit**2}
        warnings = (
            *failure_warnings(fit_info.get("failed_candidates", ())),
            *_end_warnings(requested, params, gammas, fit_info),
        )
        if trace.stop_reason == "max_iter":
            message = f"did not converge in {params.max_iter} Newton steps; increase max_iter"
            warnings = (message, *warnings)
        return self._model(tasks, design, (W, b), fit_info, warnings)

    def prepare_fold(
        self, train: TaskSet, test: TaskSet, params: LogisticParams, *, rng: np.random.Generator
    ) -> PreparedFold[LogisticParams, LinearModel]:
        """Return a fold with the same rows for every gamma, each started from the previous one."""
        del rng
        self.check(train.summaries(), params)
        design, parts = _designs(train, params)
        unit = column_variance(design)
        solution: tuple[Array, Array] | None = None

        def fit(candidate: LogisticParams, trace: Trace) -> LinearModel:
            nonlocal solution
            ridges = [candidate.gamma * unit] * len(parts.names)
            solution = newton(parts, candidate, ridges=ridges, trace=trace, start=solution)
            return self._model(train, design, solution, {}, ())

        return PreparedFold(fit, test, has_warm_starts=True)

    def _model(
        self,
        tasks: TaskSet,
        design: Design,
        solution: tuple[Array, Array],
        fit_info: Mapping[str, Any],
        warnings: tuple[str, ...],
    ) -> LinearModel:
        """Return the model for W (T, q) and b (T,), or for all tasks as one."""
        W, b = solution
        n_columns = sum(design.sizes)
        if len(W) < n_columns:
            W, b = np.tile(W, (len(tasks), 1)), np.tile(b, len(tasks))
        return LinearModel(
            functions_of(
                tasks, design, W, b, algorithm=self.name, fit_info=fit_info, warnings=warnings
            )
        )

    def _choose_per_task(
        self, tasks: TaskSet, params: LogisticParams, *, trace: Trace, rng: np.random.Generator
    ) -> tuple[LogisticParams, dict[str, float], dict[str, Any]]:
        """Return the common parameters, the gamma of each task, and the results of the choice."""
        common, by_task = select_per_task(
            self,
            tasks.by_name(),
            grid_candidates(params, prefer_large=params.GRIDS),
            n_folds=params.n_folds,
            trace=trace,
            rng=rng,
        )
        gammas = {name: selected.gamma for name, selected in by_task.items()}
        return common.params, gammas, {"cv_errors": list(common.losses), **common.fit_info}

    def adapt_task(self, model: LinearModel, task: Task, *, trace: Trace) -> LinearModel:
        """Return the model with a new task: a function fitted to its rows, or the common one."""
        check_new_task(model, task)
        params = LogisticParams.model_validate(model.fit_info["params"])
        self.check([task.summary()], params)

        def fit(A: Array, targets: Targets) -> tuple[Array, Array]:
            functions = model.functions
            design = Design(
                (task.name,), (A,), (targets,), functions.basis, None, functions.target_prior
            )
            ridge, loop = model.fit_info["ridge"], f"Newton for '{task.name}'"
            W, b = newton(design, params, ridges=[ridge], trace=trace, loop=loop)
            return W.T, b

        return adapt_linear_model(
            model,
            task,
            is_pooled=params.form == "pooled",
            has_intercept=params.fit_intercept,
            fit=fit,
        )


def _designs(tasks: TaskSet, params: LogisticParams) -> tuple[Design, Design]:
    """Return the design of the tasks and the design of the functions: one for all if pooled."""
    design = prepare(
        tasks, Form(params.standardise), scale_targets="none", has_intercept=params.fit_intercept
    )
    return design, pooled(design) if params.form == "pooled" else design


def _end_warnings(
    requested: LogisticParams,
    chosen: LogisticParams,
    gammas: Mapping[str, float],
    fit_info: Mapping[str, Any],
) -> tuple[str, ...]:
    if requested.selection == "given":
        return ()
    if gammas:
        return end_warnings_by_task(
            requested, {name: {"gamma": gamma} for name, gamma in gammas.items()}
        )
    return end_warnings(requested, {"gamma": chosen.gamma}, losses=losses_of(requested, fit_info))


def newton(
    design: Design,
    params: LogisticParams,
    *,
    ridges: Sequence[float],
    trace: Trace,
    loop: str = "Newton",
    start: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """Return W (T, q) and b (T,) for the given regularisation of each task.

    Parameters
    ----------
    start
        W and b of a similar problem; zeros by default.
    """
    if params.fit_intercept:
        design = design.with_opposite_rows()
    # with an intercept, centred rows change only b; large means would cost digits
    parts = list(zip(design.rows, design.targets, strict=True))
    means = [column_means(X, target.weights) * float(params.fit_intercept) for X, target in parts]
    columns = [
        _Column(A, y, penalty, target.weights)
        for (X, target), mean, ridge in zip(parts, means, ridges, strict=True)
        for A in [np.column_stack([X - mean, np.full(len(X), float(params.fit_intercept))])]
        for penalty in [_penalty(X.shape[1], ridge, has_intercept=params.fit_intercept)]
        for y in target.Y.T
    ]
    zeros = np.zeros((len(columns), columns[0].A.shape[1]))
    first = _size(columns, zeros)
    # for classes with equal means the gradient is a rounding error, which no step reduces
    noise = GRADIENT_ROUNDING * float(
        np.linalg.norm([np.abs(column.A).sum(axis=0) for column in columns])
    )

    def relative(size: float) -> float:
        return size / first if size > noise else 0.0

    def step(state: LogisticState) -> LogisticState:
        steps = [_newton_step(column, b) for column, b in zip(columns, state.B, strict=True)]
        B = np.stack([b for b, _ in steps])
        is_stalled = bool(np.array_equal(B, state.B))
        value = sum(value for _, value in steps)
        residual = relative(_size(columns, B))
        return LogisticState(objective=value, residual=residual, is_stalled=is_stalled, B=B)

    centres = np.repeat(means, design.sizes, axis=0)
    B = zeros if start is None else _from(*start, centres)
    value = sum(column.objective(b) for column, b in zip(columns, B, strict=True))
    state = LogisticState(objective=value, residual=relative(_size(columns, B)), B=B)
    B = trace.run(loop, step, state, max_iter=params.max_iter, tolerance=params.rtol).B
    W, b = B[:, :-1], B[:, -1]
    return W, b - np.sum(centres * W, axis=1)


def _from(W: Array, b: Array, centres: Array) -> Array:
    """Return coefficients of centred rows, with the intercept last."""
    return np.column_stack([W, b + np.sum(centres * W, axis=1)])


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """Rows with a constant column (n, q + 1), labels ±1 (n,) and penalties (q + 1,).

    The losses of the rows have the weights (n,), if there are any.
    """

    A: Array
    y: Array
    penalty: Array
    weights: Array | None

    def weighted(self, values: Array) -> Array:
        return values if self.weights is None else self.weights * values

    def objective(self, b: Array) -> float:
        losses = self.weighted(_LOSS.value(self.y * (self.A @ b)))
        return float(np.sum(losses) + 0.5 * np.sum(self.penalty * b**2))

    def gradient(self, b: Array) -> Array:
        p = _LOSS.multiplier(self.y * (self.A @ b))
        return np.asarray(self.penalty * b - self.A.T @ self.weighted(self.y * p))


def _penalty(q: int, ridge: float, *, has_intercept: bool) -> Array:
    penalty = np.full(q + 1, 2 * ridge)
    penalty[-1] = 0.0 if has_intercept else 1.0  # keeps the coefficient of a zero column at zero
    return penalty


def _newton_step(column: _Column, b: Array) -> tuple[Array, float]:
    """Return the coefficients (q + 1,) after a Newton step with line search, and the objective."""
    p = _LOSS.multiplier(column.y * (column.A @ b))
    hessian = (column.A.T * column.weighted(p * (1 - p))) @ column.A + np.diag(column.penalty)
    # for separated classes the intercept has no curvature
    hessian[-1, -1] += np.finfo(float).eps * len(column.A)
    along = -np.linalg.solve(hessian, column.gradient(b))
    value = column.objective(b)
    for length in LENGTHS:
        trial = b + length * along
        trial_value = column.objective(trial)
        if trial_value <= value + ROUNDING * value:
            return trial, trial_value
    return b, value


def _size(columns: Sequence[_Column], B: Array) -> float:
    """Return the norm of the gradient over all tasks."""
    squares = [np.sum(column.gradient(b) ** 2) for column, b in zip(columns, B, strict=True)]
    return float(np.sqrt(np.sum(squares)))
