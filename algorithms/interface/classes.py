"""Classes of tasks, of which some have rows of a single class only.

Such a task can have rows of another class later: a hospital without an event, for example. So it
has also the classes of the tasks that have its class, and of those that share a class with them.
"""

from collections.abc import Sequence
from typing import Any

Classes = tuple[Any, ...]


def complete_classes(classes: Sequence[Classes]) -> list[Classes]:
    """Return the classes of each task: its own, or if it has one, all that are connected with it.

    Parameters
    ----------
    classes
        Labels of the rows of each task, sorted; empty for a task without labels.
    """
    if all(len(own) != 1 for own in classes):
        return list(classes)
    connected: dict[Any, set[Any]] = {}
    for own in set(classes):
        # the smaller sets join the largest, so that the time is nearly linear
        largest = max((connected.get(label, {label}) for label in own), key=len, default=set())
        for label in own:
            joining = connected.get(label, {label})
            if joining is not largest:
                largest |= joining
                connected.update(dict.fromkeys(joining, largest))
        connected.update(dict.fromkeys(own, largest))
    completed = {id(labels): labels for labels in connected.values()}
    tuples = {key: tuple(sorted(labels)) for key, labels in completed.items()}
    return [tuples[id(connected[own[0]])] if len(own) == 1 else own for own in classes]
