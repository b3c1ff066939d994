"""Columns of intervals, which ``pandas.cut`` makes, as text."""

import json
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

_INTERVAL: Final = "pandas.interval"
_NAME: Final = b"ARROW:extension:name"
_METADATA: Final = b"ARROW:extension:metadata"


def read_as_stored() -> None:
    """Let this process read columns of intervals as they are stored.

    The type that pandas registers fails to read the intervals of a category.
    """
    with suppress(pa.ArrowKeyError):  # pandas is not imported, or the type is not registered
        pa.unregister_extension_type(_INTERVAL)


def printed_intervals(table: pa.Table) -> pa.Table:
    """Return a table in which intervals are text such as ``(0, 2]``, as pandas prints them.

    They are a type of pandas, or if pandas was not imported, plain columns that say so.
    """
    for position, field in enumerate(table.schema):
        closed = _closed_side(field)
        if closed is not None:
            printed = _printed(table.column(position), closed)
            table = table.set_column(position, field.name, printed)
    return table


def _closed_side(field: pa.Field) -> str | None:
    """Return the side on which the intervals of a column are closed; None for other columns."""
    type_ = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if isinstance(type_, pa.ExtensionType):
        name, described = type_.extension_name, type_.__arrow_ext_serialize__()
    else:
        metadata = field.metadata or {}
        name, described = metadata.get(_NAME, b"").decode(), metadata.get(_METADATA, b"{}")
    return str(json.loads(described).get("closed", "right")) if name == _INTERVAL else None


def _printed(column: pa.ChunkedArray, closed: str) -> pa.ChunkedArray:
    left = "[" if closed in ("left", "both") else "("
    right = "]" if closed in ("right", "both") else ")"

    def texts_of(array: Any) -> pa.Array:
        stored = array.storage if isinstance(array, pa.ExtensionArray) else array
        ends = stored.to_pylist()
        texts = [None if e is None else f"{left}{e['left']}, {e['right']}{right}" for e in ends]
        return pa.array(texts, pa.string())

    if not pa.types.is_dictionary(column.type):
        return pa.chunked_array([texts_of(chunk) for chunk in column.chunks], pa.string())
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices, texts_of(chunk.dictionary))
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.dictionary(column.type.index_type, pa.string()))
