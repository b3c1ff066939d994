"""The group column of a table, read in batches."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.datasets.formats.csv_cells import TaskOf
from service.datasets.formats.csv_records import Batch
from service.datasets.formats.validation import label_problem
from service.datasets.issues import ValidationIssues


class GroupColumn:
    """Accumulator of one column of labels; :meth:`values` returns the whole column."""

    def __init__(self, position: int, names: tuple[str, ...]) -> None:
        self._position = position
        self._name = names[position]
        self._codes: dict[str, int] = {}
        self._parts: list[NDArray[np.intp]] = []

    def add(self, batch: Batch, *, task_of: TaskOf, issues: ValidationIssues) -> None:
        """Add the cells of a batch."""
        cells = [record[self._position].strip() for record in batch.records]
        for i, label in enumerate(cells):
            if label not in self._codes:
                self._check(label, batch, i, task_of, issues)
                self._codes[label] = len(self._codes)
        codes = map(self._codes.__getitem__, cells)
        self._parts.append(np.fromiter(codes, np.intp, len(cells)))

    def values(self) -> NDArray[Any]:
        """Return the label of each row, (n_rows,)."""
        chosen: NDArray[Any] = np.array(list(self._codes), dtype=str)[np.concatenate(self._parts)]
        return chosen

    def _check(
        self, label: str, batch: Batch, i: int, task_of: TaskOf, issues: ValidationIssues
    ) -> None:
        problem = label_problem(label) if label else None
        if label and problem is None:
            return
        code = "invalid-label" if label else "empty-cell"
        task = task_of(i)
        place = f"{batch.place(i)}, column '{self._name}'"
        place += "" if task is None else f", task '{task}'"
        detail = f"{place}: {problem or 'the group is empty; add a value or remove the row'}"
        issues.add(code, detail, task=task, row=batch.numbers[i], column=self._name)
