"""Dates as spreadsheets write them: 31.01.2024, 31/01/2024, 01/31/2024, 1/31/24 or 2024/01/31.

A time such as 14:30, 14:30:05 or 2:30 PM can follow. With points the day is first; with slashes or
hyphens the order of day and month is found from all values of a column, or declared. Years of two
digits are read only where the order is declared.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from algorithms.wrappers.preparation.columns import DateWriting

#: Order of the parts of a date; ``ambiguous``: day and month can be either; ``mixed``: no order
#: fits all values.
DateOrder = Literal["dmy", "mdy", "ymd"]
FoundOrder = DateOrder | Literal["ambiguous", "mixed"]

#: Orders that are none.
UNCLEAR: Final = frozenset({"ambiguous", "mixed"})


class DateForm(NamedTuple):
    """A form of dates.

    Attributes
    ----------
    pattern
        Regular expression for Python and RE2, with the parts a, b and c of the date and the parts
        of a time.
    """

    pattern: str
    separator: str
    is_year_first: bool = False
    has_short_years: bool = False


# browsers write a narrow space before AM and PM, and a comma after the date
_HALF: Final = "(?:[ \u00a0\u202f]?(?P<half>[AaPp])[Mm])?"
_SECONDS: Final = r"(?::[0-9]{2}(?:\.[0-9]{1,6})?)?"
#: The end of a date, which can have a time.
CLOCK: Final = rf"(?P<hour>[0-9]{{1,2}}):(?P<rest>[0-9]{{2}}{_SECONDS})"
TIME: Final = rf"(?:(?:T|,? |:){CLOCK}{_HALF}(?: ?(?:UTC|GMT|Z))?)?$"
_TIME_PARTS: Final = ("hour", "rest", "half")


def _day_or_month_first(separator: str, n_digits: int) -> DateForm:
    s = re.escape(separator) + (" ?" if separator == "." else "")
    date = rf"^(?P<a>[0-9]{{1,2}}){s}(?P<b>[0-9]{{1,2}}){s}(?P<c>[0-9]{{{n_digits}}})"
    return DateForm(date + TIME, separator, has_short_years=n_digits == 2)


_YEAR_FIRST: Final = r"^(?P<c>[0-9]{{4}}){0}(?P<b>[0-9]{{1,2}}){0}(?P<a>[0-9]{{1,2}})"
_FORMS: Final = (
    DateForm(_YEAR_FIRST.format("/") + TIME, "/", is_year_first=True),
    DateForm(_YEAR_FIRST.format(r"\.") + TIME, ".", is_year_first=True),
    *(_day_or_month_first(separator, n_digits) for n_digits in (4, 2) for separator in "./-"),
)
#: Dates which are not read: with the name of the month, in English or German, or a year beside a
#: time of day or a quarter.
_NAMED_MONTH: Final = (
    r"(?:jan|feb|m[aä]r|apr|ma[iy]|jun|jul|aug|sep|o[ck]t|nov|de[cz])[a-zä]{0,6}\.?"
)
_WITH_NAMED_MONTH: Final = (
    rf"(?i)^[0-9]{{1,2}}\.?[ /-]?{_NAMED_MONTH},?[ /-]?(?:[0-9]{{4}}|[0-9]{{2}})(?: |,|T|$)"
    rf"|^{_NAMED_MONTH} ?[0-9]{{1,2}}, ?[0-9]{{4}}(?: |,|$)"
    r"|^.{0,20}(?:19|20)[0-9]{2}[^0-9].{0,10}\b[0-9]{1,2}:[0-9]{2}\b.{0,12}$"
    r"|^\b[0-9]{1,2}:[0-9]{2}\b.{0,20}(?:19|20)[0-9]{2}$"
    r"|^[1-4][.a-z]{0,3} ?(?:Quartal|quarter|trimestre) (?:19|20)[0-9]{2}$"
)
_NAMES: Final = {"d": "day", "m": "month", "y": "year"}
_MONTHS: Final = 12
_HOURS: Final = 12
#: First year of two digits that is in the 1900s, as for ``%y`` of strptime.
_FIRST_OF_1900S: Final = 69
#: How such years are read, in words.
SHORT_YEARS: Final = "years 69 to 99 are in the 1900s, and 00 to 68 in the 2000s"
_NO_HOUR: Final = 99


def form_of(texts: pa.Array) -> DateForm | None:
    """Return the form that all texts have; None if there is none."""
    known = texts.drop_null()
    if not len(known):
        return None
    found = _match(known[0].as_py())
    if found is None or not pc.all(pc.match_substring_regex(known, found[0].pattern)).as_py():
        return None
    return found[0]


def is_written(texts: pa.Array) -> NDArray[np.bool_]:
    """Return which of the texts have one of the forms."""
    return _match_any(texts, _FORMS)


def has_named_month(texts: pa.Array) -> NDArray[np.bool_]:
    """Return which of the texts are dates with the name of a month, such as 31-Jan-2024."""
    found = pc.match_substring_regex(texts, _WITH_NAMED_MONTH)
    return np.asarray(pc.fill_null(found, fill_value=False), dtype=bool)


def has_short_years(texts: pa.Array) -> bool:
    """Return whether some of the texts have years of two digits."""
    return bool(_match_any(texts, [form for form in _FORMS if form.has_short_years]).any())


def order_of(texts: pa.Array, form: DateForm) -> FoundOrder:
    """Return the order of day and month in texts of a form."""
    if form.is_year_first:
        return "ymd"
    if form.separator == ".":
        return "dmy"
    first, second = _days_and_months(texts, form)
    has_day_first = pc.max(first).as_py() > _MONTHS
    has_month_first = pc.max(second).as_py() > _MONTHS
    if has_day_first and has_month_first:
        return "mixed"
    if pc.all(pc.equal(first, second)).as_py():
        return "dmy"  # either way it is the same day
    if not (has_day_first or has_month_first):
        return "ambiguous"
    return "dmy" if has_day_first else "mdy"


def is_day_first(texts: pa.Array, form: DateForm, order: FoundOrder) -> bool | None:
    """Return whether the day is before the month in texts of an order; None if they do not show it.

    Dates such as 01/01/2024 are the same day in either order.
    """
    if order not in ("dmy", "mdy"):
        return None
    is_same = pc.all(pc.equal(*_days_and_months(texts, form))).as_py()
    return None if form.separator != "." and is_same else order == "dmy"


def to_iso(texts: pa.Array, form: DateForm, order: FoundOrder) -> pa.Array:
    """Return texts of a form as ISO dates; whether the days and hours exist is not checked."""
    parts = pc.extract_regex(texts, form.pattern)
    a, b, c, hour, rest, half = (pc.struct_field(parts, n) for n in (*"abc", *_TIME_PARTS))
    day, month = (b, a) if order == "mdy" else (a, b)
    year = _full_years(c) if form.has_short_years else c
    padded = [pc.utf8_lpad(part, 2, "0") for part in (month, day)]
    date = pc.binary_join_element_wise(year, *padded, "-")
    time = pc.binary_join_element_wise(pc.utf8_lpad(_full_hours(hour, half), 2, "0"), rest, ":")
    has_time = pc.not_equal(rest, "")
    return pc.if_else(has_time, pc.binary_join_element_wise(date, time, " "), date)


def as_written(form: DateForm, order: FoundOrder) -> str:
    """Return the form in words, such as ``day.month.year``."""
    words = form.separator.join(_NAMES[part] for part in order)
    return f"{words}; {SHORT_YEARS}" if form.has_short_years else words


def parse_date(text: str, writing: DateWriting) -> datetime | None:
    """Return the moment that one text means; None if it is no date, or can be one of two.

    Parameters
    ----------
    writing
        How the dates of the column are written.
    """
    matched = _match(text)
    if matched is None:
        return None
    form, found = matched
    if form.has_short_years and not writing.has_short_years:
        return None
    a, b, year = (int(found[name]) for name in "abc")
    day_first = writing.day_first
    if day_first is None:
        is_known = form.separator == "." or a == b or max(a, b) > _MONTHS
        if not form.is_year_first and not is_known:
            return None
        day_first = form.separator == "." or b <= _MONTHS
    day, month = (a, b) if day_first or form.is_year_first else (b, a)
    if form.has_short_years:
        year = full_year(year)
    iso = f"{year:04}-{month:02}-{day:02}"
    if found["hour"] is not None:
        iso += f" {full_hour(int(found['hour']), found['half']):02}:{found['rest']}"
    try:
        return datetime.fromisoformat(iso)
    except ValueError:
        return None


def _match(text: str) -> tuple[DateForm, re.Match[str]] | None:
    for form in _FORMS:
        found = re.match(form.pattern, text, re.ASCII)
        if found is not None:
            return form, found
    return None


def _match_any(texts: pa.Array, forms: Sequence[DateForm]) -> NDArray[np.bool_]:
    pattern = "|".join(re.sub(r"\?P<\w+>", "", form.pattern) for form in forms)
    found = pc.match_substring_regex(texts, pattern)
    return np.asarray(pc.fill_null(found, fill_value=False), dtype=bool)


def _days_and_months(texts: pa.Array, form: DateForm) -> tuple[pa.Array, pa.Array]:
    """Return the first and the second number of each date."""
    parts = pc.extract_regex(texts.drop_null(), form.pattern)
    return pc.struct_field(parts, "a").cast(pa.int64()), pc.struct_field(parts, "b").cast(
        pa.int64()
    )


def full_year(year: int) -> int:
    """Return the year that one of two digits means."""
    return year + (1900 if year >= _FIRST_OF_1900S else 2000)


def _full_years(years: pa.Array) -> pa.Array:
    numbers = years.cast(pa.int64())
    is_old = pc.greater_equal(numbers, _FIRST_OF_1900S)
    return pc.add(numbers, pc.if_else(is_old, 1900, 2000)).cast(pa.string())


def _full_hours(hours: pa.Array, halves: pa.Array) -> pa.Array:
    """Return hours of 24, as text; those without AM or PM stay."""
    if not pc.any(pc.not_equal(halves, "")).as_py():
        return hours
    pairs = zip(hours.to_pylist(), halves.to_pylist(), strict=True)
    return pa.array(
        [str(full_hour(int(hour), half)) if half else hour for hour, half in pairs], pa.string()
    )


def full_hour(hour: int, half: str | None) -> int:
    """Return an hour of 24; one that does not exist if there is no such hour of 12."""
    if not half:
        return hour
    if not 1 <= hour <= _HOURS:
        return _NO_HOUR
    return hour % _HOURS + (_HOURS if half in "Pp" else 0)
