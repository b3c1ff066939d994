"""Expected work of all kinds of PCA: covariances, and their eigendecompositions."""

from collections.abc import Sequence
from typing import Final

from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import (
    EIGEN_FLOPS,
    FIT_STEPS,
    VALUE_BYTES,
    WorkEstimate,
    n_rows,
    rows_bytes,
)
from algorithms.numerics.covariances import MAX_DENSE_FEATURES, MIN_THIN_RATIO

#: Passes over the rows, and steps of each task.
PASSES: Final = 5.0
TASK_STEPS: Final = 10
_REMEDY: Final = "use fewer columns or tasks"


def matrix_order(summaries: Sequence[TaskSummary]) -> int:
    """Return the order of the covariance matrices, which is the rank of all rows if it is small."""
    d = summaries[0].n_features
    if d <= MAX_DENSE_FEATURES or any(summary.input == "covariances" for summary in summaries):
        return d
    return min(d, n_rows(summaries))


def matrix_values(summaries: Sequence[TaskSummary]) -> float:
    """Return the numbers that are read in a product with the covariances of all tasks."""
    order = matrix_order(summaries)
    if any(summary.input == "covariances" for summary in summaries):
        return float(len(summaries) * order**2)
    largest = max(summary.n_samples for summary in summaries)
    is_thin = order > MAX_DENSE_FEATURES and MIN_THIN_RATIO * largest <= order
    if not is_thin:
        return float(len(summaries) * order**2)
    return float(sum(2 * summary.n_samples * order for summary in summaries))


def estimate_pca(summaries: Sequence[TaskSummary], *, n_eigen: int) -> WorkEstimate:
    """Return the work of the covariances of all tasks, and of some eigendecompositions."""
    d, order, T = summaries[0].n_features, matrix_order(summaries), len(summaries)
    rows = [summary.n_samples for summary in summaries if summary.input == "rows"]
    rank = min(order, max(rows, default=order))
    n = n_rows(summaries)
    span = EIGEN_FLOPS * order * n * d if order < d else 0.0
    return WorkEstimate(
        f"{n_eigen:,} eigendecompositions of {order:,} columns, for {T:,} tasks",
        _REMEDY,
        flops=span
        + 2.0 * sum(rows) * order * rank
        + n_eigen * EIGEN_FLOPS * order * rank * min(order, 4 * rank),
        values=PASSES * rows_bytes(summaries) / VALUE_BYTES,
        steps=FIT_STEPS + TASK_STEPS * T,
    )


def estimate_coupled(summaries: Sequence[TaskSummary], *, n_products: float) -> WorkEstimate:
    """Return the work of products with the covariances of all tasks."""
    return WorkEstimate(
        f"{n_products:,.0f} products with the covariances of {len(summaries):,} tasks of "
        f"{summaries[0].n_features:,} columns",
        _REMEDY,
        values=n_products * matrix_values(summaries),
        steps=n_products * TASK_STEPS,
    )
