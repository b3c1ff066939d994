"""Columns of text in a CSV file that are numbers, dates or booleans, or were meant to be."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from service.datasets.formats.options import TargetKind
from service.datasets.formats.validation import INEXACT_TARGET
from service.datasets.formats.written_dates import is_written
from service.datasets.issues import MAX_ISSUES, ValidationIssues

_NUMBER: Final = r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$"
_INFINITE: Final = r"(?i)^[+-]?inf(?:inity)?$"
#: With thousands separators, another decimal separator, or a percent sign.
_WRITTEN_OTHERWISE: Final = (
    r"^[+-]?[0-9]{1,3}(?:[ ,._'\x{a0}\x{202f}][0-9]{3})+(?:[.,][0-9]+)?\s?%?$"
    r"|^[+-]?[0-9]*[,.]?[0-9]+\s?%$|^[+-]?[0-9]*[,.][0-9]+$"
)
#: Ends of dates with a time zone.
_ZONED: Final = r"[T ][0-9:.]+(?:Z|[+-][0-9:]+)$"
#: Dates with or without a time; whether the day exists is checked apart.
_DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]+(?:Z|[+-][0-9:]+)?)?$"
_DATE_LENGTH: Final = len("2026-01-31")
#: Integers of so many digits may be above 2**53.
_LONG_INTEGER: Final = r"^[+-]?[0-9]{16,}$"
#: Labels that are stored as integers: all of them fit 64 bits.
_INTEGER: Final = r"^[+-]?(?:0|[1-9][0-9]{0,17})$"
_SHOWN: Final = 40
_ADVICE: Final = "correct it, declare missing_marker if it marks a missing value, or"
_TARGET_ADVICE: Final = f"{_ADVICE} leave out target_kind=numbers to use text as labels"
#: What to do about weights that are no numbers.
WEIGHT_ADVICE: Final = "every row needs a weight of at least 0: correct it"


@dataclass(frozen=True, slots=True)
class Texts:
    """The cells of a column, each different one once.

    Attributes
    ----------
    levels
        The different texts, without spaces around them; missing ones are null.
    positions
        For each row, the position of its text in the levels.
    """

    name: str
    levels: pa.Array
    positions: pa.Array

    @classmethod
    def of(cls, column: pa.ChunkedArray, name: str, markers: Sequence[str]) -> "Texts":
        """Return the texts of a column, with null for missing markers."""
        encoded = column.combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):  # without any chunk
            encoded = pa.array([], encoded.type)
        trimmed = pc.utf8_trim_whitespace(encoded.dictionary)
        is_missing = pc.is_in(trimmed, pa.array(["", *markers]))
        levels = pc.if_else(is_missing, pa.scalar(None, trimmed.type), trimmed)
        return cls(name, levels, encoded.indices)

    @property
    def n_missing(self) -> int:
        """The number of rows without a text."""
        return int(self.counts()[~np.asarray(pc.is_valid(self.levels), dtype=bool)].sum())

    def all(self) -> pa.ChunkedArray:
        """Return the text of each row."""
        return pa.chunked_array([self.levels.take(self.positions)])

    def matching(self, pattern: str, decimal: str = ".") -> NDArray[np.bool_]:
        """Return which of the levels match; never a missing one.

        Parameters
        ----------
        decimal
            The decimal separator, for patterns of numbers; another one does not match.
        """
        texts = self.levels
        if decimal != ".":
            texts = pc.replace_substring(pc.replace_substring(texts, ".", "_"), decimal, ".")
        found = pc.fill_null(pc.match_substring_regex(texts, pattern), fill_value=False)
        return np.asarray(found, dtype=bool)

    def counts(self) -> NDArray[np.intp]:
        """Return the number of rows of each level."""
        counts: NDArray[np.intp] = np.bincount(
            np.asarray(self.positions), minlength=len(self.levels)
        )
        return counts

    def as_type(self, levels: Any) -> pa.ChunkedArray:
        """Return other values for the levels, row by row."""
        return pa.chunked_array([levels.take(self.positions)])


def typed(texts: Texts, decimal: str, *, advice: str | None = None) -> pa.ChunkedArray:
    """Return a column with the type of its values: numbers, booleans, dates, or text.

    Parameters
    ----------
    advice
        What to do about mistakes; by default, what is right for features.

    Raises
    ------
    Rejected
        At least half of the values are numbers; the others are mistakes.
    """
    levels = texts.levels
    is_number = texts.matching(_NUMBER, decimal) | texts.matching(_INFINITE)
    is_known = np.asarray(pc.is_valid(levels), dtype=bool)
    if (is_number | ~is_known).all():
        return _exact_numbers(texts, decimal)
    counts = texts.counts()
    is_meant = is_number | texts.matching(_WRITTEN_OTHERWISE)
    if 2 * counts[is_meant].sum() >= counts[is_known].sum():
        _reject(texts, ~is_number & is_known, decimal, advice=advice)
    for cast in (_booleans, _instants):
        try:
            return texts.as_type(cast(levels))
        except pa.ArrowInvalid:
            continue
    return texts.all()


def _booleans(levels: pa.Array) -> pa.Array:
    return levels.cast(pa.bool_())


def _instants(levels: pa.Array) -> pa.Array:
    """Return ISO dates as instants; those without a time zone are in UTC, as those of JSON."""
    is_zoned = pc.match_substring_regex(levels, _ZONED)
    missing = pa.scalar(None, levels.type)
    zoned = pc.if_else(is_zoned, levels, missing).cast(pa.timestamp("us", tz="UTC"))
    others = pc.if_else(is_zoned, missing, levels).cast(pa.timestamp("us"))
    return pc.coalesce(zoned.cast(pa.timestamp("us")), others)


def invalid_dates(texts: Texts) -> str | None:
    """Return a note if at least half of the values are dates, but some others are not."""
    is_known = np.asarray(pc.is_valid(texts.levels), dtype=bool)
    days = pc.utf8_slice_codeunits(texts.levels, 0, _DATE_LENGTH)
    parsed = pc.strptime(days, format="%Y-%m-%d", unit="s", error_is_null=True)
    # the 30th of February was parsed as the 1st of March
    exists = pc.fill_null(pc.equal(pc.strftime(parsed, format="%Y-%m-%d"), days), fill_value=False)
    is_date = texts.matching(_DATE) & np.asarray(exists, dtype=bool)
    counts = texts.counts()
    written = is_written(texts.levels)
    if counts[written].sum() > counts[is_date].sum():
        is_date = written
    n_wrong = int(counts[is_known & ~is_date].sum())
    if not n_wrong or n_wrong > counts[is_date].sum():
        return None
    ((_, first), *_) = _rows_of(texts, is_known & ~is_date)
    values = "1 value" if n_wrong == 1 else f"{n_wrong} values"
    return (
        f"column '{texts.name}' looks like dates but for {values}, such as {_show(first)}: it is "
        f"read as text; declare column_kind={texts.name}:date to find such values by their lines"
    )


def typed_target(texts: Texts, decimal: str, kind: TargetKind) -> pa.ChunkedArray:
    """Return a target column: numbers, integer labels, or text labels.

    Integers are numbers unless the kind is ``classes``, since scores and counts are as common as
    codes. With ``auto``, the first value decides between numbers and text; one with another
    decimal separator is meant as a number.

    Raises
    ------
    Rejected
        Some values are of the other kind.
    """
    levels = texts.levels
    is_known = np.asarray(pc.is_valid(levels), dtype=bool)
    is_number = texts.matching(_NUMBER, decimal) | texts.matching(_INFINITE)
    if kind == "classes":
        is_integer = (texts.matching(_INTEGER) | ~is_known).all()
        return texts.as_type(levels.cast(pa.int64())) if is_integer else texts.all()
    rows = np.asarray(texts.positions)
    known_rows = np.flatnonzero(is_known[rows])
    is_meant = is_number | texts.matching(_WRITTEN_OTHERWISE)
    is_first_number = known_rows.size == 0 or bool(is_meant[rows[known_rows[0]]])
    if kind == "numbers" or is_first_number:
        wrong = is_known & ~is_number
        mixed_with = "" if kind == "numbers" else "the first target"
        _reject(texts, wrong, decimal, mixed_with=mixed_with, advice=_TARGET_ADVICE)
        return _exact_numbers(texts, decimal, is_target=True)
    issues = ValidationIssues()
    advice = "correct it, or set target_kind=classes to use it as a label"
    for row, text in _rows_of(texts, is_number):
        detail = f"row {row}, column '{texts.name}': {_show(text)} is a number among text labels"
        issues.add("mixed-labels", f"{detail}; {advice}", row=row, column=texts.name)
    issues.check()
    return texts.all()


def _exact_numbers(texts: Texts, decimal: str, *, is_target: bool = False) -> pa.ChunkedArray:
    check_exact(texts, is_target=is_target)
    return texts.as_type(_numbers(texts.levels, decimal))


def check_exact(texts: Texts, *, is_target: bool = False) -> None:
    """Raise Rejected with the rows that have an integer which a float64 does not hold."""
    is_inexact = texts.matching(_LONG_INTEGER)
    for i in np.flatnonzero(is_inexact):
        digits = texts.levels[int(i)].as_py().lstrip("+-").lstrip("0")
        is_large = MAX_EXACT_INTEGER <= float(digits or 0) < math.inf  # infinite is refused later
        is_inexact[i] = is_large and digits != str(MAX_EXACT_INTEGER)
    name = texts.name
    advice = f"ignore columns of ids, or declare column_kind={name}:category"
    if is_target:
        advice = INEXACT_TARGET
    issues = ValidationIssues()
    for row, text in _rows_of(texts, is_inexact):
        detail = f"row {row}, column '{name}': the integer {_show(text)} is above 2**53; {advice}"
        issues.add("inexact-integer", detail, row=row, column=name)
    issues.check()


def _numbers(levels: pa.Array, decimal: str) -> pa.Array:
    plain = pc.utf8_ltrim(levels, "+")
    plain = plain if decimal == "." else pc.replace_substring(plain, ",", ".")
    return plain.cast(pa.float64())


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
    for row, text in _rows_of(texts, is_wrong):
        what = f"expected a number with decimal '{decimal}', got {_show(text)}"
        code = "mixed-labels" if mixed_with else "not-a-number"
        issues.add(code, f"row {row}, column '{name}': {what}; {advice}", row=row, column=name)
    issues.check()


def _rows_of(texts: Texts, is_chosen: NDArray[np.bool_]) -> list[tuple[int, str]]:
    positions = np.asarray(texts.positions)
    rows = np.flatnonzero(is_chosen[positions])[:MAX_ISSUES]
    return [(int(row), texts.levels[int(positions[row])].as_py()) for row in rows]


def _show(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
