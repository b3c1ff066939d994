"""CSV, one long table: a task column, target columns, and features in all the others."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.tasks import Task
from service.datasets.assembly import as_targets, check_counts, check_name, rows_task
from service.datasets.complaints import Complaint, Complaints, Rejected
from service.datasets.options import Limits, ReadOptions

_BATCH_ROWS: Final = 4096
_DEFAULT_TASK_COLUMN: Final = "task"
_CELL_SHOWN: Final = 40


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where things stand in a row."""

    names: tuple[str, ...]
    task: int | None
    targets: tuple[int, ...]
    features: tuple[int, ...]


def parse(path: Path, options: ReadOptions, limits: Limits) -> list[Task]:
    """Give the tasks in a CSV file.

    Raises
    ------
    Rejected
        With every complaint, up to a bound.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, strict=True)
            columns = _find_columns(next(reader, []), options, limits)
            tasks = _read_rows(reader, columns, options, limits)
    except UnicodeDecodeError as error:
        detail = f"byte {error.start} is not UTF-8; save the table as UTF-8"
        raise Rejected(Complaint(detail)) from None
    except csv.Error as error:
        raise Rejected(Complaint(f"line {reader.line_num}: {error}")) from None
    return tasks


def _find_columns(header: Sequence[str], options: ReadOptions, limits: Limits) -> _Columns:
    if not header:
        raise Rejected(Complaint("the file is empty; the first line must name the columns"))
    names = tuple(check_name(name.strip(), limits, what="column") for name in header)
    for name in names:
        if names.count(name) > 1:
            raise Rejected(Complaint(f"two columns are named '{name}'", column=name))
    task_name = options.task_column
    if task_name is None and _DEFAULT_TASK_COLUMN in names:
        task_name = _DEFAULT_TASK_COLUMN
    wanted = [n for n in (task_name, *options.target_column, *options.ignore_column) if n]
    for name in wanted:
        if name not in names:
            known = ", ".join(f"'{n}'" for n in names[:20])
            raise Rejected(Complaint(f"there is no column '{name}'; there are {known}"))
    if task_name is None and not options.target_column:
        detail = "no column tells the task of a row; name one with task_column="
        raise Rejected(Complaint(detail))
    features = tuple(i for i, name in enumerate(names) if name not in wanted)
    if not features:
        raise Rejected(Complaint("no column is left for the features"))
    check_counts(1, len(features), limits)
    if task_name is not None and len(options.target_column) > 1:
        detail = "several target columns are for tables without a task column"
        raise Rejected(Complaint(detail))
    return _Columns(
        names,
        None if task_name is None else names.index(task_name),
        tuple(names.index(name) for name in options.target_column),
        features,
    )


class _Rows:
    """The rows of one task as they come."""

    def __init__(self) -> None:
        self.features: list[NDArray[np.float64]] = []
        self.targets: list[list[str]] = []


def _read_rows(
    lines: Iterator[list[str]], columns: _Columns, options: ReadOptions, limits: Limits
) -> list[Task]:
    complaints = Complaints()
    by_task: dict[str, _Rows] = {}
    first = 0
    while batch := list(islice(lines, _BATCH_ROWS)):
        _read_batch(batch, first, columns, by_task, complaints)
        first += len(batch)
        if complaints.is_full:
            break
        check_counts(len(by_task), len(columns.features), limits)
    complaints.check()
    if not by_task:
        raise Rejected(Complaint("the table has a header but no rows"))
    return _assemble(by_task, columns, options, limits)


def _read_batch(
    batch: list[list[str]],
    first: int,
    columns: _Columns,
    by_task: dict[str, _Rows],
    complaints: Complaints,
) -> None:
    """Add a batch of rows to their tasks, in bulk where it is clean and cell by cell where not."""
    n_columns = len(columns.names)
    narrow = [i for i, row in enumerate(batch) if len(row) != n_columns]
    if narrow:
        for i in narrow:
            detail = f"{_line(first + i)} has {len(batch[i])} cells, the header {n_columns}"
            complaints.add(detail, row=first + i, task=_task_of(batch[i], columns))
        return
    cells = [[row[i] for i in columns.features] for row in batch]
    try:
        values = np.fromiter(map(_number, chain.from_iterable(cells)), np.float64)
        is_clean = bool(np.isfinite(values).all())
    except ValueError:
        is_clean = False
    if not is_clean:
        _complain_of_cells(batch, first, columns, complaints)
        return
    rows = values.reshape(len(batch), len(columns.features))
    names = [_task_of(row, columns) or "" for row in batch]
    for name in dict.fromkeys(names):
        mine = [i for i, n in enumerate(names) if n == name]
        store = by_task.setdefault(name, _Rows())
        store.features.append(rows[mine])
        store.targets += [[batch[i][j] for j in columns.targets] for i in mine]


def _number(text: str) -> float:
    if "_" in text:  # Python would read 1_000 as a number; no other program would
        raise ValueError(text)
    return float(text)


def _complain_of_cells(
    batch: list[list[str]], first: int, columns: _Columns, complaints: Complaints
) -> None:
    for i, row in enumerate(batch):
        for j in columns.features:
            problem = _problem_of(row[j])
            if problem is None:
                continue
            task, column = _task_of(row, columns), columns.names[j]
            where = f"{_line(first + i)}, column '{column}'"
            where += "" if task is None else f" (task '{task}')"
            complaints.add(f"{where} {problem}", task=task, row=first + i, column=column)
            if complaints.is_full:
                return


def _problem_of(cell: str) -> str | None:
    if not cell.strip():
        return "is empty; every feature needs a number"
    try:
        value = _number(cell)
    except ValueError:
        return f"is {cell[:_CELL_SHOWN]!r}, not a number"
    return None if np.isfinite(value) else f"is {cell.strip()}; numbers must be finite"


def _assemble(
    by_task: dict[str, _Rows], columns: _Columns, options: ReadOptions, limits: Limits
) -> list[Task]:
    complaints = Complaints()
    feature_names = [columns.names[i] for i in columns.features]
    tasks: list[Task | None] = []
    for name, rows in by_task.items():
        X = np.concatenate(rows.features)
        targets = np.array(rows.targets, dtype=str)
        for position, column in enumerate(columns.targets):
            # without a task column each target is a task of its own
            task = check_name(
                columns.names[column] if columns.task is None else name, limits, what="task"
            )
            y = _read_targets(targets[:, position], options, task)
            tasks.append(rows_task(task, X, y, feature_names, complaints))
        if not columns.targets:
            task = check_name(name, limits, what="task")
            tasks.append(rows_task(task, X, None, feature_names, complaints))
    complaints.check()
    return [task for task in tasks if task is not None]


def _read_targets(cells: NDArray[Any], options: ReadOptions, task: str) -> NDArray[Any]:
    empty = np.flatnonzero(np.char.strip(cells) == "")
    if empty.size:
        detail = f"task '{task}', row {empty[0]} of the task: the target is empty"
        raise Rejected(Complaint(detail, task=task, row=int(empty[0])))
    try:
        values: NDArray[Any] = np.fromiter(map(_number, cells), np.float64, len(cells))
    except ValueError:
        values = cells
        if options.target_kind == "numbers":
            i = next(i for i, cell in enumerate(cells) if _problem_of(str(cell)))
            detail = f"task '{task}', row {i} of the task: the target is {str(cells[i])!r}"
            raise Rejected(Complaint(f"{detail}, not a number", task=task, row=i)) from None
    return as_targets(values, options.target_kind, task=task)


def _task_of(row: list[str], columns: _Columns) -> str | None:
    if columns.task is None or columns.task >= len(row):
        return None
    return row[columns.task].strip()


def _line(row: int) -> str:
    return f"row {row} (below the header, from 0)"
