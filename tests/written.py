"""What tests write: bytes of files."""

import io
from collections.abc import Callable
from typing import Any

import h5py
import numpy as np
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


def as_parquet(frame: Any) -> bytes:
    """Return a data frame of pandas as Parquet."""
    return parquet_of(pa.Table.from_pandas(frame, preserve_index=False))


def as_stream(frame: Any) -> bytes:
    """Return a data frame of pandas as a stream of Arrow record batches."""
    table = pa.Table.from_pandas(frame, preserve_index=False)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def big_csv(n_rows: int = 60_000) -> bytes:
    """Return a table of seven tasks."""
    rng = np.random.default_rng(1)
    numbers = written(np.savetxt, rng.normal(size=(n_rows, 8)), delimiter=",", fmt="%.6f")
    body = "\n".join(f"t{i % 7},{line}" for i, line in enumerate(numbers.decode().splitlines()))
    return ("task," + ",".join("abcdefgh") + "\n" + body + "\n").encode()


def cells(values: Any) -> Any:
    """Return values as a cell array of MATLAB."""
    found = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        found[i] = value
    return found


def matlab_references() -> bytes:
    """Return a file of one large matrix that is the content of very many cells."""
    file = io.BytesIO()
    with h5py.File(file, "w") as new:
        values = new.create_dataset("values", data=np.zeros((1000, 1000)), compression="gzip")
        references = new.create_dataset("X", (3000,), dtype=h5py.ref_dtype)
        references[:] = [values.ref] * 3000
    return file.getvalue()
