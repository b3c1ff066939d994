"""Dates as spreadsheets write them: 31.01.2024, 31/01/2024, 01/31/2024 or 2024/01/31.

A time such as 14:30 or 14:30:05 can follow. With points the day is first; with slashes or hyphens
the order of day and month is found from all values of a column, or declared.
"""

import re
from datetime import datetime
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

#: Order of the parts of a date; ``ambiguous``: day and month can be either; ``mixed``: no order
#: fits all values.
DateOrder = Literal["dmy", "mdy", "ymd"]
FoundOrder = DateOrder | Literal["ambiguous", "mixed"]

#: Orders that are none.
UNCLEAR: Final = frozenset({"ambiguous", "mixed"})

_TIME: Final = r"(?:[T ](?P<hour>[0-9]{1,2}):(?P<rest>[0-9]{2}(?::[0-9]{2})?))?$"
_YEAR_FIRST: Final = r"^(?P<c>[0-9]{4})/(?P<b>[0-9]{1,2})/(?P<a>[0-9]{1,2})" + _TIME
_POINTS: Final = r"^(?P<a>[0-9]{1,2})\.(?P<b>[0-9]{1,2})\.(?P<c>[0-9]{4})" + _TIME
_SLASHES: Final = r"^(?P<a>[0-9]{1,2})/(?P<b>[0-9]{1,2})/(?P<c>[0-9]{4})" + _TIME
_HYPHENS: Final = r"^(?P<a>[0-9]{1,2})-(?P<b>[0-9]{1,2})-(?P<c>[0-9]{4})" + _TIME
_FORMS: Final = (_YEAR_FIRST, _POINTS, _SLASHES, _HYPHENS)
_SEPARATORS: Final = {_YEAR_FIRST: "/", _POINTS: ".", _SLASHES: "/", _HYPHENS: "-"}
_NAMES: Final = {"d": "day", "m": "month", "y": "year"}
_MONTHS: Final = 12


def form_of(texts: pa.Array) -> str | None:
    """Return the form that all texts have, as a pattern; None if there is none."""
    known = texts.drop_null()
    if not len(known):
        return None
    first = known[0].as_py()
    form = next((form for form in _FORMS if re.match(form, first, re.ASCII)), None)
    if form is None or not pc.all(pc.match_substring_regex(known, form)).as_py():
        return None
    return form


def is_written(texts: pa.Array) -> NDArray[np.bool_]:
    """Return which of the texts have one of the forms."""
    found = pc.match_substring_regex(texts, "|".join(re.sub(r"\?P<\w+>", "", f) for f in _FORMS))
    return np.asarray(pc.fill_null(found, fill_value=False), dtype=bool)


def order_of(texts: pa.Array, form: str) -> FoundOrder:
    """Return the order of day and month in texts of a form."""
    if form == _YEAR_FIRST:
        return "ymd"
    if form == _POINTS:
        return "dmy"
    parts = pc.extract_regex(texts.drop_null(), form)
    first, second = (pc.struct_field(parts, name).cast(pa.int64()) for name in "ab")
    has_day_first = pc.max(first).as_py() > _MONTHS
    has_month_first = pc.max(second).as_py() > _MONTHS
    if has_day_first and has_month_first:
        return "mixed"
    if pc.all(pc.equal(first, second)).as_py():
        return "dmy"  # either way it is the same day
    if not (has_day_first or has_month_first):
        return "ambiguous"
    return "dmy" if has_day_first else "mdy"


def is_day_first(texts: pa.Array, form: str, order: FoundOrder) -> bool | None:
    """Return whether the day is before the month in texts of an order; None if they do not show it.

    Dates such as 01/01/2024 are the same day in either order.
    """
    if order not in ("dmy", "mdy"):
        return None
    parts = pc.extract_regex(texts.drop_null(), form)
    is_same = pc.equal(*(pc.struct_field(parts, name).cast(pa.int64()) for name in "ab"))
    return None if form != _POINTS and pc.all(is_same).as_py() else order == "dmy"


def to_iso(texts: pa.Array, form: str, order: FoundOrder) -> pa.Array:
    """Return texts of a form as ISO dates; whether the days exist is not checked."""
    parts = pc.extract_regex(texts, form)
    a, b, year, hour, rest = (pc.struct_field(parts, n) for n in ("a", "b", "c", "hour", "rest"))
    day, month = (b, a) if order == "mdy" else (a, b)
    padded = [pc.utf8_lpad(part, 2, "0") for part in (month, day)]
    date = pc.binary_join_element_wise(year, *padded, "-")
    time = pc.binary_join_element_wise(pc.utf8_lpad(hour, 2, "0"), rest, ":")
    has_time = pc.not_equal(rest, "")
    return pc.if_else(has_time, pc.binary_join_element_wise(date, time, " "), date)


def as_written(form: str, order: FoundOrder) -> str:
    """Return the form in words, such as ``day.month.year``."""
    return _SEPARATORS[form].join(_NAMES[part] for part in order)


def parse_date(text: str, *, day_first: bool | None = None) -> datetime | None:
    """Return the moment that one text means; None if it is no date, or can be one of two.

    Parameters
    ----------
    day_first
        Whether the day is before the month in the dates of the column; None if that is unknown.
    """
    for form in _FORMS:
        found = re.match(form, text, re.ASCII)
        if found is not None:
            return _moment(found, form, day_first=day_first)
    return None


def _moment(found: re.Match[str], form: str, *, day_first: bool | None) -> datetime | None:
    a, b, year = (int(found[name]) for name in "abc")
    if day_first is None:
        is_known = form == _POINTS or a == b or max(a, b) > _MONTHS
        if form != _YEAR_FIRST and not is_known:
            return None
        day_first = form == _POINTS or b <= _MONTHS
    day, month = (a, b) if day_first or form == _YEAR_FIRST else (b, a)
    iso = f"{year:04}-{month:02}-{day:02}"
    if found["hour"] is not None:
        iso += f" {found['hour']:0>2}:{found['rest']}"
    try:
        return datetime.fromisoformat(iso)
    except ValueError:
        return None
