"""Judging what was learned: splits, metrics, selection, cross-validation."""

from algorithms.evaluation.metrics import error_rates, mean_error_rate
from algorithms.evaluation.selection import Selection, select_params
from algorithms.evaluation.splits import Split, fold_split, stratified_folds, stratified_split

__all__ = [
    "Selection",
    "Split",
    "error_rates",
    "fold_split",
    "mean_error_rate",
    "select_params",
    "stratified_folds",
    "stratified_split",
]
