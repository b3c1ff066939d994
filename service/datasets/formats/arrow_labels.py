"""Columns of an Arrow table that are not features: tasks, targets, groups and weights."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from algorithms.interface.task_values import label_problem
from algorithms.wrappers.preparation.arrow_columns import decoded
from algorithms.wrappers.preparation.column_matching import clean_name
from algorithms.wrappers.preparation.encoder import is_text
from service.datasets.formats.options import Limits, TargetKind
from service.datasets.formats.validation import Target, as_targets, check_name
from service.datasets.issues import Rejected, ValidationIssue, ValidationIssues, reject


def read_task_names(
    column: pa.ChunkedArray, name: str, limits: Limits
) -> tuple[NDArray[np.int32], list[str]]:
    """Return the position of each row's task in the names of the tasks, and these names.

    Tasks keep the order of their first rows.
    """
    texts = _texts(column, name, "the name of a task")
    issues = ValidationIssues()
    position_of: dict[str, int] = {}
    unique_texts = texts.unique().to_pylist()
    for text in unique_texts:
        try:
            task = check_name(clean_name(text), limits, what="task")
        except Rejected as rejected:
            row = int(pc.index(texts, text).as_py())
            code = rejected.issues[0].code if text.strip() else "empty-cell"
            detail = f"row {row}, column '{name}': {rejected.issues[0].detail}"
            issues.add(code, detail, row=row, column=name)
        else:
            position_of.setdefault(task, len(position_of))
    issues.check()
    codes = pc.index_in(texts, pa.array(unique_texts, texts.type)).to_numpy()
    merged = np.array([position_of[clean_name(t)] for t in unique_texts])
    return merged[codes].astype(np.int32), list(position_of)


def read_target(column: pa.ChunkedArray, name: str, kind: TargetKind) -> Target:
    """Return the targets as numbers or labels, without the rows that have none."""
    column = decoded(column)
    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    if column.null_count == len(column):
        detail = f"the target column '{name}' has no values; fill in the targets of some rows"
        reject("empty-cell", detail, column=name)
    if not column.null_count:
        return Target(_targets(column, name, kind))
    rows = np.flatnonzero(np.asarray(pc.is_valid(column)))
    return Target(_targets(column.drop_null(), name, kind, rows), rows)


def _targets(
    column: pa.ChunkedArray, name: str, kind: TargetKind, rows: NDArray[np.intp] | None = None
) -> NDArray[Any]:
    """Return complete targets as numbers, or as labels."""
    if pa.types.is_boolean(column.type) or not is_text(column.type):
        values = column.to_numpy()
        if values.dtype.kind not in "biuf":
            detail = f"column '{name}' has targets of type {column.type}; use numbers or text"
            reject("unsupported-dtype", detail, column=name)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            wrong = int(np.flatnonzero(~np.isfinite(values))[0])
            row = wrong if rows is None else int(rows[wrong])
            detail = f"row {row}, column '{name}': the target is {values[wrong]}"
            reject("not-finite", f"{detail}, expected a finite number", row=row, column=name)
    else:
        values = np.array([text.strip() for text in column.to_pylist()])
    try:
        return as_targets(values, kind)
    except Rejected as rejected:
        raise Rejected(*(_in_column(issue, name, rows) for issue in rejected.issues)) from None


def _in_column(issue: ValidationIssue, name: str, rows: NDArray[np.intp] | None) -> ValidationIssue:
    """Return an issue of targets with their column, and with the row in the table."""
    if issue.row is None:
        return replace(issue, detail=f"column '{name}': {issue.detail}", column=name)
    row = issue.row if rows is None else int(rows[issue.row])
    reason = issue.detail.removeprefix(f"row {issue.row}: ")
    return replace(issue, detail=f"row {row}, column '{name}': {reason}", row=row, column=name)


def read_groups(column: pa.ChunkedArray, name: str) -> NDArray[Any]:
    """Return the label of each row's group as text."""
    texts = _texts(column, name, "the group")
    labels = np.array([text.strip() for text in texts.to_pylist()])
    for label in np.unique(labels).tolist():
        problem = label_problem(label) if label else "a group is empty; give it a name"
        if problem is not None:
            row = int(np.flatnonzero(labels == label)[0])
            reject("invalid-label", f"row {row}, column '{name}': {problem}", row=row, column=name)
    return labels


def read_weights(column: pa.ChunkedArray, name: str) -> NDArray[np.float64]:
    """Return the weight of each row.

    Raises
    ------
    Rejected
        With the location of each weight that is missing, negative or not a finite number.
    """
    column = decoded(column)
    _check_complete(column, name, "the weight")
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        detail = f"column '{name}' has values of type {column.type}; expected weights as numbers"
        reject("not-a-number", detail, column=name)
    weights = np.asarray(column.to_numpy(), dtype=np.float64)
    issues = ValidationIssues()
    for row in np.flatnonzero(~(np.isfinite(weights) & (weights >= 0))).tolist():
        detail = f"row {row}, column '{name}': the weight is {weights[row]:g}, expected a finite"
        issues.add("invalid-weight", f"{detail} number of at least 0", row=row, column=name)
    issues.check()
    return weights


def _texts(column: pa.ChunkedArray, name: str, noun: str) -> pa.ChunkedArray:
    """Return a column of text or integers as text."""
    column = decoded(column)
    _check_complete(column, name, noun)
    if not (is_text(column.type) or pa.types.is_integer(column.type)):
        detail = f"column '{name}' has values of type {column.type}; expected {noun} as text"
        reject("unsupported-dtype", f"{detail} or as an integer", column=name)
    return column.cast(pa.string())


def _check_complete(column: pa.ChunkedArray, name: str, noun: str) -> None:
    """Raise Rejected with each row that has no value."""
    if not column.null_count:
        return
    issues = ValidationIssues()
    for row in np.flatnonzero(np.asarray(pc.is_null(column))).tolist():
        detail = f"row {row}, column '{name}': {noun} is missing; add a value or remove the row"
        issues.add("empty-cell", detail, row=row, column=name)
    issues.check()
