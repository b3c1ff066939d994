"""Columns without a name: row names and indexes, as R and pandas write them, and empty columns."""

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Final

from service.datasets.formats.options import ReadOptions

_INDEX: Final = re.compile("__index_level_[0-9]+__")


def complete_header(records: Sequence[Sequence[str]]) -> list[str]:
    """Return the first record as the header of the others, which may all have one cell more.

    The cell without a name is the last one if it is empty in all records, else the first one, if
    these differ as the row names of R do.
    """
    header, *rows = records
    width = len(header) + 1
    if not rows or len(rows[0]) != width:
        return list(header)
    filled = [row for row in rows if not is_blank(row)]
    if any(len(row) != width for row in filled):
        return list(header)
    if is_blank(row[-1] for row in filled):
        return [*header, ""]
    has_row_names = 1 < len(filled) == len({row[0] for row in filled})
    return ["", *header] if has_row_names else list(header)


def name_index(header: Sequence[str]) -> list[str]:
    """Return a header whose first columns, as far as they have no name, are levels of an index.

    They are named as pandas names them in Parquet.
    """
    n_levels = len([*takewhile(lambda name: not name.strip(), header)])
    return [*map(index_name, range(n_levels)), *header[n_levels:]]


def index_name(level: int) -> str:
    """Return the name of a level of an index that had none."""
    return f"__index_level_{level}__"


def is_index(name: str) -> bool:
    """Return whether a column is an index that had no name."""
    return _INDEX.fullmatch(name) is not None


def unused_index(names: Iterable[str], options: ReadOptions) -> list[str]:
    """Return the columns that are an index without a name and that no option names."""
    extras = (options.task_column, options.group_column, options.weight_column)
    used = {*extras, *options.target_column, *options.ignore_column, *options.kinds()}
    return [name for name in names if is_index(name) and name not in used]


def index_notes(names: Iterable[str]) -> list[str]:
    """Return the notes about columns that are an index without a name."""
    return [f"column '{name}' is an index without a name and is left out" for name in names]


def empty_notes(positions: Sequence[int]) -> list[str]:
    """Return the notes about columns without a name and without values."""
    return [f"column {j} has neither a name nor values and is left out" for j in positions]


def without_blank_end(records: list[list[str]]) -> list[list[str]]:
    """Return records without those at the end that have only delimiters."""
    end = len(records)
    while end and is_blank(records[end - 1]):
        end -= 1
    return records[:end]


def is_blank(cells: Iterable[str]) -> bool:
    """Return whether no cell has text."""
    return not any(cell.strip() for cell in cells)
