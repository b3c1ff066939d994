"""Discriminant projections of each task alone, the baselines of MTDA.

With the between-class and total scatter S_b and S_t of a task (divided by its number of rows),
S_w = S_t - S_b, and S_t regularised to S_t + ρI, ρ = γ tr(S_t)/d:

- ``pca-classifier`` maximises tr(UᵀS_tU) over UᵀU = I, without labels.
- ``lda-rt`` maximises tr((UᵀS_tU)⁻¹UᵀS_bU) (ratio trace, eq. 1): generalised eigenvectors of
  (S_b, S_t), which equal the eigenvectors of (S_b, S_w). Fisherface first projects to the n - c
  leading principal components, in which S_w is regular.
- ``lda-tr`` maximises tr(UᵀS_bU)/tr(UᵀS_tU) over UᵀU = I (trace ratio, eq. 2).
- ``lda-null`` maximises tr(UᵀS_bU) over UᵀU = I with UᵀS_wU = 0.

For a task of a single class S_b is 0, so that its directions separate nothing, and it has the rows
of one class as references: that class is always predicted.

Cost: one thin singular value decomposition O(n²d) per task, then O(r³) for rank r <= n - 1.

Reference: Zhang, Yeung, *Multi-Task Learning in Heterogeneous Feature Spaces*, AAAI 2011,
doi:10.1609/aaai.v25i1.7909; Belhumeur, Hespanha, Kriegman, *Eigenfaces vs. Fisherfaces*, PAMI
1997, doi:10.1109/34.598228; Chen, Liao, Ko, Lin, Yu, *A new LDA-based face recognition system*,
Pattern Recognition 2000, doi:10.1016/S0031-3203(99)00139-9.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from pydantic import Field

from algorithms.families.projections.algorithm import Directions, ProjectionAlgorithm
from algorithms.families.projections.model import (
    ProjectionClassifier,
    adapt_model,
    dimension_warnings,
    no_variance_warnings,
)
from algorithms.families.projections.params import ProjectionParams, ScatterRidgeParams
from algorithms.families.projections.parts import TaskProjection, build_part
from algorithms.families.projections.ratios import RatioPath
from algorithms.families.projections.scatters import Scatters, estimate_scatters
from algorithms.interface.params import end_warnings_by_task
from algorithms.interface.tasks import Task, TaskSet, tasks_have
from algorithms.interface.trace import Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.ratio_trace import (
    NULL_RTOL,
    generalised_directions,
    null_space_directions,
)
from algorithms.numerics.trace_ratio import directions_from
from algorithms.solvers.dinkelbach import dinkelbach

P = TypeVar("P", bound=ProjectionParams)

_PAPER = "Zhang and Yeung (2011), doi:10.1609/aaai.v25i1.7909"


class RatioTraceParams(ScatterRidgeParams):
    """Parameters of LDA in ratio-trace form."""

    form: Literal["ridge", "fisherface"] = Field(
        "ridge",
        title="Form",
        description="Regularisation of the scatter with few rows. 'ridge': gamma. 'fisherface': "
        "projection to the n - c leading principal components (at least c - 1), without gamma.",
    )


class TraceRatioParams(ScatterRidgeParams):
    """Parameters of LDA in trace-ratio form."""

    null: Literal["keep", "exclude"] = Field(
        "keep",
        title="Outside the span",
        description="What to do if fewer than d directions in the span of the rows increase the "
        "ratio. 'keep': fill up with directions in which the training rows are constant, which is "
        "the optimum and changes no prediction. 'exclude': use the best directions of the span.",
    )


@dataclass(frozen=True, slots=True)
class TaskDirections:
    """The projection of a task, in coordinates of the span of its rows.

    Parameters
    ----------
    Y : (r, m)
        Columns of U in the span.
    k
        Number of columns of U; columns beyond m are orthonormal fillers outside the span.
    fit_info
        Results for the task, as JSON.
    """

    Y: Array
    k: int
    fit_info: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The result of a fit of one task.

    Parameters
    ----------
    d
        The selected dimension.
    limits
        Largest effective values of the selected parameters.
    fit_info
        Results for the task, as JSON.
    """

    part: TaskProjection
    d: int
    limits: dict[str, float]
    fit_info: dict[str, Any]


class TaskByTask(ProjectionAlgorithm[P]):
    """Base class: each task has its own projection and parameters, from its own rows."""

    reference = _PAPER

    def limits_of(self, task: Scatters, params: P) -> dict[str, float]:
        """Return the largest effective values of selected parameters for a task."""
        del params
        return {"d": task.rank}

    def scatters_for(self, task: Task, scatters: Scatters, params: P) -> Scatters:
        """Return the scatter matrices for :meth:`directions`, possibly with rescaled columns."""
        del task, params
        return scatters

    def final_objective(self, params: P, trace: Trace) -> float | None:
        """Return None: each task has an objective of its own."""
        del params, trace
        return None

    @abstractmethod
    def directions(self, task: Scatters, params: P, *, trace: Trace, loop: str) -> TaskDirections:
        """Return the directions of one task, in one loop of the given name."""

    def candidate_directions(
        self, tasks: Sequence[Task], scatters: Sequence[Scatters]
    ) -> Directions[P]:
        """Return a function for the directions of each task: the first d of more."""
        cache: dict[str, list[Array]] = {}

        def directions(params: P) -> list[Array]:
            most = params.model_copy(update={"d": max(task.n_features for task in scatters)})
            key = most.model_dump_json()
            if key not in cache:
                pairs = zip(tasks, scatters, strict=True)
                cache[key] = [self._in_span(*pair, most) for pair in pairs]
            return [Y[:, : params.d] for Y in cache[key]]

        return directions

    def _in_span(self, task: Task, scatters: Scatters, params: P) -> Array:
        """Return the directions of a task in coordinates of its span, (r, k)."""
        scaled = self.scatters_for(task, scatters, params)
        Y = self.directions(scaled, params, trace=Trace(), loop="candidate").Y
        if scaled is scatters:
            return Y
        rescale = (scatters.scale / scaled.scale)[:, np.newaxis]
        return np.asarray(scatters.V.T @ (scaled.V @ Y * rescale))

    def fit(
        self, tasks: TaskSet, params: P, *, trace: Trace, rng: np.random.Generator
    ) -> ProjectionClassifier:
        """Return the projection of each task, for the given or the selected parameters."""
        with self.checked(tasks, params):
            trace.expect_loops(len(tasks) * (2 if params.selection == "cv" else 1))
            seed = int(rng.integers(2**32))
            results = {
                task.name: self._fit_task(task, params, trace=trace, seed=seed) for task in tasks
            }
            return ProjectionClassifier(
                algorithm=self.name,
                tasks=tasks.names,
                parts=tuple(result.part for result in results.values()),
                P=None,
                fit_info={
                    "params": params.model_dump(mode="json"),
                    "seed": seed,
                    "by_task": {name: result.fit_info for name, result in results.items()},
                },
                warnings=(*_warnings(results), *_end_warnings(results, params)),
            )

    def adapt_task(
        self, model: ProjectionClassifier, task: Task, *, trace: Trace
    ) -> ProjectionClassifier:
        """Return the model with a new task, which is fitted to the task's rows."""
        params = self.params_for(model, task)
        trace.expect_loops(2 if params.selection == "cv" else 1)
        new = self._fit_task(task, params, trace=trace, seed=model.fit_info["seed"])
        results = {task.name: new}
        warnings = (*_warnings(results), *_end_warnings(results, params))
        return adapt_model(model, task.name, new.part, fit_info=new.fit_info, warnings=warnings)

    def _fit_task(self, task: Task, params: P, *, trace: Trace, seed: int) -> TaskResult:
        params, fit_info = self.choose(
            TaskSet((task,)),
            params,
            trace=trace,
            rng=np.random.default_rng(seed),
            loop=f"selection of '{task.name}'",
        )
        scatters = estimate_scatters(task, standardise=params.standardise)
        scaled = self.scatters_for(task, scatters, params)
        directions = self.directions(scaled, params, trace=trace, loop=f"task '{task.name}'")
        rescale = (scatters.scale / scaled.scale)[:, np.newaxis]
        U = scaled.lift(directions.Y, k=max(directions.k, 1)) * rescale
        fit_info |= {"d": params.d, **directions.fit_info}
        if isinstance(params, ScatterRidgeParams):
            fit_info["gamma"] = params.gamma
        return TaskResult(
            build_part(scatters, U, classifier=params.classifier),
            params.d,
            self.limits_of(scatters, params),
            fit_info,
        )


class PCAClassifier(TaskByTask[ProjectionParams]):
    """PCA of each task, with a nearest-neighbour classifier."""

    name = "pca-classifier"
    role = "single_task"
    title = "PCA per task, with a classifier"
    summary = (
        "The d leading principal components of each task, which ignore labels, with a "
        "nearest-neighbour classifier. A simple baseline of discriminant methods."
    )
    Params = ProjectionParams

    def directions(
        self, task: Scatters, params: ProjectionParams, *, trace: Trace, loop: str
    ) -> TaskDirections:
        """Return the leading eigenvectors of S_t, which are the first vectors of the basis."""
        k = min(params.d, task.rank)
        Y = trace.run_once(loop, lambda: (np.eye(task.rank)[:, :k], float(task.total[:k].sum())))
        return TaskDirections(Y, k, {})


class RatioTraceLDA(TaskByTask[RatioTraceParams]):
    """LDA of each task in ratio-trace form."""

    name = "lda-rt"
    role = "single_task"
    title = "LDA per task, ratio trace"
    summary = (
        "Classical linear discriminant analysis of each task: generalised eigenvectors of "
        "between-class and total scatter, with a ridge or as Fisherface. Try it first; it is hard "
        "to improve on if tasks are unrelated."
    )
    reference = f"{_PAPER}, eq. 1; Belhumeur et al. (1997), doi:10.1109/34.598228"
    Params = RatioTraceParams

    def limits_of(self, task: Scatters, params: RatioTraceParams) -> dict[str, float]:
        """Return the maximum rank of S_b as the limit of d; 'fisherface' does not use gamma."""
        d = min(task.rank, task.n_classes - 1)
        return {"d": d} if params.form == "ridge" else {"d": d, "gamma": 0.0}

    def scatters_for(self, task: Task, scatters: Scatters, params: RatioTraceParams) -> Scatters:
        """Return scatter matrices of standardised columns, if their scales do not matter.

        Without shrinkage and with a regular S_t, LDA does not depend on the scales of columns, but
        columns of very different scales cause rounding errors.
        """
        if params.gamma > 0 or params.form == "fisherface":
            return scatters
        scaled = estimate_scatters(task, standardise="features")
        return scaled if scaled.is_regular else scatters

    def directions(
        self, task: Scatters, params: RatioTraceParams, *, trace: Trace, loop: str
    ) -> TaskDirections:
        """Return the leading eigenvectors of S_b u = λ(S_t + ρI)u, with Uᵀ(S_t + ρI)U = I."""
        ridge, q = task.ridge(params.gamma), task.rank
        if params.form == "fisherface":
            ridge, q = 0.0, min(q, max(len(task.rows) - task.n_classes, task.n_classes - 1))

        def solve() -> tuple[Array, float]:
            Y, values = generalised_directions(
                task.between[:, :q], task.total[:q], ridge=ridge, d=params.d
            )
            return np.concatenate([Y, np.zeros((task.rank - q, Y.shape[1]))]), float(values.sum())

        Y = trace.run_once(loop, solve)
        return TaskDirections(Y, Y.shape[1], {"rho": ridge})


class TraceRatioLDA(TaskByTask[TraceRatioParams]):
    """LDA of each task in trace-ratio form."""

    name = "lda-tr"
    role = "single_task"
    title = "LDA per task, trace ratio"
    summary = (
        "Orthonormal directions with the largest ratio of between-class to total variance, task "
        "by task, at the global optimum. This is MTDA with a separate ratio for each task."
    )
    reference = f"{_PAPER}, eq. 2"
    Params = TraceRatioParams
    n_eigen = 4.5

    def candidate_directions(
        self, tasks: Sequence[Task], scatters: Sequence[Scatters]
    ) -> Directions[TraceRatioParams]:
        """Return a function for the directions of each task at its largest ratio."""
        del tasks
        paths = [RatioPath() for _ in scatters]

        def directions(params: TraceRatioParams) -> list[Array]:
            return [
                path.solve([task.pencil(d=params.d, gamma=params.gamma, null=params.null)])[0]
                for path, task in zip(paths, scatters, strict=True)
            ]

        return directions

    def limits_of(self, task: Scatters, params: TraceRatioParams) -> dict[str, float]:
        """Return the limit of d: the number of features if null is 'keep', otherwise the rank."""
        return {"d": task.dimensions(params.null)}

    def directions(
        self, task: Scatters, params: TraceRatioParams, *, trace: Trace, loop: str
    ) -> TaskDirections:
        """Return the top-d eigenvectors of S_b - αS_t at the largest ratio α."""
        pencil = task.pencil(d=params.d, gamma=params.gamma, null=params.null)
        optimum = dinkelbach([pencil], trace=trace, loop=loop)
        Y = directions_from(pencil, optimum.spectra[0])
        return TaskDirections(Y, pencil.k, {"alpha": optimum.alpha})


class NullSpaceLDA(TaskByTask[ProjectionParams]):
    """LDA of each task in the null space of the within-class scatter."""

    name = "lda-null"
    role = "single_task"
    title = "LDA per task, null space"
    summary = (
        "Directions in which every class of the training rows is a single point, with the largest "
        "distances between these points. For many more features than rows; a task with too many "
        "rows for such directions gets ordinary LDA with a warning."
    )
    reference = "Chen et al. (2000), doi:10.1016/S0031-3203(99)00139-9"
    Params = ProjectionParams
    n_eigen = 4.0

    def limits_of(self, task: Scatters, params: ProjectionParams) -> dict[str, float]:
        """Return the maximum rank of S_b as the limit of d."""
        del params
        return {"d": min(task.rank, task.n_classes - 1)}

    def scatters_for(self, task: Task, scatters: Scatters, params: ProjectionParams) -> Scatters:
        """Return scatter matrices of standardised columns, if S_w has no null space."""
        del params
        scaled = estimate_scatters(task, standardise="features")
        if not scaled.is_regular:
            return scatters
        null = null_space_directions(scaled.between, scaled.within(), scaled.total, d=1)
        return scatters if null.shape[1] else scaled

    def directions(
        self, task: Scatters, params: ProjectionParams, *, trace: Trace, loop: str
    ) -> TaskDirections:
        """Return the directions with the largest S_b in the null space of S_w.

        If there is no null space in the span of the rows, they equal the directions of LDA. The
        null space outside the span does not separate classes.
        """
        d = min(params.d, task.n_classes - 1)

        def solve() -> tuple[Array, float]:
            Y = null_space_directions(task.between, task.within(), task.total, d=d)
            if Y.shape[1] == 0:
                Y, _ = generalised_directions(task.between, task.total, ridge=0.0, d=d)
            return Y, float(np.sum((task.between @ Y) ** 2))

        Y = trace.run_once(loop, solve)
        within = float(np.sum((task.within() @ Y) ** 2))
        is_null = within <= NULL_RTOL * float(np.sum(task.total @ Y**2))
        return TaskDirections(Y, Y.shape[1], {"has_null_space": is_null})


def _warnings(results: dict[str, TaskResult]) -> tuple[str, ...]:
    dimensions = {name: (result.d, result.part.U.shape[1]) for name, result in results.items()}
    regular = [n for n, result in results.items() if result.fit_info.get("has_null_space") is False]
    flat = [name for name, result in results.items() if not result.part.references.any()]
    warnings = (
        *dimension_warnings(dimensions),
        *no_variance_warnings(flat, len(results)),
    )
    if not regular:
        return warnings
    warning = (
        f"{tasks_have(regular, len(results))} no direction in which every class is a "
        "single point and got ordinary LDA"
    )
    return (*warnings, warning)


def _end_warnings(
    results: Mapping[str, TaskResult], requested: ProjectionParams
) -> tuple[str, ...]:
    if requested.selection == "given":
        return ()
    chosen = {
        task: {name: result.fit_info[name] for name in requested.GRIDS}
        for task, result in results.items()
    }
    limits = {task: result.limits for task, result in results.items()}
    return end_warnings_by_task(requested, chosen, limits=limits)
