"""A target column of a table, read in batches.

With ``target_kind=auto`` the first non-empty cell decides between text (classes) and numbers, and
a later cell of the other kind is an issue: it is far more often an error than a class. Integers are
numbers unless ``target_kind=classes`` is set, since scores and counts are as common as codes.
"""

import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from service.datasets.formats.csv_cells import MIXED, TEXT, TaskOf, is_number, read_numbers, shown
from service.datasets.formats.csv_records import Batch
from service.datasets.formats.options import TargetKind
from service.datasets.formats.validation import check_classes, label_problem
from service.datasets.issues import ValidationIssues

#: Labels that are stored as integers: all of them fit 64 bits.
_INTEGER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]{0,17})")


class TargetColumn:
    """Accumulator of one column; :meth:`values` returns the whole column."""

    def __init__(self, position: int, names: tuple[str, ...], kind: TargetKind) -> None:
        self._position = position
        self._names = names
        self._kind = kind
        self._is_guessed = kind == "auto"
        self._parts: list[NDArray[Any]] = []
        self._codes: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The name of the column."""
        return self._names[self._position]

    def add(self, batch: Batch, *, task_of: TaskOf, issues: ValidationIssues) -> None:
        """Add the cells of a batch."""
        if self._kind == "auto":
            cells = (record[self._position] for record in batch.records)
            first = next((cell for cell in cells if cell.strip()), "")
            self._kind = "numbers" if is_number(first) or not first else "classes"
        if self._kind == "classes":
            self._add_labels(batch, task_of, issues)
            return
        numbers = read_numbers(
            batch,
            [self._position],
            self._names,
            task_of=task_of,
            issues=issues,
            text=MIXED if self._is_guessed else TEXT,
        )
        self._parts.append(numbers[:, 0])

    def values(self) -> NDArray[Any]:
        """Return float64 numbers, int64 labels or text labels.

        Returns
        -------
        (n_rows,)
        """
        column = np.concatenate(self._parts)
        if self._kind == "numbers":
            return column
        labels: NDArray[Any] = np.array(list(self._codes), dtype=str)
        if all(map(_INTEGER.fullmatch, self._codes)):
            labels = labels.astype(np.int64)
        chosen: NDArray[Any] = labels[column]
        return chosen

    def _add_labels(self, batch: Batch, task_of: TaskOf, issues: ValidationIssues) -> None:
        cells = [record[self._position].strip() for record in batch.records]
        for i, label in enumerate(cells):
            if label not in self._codes:
                self._check_label(label, batch, i, task_of, issues)
                self._codes[label] = len(self._codes)
        check_classes(len(self._codes), column=self.name)
        codes = map(self._codes.__getitem__, cells)
        self._parts.append(np.fromiter(codes, np.int32, len(cells)))

    def _check_label(
        self, label: str, batch: Batch, i: int, task_of: TaskOf, issues: ValidationIssues
    ) -> None:
        if not label:
            code, what = "empty-cell", "the target is empty; add a value or remove the row"
        elif self._is_guessed and is_number(label):
            what = f"{shown(label)} is a number among text labels; correct it, or "
            code, what = MIXED.code, what + "set target_kind=classes to use it as a label"
        elif (reason := label_problem(label)) is not None:
            code, what = "invalid-label", reason
        else:
            return
        task = task_of(i)
        place = f"{batch.place(i)}, column '{self.name}'"
        place += "" if task is None else f", task '{task}'"
        issues.add(code, f"{place}: {what}", task=task, row=batch.numbers[i], column=self.name)
