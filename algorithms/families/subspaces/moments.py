"""Mean and covariance of each task, and the retained variance ratio of subspaces."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.tasks import Task, TaskSummary, check_magnitudes
from algorithms.interface.work import (
    VALUE_BYTES,
    MemoryEstimate,
    estimate_rows,
    rows_bytes,
)
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import is_flat
from algorithms.numerics.covariances import (
    MAX_DENSE_FEATURES,
    MIN_THIN_RATIO,
    Covariances,
    centre_rows,
    covariance_factor,
    from_dense,
    from_factors,
)

#: Stacks of matrices, and of rows as thin factors, at the peak of a fit.
DENSE_COPIES = 3
THIN_COPIES = 6
#: Range of total variances; squares outside may overflow or underflow.
VARIANCE_RANGE = (1e-100, 1e100)


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Means and covariances of tasks.

    Parameters
    ----------
    means : (n_tasks, n_features)
        Zero for tasks of covariance matrices.
    C
        Covariance matrices: unbiased for rows, the mean matrix otherwise.
    """

    names: tuple[str, ...]
    means: Array
    C: Covariances

    @property
    def n_features(self) -> int:
        """Number of columns of the tasks."""
        return int(self.means.shape[1])


def estimate_moments(tasks: Sequence[Task], *, k: int) -> Moments:
    """Return means and covariances, in the cheapest form for subspaces of k dimensions.

    Raises
    ------
    InvalidData
        A value or a variance is too large or too small.
    """
    check_magnitudes(tasks)
    names = tuple(task.name for task in tasks)
    if all(task.input == "rows" for task in tasks):
        means, factors = centre_rows([task.X for task in tasks])
        C = from_factors(factors, k=k)
    else:
        means = np.stack([task_mean(task) for task in tasks])
        C = from_dense(np.stack([task_covariance(task) for task in tasks]))
    _check_range(names, C.traces)
    return Moments(names, means, C)


def estimate_memory(summaries: Sequence[TaskSummary]) -> MemoryEstimate:
    """Return the expected memory of the rows and of the result of :func:`from_factors`."""
    d, T = summaries[0].n_features, len(summaries)
    if any(task.input == "covariances" for task in summaries):
        n_bytes = rows_bytes(summaries) + DENSE_COPIES * VALUE_BYTES * T * d**2
    else:
        counts = [task.n_samples for task in summaries]
        order = min(d, sum(counts)) if d > MAX_DENSE_FEATURES else d
        if order <= MAX_DENSE_FEATURES or MIN_THIN_RATIO * max(counts) > order:
            n_bytes = 2 * rows_bytes(summaries) + DENSE_COPIES * VALUE_BYTES * T * order**2
            d = order
        else:
            return estimate_rows(summaries, copies=THIN_COPIES)
    return MemoryEstimate(
        n_bytes,
        f"the covariance matrices of {T:,} tasks with {d:,} columns, and their rows",
        "use fewer columns or tasks",
    )


def max_matrix_order(tasks: Iterable[Task]) -> int:
    """Return the order of the largest matrix in PCA of these tasks: the rank of all rows."""
    task_list = list(tasks)
    d = task_list[0].n_features
    n_rows = sum(task.n_samples if task.input == "rows" else d for task in task_list)
    return min(d, n_rows)


def task_mean(task: Task) -> Array:
    """Return the mean of the rows, (n_features,); zero for a task of covariance matrices."""
    return task.X.mean(axis=0) if task.input == "rows" else np.zeros(task.n_features)


def task_covariance(task: Task) -> Array:
    """Return the unbiased covariance of the rows, or the mean of the matrices, (d, d)."""
    if task.input == "covariances":
        return np.asarray(task.X.mean(axis=0))
    _, A = covariance_factor(task.X)
    return A.T @ A


def retained_ratio(retained: Array, total: Array) -> Array:
    """Return the retained variance ratio, eq. 6; 1 if the total variance is 0."""
    ratio = np.divide(retained, total, out=np.ones_like(total), where=total > 0)
    return np.clip(ratio, 0.0, 1.0)


def held_out_ratio(task: Task, *, mean: Array, U: Array) -> float:
    """Return the share of the variance of held-out samples that a subspace retains, eq. 6.

    Rows are centred by the mean of the *training* rows, as in predictions. So a single held-out row
    has a variance, too.

    Parameters
    ----------
    mean : (d,)
    U : (k, d)
        Orthonormal rows.
    """
    if task.input == "covariances":
        C = task_covariance(task)
        retained, total = np.vdot(U @ C, U), np.trace(C)
    else:
        rows = task.X - mean
        rows[:, is_flat(np.mean(rows**2, axis=0), np.abs(mean))] = 0.0
        retained, total = np.sum((rows @ U.T) ** 2), np.sum(rows**2)
    return float(retained_ratio(np.asarray(retained), np.asarray(total)))


def check_dimension(summaries: Sequence[TaskSummary], *, k: int) -> None:
    """Raise InvalidParams if k is larger than the number of features."""
    d = summaries[0].n_features
    if k > d:
        raise InvalidParams(
            f"k = {k} is more than n_features = {d}; set k to at most {d}",
            field="k",
        )


def _check_range(names: Sequence[str], traces: Array) -> None:
    low, high = VARIANCE_RANGE
    bad = ~(((traces >= low) & (traces <= high)) | (traces == 0))
    if bad.any():
        t = int(np.flatnonzero(bad)[0])
        raise InvalidData(
            f"task '{names[t]}' has total variance {traces[t]:.3g}; expected zero or "
            f"{low:g} to {high:g}: rescale the data",
            task=names[t],
        )
