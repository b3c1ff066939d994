"""Columns of text in a CSV file whose dates are written as in spreadsheets."""

from dataclasses import replace
from typing import NamedTuple

from algorithms.wrappers.preparation.columns import Column, DateWriting
from algorithms.wrappers.preparation.encoder import encode
from algorithms.wrappers.preparation.invalid_column import InvalidColumn
from algorithms.wrappers.preparation.text_values import ISO_DATE
from algorithms.wrappers.preparation.texts import Texts
from algorithms.wrappers.preparation.written_dates import (
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
)
from service.datasets.formats.arrow_table import Encoded
from service.datasets.formats.column_issues import rejected
from service.datasets.issues import reject


class DateColumn(NamedTuple):
    """A column whose values may be dates.

    Attributes
    ----------
    dates
        The column of dates with its values; None if it is text.
    note
        How it was read.
    """

    dates: Encoded | None
    note: str | None = None


def found_dates(texts: Texts) -> DateColumn:
    """Return a column as dates if all values are, else as text."""
    if (texts.matching(ISO_DATE) | ~texts.is_known()).all():
        return DateColumn(_encoded(texts, DateWriting()))
    form = form_of(texts.levels)
    if form is None:
        return DateColumn(None)
    if form.has_short_years:
        return DateColumn(None, f"{_short_years(texts)}; it is read as text until then")
    order = order_of(texts.levels, form)
    if order in UNCLEAR:
        note = f"{_unclear(texts, order)}: it is read as text; {_advice(texts)}"
        return DateColumn(None, note)
    dates = _encoded(texts, DateWriting(is_day_first(texts.levels, form, order)))
    if dates is None:
        advice = f"declare column_kind={texts.name}:date to find such values by their lines"
        note = f"column '{texts.name}' looks like dates, but some do not exist: it is read as text"
        return DateColumn(None, f"{note}; {advice}")
    return DateColumn(dates, _read_as(texts, form, order))


def _encoded(texts: Texts, writing: DateWriting) -> Encoded | None:
    """Return a column as dates; None if some values are not dates."""
    column = Column(texts.name, "date", dates=writing)
    try:
        return column, encode(texts, column)
    except InvalidColumn:
        return None


def declared_dates(texts: Texts, order: DateOrder | None) -> DateColumn:
    """Return a column that was declared to have dates.

    Parameters
    ----------
    order
        The declared order of day and month; None to detect it.

    Raises
    ------
    Rejected
        Values are not dates, or the order was not declared and cannot be found.
    """
    declared = None if order is None else order == "dmy"
    writing = DateWriting(declared, has_short_years(texts.levels))
    form, note = form_of(texts.levels), None
    if order is None and writing.has_short_years:
        reject("not-of-kind", _short_years(texts), column=texts.name)
    if form is not None:
        found_order = order_of(texts.levels, form)
        if order is None and found_order in UNCLEAR:
            detail = f"{_unclear(texts, found_order)}; {_advice(texts)}"
            reject("not-of-kind", detail, column=texts.name)
        order_read = found_order if found_order == "ymd" or order is None else order
        note = _read_as(texts, form, order_read)
        if order is None:
            writing = replace(writing, day_first=is_day_first(texts.levels, form, order_read))
    column = Column(texts.name, "date", dates=writing)
    try:
        return DateColumn((column, encode(texts, column)), note)
    except InvalidColumn as error:
        raise rejected(error) from None


def _read_as(texts: Texts, form: DateForm, order: FoundOrder) -> str:
    return f"dates in '{texts.name}' read as {as_written(form, order)}"


def _unclear(texts: Texts, order: str) -> str:
    why = "day and month can be either" if order == "ambiguous" else "no order fits all values"
    return f"column '{texts.name}' looks like dates, but {why}"


def _short_years(texts: Texts) -> str:
    reason = f"column '{texts.name}' has dates with years of two digits"
    return f"{reason}; {_advice(texts)}, and {SHORT_YEARS}"


def _advice(texts: Texts) -> str:
    name = texts.name
    return f"declare column_kind={name}:date-dmy (day first) or {name}:date-mdy (month first)"
