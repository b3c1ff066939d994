"""Columns of text that are numbers, or were meant to be.

If at least half of the values of a column are numbers, it is one of numbers, and the others are
mistakes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from algorithms.wrappers.preparation.columns import PLAIN_NUMBERS, NumberWriting
from algorithms.wrappers.preparation.invalid_column import (
    MAX_PROBLEMS,
    InvalidColumn,
    Problem,
    number_writing,
    shown,
)
from algorithms.wrappers.preparation.text_values import (
    INFINITE,
    LONG_INTEGER,
    NUMBER,
    is_inexact,
)
from algorithms.wrappers.preparation.texts import Texts
from algorithms.wrappers.preparation.written_numbers import (
    IN_BRACKETS,
    MEANT,
    SIGNED,
    find_thousands,
    grouped,
    is_ambiguous,
    matches,
    own_unit_of,
    readings_of,
    shows,
    unit_of,
    without_signs,
    without_unit,
)

_INTEGER: Final = "[+-]?[0-9]+"
#: Codes such as zip codes.
_CODE: Final = r"0[0-9]+"
_QUANTITY: Final = "write it as a plain number such as 12.5, or declare decimal or thousands"


def are_numbers(texts: Texts, writing: NumberWriting = PLAIN_NUMBERS) -> bool:
    """Return whether all values are numbers as they are written."""
    return bool((texts.matching(NUMBER, writing) | ~texts.is_known()).all())


def are_meant(texts: Texts) -> bool:
    """Return whether at least half of the values are numbers, in whatever way they are written."""
    texts = _without_own_unit(texts)
    known, counts = texts.is_known(), texts.counts()
    is_meant = texts.matching(f"{MEANT}|{NUMBER}|{INFINITE}") & known
    if not _have_signs(texts):
        is_meant &= ~texts.matching(SIGNED)
    return bool(counts[is_meant].sum()) and 2 * counts[is_meant].sum() >= counts[known].sum()


def are_codes(texts: Texts) -> bool:
    """Return whether all values are digits, and some would lose their leading zeros as numbers."""
    return first_code(texts) is not None and bool(texts.matching("[0-9]+")[texts.is_known()].all())


def first_code(texts: Texts) -> str | None:
    """Return the first value of digits that begins with 0, if there is one."""
    codes = texts.rows_of(texts.matching(_CODE), 1)
    return codes[0][1] if codes else None


def are_long(texts: Texts) -> bool:
    """Return whether all values are digits, and some are too long for numbers."""
    if not texts.matching("[0-9]+")[texts.is_known()].all():
        return False
    return any(
        map(is_inexact, texts.levels.filter(pa.array(texts.matching(LONG_INTEGER))).to_pylist())
    )


def find_writing(
    columns: Iterable[Texts], *, decimal: str | None = None, thousands: str | None = None
) -> NumberWriting:
    """Return how the numbers in the text of a table are written.

    Parameters
    ----------
    decimal, thousands
        The separators, where they are known; None to find them.

    Raises
    ------
    InvalidColumn
        A point or a comma may separate thousands or decimals, and no value shows which.
    """
    plain = _INTEGER if decimal is None else NUMBER
    writing = NumberWriting(decimal) if decimal == "," else PLAIN_NUMBERS
    unclear = (t for t in columns if not (t.matching(plain, writing) | ~t.is_known()).all())
    meant = [_without_signs(_without_own_unit(t)) for t in unclear if are_meant(t)]
    if decimal is None:
        decimal = _find_decimal(meant, thousands)
    if thousands is None:
        thousands = find_thousands([(t.levels, t.counts()) for t in meant], decimal)
    is_plain = decimal == "." and not thousands
    return PLAIN_NUMBERS if is_plain else NumberWriting(decimal, thousands)


def with_unit(writing: NumberWriting, texts: Texts) -> NumberWriting:
    """Return how the numbers of a column are written that may have a unit, or signs of print."""
    has_signs = _have_signs(_without_own_unit(texts))
    known = texts.levels.filter(pa.array(texts.is_known()))
    unit = own_unit_of(known) or unit_of(without_signs(known) if has_signs else known)
    return replace(writing, unit=unit, has_signs=has_signs) if unit or has_signs else writing


def _have_signs(texts: Texts) -> bool:
    """Return whether negative numbers have a minus sign of print, or are in brackets.

    If all values are in brackets, these do not show what is negative.
    """
    is_signed, known = texts.matching(SIGNED), texts.is_known()
    return bool(is_signed.any()) and not texts.matching(IN_BRACKETS)[known].all()


def _without_own_unit(texts: Texts) -> Texts:
    """Return texts without the unit that all of them have after their number."""
    unit = own_unit_of(texts.levels)
    if not unit:
        return texts
    return Texts(texts.name, without_unit(texts.levels, unit), texts.positions)


def _without_signs(texts: Texts) -> Texts:
    if not _have_signs(texts):
        return texts
    return Texts(texts.name, without_signs(texts.levels), texts.positions)


def check_numbers(
    texts: Texts, writing: NumberWriting, *, advice: str, code: str = "not-a-number"
) -> None:
    """Raise InvalidColumn with the values that are not numbers.

    Parameters
    ----------
    advice
        Advice about values that are not written like quantities.
    """
    is_number = texts.matching(f"{NUMBER}|{INFINITE}", writing)
    is_wrong = texts.is_known() & ~is_number
    if not is_wrong.any():
        return
    is_quantity = texts.matching(MEANT)
    quantities = set(texts.levels.filter(pa.array(is_wrong & is_quantity)).to_pylist())
    problems = []
    wrong = texts.rows_of(is_wrong, MAX_PROBLEMS)
    if [row for row, _ in wrong] == [0]:
        advice = f"remove the row if it is a second header, such as units; else {advice}"
    for row, text in wrong:
        fault = f"expected a number with {number_writing(writing)}, got {shown(text)}"
        detail = f"row {row}, column '{texts.name}': {fault}"
        remedy = _QUANTITY if text in quantities else advice
        problems.append(Problem(code, detail, texts.name, row, remedy))
    raise InvalidColumn(*problems)


def _find_decimal(columns: Sequence[Texts], thousands: str | None) -> str:
    """Return the decimal separator that the numbers of a table show."""
    if thousands in (".", ","):
        return "," if thousands == "." else "."
    n = {
        mark: sum(int(t.counts()[matches(t.levels, shows(mark))].sum()) for t in columns)
        for mark in (".", ",")
    }
    if n[","] > n["."]:
        return ","
    if n["."] or thousands is not None:
        return "."
    problems = [_ambiguous(texts) for texts in columns]
    found = [problem for problem in problems if problem is not None]
    if found:
        raise InvalidColumn(*found)
    return "."


def _ambiguous(texts: Texts) -> Problem | None:
    """Return the problem of a column with a number that can be read in two ways, if it has one."""
    is_grouped = [matches(texts.levels, grouped(mark)) for mark in (".", ",")]
    rows = texts.rows_of(is_grouped[0] | is_grouped[1], 1)
    if not rows:
        return None
    ((row, text),) = rows
    assert is_ambiguous(text)  # several separators show what they are
    with_decimals, with_thousands = readings_of(text)
    mark = "." if "." in text else ","
    detail = f"row {row}, column '{texts.name}': {shown(text)} can be {with_decimals} or"
    detail += f" {with_thousands}, and no value shows which"
    advice = f"declare decimal={mark} to read it as {with_decimals}, or thousands={mark} to read it"
    advice += f" as {with_thousands}"
    return Problem("ambiguous-number", detail, texts.name, row, advice)
