"""What tests write: bytes of files."""

import io
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def written(write: Callable[..., Any], *values: Any, **options: Any) -> bytes:
    """Return what ``write(file, *values, **options)`` writes."""
    file = io.BytesIO()
    write(file, *values, **options)
    return file.getvalue()


def parquet_of(table: pa.Table, **options: Any) -> bytes:
    """Return a table as Parquet."""
    return written(lambda file: pq.write_table(table, file, **options))
