"""Warnings about numeric targets that may be class codes."""

from collections.abc import Sequence

from algorithms.interface.task_values import class_codes
from algorithms.interface.tasks import Task


def warn_of_codes(tasks: Sequence[Task]) -> list[str]:
    """Return a warning if the numeric targets of all tasks together look like class codes."""
    numbers = [task.y for task in tasks if task.y is not None and task.target == "numbers"]
    values = class_codes(numbers)
    if not values:
        return []
    listed = ", ".join(f"{value:.15g}" for value in values)
    warning = (
        f"all targets are integers with {len(values)} distinct values ({listed}) and are used as "
        "numbers, for regression; if they are class codes, upload with target_kind=classes, and if "
        "they are numbers, with target_kind=numbers"
    )
    return [warning]
