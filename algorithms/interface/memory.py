"""Expected memory of a fit, from the shapes of its tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from algorithms.interface.tasks import TaskSummary

#: Size of a number.
VALUE_BYTES: Final = 8
#: A stored value of sparse rows, with its column.
SPARSE_VALUE_BYTES: Final = 12
#: Copies of the rows that most fits have at their peak: the tasks, and standardised rows of them.
DEFAULT_COPIES: Final = 4
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Peak memory of the tasks and their fit, without that of a process that does nothing.

    Parameters
    ----------
    n_bytes
        Expected to be within a factor of 2 of the peak, if it is large.
    largest
        What takes most of it, such as "the kernel matrix of 70,000 rows".
    remedy
        Parameters or data that need less.
    """

    n_bytes: float
    largest: str
    remedy: str

    def describe(self) -> str:
        """Return a phrase such as "about 40 GB for the kernel matrix of 70,000 rows"."""
        return f"about {describe_size(self.n_bytes)} for {self.largest}"


def estimate_rows(
    summaries: Sequence[TaskSummary], *, copies: float = DEFAULT_COPIES
) -> MemoryEstimate:
    """Return the memory of some copies of the rows."""
    n = sum(task.n_samples for task in summaries)
    return MemoryEstimate(
        copies * rows_bytes(summaries),
        f"{copies:g} copies of the {n:,} rows of {len(summaries):,} tasks",
        "use fewer rows, columns or tasks",
    )


def rows_bytes(summaries: Sequence[TaskSummary]) -> float:
    """Return the memory of the rows, or matrices, of all tasks."""
    return float(sum(task_bytes(task) for task in summaries))


def task_bytes(task: TaskSummary) -> int:
    """Return the memory of the rows, or matrices, of a task."""
    if task.n_stored is not None:
        return SPARSE_VALUE_BYTES * task.n_stored
    width = task.n_features**2 if task.input == "covariances" else task.n_features
    return VALUE_BYTES * task.n_samples * width


def describe_size(n_bytes: float) -> str:
    """Return a size such as "2.4 GB"."""
    size, unit = float(n_bytes), 0
    while size >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.3g} {_UNITS[unit]}" if size < 1000 else f"{size:.0f} {_UNITS[unit]}"
