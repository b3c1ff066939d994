"""Conversion of table cells to numbers: in bulk if all are valid, otherwise one by one."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
from numpy.typing import NDArray

from service.datasets.formats.csv_records import Batch
from service.datasets.issues import ValidationIssues

#: Stricter than Python, which also accepts 1_000 and the digits of every script.
_NUMBER: Final = re.compile(
    r"\s*[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|nan|inf(?:inity)?)\s*",
    re.IGNORECASE,
)
_CELL_SHOWN: Final = 40

#: Returns the task of a record of the batch.
TaskOf = Callable[[int], str | None]


@dataclass(frozen=True, slots=True)
class TextIssue:
    """Code and advice of the issue for text where a number is expected."""

    code: str
    advice: str


TEXT: Final = TextIssue("not-a-number", "")
MIXED: Final = TextIssue(
    "mixed-labels",
    "; the first target is a number: correct this one, or set target_kind=classes",
)


def is_number(cell: str) -> bool:
    """Return whether a cell is written as a number, finite or not."""
    return _NUMBER.fullmatch(cell) is not None


def read_numbers(
    batch: Batch,
    positions: Sequence[int],
    names: Sequence[str],
    *,
    task_of: TaskOf,
    issues: ValidationIssues,
    text: TextIssue = TEXT,
) -> NDArray[np.float64]:
    """Return the numbers in some columns of a batch, with zeros for invalid cells.

    Returns
    -------
    (n_records, len(positions))
    """
    cells = [[record[j] for j in positions] for record in batch.records]
    shape = (len(cells), len(positions))
    if batch.is_plain:
        try:
            flat = chain.from_iterable(cells)
            values = np.fromiter(map(float, flat), np.float64, shape[0] * shape[1])
        except ValueError:
            pass  # some cell is not a number; found below
        else:
            if np.isfinite(values).all():
                return values.reshape(shape)
    values = np.zeros(shape)
    for i, row in enumerate(cells):
        for j, cell in enumerate(row):
            problem = _problem(cell, text)
            if problem is None:
                values[i, j] = float(cell)
                continue
            code, what = problem
            task, column = task_of(i), names[positions[j]]
            place = f"{batch.place(i)}, column '{column}'"
            place += "" if task is None else f", task '{task}'"
            issues.add(code, f"{place}: {what}", task=task, row=batch.numbers[i], column=column)
    return values


def _problem(cell: str, text: TextIssue) -> tuple[str, str] | None:
    """Return the code and message of the issue of a cell, or None for a finite number."""
    if not cell.strip():
        return "empty-cell", "the cell is empty; add a value or remove the row"
    if not is_number(cell):
        return text.code, f"expected a number, got {shown(cell)}{text.advice}"
    if not np.isfinite(float(cell)):
        return "not-finite", f"{cell.strip()} is not a finite number; remove the row"
    return None


def shown(cell: str) -> str:
    """Return a cell for messages: escaped and shortened."""
    return repr(cell if len(cell) <= _CELL_SHOWN else cell[:_CELL_SHOWN] + "...")
