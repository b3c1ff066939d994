"""Parser of CSV: one table of all tasks, with a task column, target columns and feature columns.

A table with several target columns and no task column gives one task per target; all share X.
"""

import unicodedata
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.tasks import Task
from service.datasets.formats.csv_cells import TaskOf, is_number, read_numbers
from service.datasets.formats.csv_groups import GroupColumn
from service.datasets.formats.csv_records import Batch, Records
from service.datasets.formats.csv_targets import TargetColumn
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.parsed import Parsed
from service.datasets.formats.table_columns import TableColumns, find_columns
from service.datasets.formats.validation import (
    check_counts,
    check_name,
    split_rows,
    tasks_of_targets,
)
from service.datasets.issues import Rejected, ValidationIssue, ValidationIssues, reject

_NO_HEADER: Final = "; the first line contains numbers, but must contain the column names"


def parse(path: Path, options: ReadOptions, limits: Limits) -> Parsed:
    """Return the tasks in a CSV file.

    Raises
    ------
    Rejected
        With all issues, up to a maximum number.
    """
    issues = ValidationIssues()
    with path.open("rb") as file:
        records = Records(file)
        header = records.header()
        hint = _NO_HEADER if all(map(is_number, header)) else ""
        columns = find_columns(header, options, limits, hint=hint)
        table = _Table(columns, options, limits, issues)
        for batch in records.batches(len(columns.names), issues):
            table.add(batch)
    issues.check()
    return Parsed(table.tasks())


class _Table:
    """Accumulator of the rows of a table."""

    def __init__(
        self, columns: TableColumns, options: ReadOptions, limits: Limits, issues: ValidationIssues
    ) -> None:
        self._columns = columns
        self._limits = limits
        self._issues = issues
        self._features: list[NDArray[np.float64]] = []
        self._codes: list[NDArray[np.int32]] = []
        self._code_of: dict[str, int] = {}
        self._code_of_cell: dict[str, int] = {}
        self._groups = None if columns.group is None else GroupColumn(columns.group, columns.names)
        self._targets = [
            TargetColumn(i, columns.names, options.target_kind) for i in columns.targets
        ]

    def add(self, batch: Batch) -> None:
        """Add records; after the first issue, only check them for further issues."""
        columns, issues = self._columns, self._issues
        task_of = _task_of(batch, columns.task)
        if columns.task is not None:
            self._add_codes(batch, columns.task)
        features = read_numbers(
            batch, columns.features, columns.names, task_of=task_of, issues=issues
        )
        for target in self._targets:
            target.add(batch, task_of=task_of, issues=issues)
        if self._groups is not None:
            self._groups.add(batch, task_of=task_of, issues=issues)
        if not issues:
            self._features.append(features)

    def tasks(self) -> list[Task]:
        """Return the tasks, in the order of their first rows."""
        if not self._features:
            reject("no-rows", "the table has a header but no rows")
        names = self._columns.feature_names
        X = self._take_features()
        groups = None if self._groups is None else self._groups.values()
        if self._columns.task is None:
            targets = {target.name: target.values() for target in self._targets}
            return tasks_of_targets(X, targets, feature_names=names, groups=groups)
        return split_rows(
            X,
            np.concatenate(self._codes),
            list(self._code_of),
            y=self._targets[0].values() if self._targets else None,
            feature_names=names,
            groups=groups,
        )

    def _take_features(self) -> NDArray[np.float64]:
        """Return all rows as one array, freeing each part once it is copied."""
        n_rows = sum(len(part) for part in self._features)
        X = np.empty((n_rows, len(self._columns.features)))
        row = 0
        self._features.reverse()
        while self._features:
            part = self._features.pop()
            X[row : row + len(part)] = part
            row += len(part)
        return X

    def _add_codes(self, batch: Batch, position: int) -> None:
        cells = [record[position] for record in batch.records]
        for i, cell in enumerate(cells):
            if cell not in self._code_of_cell:
                name = _task_name(cell)
                self._check_task(name, batch, i, position)
                self._code_of_cell[cell] = self._code_of.setdefault(name, len(self._code_of))
        check_counts(len(self._code_of), len(self._columns.features), self._limits)
        codes = map(self._code_of_cell.__getitem__, cells)
        self._codes.append(np.fromiter(codes, np.int32, len(cells)))

    def _check_task(self, name: str, batch: Batch, i: int, position: int) -> None:
        try:
            check_name(name, self._limits, what="task")
        except Rejected as rejected:
            issue = rejected.issues[0]
            column = self._columns.names[position]
            code = issue.code if name else "empty-cell"
            detail = f"{batch.place(i)}, column '{column}': {issue.detail}"
            located = ValidationIssue(code, detail, row=batch.numbers[i], column=column)
            self._issues.extend(Rejected(located))


def _task_name(cell: str) -> str:
    return unicodedata.normalize("NFC", cell.strip())


def _task_of(batch: Batch, position: int | None) -> TaskOf:
    if position is None:
        return lambda _: None
    return lambda i: _task_name(batch.records[i][position])
