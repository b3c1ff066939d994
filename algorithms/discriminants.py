"""What MTDA is compared with: discriminant projections of each task alone.

With S_b, S_t the between-class and the total scatter of a task (divided by its number of rows),
S_w = S_t - S_b, and S_t shrunk to S_t + ρI, ρ = γ tr(S_t)/d:

- ``pca-classifier`` maximises tr(UᵀS_tU) over UᵀU = I: no labels.
- ``lda-rt`` maximises tr((UᵀS_tU)⁻¹UᵀS_bU) (ratio trace, eq. 1): generalised eigenvectors of
  (S_b, S_t), which are those of (S_b, S_w). Fisherface first keeps the n - c leading principal
  components, in which S_w is regular.
- ``lda-tr`` maximises tr(UᵀS_bU)/tr(UᵀS_tU) over UᵀU = I (trace ratio, eq. 2).
- ``lda-null`` maximises tr(UᵀS_bU) over UᵀU = I with UᵀS_wU = 0.

Cost: one thin singular value decomposition O(n²d) per task, then O(r³) for rank r <= n - 1.

Reference: Zhang, Yeung, *Multi-Task Learning in Heterogeneous Feature Spaces*, AAAI 2011,
doi:10.1609/aaai.v25i1.7909; Belhumeur, Hespanha, Kriegman, *Eigenfaces vs. Fisherfaces*, PAMI
1997, doi:10.1109/34.598228; Chen, Liao, Ko, Lin, Yu, *A new LDA-based face recognition system*,
Pattern Recognition 2000, doi:10.1016/S0031-3203(99)00139-9.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.interface.grid_ends import end_warnings_by_task
from algorithms.interface.tasks import Task, TaskSet, describe_tasks
from algorithms.interface.trace import Trace
from algorithms.numerics.ratio_trace import (
    NULL_RTOL,
    generalised_directions,
    null_space_directions,
)
from algorithms.numerics.trace_ratio import leading_directions
from algorithms.projections.algorithm import ProjectionAlgorithm
from algorithms.projections.model import (
    ProjectionClassifier,
    adapt_model,
    dimension_warnings,
    no_variance_warnings,
)
from algorithms.projections.params import ProjectionParams, RidgeParams
from algorithms.projections.parts import TaskProjection, build_part
from algorithms.projections.scatters import Scatters, estimate_scatters
from algorithms.solvers.dinkelbach import dinkelbach

Array = NDArray[np.float64]
P = TypeVar("P", bound=ProjectionParams)

_PAPER = "Zhang and Yeung (2011), doi:10.1609/aaai.v25i1.7909"


class RatioTraceParams(RidgeParams):
    """Parameters of LDA in ratio-trace form."""

    form: Literal["ridge", "fisherface"] = Field(
        "ridge",
        title="Form",
        description="What makes the scatter regular where rows are few. 'ridge': gamma. "
        "'fisherface': the n - c leading principal components (at least c - 1), no gamma.",
    )


class TraceRatioParams(RidgeParams):
    """Parameters of LDA in trace-ratio form."""

    null: Literal["keep", "exclude"] = Field(
        "keep",
        title="Outside the span",
        description="Where fewer than d directions in the span of the rows raise the ratio. "
        "'keep': fill up with directions in which the training rows are constant, which is the "
        "optimum and changes no prediction. 'exclude': take the best directions of the span.",
    )


@dataclass(frozen=True, slots=True)
class Directions:
    """Columns of U in the span of a task.

    Parameters
    ----------
    Y : (r, m)
    k
        Columns of U; those beyond m are orthonormal fillers outside the span.
    fit_info
        What was decided, as JSON.
    """

    Y: Array
    k: int
    fit_info: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Learned:
    """One task, learned: its part, d as used, bounds of what is chosen, and what was decided."""

    part: TaskProjection
    d: int
    bounds: dict[str, float]
    fit_info: dict[str, Any]


class TaskByTask(ProjectionAlgorithm[P]):
    """A projection of each task from its own rows alone, with parameters of its own."""

    reference = _PAPER

    def bounds_of(self, task: Scatters, params: P) -> dict[str, float]:
        """Return the largest values of chosen parameters that make a difference for a task."""
        del params
        return {"d": task.rank}

    def solved_on(self, task: Task, scatters: Scatters, params: P) -> Scatters:
        """Return the scatter matrices that :meth:`directions` sees; columns may be scaled anew."""
        del task, params
        return scatters

    @abstractmethod
    def directions(self, task: Scatters, params: P, *, trace: Trace, loop: str) -> Directions:
        """Return the directions of one task; runs one loop of the given name."""

    def _fit(
        self, tasks: TaskSet, params: P, *, trace: Trace, rng: np.random.Generator
    ) -> ProjectionClassifier:
        """Return the projection of each task, its parameters as given or chosen on its own rows."""
        trace.expect_loops(len(tasks) * (2 if params.selection == "cv" else 1))
        seed = int(rng.integers(2**32))
        learned = {task.name: self._learn(task, params, trace=trace, seed=seed) for task in tasks}
        return ProjectionClassifier(
            algorithm=self.name,
            tasks=tasks.names,
            parts=tuple(one.part for one in learned.values()),
            P=None,
            fit_info={
                "params": params.model_dump(mode="json"),
                "seed": seed,
                "by_task": {name: one.fit_info for name, one in learned.items()},
            },
            warnings=(*_warnings(learned), *_end_warnings(learned, params)),
        )

    def adapt_task(
        self, model: ProjectionClassifier, task: Task, *, trace: Trace
    ) -> ProjectionClassifier:
        """Return the model with one more task, from its own rows, as the others were learned."""
        params = self.params_for(model, task)
        trace.expect_loops(2 if params.selection == "cv" else 1)
        new = self._learn(task, params, trace=trace, seed=model.fit_info["seed"])
        learned = {task.name: new}
        warnings = (*_warnings(learned), *_end_warnings(learned, params))
        return adapt_model(model, task.name, new.part, fit_info=new.fit_info, warnings=warnings)

    def _learn(self, task: Task, params: P, *, trace: Trace, seed: int) -> Learned:
        params, fit_info = self.choose(
            TaskSet((task,)),
            params,
            trace=trace,
            rng=np.random.default_rng(seed),
            loop=f"selection of '{task.name}'",
        )
        scatters = estimate_scatters(task, standardise=params.standardise)
        solved = self.solved_on(task, scatters, params)
        found = self.directions(solved, params, trace=trace, loop=f"task '{task.name}'")
        rescale = (scatters.scale / solved.scale)[:, np.newaxis]
        U = solved.lift(found.Y, k=max(found.k, 1)) * rescale
        fit_info |= {"d": params.d, **found.fit_info}
        if isinstance(params, RidgeParams):
            fit_info["gamma"] = params.gamma
        return Learned(
            build_part(scatters, U, classifier=params.classifier),
            params.d,
            self.bounds_of(scatters, params),
            fit_info,
        )


class PCAClassifier(TaskByTask[ProjectionParams]):
    """PCA of each task, and the nearest neighbour in it."""

    name = "pca-classifier"
    title = "PCA per task, with a classifier"
    summary = (
        "The d leading principal components of each task, which look at no label, and the nearest "
        "neighbour there. What a discriminant method has to beat."
    )
    Params = ProjectionParams

    def directions(
        self, task: Scatters, params: ProjectionParams, *, trace: Trace, loop: str
    ) -> Directions:
        """Return the leading eigenvectors of S_t: the basis of the span is in their order."""
        k = min(params.d, task.rank)
        Y = trace.run_once(loop, lambda: (np.eye(task.rank)[:, :k], float(task.total[:k].sum())))
        return Directions(Y, k, {})


class RatioTraceLDA(TaskByTask[RatioTraceParams]):
    """LDA of each task in ratio-trace form."""

    name = "lda-rt"
    title = "LDA per task, ratio trace"
    summary = (
        "Linear discriminant analysis of each task as everyone knows it: generalised eigenvectors "
        "of between-class and total scatter, with ridge or as Fisherface. Try it first; where "
        "tasks share nothing, it is hard to beat."
    )
    reference = f"{_PAPER}, eq. 1; Belhumeur et al. (1997), doi:10.1109/34.598228"
    Params = RatioTraceParams

    def bounds_of(self, task: Scatters, params: RatioTraceParams) -> dict[str, float]:
        """Return the rank that S_b may have; Fisherface has no gamma."""
        d = min(task.rank, task.n_classes - 1)
        return {"d": d} if params.form == "ridge" else {"d": d, "gamma": 0.0}

    def solved_on(self, task: Task, scatters: Scatters, params: RatioTraceParams) -> Scatters:
        """Return scatter matrices of columns of one size, where the scales are free.

        Without shrinkage, and with a regular S_t, LDA is the same on any scales of the columns, but
        of scales far apart the smaller ones drown in rounding.
        """
        if params.gamma > 0 or params.form == "fisherface":
            return scatters
        scaled = estimate_scatters(task, standardise="features")
        return scaled if scaled.is_regular else scatters

    def directions(
        self, task: Scatters, params: RatioTraceParams, *, trace: Trace, loop: str
    ) -> Directions:
        """Return U with Uᵀ(S_t + ρI)U = I, the leading eigenvectors of S_b u = λ(S_t + ρI)u."""
        ridge, q = task.ridge(params.gamma), task.rank
        if params.form == "fisherface":
            ridge, q = 0.0, min(q, max(len(task.rows) - task.n_classes, task.n_classes - 1))

        def solve() -> tuple[Array, float]:
            Y, values = generalised_directions(
                task.between[:, :q], task.total[:q], ridge=ridge, d=params.d
            )
            return np.concatenate([Y, np.zeros((task.rank - q, Y.shape[1]))]), float(values.sum())

        Y = trace.run_once(loop, solve)
        return Directions(Y, Y.shape[1], {"rho": ridge})


class TraceRatioLDA(TaskByTask[TraceRatioParams]):
    """LDA of each task in trace-ratio form."""

    name = "lda-tr"
    title = "LDA per task, trace ratio"
    summary = (
        "Orthonormal directions of largest ratio of between-class to total variance, task by "
        "task, to the global optimum. It is MTDA with a ratio of its own for each task."
    )
    reference = f"{_PAPER}, eq. 2"
    Params = TraceRatioParams

    def bounds_of(self, task: Scatters, params: TraceRatioParams) -> dict[str, float]:
        """Return what the span, or the whole space, has."""
        return {"d": task.dimensions(params.null)}

    def directions(
        self, task: Scatters, params: TraceRatioParams, *, trace: Trace, loop: str
    ) -> Directions:
        """Return the top-d eigenvectors of S_b - αS_t at the largest ratio α."""
        pencil = task.pencil(d=params.d, gamma=params.gamma, null=params.null)
        alpha = dinkelbach([pencil], trace=trace, loop=loop)
        return Directions(leading_directions(pencil, alpha), pencil.k, {"alpha": alpha})


class NullSpaceLDA(TaskByTask[ProjectionParams]):
    """LDA of each task in the null space of the within-class scatter."""

    name = "lda-null"
    title = "LDA per task, null space"
    summary = (
        "Directions in which every class of the training rows is one point, the points as far "
        "apart as can be. For far more features than rows; a task with too many rows for such "
        "directions gets the plain LDA, with a warning."
    )
    reference = "Chen et al. (2000), doi:10.1016/S0031-3203(99)00139-9"
    Params = ProjectionParams

    def bounds_of(self, task: Scatters, params: ProjectionParams) -> dict[str, float]:
        """Return the rank that S_b may have."""
        del params
        return {"d": min(task.rank, task.n_classes - 1)}

    def solved_on(self, task: Task, scatters: Scatters, params: ProjectionParams) -> Scatters:
        """Return scatter matrices of columns of one size, where there is no null space."""
        del params
        scaled = estimate_scatters(task, standardise="features")
        if not scaled.is_regular:
            return scatters
        null = null_space_directions(scaled.between, scaled.within(), scaled.total, d=1)
        return scatters if null.shape[1] else scaled

    def directions(
        self, task: Scatters, params: ProjectionParams, *, trace: Trace, loop: str
    ) -> Directions:
        """Return the directions of largest S_b in the null space of S_w, those of LDA if it is 0.

        The rest of the null space outside the span of the rows tells no classes apart.
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
        return Directions(Y, Y.shape[1], {"has_null_space": is_null})


def _warnings(learned: dict[str, Learned]) -> tuple[str, ...]:
    wanted = {name: (one.d, one.part.U.shape[1]) for name, one in learned.items()}
    regular = [n for n, one in learned.items() if one.fit_info.get("has_null_space") is False]
    flat = [name for name, one in learned.items() if not one.part.references.any()]
    plain = (
        f"{describe_tasks(regular, len(learned))} have no direction in which every class is one "
        "point and got the plain LDA"
        if regular
        else ""
    )
    return (
        *dimension_warnings(wanted),
        *no_variance_warnings(flat, len(learned)),
        *([plain] if plain else []),
    )


def _end_warnings(learned: Mapping[str, Learned], asked: ProjectionParams) -> tuple[str, ...]:
    if asked.selection == "given":
        return ()
    chosen = {
        task: {name: one.fit_info[name] for name in asked.GRIDS} for task, one in learned.items()
    }
    limits = {task: one.bounds for task, one in learned.items()}
    return end_warnings_by_task(asked, chosen, limits=limits)
