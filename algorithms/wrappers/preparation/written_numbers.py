"""Numbers as people write them: 1,234.50, 1.299,50, 1'299.50, 1 299,50, 12 % or $1.50.

A point or a comma before three digits can separate thousands or decimals. Which one it is, is found
from all values of a table; where no value shows it, the table is refused.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from algorithms.wrappers.preparation.columns import PLAIN_NUMBERS, NumberWriting
from algorithms.wrappers.preparation.named_dates import MONTH_NAME

#: Units that all values of a column can have.
_UNITS: Final = "%‰$€£¥"
_SPACES: Final = "[ \u00a0\u2009\u202f]"
#: Patterns of the separators, for Python and RE2.
_APOSTROPHES: Final = "['\u2019]"
_MARKS: Final = {".": r"\.", ",": ",", "'": _APOSTROPHES, " ": _SPACES}
_OTHER: Final = {".": ",", ",": "."}
_HAS_UNIT: Final = (
    rf"[+-]?[{_UNITS}]{_SPACES}?[+-]?[0-9.,].*|[+-]?(?:[0-9.,].*)?[0-9.,]{_SPACES}?[{_UNITS}]"
)
_EXPONENT: Final = r"(?:[eE][+-]?[0-9]+)?"
_SHORT: Final = "[+-]?[1-9][0-9]{0,2}"
#: Any unit before or after a number.
_UNIT: Final = rf"^([+-]?)[{_UNITS}]{_SPACES}?|{_SPACES}?[{_UNITS}]$"
#: Text that was meant as a number, if a plain one is expected.
_NUMBER_LIKE: Final = (
    rf"[+-]?[0-9]{{1,3}}(?:(?:[,._]|{_APOSTROPHES}|{_SPACES})[0-9]{{3}})+(?:[.,][0-9]+)?"
    rf"|[+-]?[0-9]*[,.]?[0-9]+{_EXPONENT}"
)
_WITH_UNIT: Final = rf"(?:[+-]?[{_UNITS}]{_SPACES}?)?(?:{_NUMBER_LIKE})(?:{_SPACES}?[{_UNITS}])?"
#: The minus sign of typesetting, which is not the hyphen of keyboards.
MINUS: Final = "\u2212"
IN_BRACKETS: Final = rf"\((?:{_WITH_UNIT})\)"
#: Negative numbers as typesetters and accountants write them.
SIGNED: Final = rf"{MINUS}(?:{_WITH_UNIT})|{IN_BRACKETS}"
MEANT: Final = rf"{_WITH_UNIT}|{SIGNED}"
#: A unit of its own after a number: words such as kg, mg/dl, m², °C or beats per minute.
_WORD: Final = r"(?:[a-zµ]*m\^?[23]|[^\W\d_]+|[°%‰$€£¥][^\W\d_]*)"
_has_own_unit: Final = re.compile(
    rf"{MINUS}?(?:{_NUMBER_LIKE}){_SPACES}?({_WORD}(?:(?: ?[/·*.-] ?| ){_WORD})*\.?)"
).fullmatch
#: Codes and signs of currencies before a number; other words there name things, such as Room 5.
_CURRENCY: Final = (
    r"EUR|USD|CHF|GBP|JPY|CNY|RMB|INR|KRW|AUD|CAD|NZD|SGD|HKD|TWD|THB|IDR|MYR|PHP|SEK|NOK|DKK|ISK"
    r"|PLN|CZK|HUF|RON|BGN|RSD|TRY|RUB|UAH|ILS|AED|SAR|EGP|ZAR|BRL|MXN|ARS|CLP|COP|PEN"
    r"|S?Fr\.?|Rs\.?|kr\.?|(?:R|US|CA?|AU?|NZ|HK|S)\$|₹|₽|₩|₺|₪"
)
_has_currency: Final = re.compile(rf"[+-]?({_CURRENCY}){_SPACES}?[+-]?(?:{_NUMBER_LIKE})").fullmatch
#: Words after numbers that make them other numbers, or days of a month.
_is_no_unit: Final = re.compile(rf"(?i:[ap]\.?m\.?|{MONTH_NAME})").fullmatch
#: So many different texts show a unit; longer ones have none.
_MIN_WITH_UNIT: Final = 2
_MAX_WITH_UNIT: Final = 40
_BRACKETS: Final = r"^\((.*)\)$"


@lru_cache
def grouped(thousands: str, decimal: str = "") -> str:
    """Return the pattern of numbers with thousands separators, and decimals if there are any."""
    decimals = rf"(?:{_MARKS[decimal]}[0-9]+)?{_EXPONENT}" if decimal else ""
    return rf"{_SHORT}(?:{_MARKS[thousands]}[0-9]{{3}})+{decimals}"


@lru_cache
def shows_both(decimal: str) -> str:
    """Return the pattern of numbers with two separators, of which the last is the decimal one.

    Also that of numbers in which the other one occurs several times, so that it is of thousands.
    """
    mark, other = _MARKS[decimal], _MARKS[_OTHER[decimal]]
    grouping = f"(?:{other}|{_APOSTROPHES}|{_SPACES})"
    return rf"{_SHORT}(?:{grouping}[0-9]{{3}})+{mark}[0-9]+|{_SHORT}(?:{other}[0-9]{{3}}){{2,}}"


@lru_cache
def shows(decimal: str) -> str:
    """Return the pattern of numbers that show that a separator is the decimal one."""
    mark = _MARKS[decimal]
    return (
        rf"[+-]?[0-9]*{mark}[0-9]+[eE][+-]?[0-9]+"
        rf"|[+-]?(?:[0-9]{{4,}}|0[0-9]*|){mark}[0-9]+"
        rf"|[+-]?[0-9]+{mark}(?:[0-9]{{1,2}}|[0-9]{{4,}})"
        rf"|{shows_both(decimal)}"
    )


@lru_cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def own_unit_of(levels: pa.Array) -> str:
    """Return the text beside the number of all texts, such as kg or EUR; else an empty text."""
    texts = levels.drop_null()
    first = texts[0].as_py() if len(texts) >= _MIN_WITH_UNIT else ""
    is_short = len(first) <= _MAX_WITH_UNIT
    found = (_has_own_unit(first) or _has_currency(first)) if is_short else None
    if found is None or _is_no_unit(found[1]):
        return ""
    unit = re.escape(found[1])
    pattern = f"^{MINUS}?(?:{_NUMBER_LIKE}){_SPACES}?{unit}$"
    if _has_currency(first):
        pattern = f"^[+-]?{unit}{_SPACES}?[+-]?(?:{_NUMBER_LIKE})$"
    have_unit = pc.all(pc.match_substring_regex(texts, pattern)).as_py()
    return str(found[1]) if have_unit else ""


def without_unit(levels: pa.Array, unit: str) -> pa.Array:
    """Return texts without a unit."""
    return pc.replace_substring_regex(levels, _pattern_of(unit), r"\1") if unit else levels


def unit_of(levels: pa.Array) -> str:
    """Return the unit that all texts have; an empty text if there is none."""
    texts = levels.drop_null()
    has_unit = pc.match_substring_regex(texts, f"^(?:{_HAS_UNIT})$")
    if not len(texts) or not pc.all(has_unit).as_py():
        return ""
    units = set(re.findall(f"[{_UNITS}]", "".join(texts.unique().to_pylist())))
    return units.pop() if len(units) == 1 else ""


@lru_cache
def _pattern_of(unit: str) -> str:
    """Return the pattern of one unit before or after a number."""
    mark = re.escape(unit)
    return rf"^([+-]?){mark}{_SPACES}?|{_SPACES}?{mark}$"


def as_plain(text: str, writing: NumberWriting) -> str:
    """Return the text of a number with a decimal point only; one of no number stays none."""
    if writing.has_signs:
        text = _compiled(_BRACKETS).sub(r"-\1", text).replace(MINUS, "-")
    if writing.unit:
        text = _compiled(_pattern_of(writing.unit)).sub(r"\1", text)
    if writing.thousands:
        pattern = grouped(writing.thousands, writing.decimal)
        if _compiled(pattern).fullmatch(text):
            text = _compiled(_MARKS[writing.thousands]).sub("", text)
    if writing.decimal == ".":
        return text
    return text.replace(".", "_").replace(writing.decimal, ".")  # a point is no separator then


def all_plain(levels: pa.Array, writing: NumberWriting) -> pa.Array:
    """Return texts as :func:`as_plain` returns them."""
    if writing is PLAIN_NUMBERS:
        return levels
    if writing.has_signs:
        levels = without_signs(levels)
    levels = without_unit(levels, writing.unit)
    if writing.thousands:
        pattern = grouped(writing.thousands, writing.decimal)
        is_grouped = pc.match_substring_regex(levels, f"^(?:{pattern})$")
        bare = pc.replace_substring_regex(levels, _MARKS[writing.thousands], "")
        levels = pc.if_else(is_grouped, bare, levels)
    if writing.decimal == ".":
        return levels
    return pc.replace_substring(pc.replace_substring(levels, ".", "_"), writing.decimal, ".")


def without_signs(levels: pa.Array) -> pa.Array:
    """Return texts in which negative numbers have a hyphen."""
    bare = pc.replace_substring_regex(levels, _BRACKETS, r"-\1")
    return pc.replace_substring(bare, MINUS, "-")


def with_decimal(writing: NumberWriting, decimal: str) -> NumberWriting:
    """Return how numbers are written with another decimal separator."""
    thousands = _OTHER[decimal] if writing.thousands in _OTHER else writing.thousands
    if decimal == "." and not thousands and not writing.unit and not writing.has_signs:
        return PLAIN_NUMBERS
    return replace(writing, decimal=decimal, thousands=thousands)


def is_ambiguous(text: str) -> bool:
    """Return whether a point or a comma of a number can separate thousands or decimals."""
    text = _compiled(_UNIT).sub(r"\1", text.strip())
    return _compiled(f"{_SHORT}[.,][0-9]{{3}}").fullmatch(text) is not None


def readings_of(text: str) -> tuple[str, str]:
    """Return an ambiguous number with decimals, and with thousands."""
    text = _compiled(_UNIT).sub(r"\1", text.strip())
    return text.replace(",", "."), text.replace(",", "").replace(".", "")


def shown_decimal(cells: Sequence[str], *, is_delimiter: bool = False) -> str | None:
    """Return the decimal separator that cells show; None if they show none.

    Parameters
    ----------
    is_delimiter
        Whether a comma divides cells, so that it alone does not show that it is the decimal one.
    """
    n_points = n_commas = 0
    point, comma = (
        _compiled(shows(".")).fullmatch,
        _compiled(shows_both(",") if is_delimiter else shows(",")).fullmatch,
    )
    for cell in cells:
        if "." in cell or "," in cell:
            text = cell.strip()
            if "%" in text or "$" in text or not text.isascii():  # other texts have no unit
                text = _compiled(_UNIT).sub(r"\1", text)
            # one comma alone does not show what a point is, nor the other way round
            if "." in text or text.count(",") > 1:
                n_points += point(text) is not None
            if "," in text or text.count(".") > 1:
                n_commas += comma(text) is not None
    if n_commas > n_points:
        return ","
    return "." if n_points else None


def matches(levels: pa.Array, pattern: str) -> NDArray[np.bool_]:
    """Return which texts match as a whole, apart from their unit."""
    bare = pc.replace_substring_regex(levels, _UNIT, r"\1")
    found = pc.match_substring_regex(bare, f"^(?:{pattern})$")
    return np.asarray(pc.fill_null(found, fill_value=False), dtype=bool)


def find_thousands(columns: Sequence[tuple[pa.Array, NDArray[Any]]], decimal: str) -> str:
    """Return the thousands separator of numbers; an empty text if there is none.

    Parameters
    ----------
    columns
        The different texts of each column, and how often each occurs.
    """
    marks = (_OTHER[decimal], "'", " ")
    counts = [
        sum(int(n[matches(levels, grouped(mark, decimal))].sum()) for levels, n in columns)
        for mark in marks
    ]
    return marks[int(np.argmax(counts))] if any(counts) else ""
