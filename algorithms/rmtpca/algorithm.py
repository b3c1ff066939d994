"""RMT-PCA: principal subspaces of several tasks, coupled so that they are similar.

Each task t has a covariance C_t (d, d). The model is one subspace per task, with orthonormal basis
U_t (d, k), that retains much of the variance of its task and is close to the other subspaces in
projection distance:

    max J = ½ Σ_t tr(U_tᵀ C_t U_t) + λ/4 Σ_{s≠t} tr(U_sU_sᵀ U_tU_tᵀ),  U_t on Gr(d, k)   (eq. 4)

λ = 0 is PCA per task; λ → ∞ gives every task the top-k eigenvectors of the unweighted sum of the
C_t. The objective is not concave: a single start misses the best known optimum in 1 to 3 % of
random problems.

Method: Riemannian trust-region Newton steps, solved by truncated conjugate gradients, from the best
of three informed starting points; about ten steps. A Hessian product costs O(T k d²). Where PCA of
each task can be the best start, its eigendecompositions cost O(T d³), or O(T n² d) with few rows.

Deviations from the paper: it prints the projection distance as 2d - 2 tr(PP'), which must be
2k - 2 tr(PP'); it calls PCA per task undetermined for n_t < k, which also holds for n_t = k.

A fit runs in five steps; ``paper.py`` has the paper's own algorithm (folders are
those of ``algorithms``):

1. ``algorithm.py``: ``fit`` checks the tasks and takes parameters as in ``params.py``.
2. ``selection.py``: cross-validation chooses λ, if asked for.
3. ``families/subspaces/moments.py``: rows become means and covariances C_t.
4. ``coupled.py``: the best of three starts, from which ``newton.py`` takes its steps.
5. ``families/subspaces/model.py``: the bases U_t are turned to principal axes and become the model.

Reference: Yamane, Yger, Berar, Sugiyama, *Multitask Principal Component Analysis*, ACML 2016,
https://proceedings.mlr.press/v63/yamane65.html
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from algorithms.families.subspaces.algorithm import SubspaceAlgorithm
from algorithms.families.subspaces.model import (
    SubspaceModel,
    adapt_model,
    build_model,
    few_rows_warnings,
)
from algorithms.families.subspaces.moments import (
    Moments,
    estimate_moments,
    task_covariance,
)
from algorithms.families.subspaces.work import estimate_coupled
from algorithms.interface.algorithm import Baseline
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import StoppingRule, Trace
from algorithms.interface.work import WorkEstimate, estimate_selection, without_fold
from algorithms.numerics.arrays import Array
from algorithms.numerics.covariances import Covariances, covariance_factor
from algorithms.numerics.eigen import leading_of_dense, leading_of_factor
from algorithms.rmtpca.coupled import (
    N_MANY_STARTS,
    Optimum,
    common_optimum,
    follow_path,
    maximise,
    maximise_from_many,
)
from algorithms.rmtpca.params import RMTPCAParams
from algorithms.rmtpca.selection import (
    ChosenCoupling,
    absolute_coupling,
    check_folds,
    choose_coupling,
    n_loops,
)

#: Products with the covariances in one run, as counted in benchmarks.
N_PRODUCTS = 25.0
#: Candidates of the coupling are fitted in two directions of the path.
N_DIRECTIONS = 2


class RMTPCA(SubspaceAlgorithm[RMTPCAParams]):
    """Regularised multi-task PCA."""

    name = "rmt-pca"
    title = "Regularised multi-task PCA"
    summary = (
        "Principal subspaces of several tasks, coupled so that they are similar. For related tasks "
        "with too few rows for a separate PCA, yet too different for a common one; the coupling "
        "can be chosen by cross-validation."
    )
    question = (
        "Nothing is to be predicted, and each group has few rows: which directions do they share?"
    )
    reference = "Yamane et al. (2016), https://proceedings.mlr.press/v63/yamane65.html"
    baselines = (
        Baseline("pca", "single_task", copied_params=("k",)),
        Baseline("common-pca", "pooled", copied_params=("k",)),
    )
    path_param = "lam"
    Params = RMTPCAParams

    def check(self, summaries: Sequence[TaskSummary], params: RMTPCAParams) -> None:
        """Raise InvalidData or InvalidParams if the tasks do not meet the requirements."""
        super().check(summaries, params)
        check_folds(summaries, params)

    def work(self, summaries: Sequence[TaskSummary], params: RMTPCAParams) -> WorkEstimate:
        """Return the work of PCA, and of the products in all Newton steps."""
        n_runs = 1 if params.starts == "single" else N_MANY_STARTS
        final = super().work(summaries, params)
        final += estimate_coupled(summaries, n_products=n_runs * N_PRODUCTS)
        if params.selection == "given":
            return final
        fold = without_fold(summaries, params.n_folds)
        return estimate_selection(
            estimate_coupled(fold, n_products=N_DIRECTIONS * N_PRODUCTS),
            final + super().work(fold, params).times(params.n_folds),
            n_candidates=len(params.grid),
            n_folds=params.n_folds,
        )

    def fit(
        self, tasks: TaskSet, params: RMTPCAParams, *, trace: Trace, rng: np.random.Generator
    ) -> SubspaceModel:
        """Return the subspaces that maximise eq. 4 for the chosen coupling."""
        with self.checked(tasks, params):
            n_runs = 1 if params.starts == "single" else N_MANY_STARTS
            trace.expect_loops(n_loops(params) + n_runs)
            ordered = tasks.by_name().tasks
            choice = choose_coupling(ordered, params, trace=trace, rng=rng)
            moments = estimate_moments(ordered, k=params.k)
            lam = absolute_coupling(moments, choice.c, scale=params.lam_scale)
            optimum = _maximise(moments.C, lam, params, trace=trace, rng=rng)
            return _model(tasks, moments, params, optimum, choice, lam=lam)

    def fit_path(
        self,
        tasks: TaskSet,
        params: Sequence[RMTPCAParams],
        *,
        trace: Trace,
        rng: np.random.Generator,
    ) -> list[SubspaceModel]:
        """Return one model per coupling, from the path of warm starts of ``selection='cv'``.

        The path can reach a different local optimum than a single fit, often a better one.
        """
        first = params[0]
        if any(p.selection != "given" or p.starts != "single" for p in params):
            return super().fit_path(tasks, params, trace=trace, rng=rng)
        with self.checked(tasks, first):
            return _along_path(tasks, params, trace=trace, rng=rng)

    def final_objective(self, params: RMTPCAParams, trace: Trace) -> float | None:
        """Return J at the end of a fit; None if the last of several starts need not be the best."""
        return trace.objective if params.starts == "single" else None

    def adapt_task(self, model: SubspaceModel, task: Task, *, trace: Trace) -> SubspaceModel:
        """Return the model with a new task, spanned by the top-k eigenvectors of C_new + λ Σ_s P_s.

        They exactly maximise eq. 4 over the new subspace with all others fixed.
        """
        del trace
        moments = estimate_moments([task], k=model.k)
        lam = _coupling_for(model, moments)
        if lam is None:
            return adapt_model(model, moments, None)
        return adapt_model(
            model,
            moments,
            _block_maximiser(model, task, lam)[np.newaxis],
            fit_info={"lam": lam},
            warnings=few_rows_warnings([task], k=model.k) if lam == 0 else (),
        )


def _along_path(
    tasks: TaskSet, params: Sequence[RMTPCAParams], *, trace: Trace, rng: np.random.Generator
) -> list[SubspaceModel]:
    """Return one model per coupling; the parameters differ only in the coupling."""
    first = params[0]
    moments = estimate_moments(tasks.by_name().tasks, k=first.k)
    lams = [absolute_coupling(moments, p.lam, scale=p.lam_scale) for p in params]
    stopping = StoppingRule(tolerance=first.rtol, max_iter=first.max_iter)
    increasing = sorted({lam for lam in lams if 0 < lam < np.inf})
    path = follow_path(
        moments.C, lams=increasing, k=first.k, stopping=stopping, trace=trace, loop="path"
    )
    optima = dict(zip(increasing, path, strict=True))
    for lam, p in zip(lams, params, strict=True):
        if lam not in optima:
            optima[lam] = _maximise(moments.C, lam, p, trace=trace, rng=rng)
    return [
        _model(tasks, moments, p, optima[lam], ChosenCoupling.given(p.lam), lam=lam)
        for lam, p in zip(lams, params, strict=True)
    ]


def _coupling_for(model: SubspaceModel, new: Moments) -> float | None:
    """Return λ for a new task, None for the common subspace.

    A model of a single task has λ = 0 on the relative scale for any coupling c, since there is no
    other task. The second task gets the λ that a fit of both would have.
    """
    lam: float | None = model.fit_info["lam"]
    c: float | None = model.fit_info["coupling"]
    if lam == 0 and c and len(model.tasks) == 1:
        traces = np.append(model.total_variance, new.C.traces)
        return c * float(traces.mean()) / new.n_features
    return lam


def _block_maximiser(model: SubspaceModel, task: Task, lam: float) -> Array:
    """Return the top-k eigenvectors of C_new + λ Σ_s P_s as rows (k, d)."""
    others = np.sqrt(lam) * np.concatenate(list(np.swapaxes(model.U, 1, 2)))
    if task.input == "covariances":
        return leading_of_dense(task_covariance(task) + others.T @ others, model.k)
    _, A = covariance_factor(task.X)
    return leading_of_factor(np.concatenate([A, others]), model.k)


def _maximise(
    C: Covariances, lam: float, params: RMTPCAParams, *, trace: Trace, rng: np.random.Generator
) -> Optimum:
    stopping = StoppingRule(tolerance=params.rtol, max_iter=params.max_iter)
    if np.isinf(lam):
        return common_optimum(C, k=params.k, trace=trace)
    if params.starts == "single":
        return maximise(C, lam=lam, k=params.k, stopping=stopping, trace=trace)
    return maximise_from_many(C, lam=lam, k=params.k, stopping=stopping, trace=trace, rng=rng)


def _model(
    tasks: TaskSet,
    moments: Moments,
    params: RMTPCAParams,
    optimum: Optimum,
    choice: ChosenCoupling,
    *,
    lam: float,
) -> SubspaceModel:
    return build_model(
        moments,
        moments.C.lift(optimum.U),
        algorithm=RMTPCA.name,
        names=tasks.names,
        fit_info=_fit_info(choice, lam),
        warnings=(*choice.warnings, *_warnings(optimum, lam, tasks.by_name().tasks, params)),
    )


def _fit_info(choice: ChosenCoupling, lam: float) -> dict[str, Any]:
    """Return the chosen coupling and λ as JSON; ``lam`` is null for the common subspace."""
    is_common = np.isinf(lam)
    return {
        **choice.fit_info,
        "coupling": None if is_common else choice.c,
        "lam": None if is_common else lam,
    }


def _warnings(
    optimum: Optimum, lam: float, tasks: Sequence[Task], params: RMTPCAParams
) -> tuple[str, ...]:
    few_rows = few_rows_warnings(tasks, k=params.k) if lam == 0 else ()
    if optimum.reason == "max_iter":
        not_converged = (
            f"stopped after {params.max_iter} iterations with a relative gradient of "
            f"{optimum.residual:.1e}, above the tolerance {params.rtol:g}; increase max_iter"
        )
        return (*few_rows, not_converged)
    if optimum.residual > params.rtol:
        stalled = (
            f"stopped with a relative gradient of {optimum.residual:.1e}, above the tolerance "
            f"{params.rtol:g}, the best that rounding errors allow"
        )
        return (*few_rows, stalled)
    return few_rows
