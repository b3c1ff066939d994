"""MTFL: linear models of several tasks that depend on a few common features, which are learned.

Task t has rows X_t (n_t, d) and targets y_t. MTFL learns W (d, T) and a metric D shared by all
tasks:

    min Σ_t Σ_i L(y_ti, ⟨w_t, x_ti⟩ + b_t) + γ Σ_t ⟨w_t, D⁺w_t⟩,  D ⪰ 0, tr D <= 1     (eq. 7)

The eigenvectors of D are the features, its eigenvalues are their weights. For fixed W the optimal D
is (WWᵀ)^½/tr (eq. 9), which leaves a convex problem in W:

    min Σ L + γ‖W‖²

with the trace norm, or for diagonal D (``features="selected"``) the 2,1-norm (eq. 5). Losses are
summed, not averaged; the square loss is (y − f)². With one task this is ridge regression. The
kernel form uses coordinates of the Gram matrix of all rows (representer theorem). A task of a
single class gets w_t = 0 and predicts that class, with finite log-odds
(:meth:`algorithms.families.linear.design.Design.with_opposite_rows`).

Solvers stop on the relative duality gap: ADMM for the square loss, descent on factors for other
losses (:mod:`algorithms.mtfl.solver`). Cost of a step: O(T d min(n, d)), after a QR decomposition
of each task with more rows than columns. Deviations: ``docs/explanation/papers.md``. Results:
``docs/benchmarks/accuracy.md``.

A fit runs in five steps; ``paper.py`` has the paper's own algorithm (folders are
those of ``algorithms``):

1. ``algorithm.py``: ``fit`` checks the tasks and takes parameters as in ``params.py``.
2. ``families/linear/design.py``: rows are standardised and reduced, targets are centred.
3. ``selection.py``: leave-one-out or cross-validation chooses γ, if asked for.
4. ``solver.py``: ``solve`` picks the solver, ``admm.py`` or ``factors.py``.
5. ``families/linear/functions.py``: W becomes functions of rows as uploaded, and D the features of
   ``model.py``.

Reference: Argyriou, Evgeniou, Pontil, *Multi-task feature learning*, NIPS 2006; *Convex multi-task
feature learning*, Machine Learning 2008, doi:10.1007/s10994-007-5040-8
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from algorithms.families.linear.design import Design, check_size, check_targets, estimate_design
from algorithms.families.linear.functions import functions_of
from algorithms.families.linear.model import check_new_task
from algorithms.interface.algorithm import Algorithm, Baseline, Role
from algorithms.interface.errors import InvalidParams
from algorithms.interface.needs import Needs, refuse_sparse
from algorithms.interface.params import end_warnings
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import StoppingRule, Trace
from algorithms.interface.work import MemoryEstimate, WorkEstimate
from algorithms.mtfl.adaptation import adapt_functions
from algorithms.mtfl.model import SharedFeatureModel
from algorithms.mtfl.params import MTFLParams
from algorithms.mtfl.selection import (
    ChosenGamma,
    choose_gamma,
    design_of,
    follow_path,
    gamma_unit,
    intercepts_of,
    loss_of,
    n_loops,
    problem_of,
)
from algorithms.mtfl.solver import MTFLSolution, solve
from algorithms.mtfl.work import estimate_mtfl
from algorithms.numerics.arrays import Array
from algorithms.numerics.eigen import fix_signs
from algorithms.numerics.sparse_rows import column_deviations, concatenate_rows

#: Directions with less than this share of the trace of D are not features.
MIN_SHARE = 1e-9
#: Largest ratio of the standard deviations of columns without a warning about their units.
MAX_DEVIATION_RATIO = 100.0

#: Parameters that linear baselines copy.
SHARED_PARAMS = ("standardise", "fit_intercept")


def _baselines(name: str, selection: str, *copied: str) -> tuple[Baseline, ...]:
    """Return a method on each task alone, with common or separate gamma, and on pooled rows."""

    def baseline(role: Role, variant: str = "", **values: str) -> Baseline:
        all_values = {"selection": selection, **values}
        return Baseline(name, role, (*SHARED_PARAMS, *copied), all_values, variant)

    return (
        baseline("single_task", form="task"),
        baseline("single_task", "gamma per task", form="task", selection_scope="task"),
        baseline("pooled", form="pooled"),
    )


class MTFL(Algorithm[MTFLParams, SharedFeatureModel]):
    """Convex multi-task feature learning."""

    name = "mtfl"
    title = "Multi-task feature learning"
    summary = (
        "Regression or classification of several tasks that depend on a few common features, which "
        "are learned too. For many tasks with few rows each. A duality gap bounds the distance of "
        "every result from the optimum."
    )
    question = "Do the groups depend on the same few columns?"
    reference = "Argyriou, Evgeniou, Pontil (2008), doi:10.1007/s10994-007-5040-8"
    needs = Needs(same_features=True, target="any", sparse=True, weights=True)
    baselines = (
        *_baselines("ridge", "loo", "scale_targets"),
        *_baselines("logistic-regression", "cv"),
        Baseline(
            "mean-regularised",
            "multi_task",
            (*SHARED_PARAMS, "scale_targets"),
            {"selection": "loo"},
        ),
    )
    path_param = "gamma"
    Params = MTFLParams
    Model = SharedFeatureModel

    def baselines_for(self, params: MTFLParams) -> tuple[Baseline, ...]:
        """Return the linear baselines, or ridge regression with the same kernel."""
        if params.kernel == "linear":
            return self.baselines
        return _baselines("kernel-ridge", "loo", "scale_targets", "kernel", "width", "degree")

    def check(self, summaries: Sequence[TaskSummary], params: MTFLParams) -> None:
        """Raise InvalidData or InvalidParams if the tasks do not meet the requirements."""
        super().check(summaries, params)
        check_targets(summaries, algorithm=self.name)
        check_size(summaries, algorithm=self.name, kernel=params.kernel)
        _check_params(params, is_numbers=summaries[0].target == "numbers")
        for option, value, linear in (
            ("kernel", params.kernel, "linear"),
            ("features", params.features, "learned"),
        ):
            if value != linear:
                refuse_sparse(
                    summaries,
                    what=f"{self.name} with {option} '{value}'",
                    remedy=f"use {option} '{linear}', or upload arrays",
                )

    def memory(self, summaries: Sequence[TaskSummary], params: MTFLParams) -> MemoryEstimate:
        """Return the memory of the design: rows, basis values and their coordinates."""
        return estimate_design(summaries, kernel=params.kernel)

    def work(self, summaries: Sequence[TaskSummary], params: MTFLParams) -> WorkEstimate:
        """Return the work of the selection of γ, and of the final fit."""
        return estimate_mtfl(summaries, params)

    def fit(
        self, tasks: TaskSet, params: MTFLParams, *, trace: Trace, rng: np.random.Generator
    ) -> SharedFeatureModel:
        """Return the W and D that minimise (7), for the given γ or a selected one."""
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
        """Return the model of each γ, from the largest to the smallest with warm starts."""
        if any(candidate.selection != "given" for candidate in params):
            return super().fit_path(tasks, params, trace=trace, rng=rng)
        first = params[0]
        self.check(tasks.summaries(), first)
        design = design_of(tasks, first)
        order = sorted(range(len(params)), key=lambda i: -params[i].gamma)
        gammas = [params[i].gamma * gamma_unit(design, first) for i in order]
        loss = loss_of(first, is_numbers=tasks.tasks[0].target == "numbers")
        path = follow_path(
            design,
            first,
            gammas,
            loss=loss,
            tolerance=first.tolerance,
            trace=trace,
            loop="path, gamma",
        )
        models = {
            i: _model(
                tasks, design, params[i], solution, ChosenGamma.given(params[i].gamma), gamma=gamma
            )
            for i, gamma, solution in zip(order, gammas, path, strict=True)
        }
        return [models[i] for i in range(len(params))]

    def has_common_part(self, params: MTFLParams) -> bool:
        """Return True: the mean of the tasks' functions is the function of a task without rows."""
        del params
        return True

    def adapt_task(
        self, model: SharedFeatureModel, task: Task, *, trace: Trace
    ) -> SharedFeatureModel:
        """Return the model with a new task, fitted in the fixed metric D."""
        check_new_task(model, task)
        self.check([task.summary()], MTFLParams.model_validate(model.fit_info["params"]))
        return replace(model, functions=adapt_functions(model, task, trace=trace))


def _check_params(params: MTFLParams, *, is_numbers: bool) -> None:
    loss = loss_of(params, is_numbers=is_numbers)
    if is_numbers and loss != "square":
        raise InvalidParams(
            f"loss '{loss}' needs class labels, but the targets are numbers; use 'square'",
            field="loss",
        )
    if params.kernel != "linear" and params.features == "selected":
        raise InvalidParams(
            f"features 'selected' selects columns, but kernel '{params.kernel}' has no columns; "
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
    solution: MTFLSolution,
    choice: ChosenGamma,
    *,
    gamma: float,
) -> SharedFeatureModel:
    """Return the model for a solution.

    Parameters
    ----------
    gamma
        γ in the units of the design's rows.
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
    """Return the eigenvectors of D as rows (r, q), and its eigenvalues (r,), decreasing."""
    if U.ndim == 1:
        order = np.argsort(-(U**2), kind="stable")
        axes, spectrum = np.eye(len(U))[order], (U**2)[order]
    else:
        left, s, _ = np.linalg.svd(U, full_matrices=False)
        axes, spectrum = fix_signs(left.T), s**2
    n_kept = max(int(np.sum(spectrum > MIN_SHARE)), 1)
    spectrum = spectrum[:n_kept]
    return axes[:n_kept], spectrum / spectrum.sum()


def _warnings(
    tasks: TaskSet, params: MTFLParams, solution: MTFLSolution, choice: ChosenGamma
) -> tuple[str, ...]:
    warnings = []
    if solution.gap > params.tolerance:
        warnings.append(
            f"stopped with a relative duality gap of {solution.gap:.1e}, above the tolerance "
            f"{params.tolerance:g}; increase max_iter or the tolerance"
        )
    if not solution.W.any():
        warnings.append(
            "all coefficients are zero, so each task has a constant prediction; decrease gamma"
        )
    if "selection_gammas" in choice.fit_info:
        grid, errors = (choice.fit_info[f"selection_{name}"] for name in ("gammas", "errors"))
        along = {"gamma": dict(zip(grid, errors, strict=True))}
        warnings += end_warnings(params, {"gamma": choice.gamma}, losses=along)
    if params.standardise == "none":
        warnings += _unit_warnings(tasks)
    return tuple(warnings)


def _unit_warnings(tasks: TaskSet) -> list[str]:
    scales = column_deviations(concatenate_rows([task.X for task in tasks]))
    scales = scales[scales > 0]
    if not len(scales) or np.ptp(np.log(scales)) <= np.log(MAX_DEVIATION_RATIO):
        return []
    warning = (
        f"standard deviations of columns range from {scales.min():.3g} to {scales.max():.3g}, "
        "and columns with small ones are penalised most; use standardise 'features'"
    )
    return [warning]
