"""Columns of text in a CSV file that are numbers, dates or booleans, or were meant to be."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.encoder import encode
from algorithms.wrappers.preparation.invalid_column import InvalidColumn
from algorithms.wrappers.preparation.text_values import INFINITE, ISO_DATE, NUMBER
from algorithms.wrappers.preparation.texts import Texts
from algorithms.wrappers.preparation.written_dates import is_written
from service.datasets.formats.column_issues import rejected
from service.datasets.formats.options import TargetKind
from service.datasets.formats.validation import INEXACT_TARGET
from service.datasets.issues import MAX_ISSUES, ValidationIssues

#: With thousands separators, another decimal separator, or a percent sign.
_WRITTEN_OTHERWISE: Final = (
    r"[+-]?[0-9]{1,3}(?:[ ,._'\x{a0}\x{202f}][0-9]{3})+(?:[.,][0-9]+)?\s?%?"
    r"|[+-]?[0-9]*[,.]?[0-9]+\s?%|[+-]?[0-9]*[,.][0-9]+"
)
_DATE_LENGTH: Final = len("2026-01-31")
#: Labels that are stored as integers: all of them fit 64 bits.
_INTEGER: Final = r"[+-]?(?:0|[1-9][0-9]{0,17})"
_SHOWN: Final = 40
_ADVICE: Final = "correct it, declare missing_marker if it marks a missing value, or"
_TARGET_ADVICE: Final = f"{_ADVICE} leave out target_kind=numbers to use text as labels"
#: Advice about weights that are not numbers.
WEIGHT_ADVICE: Final = "every row needs a weight of at least 0: correct it"


def typed(texts: Texts, decimal: str, *, advice: str | None = None) -> pa.ChunkedArray:
    """Return a column with the type of its values: numbers, booleans, or text.

    Parameters
    ----------
    advice
        Advice about mistakes; default: advice about features.

    Raises
    ------
    Rejected
        At least half of the values are numbers; the others are mistakes.
    """
    levels = texts.levels
    is_number = texts.matching(NUMBER, decimal) | texts.matching(INFINITE)
    is_known = texts.is_known()
    if (is_number | ~is_known).all():
        return numbers_of(texts, decimal)
    counts = texts.counts()
    is_meant = is_number | texts.matching(_WRITTEN_OTHERWISE)
    if 2 * counts[is_meant].sum() >= counts[is_known].sum():
        _reject(texts, ~is_number & is_known, decimal, advice=advice)
    try:
        return texts.as_type(levels.cast(pa.bool_()))
    except pa.ArrowInvalid:
        return texts.all()


def invalid_dates(texts: Texts) -> str | None:
    """Return a note if at least half of the values are dates, but some others are not."""
    is_known = texts.is_known()
    days = pc.utf8_slice_codeunits(texts.levels, 0, _DATE_LENGTH)
    parsed = pc.strptime(days, format="%Y-%m-%d", unit="s", error_is_null=True)
    # the 30th of February was parsed as the 1st of March
    exists = pc.fill_null(pc.equal(pc.strftime(parsed, format="%Y-%m-%d"), days), fill_value=False)
    is_date = texts.matching(ISO_DATE) & np.asarray(exists, dtype=bool)
    counts = texts.counts()
    written = is_written(texts.levels)
    if counts[written].sum() > counts[is_date].sum():
        is_date = written
    n_wrong = int(counts[is_known & ~is_date].sum())
    if not n_wrong or n_wrong > counts[is_date].sum():
        return None
    ((_, first),) = texts.rows_of(is_known & ~is_date, 1)
    values = "1 value" if n_wrong == 1 else f"{n_wrong} values"
    return (
        f"column '{texts.name}' looks like dates but for {values}, such as {_show(first)}: it is "
        f"read as text; declare column_kind={texts.name}:date to find such values by their lines"
    )


def typed_target(texts: Texts, decimal: str, kind: TargetKind) -> pa.ChunkedArray:
    """Return a target column: numbers, integer labels, or text labels.

    Integers are numbers unless the kind is ``classes``, since scores and counts are as common as
    codes. With ``auto``, the first value decides between numbers and text; a value with another
    decimal separator counts as a number.

    Raises
    ------
    Rejected
        Some values are of the other kind.
    """
    levels = texts.levels
    is_known = texts.is_known()
    is_number = texts.matching(NUMBER, decimal) | texts.matching(INFINITE)
    if kind == "classes":
        is_integer = (texts.matching(_INTEGER) | ~is_known).all()
        return texts.as_type(levels.cast(pa.int64())) if is_integer else texts.all()
    rows = texts.positions
    known_rows = np.flatnonzero(is_known[rows])
    is_meant = is_number | texts.matching(_WRITTEN_OTHERWISE)
    is_first_number = known_rows.size == 0 or bool(is_meant[rows[known_rows[0]]])
    if kind == "numbers" or is_first_number:
        wrong = is_known & ~is_number
        mixed_with = "" if kind == "numbers" else "the first target"
        _reject(texts, wrong, decimal, mixed_with=mixed_with, advice=_TARGET_ADVICE)
        return numbers_of(texts, decimal, is_target=True)
    issues = ValidationIssues()
    advice = "correct it, or set target_kind=classes to use it as a label"
    for row, text in texts.rows_of(is_number, MAX_ISSUES):
        detail = f"row {row}, column '{texts.name}': {_show(text)} is a number among text labels"
        issues.add("mixed-labels", f"{detail}; {advice}", row=row, column=texts.name)
    issues.check()
    return texts.all()


def numbers_of(texts: Texts, decimal: str, *, is_target: bool = False) -> pa.ChunkedArray:
    """Return a column of texts that are all numbers.

    Raises
    ------
    Rejected
        With the rows that have an infinite number, or an integer that a float64 does not hold.
    """
    try:
        numbers = encode(texts, Column(texts.name), decimal=decimal)
    except InvalidColumn as error:
        advice = {"inexact-integer": INEXACT_TARGET} if is_target else {}
        raise rejected(error, advice) from None
    return pa.chunked_array([pa.array(numbers, from_pandas=True)])


def _reject(
    texts: Texts,
    is_wrong: NDArray[np.bool_],
    decimal: str,
    *,
    mixed_with: str = "",
    advice: str | None = None,
) -> None:
    """Raise Rejected with the rows of the given levels, where numbers are expected."""
    issues = ValidationIssues()
    name = texts.name
    advice = advice or f"{_ADVICE} declare column_kind={name}:category"
    if mixed_with:
        advice = f"{mixed_with} looks like a number: correct this one, or set target_kind=classes"
    for row, text in texts.rows_of(is_wrong, MAX_ISSUES):
        fault = f"expected a number with decimal '{decimal}', got {_show(text)}"
        code = "mixed-labels" if mixed_with else "not-a-number"
        issues.add(code, f"row {row}, column '{name}': {fault}; {advice}", row=row, column=name)
    issues.check()


def _show(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
