"""Tasks of an Arrow table, the common form of all tabular formats.

Readers of formats return a :class:`pyarrow.Table`; :func:`tasks_of` finds the kind of each column,
writes the values as numbers, and splits the rows by task.
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from algorithms.interface.errors import find_similar
from algorithms.interface.header import DEFAULT_TASK_COLUMN
from algorithms.wrappers.preparation.arrow_columns import (
    may_be_dates,
    read_column,
    texts_of_dates,
    without_marked,
)
from algorithms.wrappers.preparation.columns import PLAIN_NUMBERS, Column, ColumnKind
from algorithms.wrappers.preparation.encoder import kind_of_type, without_markers
from algorithms.wrappers.preparation.invalid_column import InvalidColumn, number_writing
from algorithms.wrappers.preparation.notes import Note
from algorithms.wrappers.preparation.pandas_types import with_plain_types
from algorithms.wrappers.preparation.text_kinds import TextReading
from algorithms.wrappers.preparation.texts import Texts
from service.datasets.formats.arrow_labels import (
    read_groups,
    read_target,
    read_task_names,
    read_weights,
)
from service.datasets.formats.column_issues import rejected
from service.datasets.formats.inspection import inspect_table
from service.datasets.formats.nameless import index_notes, name_index, unused_index
from service.datasets.formats.options import Limits, ReadOptions, TargetKind
from service.datasets.formats.parsed import Parsed
from service.datasets.formats.row_extras import NO_EXTRAS, RowExtras
from service.datasets.formats.row_notes import case_notes, number_notes, total_notes
from service.datasets.formats.table_columns import TableColumns, find_columns
from service.datasets.formats.table_text import find_reading, marked_notes, texts_of, with_levels
from service.datasets.formats.text_targets import (
    date_target_note,
    read_text_target,
    read_text_weights,
)
from service.datasets.formats.validation import (
    Target,
    as_slice,
    check_counts,
    missing_targets,
    split_rows,
    tasks_of_targets,
)
from service.datasets.issues import Rejected, ValidationIssues, reject
from service.datasets.number_writings import NumberWritings

#: Columns written to the matrix of rows together: its rows are apart in memory, so that one column
#: at a time takes several times as long.
_COLUMNS_AT_ONCE: Final = 16
#: Numbers written to it together.
_VALUES_AT_ONCE: Final = 2**16
#: Characters of the reason of an error that are shown.
_MAX_REASON: Final = 200
NO_ROWS: Final = "the table has columns but no rows"


def tasks_of(
    table: pa.Table,
    options: ReadOptions,
    limits: Limits,
    *,
    is_csv: bool = False,
    decimal: str | None = None,
    categories: frozenset[str] = frozenset(),
) -> Parsed:
    """Return the tasks of a table.

    Parameters
    ----------
    is_csv
        Whether the table is CSV, in which missing values are null, and numbers are always text.
    decimal
        The decimal separator of numbers in text, if it is known.
    categories
        Columns that have a type of categories in the file.
    """
    table = with_plain_types(table.rename_columns(name_index(table.column_names)))
    index = unused_index(table.column_names, options)
    left_out = {"ignore_column": (*options.ignore_column, *index)}
    roles = find_columns(table.column_names, options.model_copy(update=left_out), limits)
    if table.num_rows == 0:
        reject("no-rows", NO_ROWS)
    issues = ValidationIssues()
    notes: list[str] = []
    table = with_levels(table)
    texts = texts_of(table, roles, options)
    reading = find_reading(
        texts, roles, options, decimal=decimal, is_csv=is_csv, categories=categories
    )
    if reading.numbers is not PLAIN_NUMBERS and not is_csv:
        notes.append(f"numbers in text are read with {number_writing(reading.numbers)}")
    if not is_csv:
        notes += marked_notes(texts)
    X, columns, column_notes = _features(table, roles, options, issues, reading, texts=texts)
    if options.is_inspection:
        shown = table.select(roles.feature_names)
        found = inspect_table(shown, X, columns, options=options, reasons=_reasons(issues))
        written = NumberWritings.of_columns(columns, reading.numbers, reading.missing)
        return Parsed([], notes=tuple(notes), numbers=written, inspection=found)
    notes += [*column_notes, *index_notes(index), *number_notes(X, columns)]
    extras, codes = NO_EXTRAS, None
    targets: dict[str, Target] = {}
    kind = options.target_kind
    with issues.collect():
        extras = _extras(table, roles, reading, texts)
    with issues.collect():
        codes = _codes(table, roles, limits)
    for position in roles.targets:
        name, column = roles.names[position], table.column(position)
        with issues.collect(), _decoding(column, name):
            targets[name], target_notes = _read_target(column, name, texts.get(name), kind, reading)
            notes += target_notes
    issues.check()
    names = tuple(column.name for column in columns)
    check_counts(len(codes[1]) if codes else 1, len(names), limits)
    if codes is None:
        split = tasks_of_targets(X, targets, feature_names=names, extras=extras)
    else:
        target = next(iter(targets.values()), None)
        notes += total_notes(*codes) + case_notes(codes[1])
        split = split_rows(X, codes[0], codes[1], target=target, feature_names=names, extras=extras)
    names_left = {task.name for task in split.tasks}
    empty = [name for name in (targets if codes is None else codes[1]) if name not in names_left]
    notes += _missing_targets(targets, table.num_rows, are_kept=len(targets) == 1)
    notes += [f"task '{name}' has no targets and is left out" for name in empty]
    if codes is None and len(targets) == 1:
        notes.append(_single_task(roles))
    used = {*names, roles.task_name}
    common = reading.numbers if is_csv else PLAIN_NUMBERS
    return Parsed.of(
        split.tasks,
        columns,
        notes=tuple(notes),
        ignored=tuple(name for name in roles.names if name not in used),
        unlabelled=split.unlabelled,
        task_column=roles.task_name,
        numbers=NumberWritings.of_columns(columns, common, reading.missing),
        empty=tuple(name for name in roles.feature_names if name not in names),
    )


def _reasons(issues: ValidationIssues) -> dict[str, str]:
    """Return the first issue of each column that has one."""
    try:
        issues.check()
    except Rejected as rejected:
        return {str(issue.column): issue.detail for issue in reversed(rejected.issues)}
    return {}


def _read_target(
    column: pa.ChunkedArray, name: str, texts: Texts | None, kind: TargetKind, reading: TextReading
) -> tuple[Target, list[str]]:
    """Return the targets of a column, and notes about how they were read.

    Parameters
    ----------
    texts
        The column without missing markers, if it is text.
    """
    notes: list[Note] = []
    if texts is not None:
        are_labels = kind == "auto" and name in reading.categories
        column, notes = read_text_target(texts, "classes" if are_labels else kind, reading)
    elif kind_of_type(column.type) == "number":
        column = without_marked(column, reading.missing)
        is_date = kind == "auto" and texts_of_dates(column, name) is not None
        notes = [date_target_note(name)] if is_date else []
    return read_target(column, name, kind), [*map(str, notes)]


def _single_task(roles: TableColumns) -> str:
    """Return a note that all rows are one task, with the column that may have been meant."""
    (target,) = (roles.names[i] for i in roles.targets)
    note = f"there is no column '{DEFAULT_TASK_COLUMN}': all rows are one task, '{target}'; "
    note += "declare task_column to divide them"
    names = {name.casefold(): name for name in roles.feature_names}
    similar = find_similar(DEFAULT_TASK_COLUMN, names)
    return note if similar is None else f"{note}; did you mean task_column={names[similar]}?"


def _missing_targets(targets: Mapping[str, Target], n_rows: int, *, are_kept: bool) -> list[str]:
    """Return notes about rows without a target."""
    return [
        missing_targets(n_rows - len(target.rows), f"the target column '{name}'", are_kept=are_kept)
        for name, target in targets.items()
        if target.rows is not None
    ]


def _features(
    table: pa.Table,
    roles: TableColumns,
    options: ReadOptions,
    issues: ValidationIssues,
    reading: TextReading,
    *,
    texts: Mapping[str, Texts],
) -> tuple[NDArray[np.float64], list[Column], list[str]]:
    declared, orders = options.kinds(), options.date_orders()
    written = reading.numbers if reading.is_csv else PLAIN_NUMBERS
    columns: list[Column] = []
    notes: list[str] = []
    X = np.empty((table.num_rows, len(roles.features)))
    floats: dict[int, int] = {}  # place in X -> position in the table
    others: dict[int, NDArray[np.float64]] = {}
    for position in roles.features:
        name, column = roles.names[position], table.column(position)
        if _is_float(column, declared.get(name)):
            floats[len(columns)] = position
            columns.append(Column(name, numbers=written))
            continue
        with issues.collect(), _decoding(column, name):
            parsed = read_column(
                texts.get(name, column),
                name,
                declared.get(name),
                reading=reading,
                order=orders.get(name),
            )
            notes += map(str, parsed.notes)
            if parsed.column is not None and parsed.values is not None:
                others[len(columns)] = parsed.values
                columns.append(parsed.column)
        if len(others) == _COLUMNS_AT_ONCE:
            _write_columns(X, others)
            others.clear()
    _write_columns(X, others)
    for place in _write_floats(X, table, floats):
        column, name = table.column(floats[place]), columns[place].name
        with issues.collect(), _decoding(column, name):
            read_column(column, name, "number")
    if reading.missing:
        columns = [replace(column, missing=reading.missing) for column in columns]
        for j in (j for j, column in enumerate(columns) if column.kind == "number"):
            X[:, j] = without_markers(X[:, j], reading.missing)
    if not columns and not issues:
        reject("no-features", f"no feature column is left: {'; '.join(notes)}")
    is_whole = len(columns) == X.shape[1]
    return X if is_whole else np.ascontiguousarray(X[:, : len(columns)]), columns, notes


def _is_float(column: pa.ChunkedArray, kind: ColumnKind | None) -> bool:
    """Return whether a column is of float64 numbers, which need no conversion."""
    if not pa.types.is_float64(column.type):
        return False
    has_values = column.null_count < len(column)
    return kind == "number" or (kind is None and has_values and not may_be_dates(column))


def _write_columns(X: NDArray[np.float64], columns: Mapping[int, NDArray[np.float64]]) -> None:
    """Write columns to their places in the matrix."""
    if columns:
        X[:, as_slice(np.array([*columns]))] = np.array([*columns.values()]).T


def _write_floats(
    X: NDArray[np.float64], table: pa.Table, positions: Mapping[int, int]
) -> list[int]:
    """Write columns of float64 to their places in the matrix; return the places of infinite ones.

    Blocks of rows stay in the CPU cache; whole columns would take several times as long.
    """
    if not positions:
        return []
    places = as_slice(np.array([*positions]))
    rows = table.select([*positions.values()])
    batches = rows.to_batches(max_chunksize=max(1, _VALUES_AT_ONCE // len(positions)))
    ends = np.cumsum([batch.num_rows for batch in batches])

    def write(batch: pa.RecordBatch, end: int) -> NDArray[np.bool_]:
        block = batch.to_tensor(null_to_nan=True).to_numpy()
        is_finite = np.isfinite(block.min(initial=0)) and np.isfinite(block.max(initial=0))
        if not is_finite:  # NaN has one bit pattern, so that equal rows have equal hashes
            block = np.where(np.isnan(block), np.nan, block)
        X[end - len(block) : end, places] = block
        return np.zeros(len(positions), bool) if is_finite else np.isinf(block).any(axis=0)

    with ThreadPoolExecutor(pa.cpu_count()) as pool:
        infinite = np.logical_or.reduce([*pool.map(write, batches, ends)])
    return [place for place, is_infinite in zip(positions, infinite, strict=True) if is_infinite]


@contextmanager
def _decoding(column: pa.ChunkedArray, name: str) -> Iterator[None]:
    """Let the issues of a block name the column whose values it reads, and its type."""
    try:
        yield
    except InvalidColumn as error:
        raise rejected(error) from None
    except pa.ArrowMemoryError:
        raise
    except pa.ArrowException as error:
        detail = f"column '{name}' has values of type {column.type}, which cannot be read:"
        detail += f" {str(error)[:_MAX_REASON]}; convert it, or ignore it"
        reject("unsupported-dtype", detail, column=name)


def _extras(
    table: pa.Table, roles: TableColumns, reading: TextReading, texts: Mapping[str, Texts]
) -> RowExtras:
    """Return the groups and weights of the rows."""
    issues = ValidationIssues()
    groups = weights = None
    if roles.group is not None:
        column, name = table.column(roles.group), roles.names[roles.group]
        with issues.collect(), _decoding(column, name):
            groups = read_groups(column, name)
    if roles.weight is not None:
        column, name = table.column(roles.weight), roles.names[roles.weight]
        with issues.collect(), _decoding(column, name):
            if name in texts:
                column = read_text_weights(texts[name], reading)
            weights = read_weights(column, name)
    issues.check()
    return RowExtras(groups, weights)


def _codes(
    table: pa.Table, roles: TableColumns, limits: Limits
) -> tuple[NDArray[np.int32], list[str]] | None:
    """Return the position of each row's task in the names of the tasks, and these names."""
    if roles.task is None:
        return None
    column, name = table.column(roles.task), roles.names[roles.task]
    with _decoding(column, name):
        return read_task_names(column, name, limits)
