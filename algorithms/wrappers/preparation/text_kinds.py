"""The kind of a column of text: numbers, booleans, dates or a category.

Uploads in every format and data frames of estimators find it here, so that the same table makes the
same model.
"""

import re
from typing import Final, NamedTuple

import numpy as np
import pyarrow.compute as pc

from algorithms.interface.task_values import label_problem
from algorithms.wrappers.preparation.columns import PLAIN_NUMBERS, Column, ColumnKind, NumberWriting
from algorithms.wrappers.preparation.encoder import Values, encode
from algorithms.wrappers.preparation.invalid_column import PLURALS, InvalidColumn, Problem, shown
from algorithms.wrappers.preparation.notes import Note
from algorithms.wrappers.preparation.number_texts import (
    are_codes,
    are_long,
    are_meant,
    are_numbers,
    check_numbers,
    first_code,
    with_unit,
)
from algorithms.wrappers.preparation.text_dates import (
    are_compact,
    date_like,
    declared_dates,
    found_dates,
)
from algorithms.wrappers.preparation.text_values import MISSING_MARKERS, level_of
from algorithms.wrappers.preparation.texts import Texts
from algorithms.wrappers.preparation.written_dates import DateOrder

#: Text with more distinct values than this, or with hardly any repeated, is not a category.
MAX_LEVELS: Final = 200
MIN_ROWS_PER_LEVEL: Final = 2
#: Text with so few distinct values is a category in any number of rows.
FEW_LEVELS: Final = 20
_BOOLEAN: Final = "(?i:true|false)"
_CLOCK: Final = r"[0-9]{1,3}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?"
_SPAN: Final = r"(?:[0-9]+ ?(?:d|days?|h|hours?|m|min|s|sec)\.? ?){2,}"
#: Measures that are not read: their pattern, name and what to write instead.
_MEASURES: Final = (
    (rf"-?(?:[0-9]+ days? )?{_CLOCK}|-?P[0-9DTHMS.]+|{_SPAN}", "times", "hours such as 12.5"),
    (
        "[NSEWO]? ?-?[0-9]{1,3} ?° ?[0-9.]+ ?['\u2032].*",
        "angles",
        "decimal degrees such as 52.5167",
    ),
)
#: Codes such as those of countries, and the number of different ones that makes them codes.
_is_short_code: Final = re.compile("[A-Z]{2}").fullmatch
_MIN_CODES: Final = 2


class TextReading(NamedTuple):
    """How the text of a table is read.

    Attributes
    ----------
    numbers
        How its numbers are written.
    is_csv
        Whether it is CSV, in which numbers are always text: that needs no note.
    categories
        Columns with a type of categories, whose values are not looked at.
    missing
        Texts that are declared to mark a missing value.
    """

    numbers: NumberWriting = PLAIN_NUMBERS
    is_csv: bool = False
    categories: frozenset[str] = frozenset()
    missing: tuple[str, ...] = ()

    @property
    def markers(self) -> tuple[str, ...]:
        """The texts that are missing values, besides blank ones."""
        return self.missing or MISSING_MARKERS


class ReadColumn(NamedTuple):
    """A column with its values as numbers, and notes about how it was read.

    Attributes
    ----------
    column
        None if the column is left out; a note says why.
    """

    column: Column | None
    values: Values | None = None
    notes: tuple[Note, ...] = ()


def read_text(texts: Texts, reading: TextReading) -> ReadColumn:
    """Return a column of text with the kind that its values have.

    Raises
    ------
    InvalidColumn
        At least half of the values are numbers, and others are not; or a level cannot be a label.
    """
    note = codes = None
    if texts.name not in reading.categories:
        numbers = None if are_compact(texts) else read_numbers(texts, reading)
        if numbers is not None:
            return numbers
        if _are_booleans(texts):
            column = Column(texts.name, "boolean")
            return ReadColumn(column, encode(texts, column), _typed_note(texts, column, reading))
        dates = found_dates(texts)
        codes = code_note(texts, what=f"column '{texts.name}'") if are_codes(texts) else None
        note = dates.note or codes
        if dates.column is not None:
            return ReadColumn(dates.column, dates.values, _listed(note))
    note = note or date_like(texts) or _measure_note(texts)
    notes = _listed(note) + _listed(marker_note(texts))
    n_levels = pc.count_distinct(texts.levels, mode="only_valid").as_py()
    n_values = int(texts.counts()[texts.is_known()].sum())
    repeats = n_levels <= MAX_LEVELS and n_values >= MIN_ROWS_PER_LEVEL * n_levels
    if not repeats and n_levels > FEW_LEVELS:
        text = f"column '{texts.name}' has {n_levels} different texts in"
        text += f" {len(texts.positions)} rows and is left out"
        # of dates and quantities, hardly any level is repeated
        advice = f"declare column_kind={texts.name}:category to use it" if note is codes else ""
        return ReadColumn(None, notes=(*notes, Note(text, advice)))
    column = Column(texts.name, "category", check_levels(texts, levels_of(texts)))
    return ReadColumn(column, encode(texts, column), notes)


def read_declared(
    texts: Texts, kind: ColumnKind, reading: TextReading, order: DateOrder | None
) -> ReadColumn:
    """Return a column of text that is declared to have a kind.

    Parameters
    ----------
    order
        The declared order of day and month of dates.

    Raises
    ------
    InvalidColumn
        A value does not have the kind.
    """
    if kind == "number":
        writing = with_unit(reading.numbers, texts)
        return encoded_numbers(texts, reading, writing, is_declared=True)
    if kind == "date":
        dates = declared_dates(texts, order)
        return ReadColumn(dates.column, dates.values, _listed(dates.note))
    levels = check_levels(texts, levels_of(texts)) if kind == "category" else ()
    column = Column(texts.name, kind, levels)
    return ReadColumn(column, encode(texts, column), _listed(marker_note(texts)))


def read_numbers(texts: Texts, reading: TextReading) -> ReadColumn | None:
    """Return a column of text as numbers if at least half of its values are, else None.

    Raises
    ------
    InvalidColumn
        Other values are not numbers.
    """
    if are_codes(texts) or (not reading.is_csv and are_long(texts)):
        return None
    if are_numbers(texts, reading.numbers):
        return encoded_numbers(texts, reading, reading.numbers)
    if not are_meant(texts):
        return None
    advice = "correct it, declare missing_marker if it marks a missing value, or declare"
    advice += f" column_kind={texts.name}:category"
    writing = with_unit(reading.numbers, texts)
    check_numbers(texts, writing, advice=advice)
    return encoded_numbers(texts, reading, writing)


def encoded_numbers(
    texts: Texts, reading: TextReading, writing: NumberWriting, *, is_declared: bool = False
) -> ReadColumn:
    """Return a column of text as numbers that are written in a way.

    Raises
    ------
    InvalidColumn
        Values are not numbers.
    """
    column = Column(texts.name, numbers=writing)
    notes: tuple[Note, ...] = ()
    if not is_declared:
        notes = _typed_note(texts, column, reading)
    if column.numbers.has_signs:
        text = f"numbers of column '{texts.name}' with a minus sign of print or in brackets are"
        notes = (*notes, Note(f"{text} read as negative"))
    if column.numbers.unit:
        note = unit_note(f"column '{texts.name}'", column.numbers.unit)
        notes = (*notes[bool(notes) and not column.numbers.has_signs :], note)
    return ReadColumn(column, encode(texts, column), notes)


def code_note(texts: Texts, *, what: str) -> Note:
    """Return a note that codes with leading zeros are text.

    Parameters
    ----------
    what
        The column in the message, such as "column 'zip'" or "the target column 'zip'".
    """
    is_target = what.startswith("the target")
    option = "target_kind=numbers" if is_target else f"column_kind={texts.name}:number"
    text = f"{what} has codes such as {shown(first_code(texts))}, and is read as text"
    return Note(text, f"declare {option} if they are numbers")


def marker_note(texts: Texts, *, what: str = "") -> Note | None:
    """Return a note if a missing marker may be a code of two letters, as NA is that of Namibia.

    Parameters
    ----------
    what
        The column in the message; default: that of a feature.
    """
    found = sorted(filter(_is_short_code, texts.marked))
    codes = texts.levels.drop_null().to_pylist()
    if not found or len(codes) < _MIN_CODES or not all(map(_is_short_code, codes)):
        return None
    what = what or f"column '{texts.name}'"
    text = f"{what} has codes of two letters such as '{codes[0]}', and"
    text += f" {shown(found[0])} is read as a missing value"
    return Note(text, "to keep it, declare another missing_marker, such as missing_marker=-999")


def unit_note(what: str, unit: str) -> Note:
    """Return a note that the unit of all values of a column is left out."""
    advice = "declare column_kind=NAME:category, or target_kind=classes, if they are no quantities"
    return Note(f"all values of {what} have the unit {unit!r}, which is left out", advice)


def _measure_note(texts: Texts) -> Note | None:
    """Return a note if most values are times, durations or angles, which are not read."""
    counts, known = texts.counts(), texts.is_known()
    for pattern, what, advice in _MEASURES:
        is_measure = texts.matching(pattern)
        if 2 * counts[is_measure].sum() > counts[known].sum():
            ((_, first),) = texts.rows_of(is_measure, 1)
            text = f"column '{texts.name}' looks like {what} such as {shown(first)}, but is read as"
            return Note(f"{text} text", f"write them as {advice}, to use them as numbers")
    return None


def _are_booleans(texts: Texts) -> bool:
    is_short = len(texts.levels) <= FEW_LEVELS
    return is_short and bool((texts.matching(_BOOLEAN) | ~texts.is_known()).all())


def _listed(note: Note | None) -> tuple[Note, ...]:
    return () if note is None else (note,)


def _typed_note(texts: Texts, column: Column, reading: TextReading) -> tuple[Note, ...]:
    """Return a note that text is read as another kind, unless the format has only text."""
    if reading.is_csv:
        return ()
    text = f"column '{texts.name}' is text, and is read as {PLURALS[column.kind]}"
    return (Note(text, f"declare column_kind={texts.name}:category to use it as text"),)


def levels_of(texts: Texts) -> tuple[str, ...]:
    """Return the levels of a category that has these texts."""
    return tuple(sorted({level for text in texts.levels.to_pylist() if (level := level_of(text))}))


def check_levels(texts: Texts, levels: tuple[str, ...]) -> tuple[str, ...]:
    """Return the levels of a category.

    Raises
    ------
    InvalidColumn
        There are too many, or one cannot be a label.
    """
    name = texts.name
    check_count(levels, name)
    for level in levels:
        problem = label_problem(level)
        if problem is not None:
            is_wrong = np.array([level_of(text) == level for text in texts.levels.to_pylist()])
            ((row, _),) = texts.rows_of(is_wrong, 1)
            detail = f"row {row}, column '{name}': {problem}"
            raise InvalidColumn(Problem("invalid-label", detail, name, row))
    return levels


def check_count(levels: tuple[str, ...], name: str) -> None:
    """Raise InvalidColumn if a category has too many levels."""
    if len(levels) > MAX_LEVELS:
        detail = f"column '{name}' has {len(levels)} different values, more than {MAX_LEVELS}"
        advice = "ignore it, or merge rare values"
        raise InvalidColumn(Problem("too-many-levels", f"{detail}; {advice}", name))
