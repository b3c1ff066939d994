"""MTDA: discriminant analysis of several tasks with different feature spaces.

Task i has rows X_i (n_i, d_i) with classes y_i, and scatter matrices S_bⁱ, S_wⁱ, S_tⁱ = S_bⁱ + S_wⁱ
divided by n_i. MTDA learns projections U_i = W_i P, W_iᵀW_i = I of d' columns and PᵀP = I of d:

    max  Σ_i tr(U_iᵀ S_bⁱ U_i) / Σ_i tr(U_iᵀ S_tⁱ U_i)   over W_i (d_i, d'), P (d', d)   (eq. 3)

A row gets the label of its nearest neighbour in the d-dimensional space.

P and d' are redundant: the U_i are independent, and the ratio α alone couples the tasks. So eq. 3
has a global solution by Newton's method: U_i are the leading d eigenvectors of S_bⁱ - αS_tⁱ, and α
is their ratio. Added to the paper: S_t + ρI with ρ = γ tr(S_t)/d_i, because the ratio on few
training rows means little; each task is scaled to tr S_t = 1, because the sum over tasks depends on
their units; γ and d can be chosen by cross-validation of the training rows.

A task of a single class has S_b = 0: it adds nothing to the numerator, and that class is always
predicted, because there are no rows of others.

On faces the common ratio does not help: LDA per task with d and γ chosen for all tasks is as good.

A fit runs in five steps; ``paper.py`` has the paper's own algorithm (folders are
those of ``algorithms``):

1. ``algorithm.py``: ``fit`` checks the tasks and takes parameters as in ``params.py``.
2. ``families/projections/algorithm.py``: cross-validation chooses d and γ, if asked for.
3. ``families/projections/scatters.py``: each task becomes S_b and S_t in the span of its rows.
4. ``solvers/dinkelbach.py``: Newton's method finds α and the U_i (or ``alternation.py``, as in the
   paper).
5. ``families/projections/parts.py``: U_i and the training rows become the classifier of
   ``families/projections/model.py``.

Cost: a thin singular value decomposition O(n²d) per task, then O(r³) per task and step.

Proofs and deviations: ``docs/explanation/papers.md``. Results: ``docs/benchmarks/accuracy.md``.

Reference: Zhang, Yeung, *Multi-Task Learning in Heterogeneous Feature Spaces*, AAAI 2011,
doi:10.1609/aaai.v25i1.7909
"""

from collections.abc import Mapping, Sequence

import numpy as np

from algorithms.evaluation.selection.failures import failure_warnings
from algorithms.families.projections.algorithm import Directions, ProjectionAlgorithm
from algorithms.families.projections.model import (
    ProjectionClassifier,
    adapt_model,
    dimension_warnings,
    no_variance_warnings,
)
from algorithms.families.projections.parts import TaskProjection, build_part
from algorithms.families.projections.ratios import RatioPath
from algorithms.families.projections.scatters import Scatters, estimate_scatters
from algorithms.interface.algorithm import Baseline, Role
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.mtda.alternation import alternate, parts_from
from algorithms.mtda.params import MTDAParams
from algorithms.numerics.arrays import Array
from algorithms.numerics.eigen import complete
from algorithms.numerics.trace_ratio import Pencil, directions_from, leading_directions
from algorithms.solvers.dinkelbach import dinkelbach

#: At ratios above this every class is a single point, and tasks share nothing.
COLLAPSED = 1.0 - 1e-9


def _baseline(name: str, role: Role, *copied: str) -> Baseline:
    shared = ("standardise", "classifier", "n_folds", "d_grid")
    return Baseline(name, role, copied_params=(*shared, *copied), values={"selection": "cv"})


class MTDA(ProjectionAlgorithm[MTDAParams]):
    """Multi-task discriminant analysis."""

    name = "mtda"
    title = "Multi-task discriminant analysis"
    summary = (
        "Discriminant projections of tasks with different features and classes, coupled by one "
        "ratio of between-class to total variance. On faces the coupling did not help: compare "
        "with lda-rt and lda-tr on your data."
    )
    question = "Every group has columns and classes of its own: can they still be learned together?"
    reference = "Zhang and Yeung (2011), doi:10.1609/aaai.v25i1.7909"
    baselines = (
        _baseline("lda-rt", "single_task", "gamma_grid"),
        _baseline("lda-tr", "single_task", "gamma_grid"),
        _baseline("lda-null", "single_task"),
        _baseline("aggregate", "pooled", "gamma_grid"),
    )
    Params = MTDAParams
    n_eigen = 5.0

    def fit(
        self, tasks: TaskSet, params: MTDAParams, *, trace: Trace, rng: np.random.Generator
    ) -> ProjectionClassifier:
        """Return the projections that maximise eq. 3, for the given or selected parameters."""
        with self.checked(tasks, params):
            trace.expect_loops(2 if params.selection == "cv" else 1)
            ordered = tasks.by_name()
            requested = params
            params, fit_info = self.choose(ordered, params, trace=trace, rng=rng)
            scatters = {
                task.name: estimate_scatters(task, standardise=params.standardise)
                for task in ordered
            }
            alpha, Y, P = _solve(list(scatters.values()), params, trace=trace, rng=rng)
            parts = {
                name: _part(task, directions, P, params)
                for directions, (name, task) in zip(Y, scatters.items(), strict=True)
            }
            return ProjectionClassifier(
                algorithm=self.name,
                tasks=tasks.names,
                parts=tuple(parts[name] for name in tasks.names),
                P=P,
                fit_info={
                    "params": params.model_dump(mode="json"),
                    "alpha": alpha,
                    "by_task": {},
                    **fit_info,
                },
                warnings=(
                    *_warnings(scatters, parts, params, trace=trace, alpha=alpha),
                    *failure_warnings(fit_info.get("failed_candidates", ())),
                    *self.end_warnings(
                        requested,
                        params,
                        {
                            "d": max(
                                scatter.dimensions(params.null) for scatter in scatters.values()
                            )
                        },
                        fit_info,
                    ),
                ),
            )

    def candidate_directions(
        self, tasks: Sequence[Task], scatters: Sequence[Scatters]
    ) -> Directions[MTDAParams]:
        """Return a function for the directions at the largest ratio, whatever the solver."""
        del tasks
        path = RatioPath()

        def directions(params: MTDAParams) -> list[Array]:
            d = params.d
            if params.solver == "alternating":
                d = min(d, *(task.dimensions(params.null) for task in scatters))
            return path.solve(
                [task.pencil(d=d, gamma=params.gamma, null=params.null) for task in scatters]
            )

        return directions

    def adapt_task(
        self, model: ProjectionClassifier, task: Task, *, trace: Trace
    ) -> ProjectionClassifier:
        """Return the model with a new task: the top-d eigenvectors of S_b - αS_t, α fixed."""
        del trace
        params = self.params_for(model, task)
        new = estimate_scatters(task, standardise=params.standardise)
        pencil = _pencil(new, model.P, params)
        Y = leading_directions(pencil, model.fit_info["alpha"])
        part = _part(new, Y, model.P, params)
        warnings = dimension_warnings({task.name: (params.d, part.U.shape[1])})
        return adapt_model(model, task.name, part, fit_info={}, warnings=warnings)


def _solve(
    tasks: Sequence[Scatters], params: MTDAParams, *, trace: Trace, rng: np.random.Generator
) -> tuple[float, list[Array], Array | None]:
    """Return α, the directions (r, m) of each task in its span, and P (d', d) if there is one."""
    if params.solver == "exact":
        pencils = [_pencil(task, None, params) for task in tasks]
        optimum = dinkelbach(
            pencils,
            trace=trace,
            loop="ratio",
            max_iter=params.max_iter,
            tolerance=params.tolerance,
        )
        Y = [directions_from(*pair) for pair in zip(pencils, optimum.spectra, strict=True)]
        return optimum.alpha, Y, None
    available = min(task.dimensions(params.null) for task in tasks)
    d = min(params.d, available)
    state = alternate(
        [task.pencil(d=d, gamma=params.gamma, null=params.null) for task in tasks],
        d_prime=min(max(params.d_prime, d), available),
        max_iter=params.max_iter,
        tolerance=params.tolerance,
        trace=trace,
        rng=rng,
    )
    # both solvers break ties in the same way
    Y = [leading_directions(_pencil(task, state.P, params), state.objective) for task in tasks]
    return state.objective, Y, state.P


def _pencil(task: Scatters, P: Array | None, params: MTDAParams) -> Pencil:
    """Return S_b and S_t of a task, for as many directions as P (d', d) has columns."""
    d = params.d if P is None else P.shape[1]
    return task.pencil(d=d, gamma=params.gamma, null=params.null)


def _part(task: Scatters, Y: Array, P: Array | None, params: MTDAParams) -> TaskProjection:
    """Return the part of a task: U_i with the directions Y, and given P the W_i of U_i = W_i P.

    The columns of W_i beyond the first d of [P, P⊥] are arbitrary.
    """
    U = task.lift(Y, k=max(_pencil(task, P, params).k, 1))
    W = None
    if P is not None and U.shape[1] == P.shape[1] and P.shape[0] <= task.n_features:
        W = parts_from(complete(U.T, P.shape[0]).T, P)
    return build_part(task, U, classifier=params.classifier, W=W)


def _warnings(
    tasks: Mapping[str, Scatters],
    parts: Mapping[str, TaskProjection],
    params: MTDAParams,
    *,
    trace: Trace,
    alpha: float,
) -> tuple[str, ...]:
    warnings = [
        *dimension_warnings({name: (params.d, part.U.shape[1]) for name, part in parts.items()}),
        *no_variance_warnings([name for name, task in tasks.items() if task.rank == 0], len(tasks)),
    ]
    if alpha >= COLLAPSED:
        warnings.append(
            "the common ratio is 1: every class of the training rows is a single point, so each "
            "task has its null-space LDA and nothing is shared; increase gamma or d"
        )
    if trace.stop_reason == "max_iter":
        warnings.append(
            f"the ratio did not converge to {params.tolerance:g} in {params.max_iter} iterations; "
            "increase max_iter"
        )
    return tuple(warnings)
