"""Pages of rows in an order of choice, forwards and backwards, by the last row that was seen.

Rows with equal values are in the order of their ids, so each row is on one page, also while others
come and go.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

_N_PARTS: Final = 3


class InvalidCursor(ValueError):
    """Exception for a text that is no cursor of this order."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which page of a query is wanted.

    Parameters
    ----------
    order_by
        Name of a column, with ``-`` in front for the largest first.
    cursor
        Cursor of a page before; None for the first page.
    has_total
        Whether to count the rows of all pages.
    """

    order_by: str
    cursor: str | None
    size: int
    has_total: bool = False


@dataclass(frozen=True, slots=True)
class RowPage:
    """Rows of a page, cursors of the pages beside it, and the number of rows of all pages."""

    rows: Sequence[Any]
    following: str | None
    previous: str | None
    total: int | None


def fetch_page(
    session: Session,
    query: sa.Select[Any],
    columns: Mapping[str, Any],
    key: Any,
    wanted: PageRequest,
) -> RowPage:
    """Return a page of a query whose rows are no longer than its selected columns.

    Parameters
    ----------
    columns
        Columns of the orders by their names; none of them is null.
    key
        Unique column with texts.

    Raises
    ------
    InvalidCursor
        The cursor is not one of this order.
    """
    column = columns[wanted.order_by.removeprefix("-")]
    total = None
    if wanted.has_total:
        total = session.scalar(sa.select(sa.func.count()).select_from(query.subquery())) or 0
    is_backward, position = _read(wanted, column)
    is_descending = wanted.order_by.startswith("-") != is_backward
    selected = query.add_columns(column.label("position"), key.label("key"))
    if position is not None:
        selected = selected.where(_is_behind(column, key, position, is_descending=is_descending))
    order = [part.desc() if is_descending else part.asc() for part in (column, key)]
    found = session.execute(selected.order_by(*order).limit(wanted.size + 1)).all()
    has_more = len(found) > wanted.size
    found = found[: wanted.size]
    if is_backward:
        found = found[::-1]
    has_previous, has_following = position is not None, has_more
    if is_backward:
        has_previous, has_following = has_more, True
    return RowPage(
        [row[:-2] for row in found],
        _write(">", found[-1]) if found and has_following else None,
        _write("<", found[0]) if found and has_previous else None,
        total,
    )


def created_between(
    query: sa.Select[Any], column: Any, since: datetime | None, until: datetime | None
) -> sa.Select[Any]:
    """Return a query for the rows of a time; None does not limit it."""
    if since is not None:
        query = query.where(column >= since)
    return query if until is None else query.where(column < until)


def _is_behind(column: Any, key: Any, position: tuple[Any, str], *, is_descending: bool) -> Any:
    value, last = position
    is_after: sa.ColumnElement[bool] = key < last if is_descending else key > last
    if column is key:
        return is_after
    is_beyond = column < value if is_descending else column > value
    return sa.or_(is_beyond, sa.and_(column == value, is_after))


def _write(direction: str, row: Any) -> str:
    return json.dumps([direction, row.position, row.key], ensure_ascii=False)


def _read(wanted: PageRequest, column: Any) -> tuple[bool, tuple[Any, str] | None]:
    """Return whether the page lies before the position, and the position; None for the start."""
    if wanted.cursor is None:
        return False, None
    try:
        parts = json.loads(wanted.cursor)
    except ValueError:
        parts = None
    kind = column.type.python_type
    is_valid = (
        isinstance(parts, list)
        and len(parts) == _N_PARTS
        and parts[0] in ("<", ">")
        and type(parts[1]) is kind
        and (kind is str or abs(parts[1]) < 2**63)
        and isinstance(parts[2], str)
        and "\0" not in f"{parts[1]}{parts[2]}"
    )
    if not is_valid:
        raise InvalidCursor(wanted.cursor)
    return parts[0] == "<", (parts[1], parts[2])
