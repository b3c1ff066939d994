"""The rows of a call as a table, and what in it is far from the training rows."""

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np

from algorithms.wrappers.preparation.column_matching import clean_name
from service.inference.call import InputSpec, Rows
from service.inference.formats.json_rows import ListRows, NamedRows, is_records
from service.inference.formats.table import TableRows
from service.models.columns import Ranges

#: Places of the rows with values far outside the training rows, by column.
FarPlaces: TypeAlias = Mapping[str, Sequence[int]]


def table_of(rows: Rows) -> TableRows | None:
    """Return rows as a table; None if their format has no columns."""
    if isinstance(rows, TableRows):
        return rows
    if isinstance(rows, NamedRows):
        values = [rows.rows.values_of(j, rows.names) for j in range(len(rows.names))]
        return TableRows(rows.names, values, len(values[0]) if values else 0)
    if isinstance(rows, ListRows) and is_records(rows.rows):
        names = tuple(dict.fromkeys(chain.from_iterable(rows.rows)))
        values = [[record.get(name) for record in rows.rows] for name in names]
        return TableRows(names, values, len(rows.rows))
    return None


def names_of(rows: Rows) -> Collection[str]:
    """Return the names of the columns of rows at little cost; of records, those of the first."""
    if isinstance(rows, ListRows):
        first = rows.rows[0] if isinstance(rows.rows, list) and rows.rows else None
        return first if isinstance(first, dict) else ()
    return (rows.names or ()) if isinstance(rows, TableRows | NamedRows) else ()


def missing_columns(names: Sequence[str], spec: InputSpec) -> list[str]:
    """Return the columns of a model that a table does not have, if it can answer without them.

    Not if none of its columns is there, or if one is that it does not know: that may be a missing
    one by another name.
    """
    wanted = spec.columns() if spec.allow_missing else None
    if wanted is None:
        return []
    given, known = {clean_name(name) for name in names}, {clean_name(name): name for name in wanted}
    missing = [name for cleaned, name in known.items() if cleaned not in given]
    is_renamed = given - known.keys() - spec.ignored()
    return [] if is_renamed or len(missing) == len(known) else missing


def find_far_values(table: TableRows, ranges: Ranges) -> FarPlaces:
    """Return the rows with numbers beyond the training rows by more than the width of these."""
    known = [name for name in table.names or () if name in ranges]
    matrix = table.encoded({name: ranges[name][0] for name in known})
    far = {}
    for name, values in zip(known, matrix, strict=True):
        _, low, high = ranges[name]
        with np.errstate(invalid="ignore", over="ignore"):
            width = high - low
            places = np.flatnonzero((values < low - width) | (values > high + width))
        if width > 0 and len(places):
            far[name] = places.tolist()
    return far
