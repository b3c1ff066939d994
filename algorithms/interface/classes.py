"""Classes of tasks that lack some of them: a hospital without an event, or without a rare one.

Such a task can have rows of another class later. Tasks are connected if they have a class in
common. A task that has rows of a single class has all classes of its connected set, and so have all
tasks of a set that is one problem: they have at least half of its classes on average, and one of
them has all, or they have 70 % on average. Others are different problems, such as pairs of ten
digits, or 'healthy or flu' beside 'healthy or cold': each has its own classes.

Few rows lack classes by chance. So the number of classes of a task is relative to the number that
as many rows of the joint problem would have on average, C - Σ_c (1 - p_c)^n. The shares p_c count
each task's rows as equally many of each of its classes. Where only this makes tasks one problem,
chance must also explain the pattern: no two classes are in no task together that chance would
hardly keep apart, as 'flu' and 'cold' in six rows of ten tasks each.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Final

Classes = tuple[Any, ...]

#: Smallest mean share of the classes of connected tasks that makes them one problem, if one of them
#: has all classes, and if none has.
MIN_MEAN_SHARE: Final = 0.5
MIN_MEAN_SHARE_WITHOUT_ALL: Final = 0.7
#: Smallest probability of no task with both of two classes that chance may keep apart, and number
#: of classes, the most frequent ones, of which all pairs are tested.
MIN_APART_P: Final = 0.01
MAX_TESTED: Final = 30
#: So many rows have every class.
_MANY: Final = 1e9


def complete_classes(
    classes: Sequence[Classes], n_rows: Sequence[float] | None = None
) -> list[Classes]:
    """Return the classes of each task: its own, or all that are connected with it.

    Parameters
    ----------
    classes
        Labels of the rows of each task, sorted; empty for a task without labels.
    n_rows
        Number of these rows; so many that they have every class of their task if None.
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
    sets = defaultdict(list)
    for own, every, n in zip(classes, of_task, n_rows or [_MANY] * len(classes), strict=True):
        if own:
            sets[every].append((own, n))
    are_one = {every: _is_one_problem(every, found) for every, found in sets.items()}
    return [
        every if len(own) == 1 or are_one.get(every) else own
        for own, every in zip(classes, of_task, strict=True)
    ]


def _is_one_problem(every: Classes, tasks: Sequence[tuple[Classes, float]]) -> bool:
    """Return whether connected tasks have so many of their classes that they are one problem.

    Parameters
    ----------
    tasks
        Classes and number of rows of each.
    """
    has_all = any(len(own) == len(every) for own, _ in tasks)
    least = MIN_MEAN_SHARE if has_all else MIN_MEAN_SHARE_WITHOUT_ALL
    counts = dict.fromkeys(every, 0.0)
    for own, n in tasks:
        for label in own:
            counts[label] += n / len(own)
    total = sum(counts.values())
    shares = {label: count / total for label, count in counts.items()}
    missing = {n: sum((1.0 - p) ** n for p in shares.values()) for _, n in tasks}
    relative = [len(own) / (len(every) - missing[n]) for own, n in tasks]
    if sum(relative) < least * len(tasks):
        return False
    is_plain = sum(len(own) for own, _ in tasks) >= least * len(every) * len(tasks)
    return is_plain or has_all or not _has_classes_apart(shares, tasks)


def _has_classes_apart(shares: Mapping[Any, float], tasks: Sequence[tuple[Classes, float]]) -> bool:
    """Return whether two classes are in no task together that chance would hardly keep apart.

    That is if as many tasks with each class, drawn at random, would hardly have none in common, nor
    would as many rows of the joint problem: few rows have few classes.
    """
    members: dict[Any, set[int]] = {label: set() for label in shares}
    for t, (own, _) in enumerate(tasks):
        for label in own:
            members[label].add(t)
    frequent = sorted(members, key=lambda label: -len(members[label]))[:MAX_TESTED]
    for a, b in combinations(frequent, 2):
        if not members[a].isdisjoint(members[b]):
            continue
        n_a, n_b, p, q = len(members[a]), len(members[b]), shares[a], shares[b]
        by_tasks = math.comb(len(tasks) - n_a, n_b) / math.comb(len(tasks), n_b)
        neither = max(1.0 - p - q, 0.0)
        by_rows = math.prod((1.0 - p) ** n + (1.0 - q) ** n - neither**n for _, n in tasks)
        if max(by_tasks, by_rows) < MIN_APART_P:
            return True
    return False
