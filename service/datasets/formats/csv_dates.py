"""Columns of text in a CSV file whose dates are written as in spreadsheets."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

import pyarrow as pa

from algorithms.wrappers.preparation.columns import DateWriting
from service.datasets.formats.csv_numbers import Texts
from service.datasets.formats.written_dates import (
    SHORT_YEARS,
    UNCLEAR,
    DateForm,
    DateOrder,
    FoundOrder,
    as_written,
    form_of,
    has_short_years,
    is_day_first,
    order_of,
    to_iso,
)
from service.datasets.issues import reject

_INSTANT = pa.timestamp("us")


class DateColumn(NamedTuple):
    """A column whose values may be dates.

    Attributes
    ----------
    note
        How it was read.
    writing
        How the dates are written.
    """

    values: pa.ChunkedArray
    note: str | None = None
    writing: DateWriting = DateWriting()


def found_dates(texts: Texts) -> DateColumn:
    """Return a column as dates if all values are, else as text."""
    form = form_of(texts.levels)
    if form is None:
        return DateColumn(texts.all())
    if form.has_short_years:
        return DateColumn(texts.all(), f"{_short_years(texts)}; it is read as text until then")
    order = order_of(texts.levels, form)
    if order in UNCLEAR:
        note = f"{_unclear(texts, order)}: it is read as text; {_advice(texts)}"
        return DateColumn(texts.all(), note)
    try:
        dates = to_iso(texts.levels, form, order).cast(_INSTANT)
    except pa.ArrowInvalid:
        advice = f"declare column_kind={texts.name}:date to find such values by their lines"
        note = f"column '{texts.name}' looks like dates, but some do not exist: it is read as text"
        return DateColumn(texts.all(), f"{note}; {advice}")
    writing = DateWriting(is_day_first(texts.levels, form, order))
    return DateColumn(texts.as_type(dates), _read_as(texts, form, order), writing)


def declared_dates(texts: Texts, order: DateOrder | None) -> DateColumn:
    """Return a column that was declared to have dates.

    Values that are no dates stay text, which is reported with their lines.

    Parameters
    ----------
    order
        The declared order of day and month; None: it is found.

    Raises
    ------
    Rejected
        The order was not declared and cannot be found.
    """
    declared = None if order is None else order == "dmy"
    writing = DateWriting(declared, has_short_years(texts.levels))
    form = form_of(texts.levels)
    if order is None and writing.has_short_years:
        reject("not-of-kind", _short_years(texts), column=texts.name)
    if form is None:
        return DateColumn(_each(texts, order), writing=writing)
    found = order_of(texts.levels, form)
    if order is None and found in UNCLEAR:
        detail = f"{_unclear(texts, found)}; {_advice(texts)}"
        reject("not-of-kind", detail, column=texts.name)
    used = found if found == "ymd" or order is None else order
    try:
        dates = to_iso(texts.levels, form, used).cast(_INSTANT)
    except pa.ArrowInvalid:
        return DateColumn(_each(texts, order))
    if order is None:
        writing = replace(writing, day_first=is_day_first(texts.levels, form, used))
    return DateColumn(texts.as_type(dates), _read_as(texts, form, used), writing)


def _each(texts: Texts, order: DateOrder | None) -> pa.ChunkedArray:
    """Return the column as text, with ISO dates for the values that are dates."""
    return texts.as_type(
        pa.array([_iso(level, order) for level in texts.levels.to_pylist()], pa.string())
    )


def _iso(text: str | None, order: DateOrder | None) -> str | None:
    one = pa.array([text], pa.string())
    form = form_of(one)
    if form is None:
        return text if text is None else _in_utc(text)
    found = order_of(one, form)
    used = found if order is None or found == "ymd" else order
    if used in UNCLEAR:
        return text
    iso = to_iso(one, form, used)
    try:
        iso.cast(_INSTANT)
    except pa.ArrowInvalid:
        return text
    return str(iso[0].as_py())


def _in_utc(text: str) -> str:
    """Return an ISO date with a time zone in UTC, and without it; other texts as they are."""
    try:
        moment = datetime.fromisoformat(text)
        is_zoned = moment.tzinfo is not None
        return moment.astimezone(UTC).replace(tzinfo=None).isoformat() if is_zoned else text
    except (ValueError, OverflowError):  # the latter in the first and the last year
        return text


def _read_as(texts: Texts, form: DateForm, order: FoundOrder) -> str:
    return f"dates in '{texts.name}' read as {as_written(form, order)}"


def _unclear(texts: Texts, order: str) -> str:
    why = "day and month can be either" if order == "ambiguous" else "no order fits all values"
    return f"column '{texts.name}' looks like dates, but {why}"


def _short_years(texts: Texts) -> str:
    what = f"column '{texts.name}' has dates with years of two digits"
    return f"{what}; {_advice(texts)}, and {SHORT_YEARS}"


def _advice(texts: Texts) -> str:
    name = texts.name
    return f"declare column_kind={name}:date-dmy (day first) or {name}:date-mdy (month first)"
