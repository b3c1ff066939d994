"""The rows of a file with what a model predicts for them, and remarks."""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa

from algorithms.interface.methods import DEFAULT_LEVEL
from service.datasets.table import inert_texts
from service.inference.call import Call, InferenceResult
from service.inference.formats.table import TableRows, listed
from service.inference.formats.workbook import write_workbook
from service.inference.sent_rows import find_far_values, table_of
from service.models.columns import Ranges

#: Methods whose outputs stand beside the predictions of a model that has them.
MORE_METHODS: Final = ("predict_interval", "predict_proba", "predict_set")
_MAX_EXACT: Final = 1e15  # Excel has 15 digits
_MAX_DECIMALS: Final = 10
_EMPTY_SET: Final = "none of the classes is likely enough"


@dataclass(frozen=True, slots=True)
class PredictionTable:
    """Rows with their predictions, column by column.

    Attributes
    ----------
    rows, known
        The rows that were sent, and the columns of numbers of the model.
    given
        Columns of the rows as they were sent; those of formats without columns are left out.
    predicted
        The prediction, and its interval, probability or set, as far as the model has them.
    remarks
        A text for each row, empty for most.
    missing
        Columns of the model that the rows do not have.
    far
        Columns with a value far outside the training rows, with the range of these.
    decimal, delimiter
        The decimal separator of the rows, and what divides the cells of a CSV.
    """

    result: InferenceResult
    rows: TableRows | None
    known: Ranges
    task_column: str
    level: float | None
    given: Mapping[str, Sequence[Any]]
    predicted: Mapping[str, Sequence[Any]]
    remarks: Sequence[str]
    unknown: Mapping[str, Sequence[str]]
    missing: Sequence[str]
    far: Mapping[str, tuple[float, float]]
    decimal: str
    delimiter: str

    def columns(self) -> dict[str, Sequence[Any]]:
        """Return all columns; one of the model is renamed if the rows have its name."""
        columns = dict(self.given)
        for name, values in {**self.predicted, "remarks": self.remarks}.items():
            while name in columns:
                name = f"{name}_"  # noqa: PLW2901 - free after a few
            columns[name] = values
        return columns

    def to_json(self, n_rows: int | None) -> bytes:
        """Return the first rows as JSON, or all."""
        columns = self.columns()
        rows = islice(zip(*columns.values(), strict=True), n_rows)
        tasks = self.result.task
        each = [tasks] if isinstance(tasks, str) else tasks
        document = {
            "model": self.result.name,
            "version": self.result.version,
            "n_rows": len(self.remarks),
            "task_column": self.task_column,
            "level": self.level,
            "columns": list(columns),
            "n_given": len(self.given),
            "new_tasks": {
                name: len(self.remarks) if isinstance(tasks, str) else each.count(name)
                for name in self.result.new_tasks
            },
            "unknown_categories": self.unknown,
            "missing_columns": self.missing,
            "far_values": self.far,
            "rows": list(rows),
        }
        return orjson.dumps(document, default=str)

    def to_csv(self) -> bytes:
        """Return CSV in the manner of the rows, without texts that spreadsheets would compute."""
        columns = dict(
            zip(_inert([*self.columns()]), map(_inert, self.columns().values()), strict=True)
        )
        text = io.StringIO()
        is_comma = self.decimal == ","
        writer = csv.writer(text, delimiter=self.delimiter, lineterminator="\r\n")
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow([_cell(value, is_comma=is_comma) for value in row])
        return text.getvalue().encode("utf-8-sig" if is_comma else "utf-8")

    def to_workbook(self) -> bytes:
        """Return an Excel workbook with one sheet; numbers in a CSV are texts, but not there."""
        given = {**self.given, **_numbers(self.rows, self.known)}
        columns = replace(self, given=given).columns()
        n_decimals = _decimals([value for values in self.predicted.values() for value in values])
        predicted = [*columns][len(given) : -1]
        return write_workbook(columns, dict.fromkeys(predicted, n_decimals))


def prediction_table(
    call: Call,
    results: Mapping[str, InferenceResult],
    *,
    task_column: str,
    unknown: Mapping[str, Sequence[str]],
    missing: Sequence[str],
    ranges: Ranges,
) -> PredictionTable:
    """Return the rows of a call with the outputs of several methods.

    Parameters
    ----------
    results
        By method; with ``predict``.
    unknown
        Values of categories that the training rows do not have, by column.
    missing
        Columns of the model that the rows do not have.
    ranges
        Ranges of the training rows.
    """
    result = results["predict"]
    n_rows = len(result.outputs)
    rows = table_of(call.rows)
    given = _given(call.task, rows, task_column, n_rows)
    far = {} if rows is None else find_far_values(rows, ranges)
    remarks = _remarks(result, given, task_column, unknown, n_rows)
    for name, places in far.items():
        _, low, high = ranges[name]
        for i in places:
            remarks[i].append(f"{name} is far outside {low:g} to {high:g}")
    has_level = bool(results.keys() & {"predict_interval", "predict_set"})
    shown = None if rows is None else rows.decimal
    # semicolons divide the cells where the decimal separator is a comma
    has_semicolons = rows is not None and rows.delimiter == ";"
    decimal = shown or ("," if has_semicolons else ".")
    return PredictionTable(
        result=result,
        rows=rows,
        known=ranges,
        task_column=task_column,
        level=(call.level or DEFAULT_LEVEL) if has_level else None,
        given=given,
        predicted=_predicted(results),
        remarks=["; ".join(texts) for texts in remarks],
        unknown=unknown,
        missing=missing,
        far={name: ranges[name][1:] for name in far},
        decimal=decimal,
        delimiter=";" if has_semicolons or decimal == "," else ",",
    )


def known_rows(call: Call, new_tasks: Sequence[str]) -> tuple[Call | None, list[int]]:
    """Return the call of the rows of trained tasks, and their places; None without such rows.

    Rows of formats without columns are not taken apart.
    """
    rows = table_of(call.rows)
    if isinstance(call.task, str) or rows is None:
        return None, []
    places = [i for i, task in enumerate(call.task) if task not in new_tasks]
    if not places:
        return None, []
    return call._replace(task=[call.task[i] for i in places], rows=rows.take(places)), places


def spread(
    found: InferenceResult | None, result: InferenceResult, places: Sequence[int]
) -> InferenceResult:
    """Return outputs of some rows as outputs of all rows, NaN for the others."""
    outputs = np.full((len(result.outputs), 2), np.nan)
    if found is None:
        return result._replace(outputs=outputs, classes=())
    outputs = np.full((len(result.outputs), found.outputs.shape[1]), np.nan)
    outputs[places] = found.outputs
    return found._replace(outputs=outputs)


def _given(
    task: str | list[str], rows: TableRows | None, task_column: str, n_rows: int
) -> dict[str, Sequence[Any]]:
    tasks = [task] * n_rows if isinstance(task, str) else task
    given: dict[str, Sequence[Any]] = {task_column: tasks}
    if rows is not None:
        names = rows.names or [str(j) for j in range(len(rows.columns))]
        for name, values in zip(names, rows.columns, strict=True):
            given[name] = listed(values)
    return given


def _numbers(rows: TableRows | None, known: Ranges) -> dict[str, list[Any]]:
    """Return the columns of a CSV that are numbers for the model; other texts stay."""
    if rows is None or not rows.is_csv:
        return {}
    kinds = {
        name: known[name][0]
        for name in rows.names or ()
        if name in known and known[name][0].kind == "number"
    }
    return {
        name: [
            text if np.isnan(value) or abs(value) > _MAX_EXACT else value
            for text, value in zip(listed(rows.values_of(name)), values.tolist(), strict=True)
        ]
        for name, values in zip(kinds, rows.encoded(kinds), strict=True)
    }


def _decimals(values: Sequence[Any]) -> int:
    """Return how many decimals show three digits of the largest number."""
    sizes = np.abs([value for value in values if isinstance(value, float)])
    largest = np.max(sizes[np.isfinite(sizes) & (sizes > 0)], initial=0.0)
    return 2 if largest == 0 else int(np.clip(2 - np.floor(np.log10(largest)), 0, _MAX_DECIMALS))


def _predicted(results: Mapping[str, InferenceResult]) -> dict[str, Sequence[Any]]:
    outputs = results["predict"].outputs.tolist()
    columns: dict[str, Sequence[Any]] = {"prediction": outputs}
    interval = results.get("predict_interval")
    if interval is not None:
        columns["low"], columns["high"] = (interval.outputs[:, j].tolist() for j in (0, 1))
    proba, inside = results.get("predict_proba"), results.get("predict_set")
    if proba is not None:
        place = {str(label): j for j, label in enumerate(proba.classes)}
        columns["probability"] = [
            float(row[place[str(label)]]) if place else None
            for row, label in zip(proba.outputs, outputs, strict=True)
        ]
    if inside is not None:
        columns["set"] = [_set(row, inside.classes) for row in inside.outputs]
    return columns


def _set(row: Any, classes: Sequence[Any]) -> str | None:
    """Return the classes of a prediction set in words; None if it is not known."""
    if not classes or np.isnan(row[0]):
        return None
    labels = [str(label) for label, is_in in zip(classes, row, strict=True) if is_in > 0]
    return " or ".join(labels) or _EMPTY_SET


def _remarks(
    result: InferenceResult,
    given: Mapping[str, Sequence[Any]],
    task_column: str,
    unknown: Mapping[str, Sequence[str]],
    n_rows: int,
) -> list[list[str]]:
    """Return the remarks on each row: unknown categories, and tasks that were not trained."""
    remarks: list[list[str]] = [[] for _ in range(n_rows)]
    new = frozenset(result.new_tasks)
    for i, task in enumerate(given[task_column] if new else ()):
        if task in new:
            remarks[i].append(f"new {task_column}")
    for column, levels in unknown.items():
        wanted = frozenset(levels)
        for i, value in enumerate(given.get(column, ())):
            if str(value).strip() in wanted:
                remarks[i].append(f"unknown {column}")
    return remarks


def _inert(values: Sequence[Any]) -> list[Any]:
    """Return values with an apostrophe before texts that begin as a formula."""
    texts = [value for value in values if isinstance(value, str)]
    safe = iter(inert_texts(pa.array(texts, pa.string())).to_pylist())
    return [next(safe) if isinstance(value, str) else value for value in values]


def _cell(value: Any, *, is_comma: bool) -> Any:
    if value is None or value != value:  # noqa: PLR0124 - NaN
        return ""
    return str(value).replace(".", ",") if is_comma and isinstance(value, float) else value
