"""Expected time and memory of a fit, from the shapes of its tasks and its parameters.

A fit is counted as the operations of its dense linear algebra, the numbers that pass through
memory, and its small steps: calls of Python and NumPy whose time does not depend on the size of the
data. Reference speeds turn these counts into seconds. They hold for one core of a server;
another machine differs by a factor that is about the same for all fits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Self

from algorithms.interface.durations import describe_duration
from algorithms.interface.params import Params
from algorithms.interface.tasks import TaskSummary

#: Size of a number.
VALUE_BYTES: Final = 8
#: A stored value of sparse rows, with its column.
SPARSE_VALUE_BYTES: Final = 12
#: Copies of the rows that most fits have at their peak: the tasks, and standardised rows of them.
DEFAULT_COPIES: Final = 4
_UNITS: Final = ("bytes", "kB", "MB", "GB", "TB", "PB")
#: Operations of dense linear algebra per second on one core, in double precision, for matrices of a
#: few hundred rows.
FLOPS_PER_S: Final = 2e10
#: Numbers per second that simple passes over arrays read, compute and write.
VALUES_PER_S: Final = 2e8
#: Calls of NumPy on small arrays per second.
STEPS_PER_S: Final = 2e5
#: Passes over the rows that most fits make at least: checks, standardisation, scores.
DEFAULT_PASSES: Final = 20
#: Steps of a fit, and of each of its tasks, whatever is computed.
FIT_STEPS: Final = 500
TASK_STEPS: Final = 20
#: Multiple of n³ for an eigendecomposition of order n, and of n d min(n, d) for a thin singular
#: value decomposition.
EIGEN_FLOPS: Final = 5.0
SVD_FLOPS: Final = 10.0


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Peak memory of the tasks and their fit, without the memory of an idle process.

    Parameters
    ----------
    n_bytes
        Expected to be within a factor of 2 of the peak, if it is large.
    largest
        Largest part, such as "the kernel matrix of 70,000 rows".
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


@dataclass(frozen=True, slots=True)
class WorkEstimate:
    """Expected work of a fit.

    Parameters
    ----------
    largest
        Largest part, such as "40 eigendecompositions of the kernel of 20,000 rows".
    remedy
        Parameters or data that need less.
    flops
        Floating-point operations of dense linear algebra.
    values
        Numbers that pass through memory.
    steps
        Calls of functions on small arrays.
    """

    largest: str
    remedy: str
    flops: float = 0.0
    values: float = 0.0
    steps: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds on one core at the reference speeds."""
        return self.flops / FLOPS_PER_S + self.values / VALUES_PER_S + self.steps / STEPS_PER_S

    def describe(self, *, factor: float = 1.0) -> str:
        """Return a phrase such as "about 3 h for 20 passes over the 20,000 rows of 3 tasks".

        Parameters
        ----------
        factor
            Time on a machine relative to that at the reference speeds.
        """
        return f"about {describe_duration(factor * self.seconds)} for {self.largest}"

    def times(self, n: float) -> Self:
        """Return the work of n such fits."""
        return replace(self, flops=n * self.flops, values=n * self.values, steps=n * self.steps)

    def __add__(self, other: "WorkEstimate") -> "WorkEstimate":
        """Return the work of both, described as the larger one."""
        larger = max(self, other, key=lambda work: work.seconds)
        return replace(
            larger,
            flops=self.flops + other.flops,
            values=self.values + other.values,
            steps=self.steps + other.steps,
        )


def estimate_passes(summaries: Sequence[TaskSummary]) -> WorkEstimate:
    """Return the work of some passes over the rows."""
    n, T = n_rows(summaries), len(summaries)
    return WorkEstimate(
        f"{DEFAULT_PASSES:g} passes over the {n:,} rows of {T:,} tasks",
        "use fewer rows, columns or tasks",
        values=DEFAULT_PASSES * rows_bytes(summaries) / VALUE_BYTES,
        steps=FIT_STEPS + TASK_STEPS * T,
    )


def estimate_selection(
    one: WorkEstimate,
    final: WorkEstimate,
    *,
    n_candidates: int,
    n_folds: int,
) -> WorkEstimate:
    """Return the work of a selection by cross-validation and of the final fit.

    Parameters
    ----------
    one
        Work of the fit of one candidate without one fold.
    final
        Work of the fit with all rows.
    """
    n = n_candidates * n_folds
    selection = replace(
        one.times(n),
        largest=f"{n} fits of {n_candidates} candidates, each with {one.largest}",
        remedy=f"use fewer candidates or folds, or {one.remedy.removeprefix('use ')}",
    )
    return selection + final


def count_candidates(params: Params) -> int:
    """Return the number of combinations of the parameter grids."""
    return math.prod(len(set(getattr(params, grid))) for grid in params.GRIDS.values())


def without_fold(summaries: Sequence[TaskSummary], n_folds: int) -> tuple[TaskSummary, ...]:
    """Return the summaries of the training rows of a fold of cross-validation."""
    return with_share(summaries, 1 - 1 / max(n_folds, 2))


def with_share(summaries: Sequence[TaskSummary], share: float) -> tuple[TaskSummary, ...]:
    """Return the summaries of tasks with a share of the rows."""
    return tuple(
        replace(
            summary,
            n_samples=max(math.ceil(share * summary.n_samples), 1),
            n_units=None if summary.n_units is None else max(math.ceil(share * summary.n_units), 1),
            n_stored=None if summary.n_stored is None else math.ceil(share * summary.n_stored),
            labels=None,
        )
        for summary in summaries
    )


def n_rows(summaries: Sequence[TaskSummary]) -> int:
    """Return the number of rows of all tasks."""
    return sum(summary.n_samples for summary in summaries)


def n_outputs(summaries: Sequence[TaskSummary]) -> int:
    """Return the number of functions: one of each task, or of each of more than two classes."""
    return sum(max(summary.n_classes, 1) if summary.n_classes > 2 else 1 for summary in summaries)
