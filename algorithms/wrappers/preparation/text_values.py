"""Rules of reading: which text is a number, a boolean, a date, a category or a missing value.

Uploads, rows for a model and estimators read text by these rules, in every format. Patterns are for
both Python and RE2, whose Arrow functions read columns of many different texts
(:mod:`algorithms.wrappers.preparation.texts`).
"""

import math
import re
import unicodedata
from datetime import UTC, date, datetime, time
from typing import Any, Final

import numpy as np

from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from algorithms.wrappers.preparation.columns import PLAIN_NUMBERS, DateWriting, NumberWriting
from algorithms.wrappers.preparation.named_dates import parse_named
from algorithms.wrappers.preparation.written_dates import parse_date
from algorithms.wrappers.preparation.written_numbers import MINUS, as_plain

#: Cells of untyped text, such as CSV, that are a missing value beside blank ones.
MISSING_MARKERS: Final = (
    *("NA", "N/A", "n/a", "<NA>", "#N/A", "#NA", "NaN", "nan", "NAN", "-nan"),
    *("NULL", "Null", "null", "None", "?"),
    # errors of Excel, in English, German and French
    *("#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!"),
    *("#NV", "#WERT!", "#BEZUG!", "#ZAHL!", "#VALEUR!", "#NOMBRE!", "#NOM?"),
)
MARKERS: Final = frozenset(MISSING_MARKERS)
#: Numbers with the decimal separator "."; another one is replaced before.
NUMBER: Final = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
#: Numbers that are infinite, and refused as such.
INFINITE: Final = r"(?i:[+-]?inf(?:inity)?)"
#: Integers of so many digits may be above 2**53.
LONG_INTEGER: Final = r"[+-]?[0-9]{16,}"
_DAY: Final = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME: Final = r"[T ][0-9]{2}(?::[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?)?"
_ZONE: Final = r"(?:Z| ?(?:UTC|GMT)| ?[+-][0-9]{2}(?::?[0-9]{2})?)"
_BLANK_ZONE: Final = re.compile(" ([+-][0-9]{2}(?::?[0-9]{2})?)$")
#: ISO dates with or without a time; whether the day exists is checked apart.
ISO_DATE: Final = f"{_DAY}(?:{_TIME}{_ZONE}?)?"
#: ISO dates without separators, with a time.
BASIC_DATE: Final = f"[0-9]{{8}}[T ][0-9]{{2}}(?:[0-9]{{2}}){{0,2}}{_ZONE}?"
#: Those with a time zone.
ZONED_DATE: Final = f"{_DAY}{_TIME}{_ZONE}"
#: Words that are booleans in text, in any case.
BOOLEANS: Final = {
    **dict.fromkeys(("true", "yes", "t", "y", "1"), 1.0),
    **dict.fromkeys(("false", "no", "f", "n", "0"), 0.0),
}

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: Microseconds of a second.
MICROSECONDS: Final = 1e6
#: Numbers that can be dates, such as 20240131.
_FIRST_COMPACT: Final = 1900_01_01
_LAST_COMPACT: Final = 2099_12_31
_AFTER_DAY: Final = 10**6
_DIGITS_OF_TIME: Final = len("20240131143000")
#: Of texts with these characters alone, float() reads those that match NUMBER; this is faster.
PLAIN_CHARACTERS: Final = "0123456789+-.eE"
_CHARACTERS: Final = frozenset(PLAIN_CHARACTERS)
_MAX_DIGITS: Final = 309
_is_infinite: Final = re.compile(INFINITE).fullmatch
_is_long: Final = re.compile(LONG_INTEGER).fullmatch


def read_number(text: str, writing: NumberWriting = PLAIN_NUMBERS) -> float | None:
    """Return the number that a text is, None if it is none."""
    text = text.strip()
    if writing is not PLAIN_NUMBERS:
        text = as_plain(text, writing)
    if text.startswith(MINUS):
        text = text.replace(MINUS, "-", 1)
    if not _CHARACTERS.issuperset(text):
        return None
    try:
        return float(text)
    except ValueError:
        return None


def is_number_cell(text: str, writing: NumberWriting = PLAIN_NUMBERS) -> bool:
    """Return whether a cell of untyped text is a number or a missing value."""
    return read_number(text, writing) is not None or is_missing(text, MARKERS)


def is_missing(text: str, markers: frozenset[str] = frozenset()) -> bool:
    """Return whether a text is blank, or one of the missing markers."""
    bare = text.strip()
    return not bare or bare in markers


def read_boolean(text: str) -> float | None:
    """Return 1 or 0 for a word that is a boolean, None for others."""
    return BOOLEANS.get(text.strip().lower())


def read_date(text: str, writing: DateWriting) -> float | None:
    """Return the seconds since 1970 of a date, None if the text is none.

    Parameters
    ----------
    writing
        How the dates of the column are written that are not in ISO format.
    """
    text = text.strip()
    if len(text) == _DIGITS_OF_TIME and text.isdigit():
        text = f"{text[:8]}T{text[8:]}"
    found = _iso_moment(text) or parse_date(text, writing) or parse_named(text)
    return None if found is None else seconds_of(found)


def compact_seconds(number: float) -> float | None:
    """Return the seconds since 1970 of a date such as the number 20240131, None for others.

    The time of day can follow, as in 20240131143000.
    """
    days, clock = divmod(number, _AFTER_DAY) if number > _LAST_COMPACT else (number, 0.0)
    if not _FIRST_COMPACT <= days <= _LAST_COMPACT or number != int(number):
        return None
    try:
        return seconds_of(datetime.fromisoformat(f"{int(days)}T{int(clock):06}"))
    except ValueError:
        return None


def _iso_moment(text: str) -> datetime | None:
    """Return the moment of an ISO date, also in the basic format, but not by its week."""
    text = _BLANK_ZONE.sub(r"\1", text.removesuffix("UTC").removesuffix("GMT").rstrip())
    try:
        moment = datetime.fromisoformat(text)
        moment = moment.astimezone(UTC) if moment.tzinfo else moment
    except (ValueError, OverflowError):  # the latter in the first and the last year
        return None
    separator = text[10:11] if text[4] == "-" else text[8:9]
    return moment if separator in ("", "T", " ") and "W" not in text else None


def seconds_of(moment: date) -> float:
    """Return the seconds since 1970 in UTC; those without a time zone are in UTC."""
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time())
    since = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH
    # as Arrow's microseconds become seconds, to the bit
    return ((since.days * 86_400 + since.seconds) * 10**6 + since.microseconds) / MICROSECONDS


def level_of(value: Any) -> str | None:
    """Return the text of a value of a category, the same in every format; None for other objects.

    A missing value has an empty text. Booleans are ``true`` and ``false``, and whole numbers are
    integers.
    """
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value.strip())
    if value is None or value != value:  # noqa: PLR0124
        return ""
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, datetime):
        moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return (moment if moment.time() != time() else moment.date()).isoformat()
    return str(value) if isinstance(value, int | float | np.number | date) else None


def is_inexact(value: Any) -> bool:
    """Return whether a value, or the text of one, is an integer that a float64 does not hold."""
    if isinstance(value, str):
        text = value.strip()
        digits = text.lstrip("+-").lstrip("0")
        # one of more digits is infinite, and refused as such
        return bool(_is_long(text)) and len(digits) < _MAX_DIGITS and is_inexact(int(digits or 0))
    return isinstance(value, int | np.integer) and abs(int(value)) > MAX_EXACT_INTEGER


def is_infinite(value: Any) -> bool:
    """Return whether a value, or the text of one, is an infinite number."""
    if isinstance(value, str):
        is_word = _is_infinite(value.strip()) is not None
        number = None if is_word else read_number(value)
        return is_word or (number is not None and math.isinf(number))
    return isinstance(value, float | np.floating) and math.isinf(value)
