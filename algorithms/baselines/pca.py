"""PCA of each task alone (I-PCA), and one PCA for all tasks (C-PCA).

PCA maximises tr(Uᵀ C U) over U with orthonormal columns; the solution is the k leading eigenvectors
of C. *I-PCA* uses the covariance C_t of each task, *C-PCA* one matrix for all tasks. Cost: one
eigendecomposition, O(d³), or thin singular value decomposition, O(n² d); I-PCA needs one per task.

Reference: Yamane, Yger, Berar, Sugiyama, *Multitask Principal Component Analysis*, ACML 2016,
https://proceedings.mlr.press/v63/yamane65.html
"""

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from algorithms.families.subspaces.algorithm import SubspaceAlgorithm
from algorithms.families.subspaces.model import (
    SubspaceModel,
    adapt_model,
    build_model,
    few_rows_warnings,
)
from algorithms.families.subspaces.moments import estimate_moments
from algorithms.families.subspaces.params import SubspaceParams
from algorithms.families.subspaces.work import estimate_pca
from algorithms.interface.errors import InvalidParams
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.work import WorkEstimate
from algorithms.numerics.arrays import Array
from algorithms.numerics.covariances import Covariances, covariance_factor
from algorithms.numerics.eigen import leading_of_factor

_REFERENCE = "Yamane et al. (2016), https://proceedings.mlr.press/v63/yamane65.html"


class TaskPCAParams(SubspaceParams):
    """Parameters of PCA per task."""


class CommonPCAParams(SubspaceParams):
    """Parameters of one PCA for all tasks."""

    form: Literal["sum", "pooled"] = Field(
        "sum",
        title="Matrix",
        description="'sum': the unweighted sum of the tasks' covariances, which is the limit of "
        "RMT-PCA for infinite coupling. 'pooled': the covariance of the rows of all tasks about "
        "their common mean, in which large tasks and differences between task means count more.",
    )


class TaskPCA(SubspaceAlgorithm[TaskPCAParams]):
    """PCA of each task alone (I-PCA)."""

    name = "pca"
    role = "single_task"
    title = "PCA per task"
    summary = (
        "Principal components of each task from its own rows. For tasks with many rows; with few "
        "rows prefer rmt-pca."
    )
    reference = _REFERENCE
    Params = TaskPCAParams

    def fit(
        self, tasks: TaskSet, params: TaskPCAParams, *, trace: Trace, rng: np.random.Generator
    ) -> SubspaceModel:
        """Return the k leading eigenvectors of each task's covariance."""
        del rng
        with self.checked(tasks, params):
            moments = estimate_moments(tasks.by_name().tasks, k=params.k)
            C = moments.C
            U = _decompose(C, lambda: C.lift(C.leading(params.k)), trace=trace)
            return build_model(
                moments,
                U,
                algorithm=self.name,
                names=tasks.names,
                fit_info={},
                warnings=few_rows_warnings(tasks.tasks, k=params.k),
            )

    def adapt_task(self, model: SubspaceModel, task: Task, *, trace: Trace) -> SubspaceModel:
        """Return the model with a new task, which is fitted to the task's rows."""
        del trace
        moments = estimate_moments([task], k=model.k)
        U = moments.C.lift(moments.C.leading(model.k))
        return adapt_model(model, moments, U, warnings=few_rows_warnings([task], k=model.k))


class CommonPCA(SubspaceAlgorithm[CommonPCAParams]):
    """One PCA for all tasks (C-PCA)."""

    name = "common-pca"
    role = "pooled"
    title = "Common PCA"
    summary = (
        "One subspace for all tasks, from the sum of their covariances or from the pooled rows. "
        "For tasks that hardly differ."
    )
    reference = _REFERENCE
    Params = CommonPCAParams

    def check(self, summaries: Sequence[TaskSummary], params: CommonPCAParams) -> None:
        """Raise InvalidData or InvalidParams if the tasks do not meet the requirements."""
        super().check(summaries, params)
        for task in summaries:
            if params.form == "pooled" and task.input == "covariances":
                raise InvalidParams(
                    f"form 'pooled' needs rows, but task '{task.name}' has covariance matrices; "
                    "use form 'sum'",
                    task=task.name,
                    field="form",
                )

    def work(self, summaries: Sequence[TaskSummary], params: CommonPCAParams) -> WorkEstimate:
        """Return the work of the covariances of all tasks and one eigendecomposition."""
        del params
        return estimate_pca(summaries, n_eigen=1)

    def fit(
        self, tasks: TaskSet, params: CommonPCAParams, *, trace: Trace, rng: np.random.Generator
    ) -> SubspaceModel:
        """Return the k leading eigenvectors of the common matrix."""
        del rng
        with self.checked(tasks, params):
            moments = estimate_moments(tasks.by_name().tasks, k=params.k)
            C, mean = moments.C, None
            if params.form == "pooled":
                mean, A = covariance_factor(_union(tasks))
                U = _decompose(C, lambda: leading_of_factor(A, params.k)[np.newaxis], trace=trace)
            else:
                U = _decompose(
                    C, lambda: C.lift(C.leading_of_sum(params.k))[np.newaxis], trace=trace
                )
            return build_model(
                moments,
                U,
                algorithm=self.name,
                names=tasks.names,
                fit_info={"form": params.form},
                shared_mean=mean,
            )

    def adapt_task(self, model: SubspaceModel, task: Task, *, trace: Trace) -> SubspaceModel:
        """Return the model with a new task in the common subspace."""
        del trace
        return adapt_model(model, estimate_moments([task], k=model.k), None)


def _decompose(C: Covariances, decompose: Callable[[], Array], *, trace: Trace) -> Array:
    """Return the bases U (n_tasks or 1, k, d); the objective is half the variance they retain."""

    def solve() -> tuple[Array, float]:
        U = decompose()
        stacked = np.broadcast_to(U, (C.n_tasks, *U.shape[1:]))
        return U, 0.5 * float(np.vdot(C.times_lifted(stacked), stacked))

    return trace.run_once("decomposition", solve)


def _union(tasks: TaskSet) -> Array:
    """Return the rows of all tasks, in the order of the tasks' names."""
    return np.concatenate([task.X for task in tasks.by_name()])
