"""Arrow: an IPC stream of record batches, or a Parquet file, of numbers and a task column.

Both can be small and yet hold much: nothing is expanded before its size is known.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from service.errors import Problem
from service.inference.call import Body, Call, InferenceResult, raise_invalid_data
from service.inference.formats.table import TASK, TableRows, call_of, columns_of

#: Bytes of all columns together, however small the body: runs and dictionaries expand.
_MAX_EXPANDED: Final = 512 * 1024 * 1024
_BATCH_CELLS: Final = 1 << 20
_MAX_THRIFT: Final = 16 * 1024 * 1024
_MAX_NAME: Final = 1000
#: What reading a damaged file ends with; UnicodeDecodeError, for a name, is a ValueError.
_DAMAGE: Final = (
    pa.ArrowException,
    OSError,
    EOFError,
    ValueError,
    KeyError,
    OverflowError,
    IndexError,
    struct.error,
)
#: Where a message and its record batch (of a dictionary too) say what the Arrow format makes them.
_HEADER_TYPE, _HEADER, _DICTIONARY_DATA, _COMPRESSION = 1, 2, 1, 3
_DICTIONARY_BATCH: Final = 2


def read_arrow(body: Body, task: str | None) -> Call:
    """Return the call in an IPC stream."""
    try:
        for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(body)):
            if message.type in ("record batch", "dictionary batch"):
                _check_is_plain(message)
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            return _read(reader.schema, reader, task)
    except _DAMAGE as error:
        _refuse("Arrow IPC stream", error)


def read_parquet(body: Body, task: str | None) -> Call:
    """Return the call in a Parquet file."""
    try:
        with _open(body, []) as file:
            found, names = file.metadata, file.schema.names
        groups = [found.row_group(i).total_byte_size for i in range(found.num_row_groups)]
        _check_size(max(sum(groups), 8 * found.num_rows * found.num_columns))
        # or one long name could be written out for every row
        with _open(body, [TASK] if TASK in names else []) as file:
            n_rows = max(1, _BATCH_CELLS // max(1, found.num_columns))
            batches = file.iter_batches(n_rows, use_threads=False)
            return _read(file.schema_arrow, batches, task)
    except _DAMAGE as error:
        _refuse("Parquet file", error)


def write_arrow(result: InferenceResult) -> bytes:
    """Return an IPC stream of one batch."""
    table = _table(result)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def write_parquet(result: InferenceResult) -> bytes:
    """Return a Parquet file."""
    sink = pa.BufferOutputStream()
    pq.write_table(_table(result), sink)
    return bytes(sink.getvalue())


def _open(body: Body, dictionaries: list[str]) -> Any:
    return pq.ParquetFile(
        pa.BufferReader(body),
        read_dictionary=dictionaries,
        thrift_string_size_limit=_MAX_THRIFT,
        thrift_container_size_limit=_MAX_THRIFT,
    )


def _read(schema: Any, batches: Iterable[Any], task: str | None) -> Call:
    for field in schema:
        is_number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type)
        if field.name != TASK and not is_number:
            raise_invalid_data(
                f"column '{field.name}' holds {field.type}; expected numbers", column=field.name
            )
        if field.name == TASK and not _is_text(field.type):
            raise_invalid_data(f"the column 'task' holds {field.type}; expected texts", column=TASK)
    kept = list(_bounded(batches))
    table = pa.Table.from_batches(kept, schema)
    # offsets are believed only once they have been checked against the buffers
    table.validate(full=True)
    tasks = None
    if table.column_names.count(TASK) == 1:
        tasks = _names(table.column(TASK))
        table = table.drop_columns([TASK])
    columns = [_numbers(column) for column in table.columns]
    rows = TableRows(tuple(table.column_names), columns, table.num_rows)
    return call_of(rows, tasks, task)


def _check_is_plain(message: Any) -> None:
    """Refuse compressed buffers, whose size is known only once they are expanded."""
    data = bytes(message.metadata)
    (root,) = struct.unpack_from("<I", data)
    batch = root + _field(data, root, _HEADER)
    batch += struct.unpack_from("<I", data, batch)[0]
    if data[root + _field(data, root, _HEADER_TYPE)] == _DICTIONARY_BATCH:
        batch += _field(data, batch, _DICTIONARY_DATA)
        batch += struct.unpack_from("<I", data, batch)[0]
    if _field(data, batch, _COMPRESSION):
        raise pa.ArrowInvalid("its buffers are compressed; send them plain, or as Parquet")


def _field(data: bytes, table: int, number: int) -> int:
    """Return the offset of a field in a flatbuffer's table, or 0 if the field is absent."""
    (back,) = struct.unpack_from("<i", data, table)
    start = table - back
    (size,) = struct.unpack_from("<H", data, start)
    entry = 4 + 2 * number
    return int(struct.unpack_from("<H", data, start + entry)[0]) if entry < size else 0


def _bounded(batches: Iterable[Any]) -> Iterator[Any]:
    n_bytes = 0
    for batch in batches:
        n_bytes += 8 * batch.num_rows * batch.num_columns
        _check_size(n_bytes)
        yield batch


def _check_size(n_bytes: int) -> None:
    if n_bytes > _MAX_EXPANDED:
        detail = f"the columns take {n_bytes} bytes once they are read, more than {_MAX_EXPANDED}"
        raise Problem("body-too-large", f"{detail}; send fewer rows at a time")


def _names(column: Any) -> list[str]:
    """Return the task of each row."""
    if column.null_count:
        row = column.is_null().index(True).as_py()
        raise_invalid_data(f"row {row} names no task", row=row, column=TASK)
    names: list[str] = []
    for chunk in column.chunks:
        texts = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
        known = texts.dictionary
        if known.null_count or any(len(name) > _MAX_NAME for name in known.to_pylist()):
            raise_invalid_data(f"the column 'task' holds names of more than {_MAX_NAME} characters")
        table = known.to_pylist()
        names += [table[i] for i in texts.indices.to_pylist()]
    return names


def _is_text(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _numbers(column: Any) -> NDArray[Any]:
    """Return the numbers of a column, NaN where one is missing."""
    if column.null_count:
        column = column.cast(pa.float64(), safe=True)
    return np.asarray(column.to_numpy())


def _table(result: InferenceResult) -> Any:
    return pa.table({name: pa.array(values) for name, values in columns_of(result).items()})


def _refuse(what: str, error: Exception) -> NoReturn:
    why = str(error).splitlines()[0] if str(error) else type(error).__name__
    raise Problem("malformed-body", f"the body is not a readable {what}: {why[:200]}") from None
