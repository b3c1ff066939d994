"""Tables with text, dates, booleans and missing values, as numbers with the kinds of their columns.

Columns are read as the service reads uploads, so that the same table makes the same model.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from algorithms.interface.errors import InvalidData
from algorithms.interface.unknown_categories import UnknownCategoriesWarning
from algorithms.numerics.arrays import Array
from algorithms.wrappers.preparation.columns import Column
from sibling.frames import is_frame, to_arrow


class FitWarning(UserWarning):
    """A warning about a fit, such as that it did not converge."""


def read_tables(frames: Sequence[Any]) -> tuple[Array, tuple[Column, ...], list[int]]:
    """Return the rows of data frames below each other, the kinds of columns, and the row counts.

    Columns without values and of free text are left out with a warning.

    Raises
    ------
    ValueError
        A column cannot be used.
    """
    import pyarrow as pa

    from algorithms.wrappers.preparation.arrow_columns import read_column
    from algorithms.wrappers.preparation.encoder import is_text
    from algorithms.wrappers.preparation.number_texts import find_writing
    from algorithms.wrappers.preparation.pandas_types import with_plain_types
    from algorithms.wrappers.preparation.text_kinds import TextReading
    from algorithms.wrappers.preparation.text_values import MISSING_MARKERS
    from algorithms.wrappers.preparation.texts import Texts

    tables = [to_arrow(frame, of="X") for frame in frames]
    table = pa.concat_tables(map(with_plain_types, tables), promote_options="permissive")
    named = dict(zip(table.column_names, table.columns, strict=True))
    categories = {name for name, column in named.items() if pa.types.is_dictionary(column.type)}
    texts = [
        Texts.of(column, name, MISSING_MARKERS)
        for name, column in named.items()
        if is_text(column.type) and name not in categories
    ]
    reading = TextReading(find_writing(texts), categories=frozenset(categories))
    columns, values = [], []
    for name, column in named.items():
        parsed = read_column(column, name, None, reading=reading)
        for note in parsed.notes:
            warnings.warn(note.text, FitWarning, stacklevel=5)
        if parsed.column is not None and parsed.values is not None:
            columns.append(parsed.column)
            values.append(parsed.values)
    if not columns:
        raise InvalidData("no column of X can be used: all are empty or free text")
    return np.column_stack(values), tuple(columns), [part.num_rows for part in tables]


def read_new_table(X: Any, wanted: Sequence[Column], *, allows_others: bool) -> Array:
    """Return the rows of a data frame with the columns of a model, which are matched by name.

    Parameters
    ----------
    allows_others
        Whether other columns are ignored.

    Raises
    ------
    ValueError
        X is not a data frame, lacks a column, or has another one or one of another kind.
    """
    from algorithms.wrappers.preparation.column_matching import match_columns
    from algorithms.wrappers.preparation.encoder import (
        collect_unknown,
        encode,
        find_decimal,
    )
    from algorithms.wrappers.preparation.pandas_types import with_plain_types

    if not is_frame(X) or isinstance(X, np.ndarray):
        kinds = ", ".join(f"'{column.name}' ({column.kind})" for column in wanted)
        raise InvalidData(f"the model takes data frames with the columns {kinds}")
    table = with_plain_types(to_arrow(X, of="X"))
    values = []
    unknown: dict[str, list[str]] = {}
    names = [column.name for column in wanted]
    positions = match_columns(
        table.column_names,
        names,
        subject="expected the columns that the model was trained on",
        ignored=table.column_names if allows_others else (),
    )
    decimal = find_decimal([table.column(position) for position in positions], wanted)
    for column, position in zip(wanted, positions, strict=True):
        with collect_unknown(unknown):
            values.append(encode(table.column(position), column, decimal=decimal))
    if unknown:
        warnings.warn(UnknownCategoriesWarning.of(unknown), stacklevel=5)
    return np.column_stack(values)
