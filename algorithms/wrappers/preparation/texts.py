"""Columns of text, of which each different text is read once.

``plain_numbers`` and ``plain_dates`` read many texts in less time than
:mod:`~algorithms.wrappers.preparation.text_values`, to the same numbers; or none, if any text is
not plain.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from algorithms.wrappers.preparation.columns import PLAIN_NUMBERS, DateWriting, NumberWriting
from algorithms.wrappers.preparation.text_values import (
    ISO_DATE,
    LONG_INTEGER,
    MICROSECONDS,
    NUMBER,
    ZONED_DATE,
)
from algorithms.wrappers.preparation.written_dates import DateForm, FoundOrder, form_of, to_iso
from algorithms.wrappers.preparation.written_numbers import all_plain

Values = NDArray[np.float64]
#: Python has the dates of the years 1 to 9999.
_FIRST_SECOND: Final = -62_135_596_800
_END_SECOND: Final = 253_402_300_800


@dataclass(frozen=True, slots=True)
class Texts:
    """The texts of a column, each different one once.

    Attributes
    ----------
    levels
        The different texts, without spaces around them; missing ones are null.
    positions : (n_rows,)
        For each row, the position of its text in the levels.
    marked
        The missing markers that were found.
    found
        Results of :meth:`matching`, which several functions ask for.
    """

    name: str
    levels: pa.Array
    positions: NDArray[np.integer[Any]]
    marked: frozenset[str] = frozenset()
    found: dict[Any, NDArray[np.bool_]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, column: pa.ChunkedArray, name: str, markers: Sequence[str] = ()) -> Self:
        """Return the texts of a column; blank ones and missing markers are missing."""
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        encoded = column.combine_chunks()  # one dictionary for all chunks
        if isinstance(encoded, pa.ChunkedArray):  # without any chunk
            encoded = pa.array([], encoded.type)
        texts = encoded.dictionary
        if pa.types.is_string_view(texts.type):
            texts = texts.cast(pa.string())
        trimmed = pc.utf8_trim_whitespace(texts)
        is_missing = pc.is_in(trimmed, pa.array(["", *markers], trimmed.type))
        levels = pc.if_else(is_missing, pa.scalar(None, trimmed.type), trimmed)
        marked = frozenset(trimmed.filter(is_missing).to_pylist()) - {""}
        positions = encoded.indices
        if positions.null_count:
            positions = pc.fill_null(positions.cast(pa.int64()), len(levels))
            levels = pa.concat_arrays([levels, pa.nulls(1, levels.type)])
        return cls(name, levels, np.asarray(positions), marked)

    @property
    def n_missing(self) -> int:
        """The number of rows without a text."""
        return int(self.counts()[~self.is_known()].sum())

    def is_known(self) -> NDArray[np.bool_]:
        """Return which of the levels are texts."""
        return np.asarray(pc.is_valid(self.levels), dtype=bool)

    def all(self) -> pa.ChunkedArray:
        """Return the text of each row."""
        return self.as_type(self.levels)

    def as_dictionary(self) -> pa.ChunkedArray:
        """Return the text of each row, each different one once."""
        return pa.chunked_array([pa.DictionaryArray.from_arrays(self.positions, self.levels)])

    def matching(self, pattern: str, writing: NumberWriting = PLAIN_NUMBERS) -> NDArray[np.bool_]:
        """Return which of the levels match as a whole; never a missing one.

        Parameters
        ----------
        writing
            How numbers are written, for patterns of numbers; others do not match.
        """
        key = pattern, writing
        if key not in self.found:
            texts = all_plain(self.levels, writing)
            found = pc.match_substring_regex(texts, f"^(?:{pattern})$")
            matches = np.array(pc.fill_null(found, fill_value=False), dtype=bool)
            matches.setflags(write=False)  # it is shared
            self.found[key] = matches
        return self.found[key]

    def head(self, n_rows: int) -> "Texts":
        """Return the texts of the first rows."""
        chosen, positions = np.unique(self.positions[:n_rows], return_inverse=True)
        return Texts(self.name, self.levels.take(pa.array(chosen)), positions)

    def counts(self) -> NDArray[np.intp]:
        """Return the number of rows of each level."""
        counts: NDArray[np.intp] = np.bincount(self.positions, minlength=len(self.levels))
        return counts

    def as_type(self, levels: Any) -> pa.ChunkedArray:
        """Return other values for the levels, row by row."""
        return pa.chunked_array([levels.take(pa.array(self.positions))])

    def rows_of(self, is_chosen: NDArray[np.bool_], n_max: int) -> list[tuple[int, str]]:
        """Return the first rows with chosen levels, and their texts."""
        rows = np.flatnonzero(is_chosen[self.positions])[:n_max]
        return [(int(row), self.levels[int(self.positions[row])].as_py()) for row in rows]


def plain_numbers(texts: Texts, writing: NumberWriting) -> Values | None:
    """Return the numbers of the levels; None if some are not numbers, or may be inexact."""
    is_plain = texts.matching(NUMBER, writing) | ~texts.is_known()
    if not is_plain.all() or texts.matching(LONG_INTEGER, writing).any():
        return None
    numbers = _floats(pc.utf8_ltrim(all_plain(texts.levels, writing), "+").cast(pa.float64()))
    return None if np.isinf(numbers).any() else numbers


def plain_dates(texts: Texts, writing: DateWriting) -> Values | None:
    """Return the seconds of the levels; None if they are not dates in one form that is clear."""
    try:
        if (texts.matching(ISO_DATE) | ~texts.is_known()).all():
            instants = _iso_instants(texts.levels)
        else:
            form = form_of(texts.levels)
            order = None if form is None else _order(form, writing)
            if form is None or order is None:
                return None
            instants = to_iso(texts.levels, form, order).cast(pa.timestamp("us"))
    except pa.ArrowInvalid:  # some days do not exist
        return None
    seconds = _floats(instants.cast(pa.int64())) / MICROSECONDS
    is_beyond = (seconds < _FIRST_SECOND) | (seconds >= _END_SECOND)
    return None if is_beyond.any() else seconds


def _iso_instants(levels: pa.Array) -> pa.Array:
    """Return ISO dates as instants; those without a time zone are in UTC."""
    is_zoned = pc.match_substring_regex(levels, f"^(?:{ZONED_DATE})$")
    missing = pa.scalar(None, levels.type)
    zoned = pc.if_else(is_zoned, levels, missing).cast(pa.timestamp("us", tz="UTC"))
    others = pc.if_else(is_zoned, missing, levels).cast(pa.timestamp("us"))
    return pc.coalesce(zoned.cast(pa.timestamp("us")), others)


def _order(form: DateForm, writing: DateWriting) -> FoundOrder | None:
    """Return the order of dates in a form, None if one has to look at each date."""
    if form.has_short_years and not writing.has_short_years:
        return None
    if form.is_year_first:
        return "ymd"
    if writing.day_first is None:
        return "dmy" if form.separator == "." else None
    return "dmy" if writing.day_first else "mdy"


def _floats(values: pa.Array) -> Values:
    return np.array(values.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)
