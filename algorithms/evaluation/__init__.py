"""Evaluation of models: splits, metrics, parameter selection and comparison.

Everything here works for any algorithm. :mod:`~algorithms.splits.splits` divides rows,
:mod:`~algorithms.evaluation.scores.metrics` scores predictions,
:mod:`~algorithms.evaluation.selection.selection` chooses parameters inside the training rows,
:mod:`~algorithms.evaluation.selection.search` does so from outside, and
:mod:`~algorithms.evaluation.comparison.comparison` compares methods on the same splits.

A row that is used to choose parameters is never used to score the result.
``docs/explanation/evaluation.md`` describes the methods for users.
"""

from algorithms.evaluation.scores.losses import error_rates, held_out_loss, mean_error_rate
from algorithms.evaluation.selection.selection import (
    Selection,
    grid_candidates,
    select_params,
    select_per_task,
)
from algorithms.splits.splits import (
    Split,
    fold_split,
    fold_splits,
    folds_of,
    stratified_split,
)

__all__ = [
    "Selection",
    "Split",
    "error_rates",
    "fold_split",
    "fold_splits",
    "folds_of",
    "grid_candidates",
    "held_out_loss",
    "mean_error_rate",
    "select_params",
    "select_per_task",
    "stratified_split",
]
