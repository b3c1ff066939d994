"""Parser of Parquet files: one table of all tasks."""

import struct
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from service.datasets.formats.arrow_table import tasks_of
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.parsed import Parsed
from service.datasets.formats.progress import report_progress
from service.datasets.formats.validation import check_counts
from service.datasets.issues import reject

#: Maximum size of the metadata; tables within the limits have far smaller metadata.
_MAX_THRIFT_BYTES: Final = 64 * 1024 * 1024
#: Size of a number in the matrix that the rows become, whatever its encoding.
VALUE_BYTES: Final = 8
#: Number of parts, with all row groups, after which progress is reported.
_MAX_PARTS: Final = 100
#: Errors that pyarrow raises for corrupt files; UnicodeDecodeError is a ValueError.
CORRUPT: Final = (
    pa.ArrowException,
    OSError,
    EOFError,
    ValueError,
    KeyError,
    OverflowError,
    IndexError,
    struct.error,
)


def parse(path: Path, options: ReadOptions, limits: Limits) -> Parsed:
    """Return the tasks in a Parquet file."""
    try:
        with _open(path, []) as file:
            _check_size(file.metadata, path.stat().st_size, limits)
            # text stays dictionary-encoded: a long one would otherwise be copied for every row
            schema = file.schema_arrow
            texts = [field.name for field in schema if pa.types.is_string(field.type)]
            categories = frozenset(f.name for f in schema if pa.types.is_dictionary(f.type))
        with _open(path, texts) as file:
            table = _read(file)
        table.validate(full=True)
    except CORRUPT as error:
        reject("corrupt-file", f"the file is not a complete Parquet file: {first_line(error)}")
    return tasks_of(table, options, limits, categories=categories)


def _read(file: Any) -> pa.Table:
    """Return all row groups, a few at a time."""
    n = file.num_row_groups
    step = max(1, n // _MAX_PARTS)
    parts = []
    for first in range(0, n, step):
        chosen = list(range(first, min(first + step, n)))
        parts.append(file.read_row_groups(chosen, use_threads=pa.cpu_count() > 1))
        report_progress((chosen[-1] + 1) / n)
    return pa.concat_tables(parts) if parts else file.read()


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, shortened."""
    lines = str(error).splitlines()
    return lines[0][:200] if lines else type(error).__name__


def _open(path: Path, dictionaries: list[str]) -> Any:
    return pq.ParquetFile(
        path,
        read_dictionary=dictionaries,
        thrift_string_size_limit=_MAX_THRIFT_BYTES,
        thrift_container_size_limit=_MAX_THRIFT_BYTES,
    )


def _check_size(metadata: Any, file_bytes: int, limits: Limits) -> None:
    """Raise Rejected if the table is too large, before any of it is read."""
    check_counts(1, metadata.num_columns - 1, limits)
    groups = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
    n_bytes = max(groups, VALUE_BYTES * metadata.num_rows * metadata.num_columns)
    remedy = "write it without dictionaries and compression, or send CSV"
    limits.check_decompressed(n_bytes, file_bytes, what="the decoded columns", remedy=remedy)
