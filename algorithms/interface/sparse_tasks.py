"""Checks of sparse tasks: which algorithms take them, and how large they may be.

Linear methods replace sparse rows by their coordinates in the span of all rows. These are dense,
but there are at most as many as rows.
"""

from collections.abc import Sequence
from typing import Final

from algorithms.interface.errors import InvalidData
from algorithms.interface.memory import VALUE_BYTES, describe_size
from algorithms.interface.tasks import TaskSummary

#: Maximum number of coordinates of the sparse rows of all tasks, which take 200 MB. Beyond it, the
#: decomposition of the Gram matrix takes minutes, and its copies take gigabytes.
MAX_COORDINATES: Final = 25_000_000


def check_sparse(summaries: Sequence[TaskSummary], *, algorithm: str) -> None:
    """Raise InvalidData if only some tasks are sparse, or they are too large together."""
    sparse = next((task for task in summaries if task.is_sparse), None)
    dense = next((task for task in summaries if not task.is_sparse), None)
    if sparse is None:
        return
    if dense is not None:
        raise InvalidData(
            f"task '{sparse.name}' is sparse, task '{dense.name}' is dense; {algorithm} needs the "
            "same form in every task: upload all tasks as sparse matrices, or all as arrays",
            task=dense.name,
        )
    n, d = sum(task.n_samples for task in summaries), sparse.n_features
    if n * min(n, d) > MAX_COORDINATES:
        raise InvalidData(
            f"the tasks are sparse and have {n} rows of {d} columns in total; {algorithm} needs "
            f"rows times the smaller of rows and columns to be at most {MAX_COORDINATES} (a dense "
            f"copy takes {_dense_size(summaries)}): train with fewer rows or columns"
        )


def refuse_sparse(
    summaries: Sequence[TaskSummary],
    *,
    what: str,
    remedy: str = "use an algorithm that takes sparse rows, or upload arrays",
) -> None:
    """Raise InvalidData with the size of a dense copy if a task is sparse.

    Parameters
    ----------
    what
        What takes no sparse rows: an algorithm, perhaps with the value of a parameter.
    """
    sparse = next((task for task in summaries if task.is_sparse), None)
    if sparse is None or sparse.n_stored is None:
        return
    n, d = sparse.n_samples, sparse.n_features
    raise InvalidData(
        f"task '{sparse.name}' is sparse ({n} rows, {d} columns, "
        f"{sparse.n_stored / (n * d):.2%} of the values stored); {what} needs a dense copy, which "
        f"takes {_dense_size(summaries)} for all tasks: {remedy}",
        task=sparse.name,
    )


def refuse_sparse_adaptation(summaries: Sequence[TaskSummary], *, algorithm: str) -> None:
    """Raise InvalidData if a task that is to be added to a model is sparse."""
    refuse_sparse(
        summaries,
        what=f"the adaptation of a model of {algorithm}",
        remedy="upload arrays, or train a new model with all tasks",
    )


def _dense_size(summaries: Sequence[TaskSummary]) -> str:
    """Return the size of a dense copy of the tasks, such as "2.4 GB"."""
    n_values = sum(task.n_samples * task.n_features for task in summaries)
    return describe_size(VALUE_BYTES * n_values)
