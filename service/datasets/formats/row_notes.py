"""Notes about rows and columns of a table that are probably no data: totals and row numbers."""

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.lists import list_names
from algorithms.wrappers.preparation.columns import Column

#: In English, German, French, Spanish, Italian, Portuguese, Dutch, Swedish, Danish and Polish; also
#: as spreadsheets name the last row of a pivot table.
_TOTALS: Final = frozenset(
    {
        *("total", "totals", "grand total", "sum", "overall"),
        *("gesamt", "insgesamt", "summe", "gesamtsumme", "gesamtergebnis"),
        *("total général", "totaux", "somme", "total general", "suma"),
        *("totale", "totale complessivo", "somma", "total geral", "soma"),
        *("totaal", "eindtotaal", "som", "summa", "totalt", "i alt", "razem", "suma końcowa"),
    }
)
_ID: Final = re.compile(
    r"(?:.*[ _.-])?(?:id|index|idx|nr|key|row|row ?names?|unnamed: 0)|.*[a-z]I[Dd]"
)
#: Fewer rows are numbered by chance, as by the hour or the year of each row.
_MIN_ROWS: Final = 20
#: Groups of names that a note lists.
_MAX_LISTED: Final = 5


def total_notes(codes: NDArray[np.integer], tasks: Sequence[str]) -> list[str]:
    """Return a note if the last row is the only one of a task named like a total.

    Parameters
    ----------
    codes : (n_rows,)
        Position of the task of each row in the names of tasks.
    """
    last = codes[-1]
    if tasks[last].rstrip(" :").casefold() not in _TOTALS or np.count_nonzero(codes == last) > 1:
        return []
    note = f"the last row is the only one of the task '{tasks[last]}'"
    return [f"{note}; if it is a sum of the other rows, remove it"]


def case_notes(tasks: Sequence[str]) -> list[str]:
    """Return a note about tasks whose names differ only in the case of letters or in blanks."""
    names: dict[str, list[str]] = {}
    for task in tasks:
        names.setdefault(" ".join(task.casefold().split()), []).append(task)
    alike = [" and ".join(map(repr, group)) for group in names.values() if len(group) > 1]
    if not alike:
        return []
    listed = list_names(alike, _MAX_LISTED, has_quotes=False)
    note = f"tasks differ only in the case of letters or in blanks: {listed}"
    return [f"{note}; write them alike if they are the same task"]


def number_notes(X: NDArray[np.float64], columns: Sequence[Column]) -> list[str]:
    """Return notes about columns that number the rows, or that seem to be ids."""
    notes = []
    for j, column in enumerate(columns):
        if column.kind != "number" or len(X) < _MIN_ROWS:
            continue
        fault = _fault(X[:, j], column.name)
        if fault is not None:
            notes.append(
                f"column '{column.name}' {fault}, and is used as a number; declare "
                f"ignore_column={column.name} to leave it out"
            )
    return notes


def _fault(values: NDArray[np.float64], name: str) -> str | None:
    """Return why a column is probably no feature, None if it may be one."""
    first, n_rows = values[0], len(values)
    is_numbered = first in (0, 1) and values[-1] == first + n_rows - 1
    if is_numbered and (np.diff(values) == 1).all():
        return f"numbers the rows from {int(first)} to {int(values[-1])}"
    is_id = _ID.fullmatch(name) or _ID.fullmatch(name.casefold())
    if not is_id or not (values == np.floor(values)).all() or len(np.unique(values)) < n_rows:
        return None
    return "has another whole number in each row, as ids have"
