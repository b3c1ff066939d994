"""Expected work of the preparation of tasks for linear methods."""

from collections.abc import Sequence
from typing import Final

from algorithms.interface.memory import VALUE_BYTES, rows_bytes
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import EIGEN_FLOPS, FIT_STEPS, SVD_FLOPS, WorkEstimate, n_rows
from algorithms.linear.bases import Kernel

#: Passes over the rows, and calls of each task: targets, standardisation, compression and scores.
PASSES: Final = 14.0
TASK_STEPS: Final = 40
#: Numbers for each entry of a kernel matrix.
KERNEL_VALUES: Final = 7.0


def n_coordinates(summaries: Sequence[TaskSummary], *, kernel: Kernel = "linear") -> int:
    """Return the number of coordinates of the rows."""
    n = n_rows(summaries)
    return n if kernel != "linear" else min(summaries[0].n_features, n)


def estimate_preparation(
    summaries: Sequence[TaskSummary], *, kernel: Kernel = "linear"
) -> WorkEstimate:
    """Return the work of the design: standardised rows, and coordinates of their span or kernel."""
    n, d, T = n_rows(summaries), summaries[0].n_features, len(summaries)
    values = PASSES * rows_bytes(summaries) / VALUE_BYTES
    steps = FIT_STEPS + TASK_STEPS * T
    if kernel != "linear" or n < d:
        flops = EIGEN_FLOPS * n**3 + 2.0 * n**2 * d
        if kernel == "linear":
            flops = SVD_FLOPS * n**2 * d
        return WorkEstimate(
            f"the decomposition of the Gram matrix of {n:,} rows",
            "use fewer rows or kernel 'linear'",
            flops=flops,
            values=values + KERNEL_VALUES * n**2,
            steps=steps,
        )
    return WorkEstimate(
        f"the preparation of the {n:,} rows of {T:,} tasks",
        "use fewer rows, columns or tasks",
        flops=sum(2.0 * one.n_samples * d * min(one.n_samples, d) for one in summaries),
        values=values,
        steps=steps,
    )
