"""Tables of pages: view models that one template draws."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from service.jobs.studies.child_jobs import AUTOMATIC
from service.ui import formats


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell.

    Parameters
    ----------
    kind
        How it is drawn: text, number, code, state, square (a state without words), time, bars,
        meter or action.
    value
        Data to draw: a time, the heights of bars, a fraction, or the request of an action.
    note
        Small text below.
    """

    text: str
    kind: str = "text"
    href: str | None = None
    value: Any = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row; its key stays the same while its contents change.

    Parameters
    ----------
    path
        Path in the API of what can be selected with this row; empty if it cannot be selected.
    """

    key: str
    cells: Sequence[Cell]
    path: str = ""


@dataclass(frozen=True, slots=True)
class Sort:
    """The link of a column title that sorts by the column.

    Parameters
    ----------
    direction
        Present direction, ascending or descending; empty if the table is sorted by another column.
    """

    href: str
    direction: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Parameters
    ----------
    columns
        Titles; a title above numbers is aligned with them.
    empty
        Sentence that replaces a table without rows.
    sorts
        Links of the titles; None for a column by which the table cannot be sorted.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[TableRow]
    empty: str = "None yet."
    sorts: Sequence[Sort | None] = ()

    def numbers(self) -> list[bool]:
        """Return whether each column has numbers."""
        first = self.rows[0].cells if self.rows else ()
        return [cell.kind == "number" for cell in first] or [False] * len(self.columns)

    @property
    def has_squares(self) -> bool:
        """Whether cells are states without words; on a phone, many of them stand side by side."""
        return any(cell.kind == "square" for row in self.rows[:1] for cell in row.cells)

    @property
    def is_numeric(self) -> bool:
        """Whether all columns but the first one have numbers."""
        return all(self.numbers()[1:])


def text(value: Any, href: str | None = None, *, note: str = "") -> Cell:
    """Return a cell with text, which may be a link."""
    return Cell(formats.plain(value), href=href, note=note)


def algorithm(name: str) -> Cell:
    """Return a cell with the algorithm of a job: a link, unless it is the automatic choice."""
    return text(name, None if name == AUTOMATIC else f"/algorithms/{quote(name, safe='')}")


def code(value: str, href: str | None = None) -> Cell:
    """Return a cell with an id."""
    return Cell(value, "code", href)


def number(value: float | None, note: str = "") -> Cell:
    """Return a cell with a number."""
    return Cell(formats.number(value), "number", note=note)


def numbers(values: Sequence[float | None], notes: Sequence[str] = ()) -> list[Cell]:
    """Return the cells of a column of comparable numbers, with equally many decimals."""
    texts = formats.column(values)
    return [
        Cell(text, "number", note=note)
        for text, note in zip(texts, notes or [""] * len(texts), strict=True)
    ]


def quantity(value: str) -> Cell:
    """Return a cell with a number and its unit."""
    return Cell(value, "number")


def state(value: str, note: str = "") -> Cell:
    """Return a cell with a state."""
    return Cell(value.replace("_", " "), "state", value=value, note=note)


def time(value: str | None) -> Cell:
    """Return a cell with a time."""
    return Cell(formats.NONE) if value is None else Cell(formats.ago(value), "time", value=value)


def bars(counts: Sequence[int], label: str) -> Cell:
    """Return a cell with a histogram; the label describes it in words."""
    highest = max(counts, default=0) or 1
    return Cell(label, "bars", value=[round(16 * n / highest, 1) for n in counts])


def action(text: str, method: str, path: str, question: str, *, label: str) -> Cell:
    """Return a cell with a button that sends a request after a question.

    Parameters
    ----------
    question
        Text that the user confirms before the request is sent.
    label
        Text for screen readers.
    """
    value = {"method": method, "path": path, "question": question, "label": label}
    return Cell(text, "action", value=value)


def meter(fraction: float, label: str) -> Cell:
    """Return a cell with a bar of a share of a whole."""
    return Cell(label, "meter", value=round(fraction, 4))
