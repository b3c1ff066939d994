"""Rows for a model in files of arrays: those of each task, or a table of all tasks."""

from typing import Final

from algorithms.interface.tasks import Task
from service.datasets.formats.array_names import ChosenArrays, part_of
from service.datasets.formats.npz_arrays import check_table, tasks_of_parts
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.issues import reject

#: Parts that rows for a model have; targets, groups and weights are left out.
_PARTS: Final = ("X", "C", "task", "feature_names")


def options_of_rows(options: ReadOptions) -> ReadOptions:
    """Return the options of an upload that concern rows, which need no targets."""
    entries = [(entry, *entry.partition(":")[::2]) for entry in options.variables]
    kept = tuple(
        entry for entry, name, part in entries if (part or part_of(name)) in (*_PARTS, "tasks")
    )
    return ReadOptions(variables=kept)


def rows_of_parts(chosen: ChosenArrays, limits: Limits) -> tuple[list[Task], list[str] | None]:
    """Return the rows of a file by task, in its order, and the task of each row.

    A table has all its rows in one entry. Without labels, the tasks of its rows are unknown: None.

    Raises
    ------
    Rejected
        The arrays are not rows, or there is not one label for each.
    """
    arrays = {
        name: array for name, array in chosen.arrays.items() if name.rpartition("/")[2] in _PARTS
    }
    is_table, labels = "X" in arrays or "task" in arrays, None
    if is_table:
        check_table(arrays)
        labels = arrays.pop("task", None)
    tasks = tasks_of_parts(chosen._replace(arrays=arrays), ReadOptions(), limits).tasks
    covariances = next((task for task in tasks if task.input != "rows"), None)
    if covariances is not None:
        detail = f"task '{covariances.name}' has covariances; expected rows, in '<task>/X'"
        reject("unexpected-array", detail, task=covariances.name)
    if not is_table:
        return tasks, [task.name for task in tasks for _ in range(task.X.shape[0])]
    return tasks, None if labels is None else labels.tolist()
