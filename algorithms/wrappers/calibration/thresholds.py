"""Costs of missing a class, by which a calibrated model chooses its answers.

A row gets the class k with the largest p_k c_k. With c_k = 1 that is the most probable class, which
a rare class hardly ever is. With c_k = 1/π_k, where π_k is its share of the training rows, a class
is answered if it is more probable than in general, relative to the others.
"""

from collections.abc import Sequence

import numpy as np

from algorithms.interface.errors import InvalidParams
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.weights import weigh, weights_of
from algorithms.numerics.arrays import Array
from algorithms.wrappers.calibration.options import Calibration


def check_threshold(options: Calibration, summaries: Sequence[TaskSummary]) -> None:
    """Raise InvalidParams if the tasks have no classes, or lack one that has a cost."""
    if options.threshold is None:
        return
    if any(task.target != "classes" for task in summaries):
        raise InvalidParams(
            "a threshold chooses between classes, but the targets are numbers; remove it",
            field="threshold",
        )
    counts = [task.class_counts for task in summaries if task.class_counts is not None]
    if options.threshold == "prevalence" or len(counts) < len(summaries):
        return
    known = {label for of_task in counts for label in of_task}
    for label in options.threshold:
        if label not in known:
            raise InvalidParams(
                f"the threshold has a cost of the class '{label}', which no task has; the classes "
                f"are: {', '.join(sorted(known)[:20])}",
                field=f"threshold/{label}",
            )


def costs_of(options: Calibration, tasks: TaskSet) -> dict[str, Array]:
    """Return the cost of missing each class of each task, (n_classes,); empty without any."""
    if options.threshold is None:
        return {}
    given = _inverse_shares(tasks) if options.threshold == "prevalence" else options.threshold
    return {
        task.name: np.array([given.get(str(label), 1.0) for label in task.class_labels()])
        for task in tasks
        if task.y is not None
    }


def _inverse_shares(tasks: TaskSet) -> dict[str, float]:
    """Return the inverse share of each class, over the rows of all tasks as a fit weighs them."""
    totals: dict[str, float] = {}
    for task in weigh(tasks):
        assert task.y is not None  # checked
        weights = weights_of(task)
        for label in np.unique(task.y):
            total = float(weights[task.y == label].sum())
            totals[str(label)] = totals.get(str(label), 0.0) + total
    everything = sum(totals.values())
    return {label: everything / total for label, total in totals.items()}
