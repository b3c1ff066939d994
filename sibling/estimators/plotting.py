"""Sources of the plots of an estimator."""

from typing import Any

import numpy as np

from algorithms.interface.errors import InvalidData
from sibling.estimators.inputs import check_by_task, is_by_task, read_names
from sibling.plots import PLOTS, HeldOut, Source


def source_of(estimator: Any, X: Any, y: Any, tasks: Any) -> Source:
    """Return the source of the plots of a fitted estimator.

    Parameters
    ----------
    X, y, tasks
        Rows for the plots of predictions, as for ``score``; None without rows.
    """
    steps = getattr(estimator, "history_", None)
    rows = None if X is None else _predicted(estimator, X, y, tasks)
    calibration = getattr(estimator, "calibration_", None)
    report = None if calibration is None else {"calibration": calibration}
    return Source(estimator.model_, steps, report, rows)


def plots_of_rows(estimator: Any) -> list[str]:
    """Return the names of the plots that a fitted estimator has if it gets rows and targets."""
    if not hasattr(estimator, "predict"):
        return []
    kind = "classes" if hasattr(estimator, "classes_") else "numbers"
    model = estimator.model_
    has_roc = hasattr(estimator, "decision_function") and any(
        len(model.classes(task)) == 2 for task in model.tasks
    )
    return [
        name for name, plot in PLOTS.items() if plot.target == kind and (name != "roc" or has_roc)
    ]


def _predicted(estimator: Any, X: Any, y: Any, tasks: Any) -> HeldOut:
    """Return rows with their predictions, and with their scores if there are classes."""
    has_classes = hasattr(estimator, "classes_")
    if not hasattr(estimator, "predict"):
        raise InvalidData("the model predicts no targets, so its plots take no rows; leave out X")
    if y is None:
        raise InvalidData("X is given without y; plots of rows compare predictions with y")
    check_by_task(X, y, "y")
    parts = (
        [(X[name], y[name], f" of task '{name}'") for name in X] if is_by_task(X) else [(X, y, "")]
    )
    for rows, targets, where in parts:
        _check_targets(rows, targets, where, has_classes=has_classes)
    if is_by_task(X):
        predicted = estimator.predict(X)
        task = np.repeat(
            list(predicted), [len(task_outputs) for task_outputs in predicted.values()]
        )
        true = np.concatenate([np.asarray(y[name]) for name in predicted])
        outputs = np.concatenate(list(predicted.values()))
        rows_of = dict(X)
    else:
        outputs, true = estimator.predict(X, tasks=tasks), np.asarray(y)
        row_tasks = tasks if tasks is not None else estimator.tasks_[0]
        names, codes = read_names(row_tasks, len(true))
        task = np.array(names)[codes]
        rows_of = {name: _take(X, np.flatnonzero(codes == i)) for i, name in enumerate(names)}
    if not has_classes:
        return HeldOut(task, np.asarray(true, float), np.asarray(outputs, float))
    scores = {}
    if hasattr(estimator, "decision_function"):
        for name, rows in rows_of.items():
            values = np.asarray(estimator.decision_function(rows, tasks=str(name)))
            scores[str(name)] = (values, estimator.model_.classes(str(name)))
    return HeldOut(task, true, outputs, scores)


def _check_targets(X: Any, y: Any, where: str, *, has_classes: bool) -> None:
    """Raise InvalidData if there is not one target for each row, or a target is not a number."""
    values, n_rows = np.asarray(y), X.shape[0] if hasattr(X, "shape") else len(X)
    if values.shape != (n_rows,):
        raise InvalidData(
            f"expected y{where} for each of the {n_rows} rows, got shape {values.shape}"
        )
    if not has_classes and values.dtype.kind not in "biuf":
        raise InvalidData(f"the model predicts numbers, but y{where} has {values.tolist()[0]!r}")


def _take(X: Any, rows: Any) -> Any:
    """Return some rows of an array or a data frame."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "column_names"):  # Arrow
        return X.take(rows)
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]
