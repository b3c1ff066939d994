"""Tables with text, dates, booleans and missing values, as numbers with the kinds of their columns.

Columns are read as the service reads uploads, so that the same table makes the same model.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.wrappers.preparation.columns import Column, recode
from sibling.frames import is_frame, is_raw, to_arrow

Array = NDArray[np.float64]


class FitWarning(UserWarning):
    """A warning about a fit, such as that it did not converge."""


def has_other_kinds(X: Any) -> bool:
    """Return whether X is a data frame with a column that is not of numbers."""
    return is_raw(X)


def read_tables(frames: Sequence[Any]) -> tuple[Array, tuple[Column, ...], list[int]]:
    """Return the rows of data frames below each other, the kinds of columns, and the row counts.

    Columns without values and of free text are left out with a warning.

    Raises
    ------
    ValueError
        A column cannot be used.
    """
    import pyarrow as pa

    from algorithms.wrappers.preparation.arrow_columns import Ignored, read_column

    tables = [to_arrow(frame, of="X") for frame in frames]
    table = pa.concat_tables(tables, promote_options="permissive")
    columns, values = [], []
    for name in table.column_names:
        parsed = read_column(table.column(name), name, None)
        if isinstance(parsed, Ignored):
            warnings.warn(parsed.note, FitWarning, stacklevel=5)
        else:
            columns.append(parsed[0])
            values.append(parsed[1])
    if not columns:
        raise InvalidData("no column of X can be used: all are empty or free text")
    return np.column_stack(values), tuple(columns), [part.num_rows for part in tables]


def read_new_table(X: Any, wanted: Sequence[Column]) -> Array:
    """Return the rows of a data frame with the columns of a model, which are matched by name.

    Raises
    ------
    ValueError
        X is not a data frame, lacks a column, or has a column of another kind.
    """
    from algorithms.wrappers.preparation.arrow_columns import read_column

    if not is_frame(X) or isinstance(X, np.ndarray):
        kinds = ", ".join(f"'{column.name}' ({column.kind})" for column in wanted)
        raise InvalidData(f"the model takes data frames with the columns {kinds}")
    table = to_arrow(X, of="X")
    columns, values = [], []
    for column in wanted:
        if column.name not in table.column_names:
            raise InvalidData(
                f"X has no column '{column.name}', which the model takes", column=column.name
            )
        parsed = read_column(table.column(column.name), column.name, column.kind)
        assert isinstance(parsed, tuple)  # the kind is declared
        columns.append(parsed[0])
        values.append(parsed[1])
    return recode(np.column_stack(values), columns, wanted, task="X")
