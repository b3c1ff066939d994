"""Ridge regression and kernel ridge regression of each task alone, or of all tasks as one.

    min_{w, b} Σ_i s_i(y_i − ⟨w, x_i⟩ − b)² + γ‖w‖²

with weights s_i of the rows, 1 by default. In form 'pooled', tasks have intercepts b_t and a
penalty κ Σ_t (b_t − b)²; κ is selected with γ, and b is the intercept of a new task
(:mod:`algorithms.numerics.task_intercepts`). Classes are encoded as ±1, more than two one against
the rest. γ is selected by the leave-one-out error in closed form: one value for all tasks, or one
per task. Cost: O(n q²) or O(n² q) per task and γ. In form 'task', the function of a task of a
single class is constant, so that it always predicts that class: its targets are all equal.

Reference: Hoerl, Kennard, *Ridge regression*, 1970, doi:10.1080/00401706.1970.10488634;
Saunders, Gammerman, Vovk, *Ridge regression learning algorithm in dual variables*, ICML 1998,
https://eprints.soton.ac.uk/258942/
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import Field

from algorithms.baselines.linear.baseline import LinearBaseline, solve_at_once
from algorithms.baselines.linear.choice import (
    GammaChoice,
    choose_gamma,
    choose_gammas,
    column_variance,
    mean_known,
)
from algorithms.baselines.linear.params import RidgeParams
from algorithms.baselines.linear.pooling import (
    INTERCEPT_ROWS,
    adapt_linear_model,
    intercept_errors,
    pooled,
    scales_of_pooled,
)
from algorithms.baselines.linear.work import estimate_ridge
from algorithms.families.linear.design import Design, Form, check_size, prepare
from algorithms.families.linear.model import LinearModel, check_new_task
from algorithms.families.linear.targets import Targets
from algorithms.interface.params import end_warnings_by_task
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.units import units_of
from algorithms.interface.work import WorkEstimate
from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.centering import times_roots
from algorithms.numerics.leave_one_out import RidgePath, units_by_size
from algorithms.numerics.ridge import ridge_regression
from algorithms.numerics.task_intercepts import TaskIntercepts, ridge_with_intercepts

P = TypeVar("P", bound=RidgeParams)


class KernelRidgeParams(RidgeParams):
    """Parameters of kernel ridge regression."""

    kernel: Literal["rbf", "polynomial"] = Field(
        "rbf",
        title="Kernel",
        description="'rbf': exp(-distance²/(2 n_features width²)). 'polynomial': "
        "(1 + product/n_features)^degree. Up to 5000 rows in total.",
    )
    width: float = Field(
        1.0, ge=1e-3, le=1e3, title="Kernel width", description="Width of the kernel 'rbf'."
    )
    degree: int = Field(
        2, ge=1, le=10, title="Kernel degree", description="Degree of the kernel 'polynomial'."
    )


class _RidgeRegression(LinearBaseline[P]):
    """Base class: ridge regression on basis functions."""

    @abstractmethod
    def form(self, params: P) -> Form:
        """Return the parameters of the basis functions."""

    def work(self, summaries: Sequence[TaskSummary], params: P) -> WorkEstimate:
        """Return the work of the regressions, and of the leave-one-out errors."""
        return estimate_ridge(
            summaries,
            params,
            kernel=self.form(params).kernel,
            is_pooled=params.form == "pooled",
            n_paths=len(INTERCEPT_ROWS) if params.has_task_intercepts else 1,
        )

    def fit(
        self, tasks: TaskSet, params: P, *, trace: Trace, rng: np.random.Generator
    ) -> LinearModel:
        """Return the function of each task, or one for all, for the given or selected gamma."""
        del rng
        self.check(tasks.summaries(), params)
        design = prepare(
            tasks,
            self.form(params),
            scale_targets=(
                scales_of_pooled(tasks, params, params.scale_targets)
                if params.form == "pooled"
                else params.scale_targets
            ),
            has_intercept=params.fit_intercept,
        )
        parts = pooled(design) if params.form == "pooled" else design
        unit = column_variance(design)
        all_units = units_of(tasks)
        parted = [all_units.unit] if params.form == "pooled" else all_units.by_task()
        units = [units_by_size(task_units) for task_units in parted]
        trace.expect_loops(1 + (params.selection == "loo"))
        if params.has_task_intercepts:
            return self._with_intercepts(tasks, params, design, parts, units[0], trace=trace)

        pairs = zip(parts.rows, parts.targets, strict=True)
        paths = [
            RidgePath.of(X, target.Y, has_intercept=params.fit_intercept, weights=target.weights)
            for X, target in (pairs if params.selection == "loo" else ())
        ]

        def errors(gamma: float) -> list[float]:
            squares = _loo_squares(paths, gamma * unit, units)
            pairs = [(np.concatenate(squares), parts.weights_of_rows)]
            if params.is_chosen_per_task:
                weights = [target.weights for target in parts.targets]
                pairs += zip(squares, weights, strict=True)
            return [design.target_unit**2 * mean_known(*pair) for pair in pairs]

        choice, by_part = choose_gammas(params, errors, trace=trace, task=design.names[0])
        task_gammas = [gamma for gamma, _ in by_part]
        gammas = task_gammas or [choice.gamma] * len(parts.rows)
        ridges = [gamma * unit for gamma in gammas]
        W, b = solve_at_once(lambda: _solve(parts, params, ridges), trace)
        if params.form == "pooled":
            W, b = np.tile(W, (len(tasks), 1)), np.tile(b, len(tasks))
        fit_info = _fit_info(params, choice, design)
        warnings = choice.warnings
        if task_gammas:
            by_task = dict(zip(design.names, task_gammas, strict=True))
            fit_info["gamma_by_task"] = by_task
            warnings = end_warnings_by_task(
                params,
                {t: {"gamma": g} for t, g in by_task.items()},
                losses={
                    t: {"gamma": along} for t, (_, along) in zip(design.names, by_part, strict=True)
                },
            )
        return self.model_of(tasks, design, W, b, fit_info=fit_info, warnings=warnings)

    def _with_intercepts(
        self,
        tasks: TaskSet,
        params: P,
        design: Design,
        pool: Design,
        units: Sequence[Indices],
        *,
        trace: Trace,
    ) -> LinearModel:
        """Return one function with intercepts of the tasks, whose spread has the least error."""
        sizes, weights = [len(X) for X in design.rows], pool.weights_of_rows
        unit = column_variance(design)
        gammas = params.grid if params.selection == "loo" else (params.gamma,)
        ridges = [gamma * unit for gamma in gammas]
        table = trace.stage("intercepts", lambda: intercept_errors(pool, sizes, units, ridges))
        errors = dict(zip(gammas, table, strict=True))

        def error(gamma: float) -> float:
            return design.target_unit**2 * float(errors[gamma].min())

        choice = choose_gamma(params, error, trace=trace, task=design.names[0])
        ridge, kappa = choice.gamma * unit, INTERCEPT_ROWS[errors[choice.gamma].argmin()]
        intercepts = TaskIntercepts.of(sizes, weights, kappa)
        X, Y = pool.rows[0], pool.targets[0].Y

        def solve() -> tuple[Array, Array, float]:
            w, b_t, b = ridge_with_intercepts(X, Y, intercepts, ridge=ridge)
            residuals = times_roots(Y - X @ w - b_t[intercepts.task], weights)
            spread = intercepts.kappa * np.sum((b_t - b) ** 2)
            objective = float(np.sum(residuals**2) + ridge * np.sum(w**2) + spread)
            return np.tile(w.T, (len(tasks), 1)), b_t.ravel(), objective

        W, b = solve_at_once(solve, trace)
        m = Y.shape[1]
        return self.model_of(
            tasks,
            design,
            W,
            b,
            fit_info={**_fit_info(params, choice, design), "intercept_rows": intercepts.kappa},
            warnings=choice.warnings,
            common=(W[:m], b.reshape(-1, m).mean(axis=0)),
        )


class Ridge(_RidgeRegression[RidgeParams]):
    """Ridge regression on the columns."""

    name = "ridge"
    title = "Ridge regression"
    summary = (
        "Linear regression of each task alone, or of all rows as one task, with the regularisation "
        "selected by leave-one-out in closed form. The standard baseline of multi-task regression."
    )
    reference = "Hoerl and Kennard (1970), doi:10.1080/00401706.1970.10488634"
    needs = replace(LinearBaseline.needs, sparse=True)
    Params = RidgeParams

    def form(self, params: RidgeParams) -> Form:
        """Return the parameters of the basis functions: the columns."""
        return Form(params.standardise)

    def adapt_task(self, model: LinearModel, task: Task, *, trace: Trace) -> LinearModel:
        """Return the model with a new task: a function fitted to its rows, or the common one."""
        del trace
        check_new_task(model, task)
        params = RidgeParams.model_validate(model.fit_info["params"])
        self.check([task.summary()], params)

        def fit(A: Array, targets: Targets) -> tuple[Array, Array]:
            ridge, has_intercept = model.fit_info["ridge"], params.fit_intercept
            return ridge_regression(
                A, targets.Y, ridge=ridge, has_intercept=has_intercept, weights=targets.weights
            )

        def fit_intercept(F: Array, targets: Targets, b: Array) -> Array:
            kappa = model.fit_info["intercept_rows"]
            intercepts = TaskIntercepts.of([len(F)], targets.weights, kappa)
            return np.asarray(intercepts.means(targets.Y - F, b)[0])

        return adapt_linear_model(
            model,
            task,
            is_pooled=params.form == "pooled",
            has_intercept=params.fit_intercept,
            fit=fit,
            fit_intercept=fit_intercept,
        )


class KernelRidge(_RidgeRegression[KernelRidgeParams]):
    """Ridge regression on a kernel."""

    name = "kernel-ridge"
    title = "Kernel ridge regression"
    summary = (
        "Nonlinear regression of each task alone, or of all rows as one task, by a kernel. For "
        "nonlinear functions; up to 5000 rows in total."
    )
    reference = "Saunders et al. (1998), https://eprints.soton.ac.uk/258942/"
    Params = KernelRidgeParams

    def check(self, summaries: Sequence[TaskSummary], params: KernelRidgeParams) -> None:
        """Raise InvalidData if the tasks do not meet the requirements."""
        super().check(summaries, params)
        check_size(summaries, algorithm=self.name, kernel=params.kernel)

    def form(self, params: KernelRidgeParams) -> Form:
        """Return the parameters of the basis functions: the kernel."""
        return Form(params.standardise, params.kernel, params.width, params.degree)


def _fit_info(params: RidgeParams, choice: GammaChoice, design: Design) -> dict[str, Any]:
    """Return the results of a fit as JSON."""
    return {
        "params": params.model_dump(mode="json"),
        **choice.fit_info,
        "ridge": choice.gamma * column_variance(design) * design.row_unit**2,
    }


def _loo_squares(
    paths: Sequence[RidgePath], ridge: float, units: Sequence[Sequence[Indices]]
) -> list[Array]:
    """Return the squared leave-one-out errors (n_t,) of each task, times the weights.

    Units are left out together.
    """
    errors = [
        path.errors(ridge, units=task_units) for path, task_units in zip(paths, units, strict=True)
    ]
    return [np.mean(error**2, axis=1) for error in errors]


def _solve(
    design: Design, params: RidgeParams, ridges: Sequence[float]
) -> tuple[Array, Array, float]:
    """Return W (T, q), b (T,) and the objective."""
    W, b, objective = [], [], 0.0
    for X, target, ridge in zip(design.rows, design.targets, ridges, strict=True):
        V, c = ridge_regression(
            X, target.Y, ridge=ridge, has_intercept=params.fit_intercept, weights=target.weights
        )
        residuals = times_roots(target.Y - X @ V - c, target.weights)
        objective += float(np.sum(residuals**2) + ridge * np.sum(V**2))
        W.append(V.T)
        b.append(c)
    return np.concatenate(W), np.concatenate(b), objective
