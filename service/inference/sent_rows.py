"""The rows of a call as a table, and what in it is far from the training rows."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np

from service.inference.call import Rows
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
