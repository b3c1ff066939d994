"""Aggregate: PCA of every task into a common space, and one LDA of all rows in that space.

With the leading principal components W_i (d_i, d') of task i, U_i = W_i P, where P (d', d) has the
leading eigenvectors of S_b u = λ(S_t + ρI)u for the scatter matrices of all projected rows
together. Corresponding components of different tasks are related by chance only, but the
within-class scatter of all rows is pooled.

Cost: one thin singular value decomposition O(n²d) per task, then O(d'³).

Deviation from the paper: a task with fewer than d' + 1 rows has fewer components. Its other
coordinates are 0, and the scatter of a coordinate is the mean over the rows of the tasks that have
it; with the rows of all tasks it would be too small, and the ridge too strong. The paper may have
used arbitrary components, which could explain the errors of 97 to 99 % in its Table 2 (two and
three images per person, d' = 300).

Reference: Zhang, Yeung, *Multi-Task Learning in Heterogeneous Feature Spaces*, AAAI 2011,
doi:10.1609/aaai.v25i1.7909
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from algorithms.evaluation.selection.failures import failure_warnings
from algorithms.families.projections.algorithm import Directions, ProjectionAlgorithm
from algorithms.families.projections.model import (
    ProjectionClassifier,
    adapt_model,
    dimension_warnings,
    no_variance_warnings,
)
from algorithms.families.projections.params import Dimension, ScatterRidgeParams
from algorithms.families.projections.parts import TaskProjection, build_part
from algorithms.families.projections.scatters import Scatters, estimate_scatters
from algorithms.interface.params import Grid
from algorithms.interface.tasks import Task, TaskSet, tasks_have
from algorithms.interface.trace import Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.ratio_trace import generalised_directions


class AggregateParams(ScatterRidgeParams):
    """Parameters of one LDA over all tasks."""

    GRIDS: ClassVar = {"d": "d_grid", "gamma": "gamma_grid", "d_prime": "d_prime_grid"}

    d_prime: Dimension = Field(
        30,
        title="Common dimensions d'",
        description="Number of principal components of each task. A task of lower rank has no "
        "part in the last components.",
    )
    d_prime_grid: Grid[Dimension] = Field(
        (10, 30, 100),
        max_length=100,
        title="Grid of d'",
        description="Values of d' to try if 'selection' is 'cv'.",
    )
    labels: Literal["own", "common"] = Field(
        "own",
        title="Labels",
        description="'own': each task has different classes. 'common': equal labels are the same "
        "class in every task.",
    )


class Aggregate(ProjectionAlgorithm[AggregateParams]):
    """PCA of each task to a common dimension, and one LDA over all rows."""

    name = "aggregate"
    role = "pooled"
    title = "Aggregate"
    summary = (
        "Principal components of each task as coordinates of a common space, and one discriminant "
        "analysis of the rows of all tasks. Simple, but strong if the tasks are similar."
    )
    reference = "Zhang and Yeung (2011), doi:10.1609/aaai.v25i1.7909"
    Params = AggregateParams

    def fit(
        self, tasks: TaskSet, params: AggregateParams, *, trace: Trace, rng: np.random.Generator
    ) -> ProjectionClassifier:
        """Return U_i = W_i P, for the given or selected parameters."""
        with self.checked(tasks, params):
            trace.expect_loops(2 if params.selection == "cv" else 1)
            ordered = tasks.by_name()
            requested = params
            params, fit_info = self.choose(ordered, params, trace=trace, rng=rng)
            scatters = {
                task.name: estimate_scatters(task, standardise=params.standardise)
                for task in ordered
            }
            P = _common_part(list(scatters.values()), params, trace=trace)
            parts = tuple(_part(scatters[name], P, params) for name in tasks.names)
            capped = dict.fromkeys(tasks.names, (params.d, P.shape[1]))
            return ProjectionClassifier(
                algorithm=self.name,
                tasks=tasks.names,
                parts=parts,
                P=P,
                fit_info={"params": params.model_dump(mode="json"), "by_task": {}, **fit_info},
                warnings=(
                    *dimension_warnings(capped),
                    *failure_warnings(fit_info.get("failed_candidates", ())),
                    *self.end_warnings(
                        requested, params, _limits(list(scatters.values())), fit_info
                    ),
                    *_rank_warnings(list(scatters.values()), P.shape[0]),
                    *no_variance_warnings(
                        [n for n, task in scatters.items() if task.rank == 0], len(scatters)
                    ),
                ),
            )

    def candidate_directions(
        self, tasks: Sequence[Task], scatters: Sequence[Scatters]
    ) -> Directions[AggregateParams]:
        """Return a function for the common directions: the first d of more."""
        del tasks
        cache: dict[tuple[float, int], Array] = {}

        def directions(params: AggregateParams) -> list[Array]:
            key = (params.gamma, params.d_prime)
            if key not in cache:
                most = params.model_copy(update={"d": params.d_prime})
                cache[key] = _common_part(scatters, most, trace=Trace())
            P = cache[key][:, : params.d]
            return [np.eye(task.rank, len(P)) @ P for task in scatters]

        return directions

    def adapt_task(
        self, model: ProjectionClassifier, task: Task, *, trace: Trace
    ) -> ProjectionClassifier:
        """Return the model with a new task: its own PCA and the common P."""
        del trace
        params = self.params_for(model, task)
        assert model.P is not None
        scatters = estimate_scatters(task, standardise=params.standardise)
        return adapt_model(model, task.name, _part(scatters, model.P, params), fit_info={})


def _common_part(tasks: Sequence[Scatters], params: AggregateParams, *, trace: Trace) -> Array:
    """Return P (d', d), the leading discriminant directions of all rows together."""

    def solve() -> tuple[Array, float]:
        between, total = _pooled(tasks, params)
        ridge = params.gamma * float(total.mean()) if total.size else 0.0
        P, values = generalised_directions(between, total, ridge=ridge, d=params.d)
        if P.shape[1] == 0:  # no direction separates classes
            P = np.eye(max(total.size, 1), 1)
        return P, float(values.sum())

    return trace.run_once("decomposition", solve)


def _pooled(tasks: Sequence[Scatters], params: AggregateParams) -> tuple[Array, Array]:
    """Return B (n_classes, q) with S_b = BᵀB, and the diagonal of S_t (q,), for all rows together.

    Every task has mean 0, and its scatter is diagonal in its principal components, so the sum is
    diagonal, too. Each coordinate is normalised by the rows of the tasks that have it, or by the
    sum of their weights.
    """
    q = min(params.d_prime, max(task.rank for task in tasks))
    n = np.zeros(q)
    for task in tasks:
        n[: task.rank] += task.counts.sum()
    total = np.zeros(q)
    sums: dict[Hashable, Array] = {}
    counts: dict[Hashable, float] = {}
    for i, task in enumerate(tasks):
        m = min(q, task.rank)
        sizes = task.counts
        total[:m] += task.total[:m] * sizes.sum() / n[:m]
        for k, label in enumerate(task.classes.tolist()):
            key = label if params.labels == "common" else (i, label)
            row = sums.setdefault(key, np.zeros(q))
            row[:m] += task.between[k, :m] * np.sqrt(sizes[k] * sizes.sum())
            counts[key] = counts.get(key, 0.0) + float(sizes[k])
    between = np.stack([sums[key] / np.sqrt(counts[key] * n) for key in sums])
    return between, total


def _part(task: Scatters, P: Array, params: AggregateParams) -> TaskProjection:
    """Return the part of a task with the projection W_i P; W_i is padded with zeros."""
    W = np.zeros((task.n_features, P.shape[0]))
    m = min(P.shape[0], task.rank)
    W[:, :m] = task.V[:, :m]
    return build_part(task, W @ P, classifier=params.classifier, W=W)


def _limits(tasks: Sequence[Scatters]) -> dict[str, float]:
    """Return the largest effective values of d and d'."""
    rank = max(task.rank for task in tasks)
    return {"d": min(rank, sum(task.n_classes for task in tasks) - 1), "d_prime": rank}


def _rank_warnings(tasks: Sequence[Scatters], d_prime: int) -> tuple[str, ...]:
    low = {task.name: task.rank for task in tasks if task.rank < d_prime}
    if not low:
        return ()
    warning = (
        f"{tasks_have(list(low), len(tasks))} fewer than d' = {d_prime} principal components (as "
        f"few as {min(low.values())}) and no part in the others; decrease d_prime or add rows"
    )
    return (warning,)
