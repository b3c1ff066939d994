"""Dates that can be read in one way only, besides ISO dates.

Those with the English name of the month: Jan 1 2000, 1 January 2000, 31-Jan-2024, Jan-24; and
months, quarters and weeks: 2024-01, 01/2024, 2024M01, 2024Q1, Q1 2024, 2024-W01, which are their
first day.
"""

import re
from datetime import date, datetime
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from algorithms.wrappers.preparation.written_dates import CLOCK, TIME, full_hour, full_year

_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
MONTH_NAME: Final = (
    "(?P<name>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?"
    r"|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_WEEKDAY: Final = "(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]{0,6},? )?"
_DAY: Final = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?\.?"
_YEAR: Final = "(?P<year>[0-9]{4})"
_SHORT_YEAR: Final = "(?P<short>[0-9]{2})"
#: Years that a month or a quarter without a name can have.
_YEARS: Final = range(1700, 2201)
_MONTH: Final = "(?P<month>0[1-9]|1[0-2])"
_QUARTER: Final = "q(?P<quarter>[1-4])"
_PATTERNS: Final = (
    rf"^{_WEEKDAY}{_DAY}[ /-]?{MONTH_NAME},?[ /-]?{_YEAR}{TIME}",
    rf"^{_WEEKDAY}{_DAY}[ /-]?{MONTH_NAME},?[ /-]?{_SHORT_YEAR}{TIME}",
    rf"^{_WEEKDAY}{MONTH_NAME}[ /-]?{_DAY},?[ /-]{_YEAR}{TIME}",
    rf"^{_YEAR}[ /-]?{MONTH_NAME}[ /-]?{_DAY}{TIME}",
    rf"^{MONTH_NAME},?[ /-]?{_YEAR}$",
    rf"^{MONTH_NAME}[/-]{_SHORT_YEAR}$",
    rf"^{_YEAR}[ /-]?{MONTH_NAME}$",
    rf"^{_YEAR}[/-]{_MONTH}$",
    rf"^{_MONTH}/{_YEAR}$",
    rf"^{_YEAR}M(?P<month>0?[1-9]|1[0-2])$",
    rf"^{_YEAR}[ :-]?{_QUARTER}$",
    rf"^{_QUARTER}[ /-]?{_YEAR}$",
    rf"^{_YEAR}-?W(?P<week>0[1-9]|[1-4][0-9]|5[0-3])(?:-?(?P<weekday>[1-7]))?$",
    rf"^{_WEEKDAY}{MONTH_NAME} {{1,2}}{_DAY} {CLOCK} (?:(?:UTC|GMT) )?{_YEAR}$",
    rf"^{_YEAR}年(?P<month>0?[1-9]|1[0-2])月(?P<day>[0-9]{{1,2}})日{TIME}",
)
_WITHOUT_YEAR: Final = re.sub(
    r"\?P<\w+>", "?:", f"(?i)^(?:{_DAY}[ /-]?{MONTH_NAME}|{MONTH_NAME}[ -]?{_DAY})$"
)
_FORMS: Final = tuple(re.compile(p, re.IGNORECASE | re.ASCII) for p in _PATTERNS)
_ANY: Final = "(?i)" + "|".join(re.sub(r"\?P<\w+>", "?:", pattern) for pattern in _PATTERNS)


def parse_named(text: str) -> datetime | None:
    """Return the moment that a text means; None if it is no such date."""
    for form in _FORMS:
        found = form.match(text)
        if found is not None:
            return _moment(found.groupdict())
    return None


def are_named(levels: pa.Array) -> NDArray[np.bool_]:
    """Return which texts are such dates, and exist."""
    found = pc.fill_null(pc.match_substring_regex(levels, _ANY), fill_value=False)
    is_named = np.array(found, dtype=bool)
    if is_named.any():
        candidates = levels.filter(pa.array(is_named)).to_pylist()
        is_named[is_named] = [parse_named(text) is not None for text in candidates]
    return is_named


def lack_years(levels: pa.Array) -> NDArray[np.bool_]:
    """Return which texts are a day and a month without a year, such as 24-Jan."""
    found = pc.match_substring_regex(levels, _WITHOUT_YEAR)
    return np.asarray(pc.fill_null(found, fill_value=False), dtype=bool)


def have_short_years(levels: pa.Array) -> bool:
    """Return whether some of such dates have years of two digits."""
    short = [form for form in _FORMS if "short" in form.groupindex]
    texts = levels.drop_null().to_pylist()
    return any(form.match(text) is not None for text in texts for form in short)


def _moment(parts: dict[str, str | None]) -> datetime | None:
    year = int(parts.get("year") or full_year(int(parts["short"] or 0)))
    month = int(parts.get("month") or 3 * int(parts.get("quarter") or 1) - 2)
    name = parts.get("name")
    if name is not None:
        month = 1 + _MONTHS.index(name[:3].lower())
    if name is None and year not in _YEARS:  # of months and quarters: 1001-01 is a number of a part
        return None
    if parts.get("week") is not None:
        return _first_day(year, int(parts["week"] or 0), int(parts["weekday"] or 1))
    iso = f"{year:04}-{month:02}-{int(parts.get('day') or 1):02}"
    if parts.get("hour") is not None:
        iso += f" {full_hour(int(parts['hour'] or 0), parts.get('half')):02}:{parts['rest']}"
    try:
        return datetime.fromisoformat(iso)
    except ValueError:
        return None


def _first_day(year: int, week: int, weekday: int) -> datetime | None:
    """Return a day of an ISO week, or None if the year has no such week."""
    try:
        return datetime.combine(date.fromisocalendar(year, week, weekday), datetime.min.time())
    except ValueError:
        return None
