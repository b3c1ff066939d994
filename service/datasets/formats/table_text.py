"""The text of a table: which of its columns have text, and how its numbers are written."""

from collections.abc import Iterator

import pyarrow as pa

from algorithms.wrappers.preparation.encoder import is_text
from algorithms.wrappers.preparation.invalid_column import InvalidColumn
from algorithms.wrappers.preparation.number_texts import find_writing
from algorithms.wrappers.preparation.text_kinds import TextReading
from algorithms.wrappers.preparation.texts import Texts
from service.datasets.formats.column_issues import rejected
from service.datasets.formats.options import ReadOptions
from service.datasets.formats.table_columns import TableColumns


def with_levels(table: pa.Table) -> pa.Table:
    """Return a table whose columns of text have each different text once."""
    for position, column in enumerate(table.columns):
        if is_text(column.type) and not pa.types.is_dictionary(column.type):
            name = table.column_names[position]
            table = table.set_column(position, name, column.dictionary_encode())
    return table


def find_reading(
    table: pa.Table,
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
    decimal
        The decimal separator, if it is known; the declared one is used first.
    categories
        Columns that have a type of categories.

    Raises
    ------
    Rejected
        It cannot be known how numbers are written.
    """
    texts = _number_columns(table, roles, options)
    columns = (column for column in texts if column.name not in categories)
    try:
        writing = find_writing(
            columns, decimal=options.decimal or decimal, thousands=options.thousands_mark()
        )
    except InvalidColumn as error:
        raise rejected(error) from None
    return TextReading(writing, is_csv, categories)


def _number_columns(table: pa.Table, roles: TableColumns, options: ReadOptions) -> Iterator[Texts]:
    """Yield the columns of text that may be numbers."""
    declared = options.kinds()
    targets = () if options.target_kind == "classes" else roles.targets
    weights = () if roles.weight is None else (roles.weight,)
    for position in (*roles.features, *targets, *weights):
        name, column = roles.names[position], table.column(position)
        if is_text(column.type) and declared.get(name, "number") == "number":
            yield Texts.of(column, name)
