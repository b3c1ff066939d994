"""Arrow IPC streams and Parquet files of numbers, with an optional column of tasks.

Both formats compress data, so nothing is decoded before its decoded size is known.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from algorithms.wrappers.preparation.encoder import is_text
from algorithms.wrappers.preparation.pandas_types import read_as_stored, with_plain_types
from service.datasets.formats.nameless import is_index
from service.datasets.formats.parquet import CORRUPT, first_line
from service.errors.problems import Problem
from service.inference.call import Body, Call, InferenceResult
from service.inference.formats.table import TableRows, call_of, columns_of
from service.inference.task_column import TaskSource

#: Maximum decoded size of all columns. Run-length and dictionary encoding make bodies smaller.
_MAX_DECODED_BYTES: Final = 512 * 1024 * 1024
_MAX_BATCH_CELLS: Final = 1 << 20
_MAX_THRIFT_BYTES: Final = 16 * 1024 * 1024
#: First bytes of an IPC file, padded.
_FILE_MAGIC: Final = b"ARROW1\0\0"
#: Fields of its footer with the places of dictionaries and of record batches.
_BLOCK_VECTORS: Final = (2, 3)
#: Last bytes of an IPC file, after the size of its footer.
_FILE_END: Final = b"ARROW1"
#: Field numbers in the flatbuffers of messages, record batches and dictionary batches.
_HEADER_TYPE, _HEADER, _DICTIONARY_DATA, _BUFFERS, _COMPRESSION = 1, 2, 1, 2, 3
_DICTIONARY_BATCH: Final = 2


def read_arrow(body: Body, tasks: TaskSource) -> Call:
    """Parse an IPC stream."""
    read_as_stored()
    n_bytes = 0
    try:
        for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(body)):
            if message.type in ("record batch", "dictionary batch"):
                n_bytes += _decompressed_size(message)
                _check_size(n_bytes)
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            rows = rows_of_batches(reader.schema, reader)
    except CORRUPT as error:
        _raise_malformed("Arrow IPC stream", error)
    return call_of(rows, tasks)


def read_arrow_file(body: Body, tasks: TaskSource) -> Call:
    """Parse an IPC file, such as Feather."""
    read_as_stored()
    try:
        n_bytes = 0
        for message in _messages(body):
            n_bytes += _decompressed_size(message)
            _check_size(n_bytes)
        with pa.ipc.open_file(pa.BufferReader(body)) as reader:
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            rows = rows_of_batches(reader.schema, batches)
    except CORRUPT as error:
        _raise_malformed("Arrow IPC file", error)
    return call_of(rows, tasks)


def _messages(body: Body) -> Iterator[Any]:
    """Yield the messages that the footer of an IPC file lists: dictionaries and record batches."""
    end = len(body) - len(_FILE_END) - 4
    if not body.startswith(_FILE_MAGIC) or not body.endswith(_FILE_END) or end < 0:
        raise ValueError("it does not begin and end with ARROW1")
    (size,) = struct.unpack_from("<I", body, end)
    footer, buffer = bytes(body[max(end - size, 0) : end]), pa.py_buffer(body)
    (root,) = struct.unpack_from("<I", footer)
    for number in _BLOCK_VECTORS:
        field = _field(footer, root, number)
        if not field:
            continue
        vector = root + field
        vector += struct.unpack_from("<I", footer, vector)[0]
        (count,) = struct.unpack_from("<I", footer, vector)
        for i in range(count):
            start, n_metadata, n_body = struct.unpack_from("<qi4xq", footer, vector + 4 + 24 * i)
            yield pa.ipc.read_message(buffer[start : start + n_metadata + n_body])


def read_parquet(body: Body, tasks: TaskSource) -> Call:
    """Parse a Parquet file."""
    try:
        with _open(body, []) as file:
            metadata, schema = file.metadata, file.schema_arrow
        groups = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
        _check_size(max(sum(groups), 8 * metadata.num_rows * metadata.num_columns))
        # text stays dictionary-encoded: a long one would otherwise be copied for every row
        encoded = [f.name for f in schema if is_text(f.type)]
        with _open(body, encoded) as file:
            n_rows = max(1, _MAX_BATCH_CELLS // max(1, metadata.num_columns))
            batches = file.iter_batches(n_rows, use_threads=False)
            rows = rows_of_batches(file.schema_arrow, batches)
    except CORRUPT as error:
        _raise_malformed("Parquet file", error)
    return call_of(rows, tasks)


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
        thrift_string_size_limit=_MAX_THRIFT_BYTES,
        thrift_container_size_limit=_MAX_THRIFT_BYTES,
    )


def rows_of_batches(schema: Any, batches: Iterable[Any]) -> TableRows:
    """Return the rows of a table; raise a problem if it is too large."""
    kept = list(_limit_size(batches))
    table = pa.Table.from_batches(kept, schema)
    # check offsets against the buffers before use
    table.validate(full=True)
    table = with_plain_types(table)
    names = tuple(table.column_names)
    optional = _index_of(schema).union(filter(is_index, names))
    return TableRows(names, table.columns, table.num_rows, optional=optional)


def _index_of(schema: Any) -> frozenset[str]:
    """Return the columns that pandas wrote for the index of a data frame."""
    metadata = schema.pandas_metadata
    listed = metadata.get("index_columns") if isinstance(metadata, dict) else None
    names = listed if isinstance(listed, list) else []
    return frozenset(name for name in names if isinstance(name, str))


def _decompressed_size(message: Any) -> int:
    """Return the size of the decompressed buffers of a message; 0 if they are not compressed.

    A compressed buffer begins with its decompressed size; -1 if it is stored as it is.
    """
    data = bytes(message.metadata)
    (root,) = struct.unpack_from("<I", data)
    batch = root + _field(data, root, _HEADER)
    batch += struct.unpack_from("<I", data, batch)[0]
    if data[root + _field(data, root, _HEADER_TYPE)] == _DICTIONARY_BATCH:
        batch += _field(data, batch, _DICTIONARY_DATA)
        batch += struct.unpack_from("<I", data, batch)[0]
    if not _field(data, batch, _COMPRESSION):
        return 0
    vector = batch + _field(data, batch, _BUFFERS)
    vector += struct.unpack_from("<I", data, vector)[0]
    (count,) = struct.unpack_from("<I", data, vector)
    n_bytes, body = 0, memoryview(message.body)
    for i in range(count):
        start, length = struct.unpack_from("<qq", data, vector + 4 + 16 * i)
        if length:
            (size,) = struct.unpack_from("<q", body, start)
            n_bytes += max(size, length)
    return n_bytes


def _field(data: bytes, table: int, number: int) -> int:
    """Return the offset of a field in a flatbuffers table, 0 if the field is absent."""
    (back,) = struct.unpack_from("<i", data, table)
    start = table - back
    (size,) = struct.unpack_from("<H", data, start)
    entry = 4 + 2 * number
    return int(struct.unpack_from("<H", data, start + entry)[0]) if entry < size else 0


def _limit_size(batches: Iterable[Any]) -> Iterator[Any]:
    n_bytes = 0
    for batch in batches:
        n_bytes += 8 * batch.num_rows * batch.num_columns
        _check_size(n_bytes)
        yield batch


def _check_size(n_bytes: int) -> None:
    if n_bytes > _MAX_DECODED_BYTES:
        detail = f"the decoded columns take {n_bytes} bytes, the maximum is {_MAX_DECODED_BYTES}"
        raise Problem("body-too-large", f"{detail}; send fewer rows per request")


def _table(result: InferenceResult) -> Any:
    return pa.table({name: pa.array(values) for name, values in columns_of(result).items()})


def _raise_malformed(noun: str, error: Exception) -> NoReturn:
    detail = f"the body is not a valid {noun}: {first_line(error)}"
    raise Problem("malformed-body", detail) from None
