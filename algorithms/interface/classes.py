"""Classes of tasks that lack some of them: a hospital without an event, or without a rare one.

Such a task can have rows of another class later. Tasks are connected if they have a class in
common. A task that has rows of a single class, and every task of a connected set that has half of
its classes on average, has all classes of the set. Others are different problems, such as pairs of
ten digits: each has its own classes.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

Classes = tuple[Any, ...]

#: Smallest mean share of the classes of connected tasks that makes them one problem.
MIN_MEAN_SHARE: Final = 0.5


def complete_classes(classes: Sequence[Classes]) -> list[Classes]:
    """Return the classes of each task: its own, or all that are connected with it.

    Parameters
    ----------
    classes
        Labels of the rows of each task, sorted; empty for a task without labels.
    """
    if len({own for own in classes if own}) <= 1:
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
    completed = {id(labels): tuple(sorted(labels)) for labels in connected.values()}
    of_task = [completed[id(connected[own[0]])] if own else () for own in classes]
    shares = defaultdict(list)
    for own, every in zip(classes, of_task, strict=True):
        shares[every].append(len(own) / max(len(every), 1))
    return [
        every if len(own) == 1 or sum(shares[every]) >= MIN_MEAN_SHARE * len(shares[every]) else own
        for own, every in zip(classes, of_task, strict=True)
    ]
