"""Classes of tasks, of which some have rows of a single class only.

Such a task can have rows of another class later: a hospital without an event, for example. So it
has also the classes of the other tasks that have its class.
"""

from collections.abc import Hashable, Sequence
from typing import Any

Classes = tuple[Any, ...]


def complete_classes(classes: Sequence[Classes]) -> list[Classes]:
    """Return the classes of each task: its own, or if it has one, those of all tasks that have it.

    Parameters
    ----------
    classes
        Labels of the rows of each task, sorted; empty for a task without labels.
    """
    together: dict[Hashable, set[Any]] = {}
    for own in classes:
        for label in own:
            together.setdefault(label, set()).update(own)
    return [tuple(sorted(together[own[0]])) if len(own) == 1 else own for own in classes]
