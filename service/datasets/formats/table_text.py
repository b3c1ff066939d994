"""The text of a table: which of its columns have text, and how its numbers are written."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from algorithms.interface.lists import list_names
from algorithms.wrappers.preparation.encoder import is_text
from algorithms.wrappers.preparation.invalid_column import InvalidColumn
from algorithms.wrappers.preparation.number_texts import find_writing
from algorithms.wrappers.preparation.text_kinds import TextReading
from algorithms.wrappers.preparation.texts import Texts
from service.datasets.formats.column_issues import rejected
from service.datasets.formats.options import ReadOptions
from service.datasets.formats.table_columns import TableColumns

#: Markers and columns that a note lists.
_MAX_LISTED: Final = 5


def with_levels(table: pa.Table) -> pa.Table:
    """Return a table whose columns of text have each different text once."""
    for position, column in enumerate(table.columns):
        if is_text(column.type) and not pa.types.is_dictionary(column.type):
            name = table.column_names[position]
            table = table.set_column(position, name, column.dictionary_encode())
    return table


def texts_of(table: pa.Table, roles: TableColumns, options: ReadOptions) -> dict[str, Texts]:
    """Return the text of features, targets and weights by name, without missing markers."""
    weights = () if roles.weight is None else (roles.weight,)
    return {
        roles.names[position]: Texts.of(
            table.column(position), roles.names[position], options.markers
        )
        for position in (*roles.features, *roles.targets, *weights)
        if is_text(table.column(position).type)
    }


def marked_notes(texts: Mapping[str, Texts]) -> list[str]:
    """Return a note about the missing markers of a table, and the columns that have them."""
    columns = [name for name, column in texts.items() if column.marked]
    if not columns:
        return []
    markers = sorted({marker for name in columns for marker in texts[name].marked})
    listed = list_names(columns, _MAX_LISTED)
    named = ", ".join(map(repr, markers[:_MAX_LISTED]))
    return [f"text that is read as a missing value: {named}, in {listed}"]


def find_reading(
    texts: Mapping[str, Texts],
    roles: TableColumns,
    options: ReadOptions,
    *,
    decimal: str | None = None,
    is_csv: bool = False,
    categories: frozenset[str] = frozenset(),
) -> TextReading:
    """Return how the text of a table is read.

    Parameters
    ----------
    texts
        The columns of text by name.
    decimal
        The decimal separator, if it is known; the declared one is used first.
    categories
        Columns that have a type of categories.

    Raises
    ------
    Rejected
        It cannot be known how numbers are written.
    """
    declared = options.kinds()
    labels = {roles.names[i] for i in roles.targets if options.target_kind == "classes"}
    columns = [
        column
        for name, column in texts.items()
        if declared.get(name, "number") == "number" and name not in labels | categories
    ]
    try:
        writing = find_writing(
            columns, decimal=options.decimal or decimal, thousands=options.thousands_mark()
        )
    except InvalidColumn as error:
        raise rejected(error) from None
    return TextReading(writing, is_csv, categories, options.missing_marker or ())
