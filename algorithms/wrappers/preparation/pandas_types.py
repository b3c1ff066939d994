"""Columns whose types are of pandas: intervals, which ``pandas.cut`` makes, and periods."""

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_INTERVAL: Final = "pandas.interval"
_PERIOD: Final = "pandas.period"
_NAME: Final = b"ARROW:extension:name"
_METADATA: Final = b"ARROW:extension:metadata"
_FREQUENCY: Final = re.compile(r"\d*([A-Za-z]+?)E?(?:-([A-Z]{3}))?")
#: Units of NumPy by the frequencies of pandas, of which older versions have other names.
_UNITS: Final = {"M": "M", "D": "D", "h": "h", "min": "m", "s": "s", "ms": "ms", "us": "us"} | {
    "ns": "ns", "H": "h", "T": "m", "S": "s", "L": "ms", "U": "us", "N": "ns",
}  # fmt: skip
_MONTHS: Final = (
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
)  # fmt: skip
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
#: Year of the first ordinal of periods.
_EPOCH: Final = 1970


def read_as_stored() -> None:
    """Let this process read columns of intervals and periods as they are stored.

    The types that pandas registers fail to read the values of a category.
    """
    for name in (_INTERVAL, _PERIOD):
        with suppress(pa.ArrowKeyError):  # pandas is not imported, or the type is not registered
            pa.unregister_extension_type(name)


def with_plain_types(table: pa.Table) -> pa.Table:
    """Return a table with plain columns instead of the types of pandas.

    Intervals are text such as ``(0, 2]``, as pandas prints them. Periods are the dates on which
    they start; those of years are the numbers of the years, as in text. Without pandas, such
    columns are plain ones that say so.
    """
    for position, field in enumerate(table.schema):
        name, described = _type_of(field)
        column = table.column(position)
        if name == _INTERVAL:
            plain = _printed(column, str(described.get("closed", "right")))
        elif name == _PERIOD:
            plain = _starts(column, str(described.get("freq")))
        else:
            continue
        table = table.set_column(position, field.name, plain)
    return table


def _type_of(field: pa.Field) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the description of an extension type; an empty name for other types."""
    type_ = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    if isinstance(type_, pa.ExtensionType):
        name, described = type_.extension_name, type_.__arrow_ext_serialize__()
    else:
        metadata = field.metadata or {}
        name, described = metadata.get(_NAME, b"").decode(), metadata.get(_METADATA, b"{}")
    return name, json.loads(described) if name in (_INTERVAL, _PERIOD) else {}


def _storage(array: Any) -> Any:
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def _printed(column: pa.ChunkedArray, closed: str) -> pa.ChunkedArray:
    left = "[" if closed in ("left", "both") else "("
    right = "]" if closed in ("right", "both") else ")"

    def texts_of(array: Any) -> pa.Array:
        ends = _storage(array).to_pylist()
        texts = [None if e is None else f"{left}{e['left']}, {e['right']}{right}" for e in ends]
        return pa.array(texts, pa.string())

    if not pa.types.is_dictionary(column.type):
        return pa.chunked_array([texts_of(chunk) for chunk in column.chunks], pa.string())
    chunks = [
        pa.DictionaryArray.from_arrays(chunk.indices, texts_of(chunk.dictionary))
        for chunk in column.chunks
    ]
    return pa.chunked_array(chunks, pa.dictionary(column.type.index_type, pa.string()))


def _starts(column: pa.ChunkedArray, frequency: str) -> pa.ChunkedArray:
    """Return the moments at which periods start, or their years; other frequencies as they are."""
    chunks = column.chunks
    if pa.types.is_dictionary(column.type):
        chunks = [
            _storage(chunk.dictionary).take(chunk.indices) if len(chunk) else chunk.dictionary[:0]
            for chunk in chunks
        ]
    ordinals = pa.chunked_array([_storage(chunk) for chunk in chunks], pa.int64())
    is_missing = np.asarray(ordinals.is_null())
    starts = _starts_of(np.asarray(ordinals.fill_null(0)), frequency)
    return column if starts is None else pa.chunked_array([pa.array(starts, mask=is_missing)])


def _starts_of(ordinals: NDArray[np.int64], frequency: str) -> NDArray[Any] | None:
    found = _FREQUENCY.fullmatch(frequency)
    if found is None:
        return None
    unit, anchor = found.groups()
    if unit in ("Y", "A"):
        return ordinals + _EPOCH
    if unit == "Q" and (anchor or "DEC") in _MONTHS:
        months = 3 * ordinals + _MONTHS.index(anchor or "DEC") - 11
        starts: NDArray[Any] = months.astype("datetime64[M]")
    elif unit == "W" and (anchor or "SUN") in _WEEKDAYS:
        days = 7 * ordinals - 10 + _WEEKDAYS.index(anchor or "SUN")
        starts = days.astype("datetime64[D]")
    elif unit == "B":
        first = np.full(len(ordinals), "1970-01-01", "datetime64[D]")
        starts = np.busday_offset(first, ordinals)
    elif unit in _UNITS:
        starts = ordinals.astype(f"datetime64[{_UNITS[unit]}]")
    else:
        return None
    return starts.astype("datetime64[us]")
