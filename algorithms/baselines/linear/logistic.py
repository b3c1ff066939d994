"""Logistic regression of each task alone, or of all rows as one task.

    min_{w, b} Σ_i s_i log(1 + exp(−y_i(⟨w, x_i⟩ + b))) + γ‖w‖²,  y = ±1

with weights s_i of the rows, 1 by default. In form 'pooled', tasks have intercepts b_t and a
penalty ½κv Σ_t (b_t − b)², with the κ of ridge regression on ±1 with the least leave-one-out error
(:mod:`algorithms.numerics.task_intercepts`), and v the mean variance of labels as 0 and 1, the
curvature of the loss of a row. b is the intercept of a new task.
More than two classes are trained one against the rest. A task of a single class that has no optimum
gets half a row of the other class
(:meth:`algorithms.families.linear.design.Design.with_opposite_rows`), so that it always predicts
that class, with a probability below 1.
Newton's method runs on all tasks at once, with a step length for each. Cost: O(n q² + q³) per task
and step.

Reference: Hosmer, Lemeshow, Sturdivant, *Applied Logistic Regression*, 2013,
doi:10.1002/9781118548387
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import Field
from scipy.optimize import brentq

from algorithms.baselines.linear.baseline import LinearBaseline, losses_of
from algorithms.baselines.linear.choice import column_variance
from algorithms.baselines.linear.params import DEFAULT_GRID, PooledParams
from algorithms.baselines.linear.pooling import (
    INTERCEPT_ROWS,
    adapt_linear_model,
    intercept_errors,
    pooled,
)
from algorithms.baselines.linear.work import estimate_logistic
from algorithms.evaluation import grid_candidates, select_per_task
from algorithms.evaluation.selection.failures import failure_warnings
from algorithms.families.linear.design import Design, Form, prepare
from algorithms.families.linear.model import LinearModel, check_new_task
from algorithms.families.linear.targets import Targets
from algorithms.interface.algorithm import PreparedFold
from algorithms.interface.needs import Needs
from algorithms.interface.params import Folds, end_warnings, end_warnings_by_task
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import LoopState, Trace
from algorithms.interface.units import units_of
from algorithms.interface.work import WorkEstimate
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import column_means
from algorithms.numerics.leave_one_out import units_by_size
from algorithms.numerics.losses import Logistic

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
    """Coefficients, intercept, and deviations of the tasks' intercepts, (T, q + 1 + n_tasks)."""

    B: Array


class Solution(NamedTuple):
    """Functions W (T, q) and b (T,), and the b_t − b (T, n_tasks) of pooled tasks."""

    W: Array
    b: Array
    deviations: Array


@dataclass(frozen=True, slots=True)
class Spread:
    """Penalty on the differences of the intercepts of pooled tasks.

    Parameters
    ----------
    sizes
        Number of rows of each task.
    kappa
        Number of rows that the common intercept counts for.
    penalties : (T,)
        κv of each function.
    """

    sizes: tuple[int, ...]
    kappa: float
    penalties: Array


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
        design, parts, spread = _designs(tasks, params)
        unit = column_variance(design)
        ridges = [gammas.get(name, params.gamma) * unit for name in parts.names]
        solution = newton(parts, params, ridges=ridges, trace=trace, spread=spread)
        if spread is not None:
            penalties = spread.penalties.tolist()
            fit_info |= {"intercept_rows": spread.kappa, "intercept_penalties": penalties}
        fit_info |= {"gamma": params.gamma, "ridge": params.gamma * unit * design.row_unit**2}
        warnings = (
            *failure_warnings(fit_info.get("failed_candidates", ())),
            *_end_warnings(requested, params, gammas, fit_info),
        )
        if trace.stop_reason == "max_iter":
            message = f"did not converge in {params.max_iter} Newton steps; increase max_iter"
            warnings = (message, *warnings)
        return self._model(tasks, design, solution, fit_info, warnings)

    def prepare_fold(
        self, train: TaskSet, test: TaskSet, params: LogisticParams, *, rng: np.random.Generator
    ) -> PreparedFold[LogisticParams, LinearModel]:
        """Return a fold with the same rows for every gamma, each started from the previous one."""
        del rng
        self.check(train.summaries(), params)
        design, parts, spread = _designs(train, params)
        unit = column_variance(design)
        solution: Solution | None = None

        def fit(candidate: LogisticParams, trace: Trace) -> LinearModel:
            nonlocal solution
            ridges = [candidate.gamma * unit] * len(parts.names)
            solution = newton(
                parts, candidate, ridges=ridges, trace=trace, start=solution, spread=spread
            )
            return self._model(train, design, solution, {}, ())

        return PreparedFold(fit, test, has_warm_starts=True)

    def _model(
        self,
        tasks: TaskSet,
        design: Design,
        solution: Solution,
        fit_info: Mapping[str, Any],
        warnings: tuple[str, ...],
    ) -> LinearModel:
        """Return the model for the functions of tasks, or for all tasks as one."""
        W, b, deviations = solution
        common = (W, b) if deviations.size else None
        n_columns = sum(design.sizes)
        if len(W) < n_columns:
            W, b = np.tile(W, (len(tasks), 1)), np.tile(b, len(tasks))
        if deviations.size:
            b = b + deviations.T.ravel()
        return self.model_of(
            tasks, design, W, b, fit_info=fit_info, warnings=warnings, common=common
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
            W, b, _ = newton(design, params, ridges=[ridge], trace=trace, loop=loop)
            return W.T, b

        def fit_intercept(F: Array, targets: Targets, b: Array) -> Array:
            penalties = model.fit_info["intercept_penalties"]
            columns = zip(F.T, targets.Y.T, b, penalties, strict=True)
            return np.array([_intercept_of(*column, targets.weights) for column in columns])

        return adapt_linear_model(
            model,
            task,
            is_pooled=params.form == "pooled",
            has_intercept=params.fit_intercept,
            fit=fit,
            fit_intercept=fit_intercept,
        )


def _designs(tasks: TaskSet, params: LogisticParams) -> tuple[Design, Design, Spread | None]:
    """Return the design of the tasks, that of the functions, one for all if pooled, and spread."""
    design = prepare(
        tasks, Form(params.standardise), scale_targets="none", has_intercept=params.fit_intercept
    )
    if params.form == "task":
        return design, design, None
    pool = pooled(design)
    return design, pool, _spread(tasks, design, pool) if params.has_task_intercepts else None


def _spread(tasks: TaskSet, design: Design, pool: Design) -> Spread:
    """Return the penalty on differences of intercepts with the least leave-one-out error of ±1."""
    sizes = tuple(len(X) for X in design.rows)
    ridges = [gamma * column_variance(design) for gamma in DEFAULT_GRID]
    errors = intercept_errors(pool, sizes, units_by_size(units_of(tasks).unit), ridges)
    kappa = INTERCEPT_ROWS[errors.min(axis=0).argmin()]
    means = column_means(pool.targets[0].Y, pool.weights_of_rows)
    # with half a row of each label, as rows of a single class have no variance
    means = means * len(pool.rows[0]) / (len(pool.rows[0]) + 1)
    return Spread(sizes, kappa, kappa * (1 - means**2) / 4)


def _intercept_of(f: Array, y: Array, b: float, penalty: float, weights: Array | None) -> float:
    """Return the intercept of a new task with the common function f (n,), labels y (n,) and b."""
    s = np.ones(len(y)) if weights is None else weights

    def slope(u: float) -> float:
        return float(penalty * u - np.sum(s * y * _LOSS.multiplier(y * (f + b + u))))

    reach = float(s.sum()) / penalty + 1.0
    return b + float(brentq(slope, -reach, reach))


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
    start: Solution | None = None,
    spread: Spread | None = None,
) -> Solution:
    """Return the functions for the given regularisation of each task.

    Parameters
    ----------
    start
        Solution of a similar problem; zeros by default.
    spread
        Of the intercepts of pooled tasks.
    """
    sizes = () if spread is None else spread.sizes
    n_tasks = len(sizes)
    if params.fit_intercept:
        design = design.with_opposite_rows()
    if spread is not None and len(design.rows[0]) > sum(sizes):
        sizes = (*sizes, 1)
    # with an intercept, centred rows change only b; large means would cost digits
    parts = list(zip(design.rows, design.targets, strict=True))
    means = [column_means(X, target.weights) * float(params.fit_intercept) for X, target in parts]
    spreads = None if spread is None else spread.penalties
    columns = [
        _Column(A, y, _with_spread(penalty, len(sizes), spreads, m), target.weights, sizes)
        for (X, target), mean, ridge in zip(parts, means, ridges, strict=True)
        for A in [np.column_stack([X - mean, np.full(len(X), float(params.fit_intercept))])]
        for penalty in [_penalty(X.shape[1], ridge, has_intercept=params.fit_intercept)]
        for m, y in enumerate(target.Y.T)
    ]
    q = columns[0].A.shape[1] - 1
    zeros = np.zeros((len(columns), q + 1 + len(sizes)))
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
    B = zeros.copy()
    if start is not None:
        B[:, : q + 1] = _from(start.W, start.b, centres)
        B[:, q + 1 : q + 1 + n_tasks] = start.deviations
    value = sum(column.objective(b) for column, b in zip(columns, B, strict=True))
    state = LogisticState(objective=value, residual=relative(_size(columns, B)), B=B)
    B = trace.run(loop, step, state, max_iter=params.max_iter, tolerance=params.rtol).B
    W, b = B[:, :q], B[:, q]
    deviations = B[:, q + 1 : q + 1 + n_tasks]
    if n_tasks and len(sizes) > n_tasks:  # the mean of the deviations of the tasks is 0
        shift = deviations.mean(axis=1, keepdims=True)
        b, deviations = b + shift[:, 0], deviations - shift
    return Solution(W, b - np.sum(centres * W, axis=1), deviations)


def _from(W: Array, b: Array, centres: Array) -> Array:
    """Return coefficients of centred rows, with the intercept last."""
    return np.column_stack([W, b + np.sum(centres * W, axis=1)])


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """Rows with a constant column (n, q + 1), labels ±1 (n,) and penalties of all coefficients.

    The losses of the rows have the weights (n,), if there are any. Groups of rows with ``sizes``
    follow each other and have further intercepts, the last coefficients.
    """

    A: Array
    y: Array
    penalty: Array
    weights: Array | None
    sizes: tuple[int, ...] = ()

    @property
    def q(self) -> int:
        """Number of coefficients without those of the groups."""
        return int(self.A.shape[1])

    def margins(self, b: Array) -> Array:
        scores = self.A @ b[: self.q]
        return self.y * (scores + np.repeat(b[self.q :], self.sizes) if self.sizes else scores)

    def sums(self, values: Array) -> Array:
        """Return the sums of values (n, ...) over the rows of each group."""
        starts = np.cumsum([0, *self.sizes[:-1]])
        return np.asarray(np.add.reduceat(values, starts, axis=0))

    def weighted(self, values: Array) -> Array:
        return values if self.weights is None else self.weights * values

    def objective(self, b: Array) -> float:
        losses = self.weighted(_LOSS.value(self.margins(b)))
        return float(np.sum(losses) + 0.5 * np.sum(self.penalty * b**2))

    def gradient(self, b: Array) -> Array:
        multipliers = self.weighted(self.y * _LOSS.multiplier(self.margins(b)))
        downwards = self.A.T @ multipliers
        if self.sizes:
            downwards = np.concatenate([downwards, self.sums(multipliers)])
        return np.asarray(self.penalty * b - downwards)

    def newton_direction(self, b: Array) -> Array:
        """Return minus the inverse Hessian times the gradient; those of groups are eliminated."""
        p, q = _LOSS.multiplier(self.margins(b)), self.q
        curvatures, gradient = self.weighted(p * (1 - p)), self.gradient(b)
        hessian = (self.A.T * curvatures) @ self.A + np.diag(self.penalty[:q])
        # for separated classes the intercept has no curvature
        hessian[-1, -1] += np.finfo(float).eps * len(self.A)
        if not self.sizes:
            return np.asarray(-np.linalg.solve(hessian, gradient))
        mixed = self.sums(curvatures[:, np.newaxis] * self.A)
        own = self.sums(curvatures) + self.penalty[q:]
        shares = mixed / own[:, np.newaxis]
        first = -np.linalg.solve(hessian - mixed.T @ shares, gradient[:q] - shares.T @ gradient[q:])
        return np.concatenate([first, -gradient[q:] / own - shares @ first])


def _penalty(q: int, ridge: float, *, has_intercept: bool) -> Array:
    penalty = np.full(q + 1, 2 * ridge)
    penalty[-1] = 0.0 if has_intercept else 1.0  # keeps the coefficient of a zero column at zero
    return penalty


def _with_spread(penalty: Array, n_groups: int, spreads: Array | None, m: int) -> Array:
    """Return the penalties with those of the groups of function m."""
    return penalty if spreads is None else np.append(penalty, np.full(n_groups, spreads[m]))


def _newton_step(column: _Column, b: Array) -> tuple[Array, float]:
    """Return the coefficients (q + 1,) after a Newton step with line search, and the objective."""
    along = column.newton_direction(b)
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
