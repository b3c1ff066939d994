"""Columns of text whose values are dates, or look like dates."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from algorithms.wrappers.preparation.columns import Column, DateWriting
from algorithms.wrappers.preparation.encoder import Values, encode
from algorithms.wrappers.preparation.invalid_column import InvalidColumn, Problem, shown
from algorithms.wrappers.preparation.named_dates import are_named, have_short_years, lack_years
from algorithms.wrappers.preparation.notes import Note
from algorithms.wrappers.preparation.text_values import BASIC_DATE, ISO_DATE, compact_seconds
from algorithms.wrappers.preparation.texts import Texts
from algorithms.wrappers.preparation.written_dates import (
    SHORT_YEARS,
    UNCLEAR,
    DateForm,
    DateOrder,
    FoundOrder,
    as_written,
    form_of,
    has_named_month,
    has_short_years,
    is_day_first,
    is_written,
    order_of,
)

#: Rows in which dates with names are looked for first.
_FIRST_ROWS: Final = 1000
_DATE_LENGTH: Final = len("2026-01-31")
_COMPACT: Final = "(?:19|20)[0-9]{6}(?:[0-9]{6})?"
#: Fewer different numbers may look like dates by chance.
_MIN_COMPACT: Final = 2


class DateColumn(NamedTuple):
    """A column whose values may be dates.

    Attributes
    ----------
    column
        The column of dates; None if it is text.
    note
        How it was read.
    """

    column: Column | None = None
    values: Values | None = None
    note: Note | None = None


def found_dates(texts: Texts) -> DateColumn:
    """Return a column as dates if all values are, else as text."""
    found = _clear_dates(texts)
    if found is None:
        form = form_of(texts.levels)
        found = None if form is None else _ordered_dates(texts, form)
    return found or DateColumn(note=_invalid_dates(texts))


def _clear_dates(texts: Texts) -> DateColumn | None:
    """Return a column of dates that can be read in one way only; None for others."""
    is_iso = texts.matching(ISO_DATE) | ~texts.is_known()
    if is_iso.all():
        return _encoded(texts, DateWriting())
    first = texts.head(_FIRST_ROWS)  # most text can be told by its start
    if not _are_clear(first) or not _are_clear(texts):
        return None
    found = _encoded(texts, DateWriting())
    if found is None or found.values is None:
        return None
    return found._replace(note=_read_clear(texts, found.values))


def _are_clear(texts: Texts) -> bool:
    is_clear = texts.matching(ISO_DATE) | texts.matching(BASIC_DATE) | ~texts.is_known()
    return are_compact(texts) or bool((is_clear | are_named(texts.levels)).all())


def _ordered_dates(texts: Texts, form: DateForm) -> DateColumn:
    """Return a column of dates whose order of day and month is found, or a note why not."""
    if form.has_short_years:
        reason = f"{_short_years(texts)}: it is read as text"
        advice = f"{_advice(texts)}, and {SHORT_YEARS}"
        year_first = "" if form.separator == "." else "; years that come first need four digits"
        return DateColumn(note=Note(reason, advice + year_first))
    order = order_of(texts.levels, form)
    if order in UNCLEAR:
        return DateColumn(
            note=Note(f"{_unclear(texts, order)}: it is read as text", _advice(texts))
        )
    found = _encoded(texts, DateWriting(is_day_first(texts.levels, form, order)))
    if found is None:
        reason = (
            f"column '{texts.name}' looks like dates, but some do not exist: it is read as text"
        )
        return DateColumn(note=Note(reason, _find_wrong(texts)))
    return found._replace(note=_read_as(texts, form, order))


def are_compact(texts: Texts) -> bool:
    """Return whether texts are dates such as 20240131: at least two different ones."""
    levels = texts.levels.drop_null()
    if len(levels) < _MIN_COMPACT or not texts.matching(_COMPACT)[texts.is_known()].all():
        return False
    return all(compact_seconds(int(text)) is not None for text in levels.to_pylist())


def _read_clear(texts: Texts, values: Values) -> Note:
    """Return a note about dates that can be read in one way only, with an example."""
    ((row, text),) = texts.rows_of(texts.is_known(), 1)
    day = datetime.fromtimestamp(0, UTC) + timedelta(seconds=float(values[row]))
    years = f"; {SHORT_YEARS}" if have_short_years(texts.levels) else ""
    note = f"dates in '{texts.name}' such as {shown(text)} read as {day.date()}{years}"
    advice = f"declare column_kind={texts.name}:number to use them as numbers"
    return Note(note, advice if are_compact(texts) else "")


def declared_dates(texts: Texts, order: DateOrder | None) -> DateColumn:
    """Return a column that was declared to have dates.

    Parameters
    ----------
    order
        The declared order of day and month; None to detect it.

    Raises
    ------
    InvalidColumn
        Values are not dates, or the order was not declared and cannot be found.
    """
    declared = None if order is None else order == "dmy"
    writing = DateWriting(declared, has_short_years(texts.levels))
    form, note = form_of(texts.levels), None
    if order is None and writing.has_short_years:
        advice = f"{_advice(texts)}, and {SHORT_YEARS}"
        raise InvalidColumn(Problem("not-of-kind", _short_years(texts), texts.name, advice=advice))
    if form is not None:
        found_order = order_of(texts.levels, form)
        if order is None and found_order in UNCLEAR:
            detail = _unclear(texts, found_order)
            advice = _advice(texts)
            raise InvalidColumn(Problem("not-of-kind", detail, texts.name, advice=advice))
        order_read = found_order if found_order == "ymd" or order is None else order
        note = _read_as(texts, form, order_read)
        if order is None:
            writing = replace(writing, day_first=is_day_first(texts.levels, form, order_read))
    column = Column(texts.name, "date", dates=writing)
    return DateColumn(column, encode(texts, column), note)


def date_like(texts: Texts) -> Note | None:
    """Return a note if most values look like dates in a form that is not read."""
    texts = texts.head(_FIRST_ROWS)
    levels = texts.levels
    is_date = has_named_month(levels) | is_written(levels) | are_named(levels) | lack_years(levels)
    counts = texts.counts()
    if 2 * counts[is_date].sum() <= counts[texts.is_known()].sum():
        return None
    ((_, first),) = texts.rows_of(is_date, 1)
    text = f"column '{texts.name}' looks like dates such as {shown(first)}, but is read as text"
    return Note(text, "write them as 2026-01-31 to use them as dates")


def _encoded(texts: Texts, writing: DateWriting) -> DateColumn | None:
    """Return a column as dates; None if some values are not dates."""
    column = Column(texts.name, "date", dates=writing)
    try:
        return DateColumn(column, encode(texts, column))
    except InvalidColumn:
        return None


def _invalid_dates(texts: Texts) -> Note | None:
    """Return a note if at least half of the values are dates, but some others are not."""
    is_known = texts.is_known()
    days = pc.utf8_slice_codeunits(texts.levels, 0, _DATE_LENGTH)
    parsed = pc.strptime(days, format="%Y-%m-%d", unit="s", error_is_null=True)
    # the 30th of February was parsed as the 1st of March
    exists = pc.fill_null(pc.equal(pc.strftime(parsed, format="%Y-%m-%d"), days), fill_value=False)
    is_date = texts.matching(ISO_DATE) & np.asarray(exists, dtype=bool)
    if are_named(texts.head(_FIRST_ROWS).levels).any():
        is_date |= are_named(texts.levels)
    counts = texts.counts()
    written = is_written(texts.levels)
    if counts[written].sum() > counts[is_date].sum():
        is_date = written
    n_wrong = int(counts[is_known & ~is_date].sum())
    if not n_wrong or n_wrong > counts[is_date].sum():
        return None
    ((_, first),) = texts.rows_of(is_known & ~is_date, 1)
    values = "1 value" if n_wrong == 1 else f"{n_wrong} values"
    reason = f"column '{texts.name}' looks like dates but for {values}, such as {shown(first)}"
    return Note(f"{reason}: it is read as text", _find_wrong(texts))


def _read_as(texts: Texts, form: DateForm, order: FoundOrder) -> Note:
    return Note(f"dates in '{texts.name}' read as {as_written(form, order)}")


def _unclear(texts: Texts, order: str) -> str:
    why = "day and month can be either" if order == "ambiguous" else "no order fits all values"
    return f"column '{texts.name}' looks like dates, but {why}"


def _short_years(texts: Texts) -> str:
    return f"column '{texts.name}' has dates with years of two digits"


def _find_wrong(texts: Texts) -> str:
    return f"declare column_kind={texts.name}:date to find such values by their lines"


def _advice(texts: Texts) -> str:
    name = texts.name
    return f"declare column_kind={name}:date-dmy (day first) or {name}:date-mdy (month first)"
