"""The table in a sheet: without the text above and below it, and with merged cells in each row."""

from collections.abc import Sequence
from typing import Any, Final

from python_calamine import CalamineSheet

from algorithms.interface.lists import list_names

#: Rows above the header that may be titles, and columns beside which a row of one cell is text.
_MAX_TITLES: Final = 20
_MIN_WIDTH: Final = 3
#: Texts that a note shows, and characters of one.
_MAX_SHOWN: Final = 3
_MAX_TEXT: Final = 60

#: The row of the sheet, counted from 0, and its cells; empty ones are "".
Line = tuple[int, list[Any]]


def lines_of(sheet: CalamineSheet) -> tuple[list[Line], list[str]]:
    """Return the rows of a table that have any value, the header first, and notes."""
    if sheet.start is None:
        return [], []
    first_row, first_column = sheet.start
    cells = sheet.to_python(skip_empty_area=True)
    _fill_merged_inplace(cells, sheet.merged_cell_ranges or (), first_row, first_column)
    lines = [(n, row) for n, row in enumerate(cells, first_row) if _n_filled(row)]
    if max((_n_filled(row) for _, row in lines), default=0) < _MIN_WIDTH:
        return lines, []
    n_titles, n_rows = _n_titles(lines), len(lines)
    while n_rows > n_titles + 1 and _is_footer(lines, n_rows - 1):
        n_rows -= 1
    notes = _notes("above the header", lines[:n_titles]) + _notes("below the table", lines[n_rows:])
    return lines[n_titles:n_rows], notes


def _fill_merged_inplace(
    cells: list[list[Any]], ranges: Sequence[Any], first_row: int, first_column: int
) -> None:
    """Write the value of cells that are merged down the rows into each of them."""
    left = len(cells) * max(map(len, cells), default=0)  # ranges of a bad file may overlap
    for (top, column), (bottom, _) in ranges:
        row, j = top - first_row, column - first_column
        if row < 0 or j < 0 or row >= len(cells) or j >= len(cells[row]):
            continue
        below = cells[row + 1 : bottom - first_row + 1]
        left -= len(below)
        if left < 0:
            return
        for line in below:
            if line[j] == "":
                line[j] = cells[row][j]


def _n_filled(row: Sequence[Any]) -> int:
    return sum(cell != "" for cell in row)


def _text_of(row: Sequence[Any]) -> tuple[int, str] | None:
    """Return the place and the text of the only filled cell of a row, if it is text."""
    filled = [(j, cell) for j, cell in enumerate(row) if cell != ""]
    return filled[0] if len(filled) == 1 and isinstance(filled[0][1], str) else None


def _n_titles(lines: Sequence[Line]) -> int:
    """Return the number of rows above the header."""
    n = 0
    while n < min(_MAX_TITLES, len(lines)) and _text_of(lines[n][1]) is not None:
        n += 1
    return n if n < min(_MAX_TITLES, len(lines)) else 0


def _is_footer(lines: Sequence[Line], last: int) -> bool:
    """Return whether the only cell of a row is text that no row above has in its column."""
    found = _text_of(lines[last][1])
    if found is None:
        return False
    j, text = found
    return all(len(row) <= j or row[j] != text for _, row in lines[:last])


def _notes(where: str, lines: Sequence[Line]) -> list[str]:
    """Return the note about text around the table."""
    texts = [found[1].strip()[:_MAX_TEXT] for _, row in lines if (found := _text_of(row))]
    if not texts:
        return []
    listed = list_names([*map(repr, texts)], _MAX_SHOWN, has_quotes=False)
    return [f"text {where} is left out: {listed}"]
