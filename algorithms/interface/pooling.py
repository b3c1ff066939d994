"""Checks of tasks whose rows are pooled."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import TaskSummary


def check_same_classes(names: Sequence[str], classes: Sequence[tuple[Any, ...] | None]) -> None:
    """Raise InvalidData if tasks to be pooled have different labels."""
    for name, one in zip(names, classes, strict=True):
        if one != classes[0]:
            raise InvalidData(
                f"task '{names[0]}' has the classes {classes[0]}, task '{name}' {one}; "
                "form 'pooled' needs the same classes in all tasks: use form 'task'",
                task=name,
            )


def check_known_labels(summaries: Sequence[TaskSummary]) -> None:
    """Raise InvalidData if tasks to be pooled are known to have different labels."""
    labels = [task.labels for task in summaries if task.labels is not None]
    if len(labels) == len(summaries):
        classes = [tuple(np.unique(one).tolist()) for one in labels]
        check_same_classes([task.name for task in summaries], classes)
