"""The base class of all kinds of PCA."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from algorithms.families.subspaces.model import SubspaceModel
from algorithms.families.subspaces.moments import check_dimension, estimate_memory, max_matrix_order
from algorithms.families.subspaces.params import SubspaceParams
from algorithms.families.subspaces.work import estimate_pca
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.needs import Needs
from algorithms.interface.tasks import TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.work import MemoryEstimate, WorkEstimate
from algorithms.numerics.threads import limit_blas_threads

P = TypeVar("P", bound=SubspaceParams)


class SubspaceAlgorithm(Algorithm[P, SubspaceModel]):
    """Base class: a subspace for each task, or one for all, from rows or covariance matrices."""

    needs = Needs(same_features=True, covariances=True, min_samples=2)
    monotone = "up"
    Model = SubspaceModel

    def check(self, summaries: Sequence[TaskSummary], params: P) -> None:
        """Raise InvalidData or InvalidParams if the tasks do not meet the requirements."""
        super().check(summaries, params)
        check_dimension(summaries, k=params.k)

    def memory(self, summaries: Sequence[TaskSummary], params: P) -> MemoryEstimate:
        """Return the expected memory of rows and covariance matrices."""
        del params
        return estimate_memory(summaries)

    def work(self, summaries: Sequence[TaskSummary], params: P) -> WorkEstimate:
        """Return the work of the covariances of all tasks and their eigendecompositions."""
        del params
        return estimate_pca(summaries, n_eigen=len(summaries))

    @contextmanager
    def checked(self, tasks: TaskSet, params: P) -> Iterator[None]:
        """Check the tasks, then compute small problems in one thread.

        So results do not depend on the number of cores.
        """
        self.check(tasks.summaries(), params)
        check_magnitudes(tasks)
        with limit_blas_threads(max_matrix_order(tasks)):
            yield
