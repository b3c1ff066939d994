"""Evaluation of models: splits, metrics, parameter selection and comparison.

Everything here works for any algorithm. :mod:`~algorithms.evaluation.splits` divides rows,
:mod:`~algorithms.evaluation.metrics` scores predictions, :mod:`~algorithms.evaluation.selection`
chooses parameters inside the training rows, :mod:`~algorithms.evaluation.search` does so from
outside, and :mod:`~algorithms.evaluation.comparison` compares methods on the same splits.

A row that is used to choose parameters is never used to score the result.
``docs/explanation/evaluation.md`` describes the methods for users.
"""

from algorithms.evaluation.losses import error_rates, held_out_loss, mean_error_rate
from algorithms.evaluation.selection import (
    Selection,
    grid_candidates,
    select_params,
    select_per_task,
)
from algorithms.evaluation.splits import (
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
