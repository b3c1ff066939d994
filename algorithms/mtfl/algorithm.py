"""MTFL: linear models of several tasks that depend on a few common features, which are learned.

Task t has rows X_t (n_t, d) and targets y_t. MTFL learns W (d, T) and a metric D shared by all
tasks:

    min Σ_t Σ_i L(y_ti, ⟨w_t, x_ti⟩ + b_t) + γ Σ_t ⟨w_t, D⁺w_t⟩,  D ⪰ 0, tr D <= 1     (eq. 7)

The eigenvectors of D are the features, its eigenvalues are their weights. For fixed W the optimal D
is (WWᵀ)^½/tr (eq. 9), which leaves a convex problem in W:

    min Σ L + γ‖W‖²

with the trace norm, or for diagonal D (``features="selected"``) the 2,1-norm (eq. 5). Losses are
summed, not averaged; the square loss is (y − f)². With one task this is ridge regression. The
kernel form uses coordinates of the Gram matrix of all rows (representer theorem).

Solvers stop on the relative duality gap: variable projection or proximal gradient for the square
loss, descent on factors for other losses (:mod:`algorithms.mtfl.solver`). Cost of a step:
O(T n d r), where r <= min(d, T) decreases to the rank of D, after a QR decomposition of each task
with more rows than columns. Deviations: ``docs/papers.md``. Results: ``docs/benchmarks.md``.

Reference: Argyriou, Evgeniou, Pontil, *Multi-task feature learning*, NIPS 2006; *Convex multi-task
feature learning*, Machine Learning 2008, doi:10.1007/s10994-007-5040-8
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.algorithm import Algorithm, Baseline, Role
from algorithms.interface.errors import InvalidParams
from algorithms.interface.grid_ends import end_warnings
from algorithms.interface.needs import Needs
from algorithms.interface.stopping import StoppingRule
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.linear.design import Design, check_size, check_targets
from algorithms.linear.functions import functions_of
from algorithms.linear.model import check_new_task
from algorithms.mtfl.adaptation import with_new_task
from algorithms.mtfl.model import SharedFeatureModel
from algorithms.mtfl.params import MTFLParams
from algorithms.mtfl.selection import (
    Choice,
    choose_gamma,
    design_of,
    follow_path,
    gamma_unit,
    intercepts_of,
    loss_of,
    n_loops,
    problem_of,
)
from algorithms.mtfl.solver import Solution, solve
from algorithms.numerics.eigen import fix_signs

Array = NDArray[np.float64]

#: Directions below this part of the trace of D are not counted among the features.
LEAST_SHARE = 1e-9
#: Ratio of the deviations of columns from which on the penalty is dominated by units.
UNLIKE_SCALES = 100.0


#: Parameters that linear baselines take over.
SHARED = ("standardise", "fit_intercept")


def _baselines(name: str, selection: str, *shares: str) -> tuple[Baseline, ...]:
    """Return a method on each task alone, its gamma for all or for each, and on all rows as one."""

    def of(role: Role, variant: str = "", **values: str) -> Baseline:
        chosen = {"selection": selection, **values}
        return Baseline(name, role, (*SHARED, *shares), chosen, variant)

    return (
        of("single_task", form="task"),
        of("single_task", "gamma per task", form="task", selection_scope="task"),
        of("pooled", form="pooled"),
    )


class MTFL(Algorithm[MTFLParams, SharedFeatureModel]):
    """Convex multi-task feature learning."""

    name = "mtfl"
    title = "Multi-task feature learning"
    summary = (
        "Regressions or classifiers of several tasks that depend on a few common features, which "
        "are learned with them. For many tasks with few rows each; every answer comes with a "
        "certificate of how far from the optimum it can be."
    )
    reference = "Argyriou, Evgeniou, Pontil (2008), doi:10.1007/s10994-007-5040-8"
    needs = Needs(same_features=True, target="any")
    baselines = (
        *_baselines("ridge", "loo", "scale_targets"),
        *_baselines("logistic-regression", "cv"),
        Baseline(
            "mean-regularised", "multi_task", (*SHARED, "scale_targets"), {"selection": "loo"}
        ),
    )
    path_param = "gamma"
    Params = MTFLParams
    Model = SharedFeatureModel

    def baselines_for(self, params: MTFLParams) -> tuple[Baseline, ...]:
        """Return the linear baselines, or ridge regression on the same kernel."""
        if params.kernel == "linear":
            return self.baselines
        return _baselines("kernel-ridge", "loo", "scale_targets", "kernel", "width", "degree")

    def check(self, summaries: Sequence[TaskSummary], params: MTFLParams) -> None:
        """Raise InvalidData or InvalidParams where these tasks do not fit."""
        super().check(summaries, params)
        check_targets(summaries, algorithm=self.name)
        check_size(summaries, algorithm=self.name, kernel=params.kernel)
        _check_params(params, is_numbers=summaries[0].target == "numbers")

    def fit(
        self, tasks: TaskSet, params: MTFLParams, *, trace: Trace, rng: np.random.Generator
    ) -> SharedFeatureModel:
        """Return W and D that minimise (7), γ as given or chosen."""
        self.check(tasks.summaries(), params)
        loss = loss_of(params, is_numbers=tasks.tasks[0].target == "numbers")
        design = design_of(tasks, params)
        trace.expect_loops(n_loops(design, params, loss) + 1)
        choice = choose_gamma(tasks, design, params, loss=loss, trace=trace, rng=rng)
        gamma = choice.gamma * gamma_unit(design, params)
        solution = solve(
            problem_of(design, params, gamma, loss=loss),
            None,
            solver=params.solver,
            stopping=StoppingRule(tolerance=params.tolerance, max_iter=params.max_iter),
            trace=trace,
            loop="fit",
        )
        return _model(tasks, design, params, solution, choice, gamma=gamma)

    def fit_path(
        self,
        tasks: TaskSet,
        params: Sequence[MTFLParams],
        *,
        trace: Trace,
        rng: np.random.Generator,
    ) -> list[SharedFeatureModel]:
        """Return the model of each γ, the largest first and each from the one before."""
        if any(one.selection != "given" for one in params):
            return super().fit_path(tasks, params, trace=trace, rng=rng)
        first = params[0]
        self.check(tasks.summaries(), first)
        design = design_of(tasks, first)
        order = sorted(range(len(params)), key=lambda i: -params[i].gamma)
        gammas = [params[i].gamma * gamma_unit(design, first) for i in order]
        loss = loss_of(first, is_numbers=tasks.tasks[0].target == "numbers")
        path = follow_path(
            design, first, gammas, loss=loss, tolerance=first.tolerance, trace=trace, loop="path"
        )
        models = {
            i: _model(
                tasks, design, params[i], solution, Choice.given(params[i].gamma), gamma=gamma
            )
            for i, gamma, solution in zip(order, gammas, path, strict=True)
        }
        return [models[i] for i in range(len(params))]

    def adapt_task(
        self, model: SharedFeatureModel, task: Task, *, trace: Trace
    ) -> SharedFeatureModel:
        """Return the model with one more task: its own fit in the metric of D, which is frozen."""
        check_new_task(model, task)
        self.check([task.summary()], MTFLParams.model_validate(model.fit_info["params"]))
        return replace(model, functions=with_new_task(model, task, trace=trace))


def _check_params(params: MTFLParams, *, is_numbers: bool) -> None:
    loss = loss_of(params, is_numbers=is_numbers)
    if is_numbers and loss != "square":
        raise InvalidParams(
            f"loss '{loss}' needs class labels, but the targets are numbers; use 'square'",
            field="loss",
        )
    if params.kernel != "linear" and params.features == "selected":
        raise InvalidParams(
            f"features 'selected' chooses columns, which kernel '{params.kernel}' has none of; "
            "use features 'learned' or kernel 'linear'",
            field="features",
        )
    if loss != "square" and params.solver != "auto":
        raise InvalidParams(
            f"solver '{params.solver}' is for the square loss; use 'auto' with loss '{loss}'",
            field="solver",
        )
    if loss != "square" and params.selection == "loo":
        raise InvalidParams(
            f"selection 'loo' is for the square loss; use 'cv' with loss '{loss}'",
            field="selection",
        )


def _model(
    tasks: TaskSet,
    design: Design,
    params: MTFLParams,
    solution: Solution,
    choice: Choice,
    *,
    gamma: float,
) -> SharedFeatureModel:
    """Return the model with the tasks in their order.

    Parameters
    ----------
    gamma
        In the units of the design's rows.
    """
    loss = loss_of(params, is_numbers=tasks.tasks[0].target == "numbers")
    fit_info = {
        "params": params.model_dump(mode="json"),
        "loss": loss,
        "gamma": gamma * design.row_unit**2,
        "gamma_given": choice.gamma,
        **choice.fit_info,
        "solver": solution.solver,
        "objective": solution.objective * design.target_unit**2,
        "lower_bound": solution.bound * design.target_unit**2,
        "relative_gap": solution.gap,
    }
    axes, spectrum = _features(solution.U)
    functions = functions_of(
        tasks,
        design,
        solution.W,
        intercepts_of(design, params, solution, loss=loss),
        algorithm=MTFL.name,
        fit_info={**fit_info, "n_features": len(spectrum)},
        warnings=_warnings(tasks, params, solution, choice),
    )
    return SharedFeatureModel(functions, np.ascontiguousarray(design.lift(axes)), spectrum)


def _features(U: Array) -> tuple[Array, Array]:
    """Return the eigenvectors of D as rows (r, q), and its spectrum (r,), falling."""
    if U.ndim == 1:
        order = np.argsort(-(U**2), kind="stable")
        axes, spectrum = np.eye(len(U))[order], (U**2)[order]
    else:
        left, s, _ = np.linalg.svd(U, full_matrices=False)
        axes, spectrum = fix_signs(left.T), s**2
    n_kept = max(int(np.sum(spectrum > LEAST_SHARE)), 1)
    spectrum = spectrum[:n_kept]
    return axes[:n_kept], spectrum / spectrum.sum()


def _warnings(
    tasks: TaskSet, params: MTFLParams, solution: Solution, choice: Choice
) -> tuple[str, ...]:
    found = []
    if solution.gap > params.tolerance:
        found.append(
            f"stopped with a relative duality gap of {solution.gap:.1e}, above the tolerance "
            f"{params.tolerance:g}; raise max_iter or the tolerance"
        )
    if not solution.W.any():
        found.append(
            "all coefficients are zero, and every prediction is the task's constant: the rows "
            "tell nothing of the targets at this gamma; lower it"
        )
    if "selection_gammas" in choice.fit_info:
        found += end_warnings(params, {"gamma": choice.gamma})
    scales = np.concatenate([task.X for task in tasks]).std(axis=0)
    scales = scales[scales > 0]
    if (
        params.standardise == "none"
        and len(scales)
        and np.ptp(np.log(scales)) > np.log(UNLIKE_SCALES)
    ):
        found.append(
            f"deviations of columns reach from {scales.min():.3g} to {scales.max():.3g}, and the "
            "penalty falls on columns of small numbers most; use standardise 'features'"
        )
    return tuple(found)
