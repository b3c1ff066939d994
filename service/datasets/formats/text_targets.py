"""Targets and weights of a table that are text."""

from typing import Final

import numpy as np
import pyarrow as pa

from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.encoder import encode
from algorithms.wrappers.preparation.invalid_column import InvalidColumn, shown
from algorithms.wrappers.preparation.notes import Note
from algorithms.wrappers.preparation.number_texts import (
    are_codes,
    are_meant,
    are_numbers,
    check_numbers,
    with_unit,
)
from algorithms.wrappers.preparation.text_dates import are_compact
from algorithms.wrappers.preparation.text_kinds import (
    FEW_LEVELS,
    MIN_ROWS_PER_LEVEL,
    TextReading,
    code_note,
    marker_note,
    unit_note,
)
from algorithms.wrappers.preparation.text_values import INFINITE, NUMBER
from algorithms.wrappers.preparation.texts import Texts
from service.datasets.formats.column_issues import rejected
from service.datasets.formats.options import TargetKind
from service.datasets.formats.validation import INEXACT_TARGET
from service.datasets.issues import MAX_ISSUES, ValidationIssues

#: Labels that are stored as integers: all of them fit 64 bits.
_INTEGER: Final = r"[+-]?(?:0|[1-9][0-9]{0,17})"
_NUMBER_ADVICE: Final = "correct it, or leave out target_kind=numbers to use text as labels"
_MIXED_ADVICE: Final = (
    "most targets are numbers: correct this one, or set target_kind=classes to use all as labels"
)
_LABEL_ADVICE: Final = "correct it, or set target_kind=classes to use it as a label"
#: Advice about weights that are not numbers.
_WEIGHT_ADVICE: Final = "every row needs a weight of at least 0: correct it"


def read_text_target(
    texts: Texts, kind: TargetKind, reading: TextReading
) -> tuple[pa.ChunkedArray, list[Note]]:
    """Return a target column of text as numbers, integer labels, or text labels; and notes.

    Integers are numbers unless the kind is ``classes``, since scores and counts are as common as
    codes. With ``auto``, targets are numbers if at least half of them are, and they are no codes
    with leading zeros.

    Raises
    ------
    Rejected
        Some values are of the other kind.
    """
    what = f"the target column '{texts.name}'"
    if kind == "classes":
        levels, note = texts.levels, marker_note(texts, what=what)
        is_integer = reading.is_csv and (texts.matching(_INTEGER) | ~texts.is_known()).all()
        column = texts.as_type(levels.cast(pa.int64())) if is_integer else texts.all()
        return column, [] if note is None else [note]
    if kind == "auto" and are_codes(texts):
        return texts.all(), [code_note(texts, what=what)]
    if kind == "numbers" or are_numbers(texts, reading.numbers) or are_meant(texts):
        code = "not-a-number" if kind == "numbers" else "mixed-labels"
        advice = _NUMBER_ADVICE if kind == "numbers" else _MIXED_ADVICE
        numbers, unit = _numbers(texts, reading, advice=advice, code=code)
        return numbers, _notes(texts, kind, reading, unit)
    issues = ValidationIssues()
    is_number = texts.matching(f"{NUMBER}|{INFINITE}", reading.numbers)
    for row, text in texts.rows_of(is_number, MAX_ISSUES):
        detail = f"row {row}, column '{texts.name}': {shown(text)} is a number among text labels"
        issues.add("mixed-labels", f"{detail}; {_LABEL_ADVICE}", row=row, column=texts.name)
    issues.check()
    found = (marker_note(texts, what=what), _label_note(texts))
    return texts.all(), [note for note in found if note is not None]


def read_text_weights(texts: Texts, reading: TextReading) -> pa.ChunkedArray:
    """Return a column of weights that are text as numbers.

    Raises
    ------
    Rejected
        A weight is not a number.
    """
    return _numbers(texts, reading, advice=_WEIGHT_ADVICE)[0]


def date_target_note(name: str) -> Note:
    """Return a note that targets are numbers that can all be dates."""
    text = f"all values of the target column '{name}' can be dates such as 20240131, and are read"
    return Note(f"{text} as numbers", "count days instead, or set target_kind=classes for labels")


def _label_note(texts: Texts) -> Note | None:
    """Return a note about labels of which hardly any is repeated, if there are many."""
    n_labels, n_values = len(texts.levels.drop_null()), len(texts.positions) - texts.n_missing
    if n_labels <= FEW_LEVELS or n_values >= MIN_ROWS_PER_LEVEL * n_labels:
        return None
    text = f"the target column '{texts.name}' has {n_labels} different texts in {n_values} rows,"
    return Note(f"{text} each of which is a class", "write numbers alone if they are quantities")


def _notes(texts: Texts, kind: TargetKind, reading: TextReading, unit: str) -> list[Note]:
    """Return notes about targets of text that are read as numbers."""
    notes = []
    if unit:
        notes.append(unit_note(f"the target column '{texts.name}'", unit))
    elif kind == "auto" and not reading.is_csv:
        text = f"the target column '{texts.name}' is text, and is read as numbers"
        notes.append(Note(text, "set target_kind=classes to use it as labels"))
    if kind == "auto" and are_compact(texts):
        notes.append(date_target_note(texts.name))
    return notes


def _numbers(
    texts: Texts, reading: TextReading, *, advice: str, code: str = "not-a-number"
) -> tuple[pa.ChunkedArray, str]:
    """Return a column of text as numbers, and the unit that all of them have."""
    writing = reading.numbers
    try:
        if not are_numbers(texts, writing):
            writing = with_unit(writing, texts)
            check_numbers(texts, writing, advice=advice, code=code)
        numbers = encode(texts, Column(texts.name, numbers=writing, missing=reading.missing))
    except InvalidColumn as error:
        raise rejected(error, {"inexact-integer": INEXACT_TARGET}) from None
    return pa.chunked_array([pa.array(np.asarray(numbers), from_pandas=True)]), writing.unit
