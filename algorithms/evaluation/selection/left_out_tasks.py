"""Scores on tasks that are left out of the training, for methods that answer for new tasks."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from algorithms.evaluation.scores.metrics import Metric
from algorithms.evaluation.selection.validation import (
    Fit,
    Scores,
    concatenate_scores,
    score_model,
)
from algorithms.interface.errors import Diverged
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.splits.splits import Split
from algorithms.wrappers.calibration.left_out_tasks import fold_tasks
from algorithms.wrappers.new_tasks import with_new_tasks

#: Number of parts into which the tasks are divided.
N_TASK_FOLDS: Final = 5


def score_left_out_tasks(
    fit: Fit, tasks: TaskSet, metrics: Sequence[Metric], *, seed: int, trace: Trace
) -> Scores:
    """Return the scores of all rows of each task, by a model without the task.

    Parameters
    ----------
    fit
        Called with the other tasks; returns one model.

    Raises
    ------
    AlgorithmError
        There is one task only, or a fit without some tasks fails or has no common part.
    """
    fold_of = fold_tasks(tasks.names, n_folds=N_TASK_FOLDS, seed=seed)
    pieces = []
    for fold in trace.parts(sorted(set(fold_of.values()))):
        train, test = (
            TaskSet(tuple(task for task in tasks if (fold_of[task.name] == fold) == is_test))
            for is_test in (False, True)
        )
        (model,) = fit(train, np.random.default_rng([seed, fold]))
        if isinstance(model, Diverged):
            raise model
        extended = with_new_tasks(model, test.names)
        pieces.append(score_model(extended, Split(train, test), tasks.names, metrics))
    return concatenate_scores(pieces)
