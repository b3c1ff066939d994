"""Small uploads that decode to very much, or claim to: each is rejected, and leaves nothing."""

import gzip
import io
import json
import zipfile

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io

from service.settings import MIB
from tests.written import matlab_references, parquet_of, written

LIMIT_BYTES = 32 * MIB
#: Numbers of 8 bytes beyond the limit, and few enough that the tests are cheap.
N_VALUES = 6 * MIB
TOO_LARGE = "decompression-limit"


def rows_of_csv():
    return b"task,x\n" + b"a,1\n" * (N_VALUES * 8 // 4)


def table():
    return pa.table(
        {"task": pa.array(["a"] * N_VALUES).dictionary_encode(), "x": np.zeros(N_VALUES)}
    )


def parquet():
    return parquet_of(table(), compression="zstd")


def arrow(new):
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with new(sink, table().schema, options=options) as writer:
        writer.write_table(table())
    return sink.getvalue()


def workbook():
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("xl/worksheets/sheet1.xml", bytes(N_VALUES * 8))
    return sink.getvalue()


def matlab_5():
    sink = io.BytesIO()
    cells = np.empty(1, object)
    cells[0] = np.zeros((N_VALUES, 1))
    scipy.io.savemat(sink, {"X": cells}, do_compression=True)
    return sink.getvalue()


def matlab_7():
    sink = io.BytesIO()
    with h5py.File(sink, "w", userblock_size=512) as file:  # its chunks are claimed, not written
        file.create_dataset("X", (2**20, 2**20), "f8", chunks=(2**10, 2**6), compression="gzip")
    return b"MATLAB 7.3 MAT-file".ljust(512) + sink.getvalue()[512:]


def npz():
    return written(np.savez_compressed, **{"a/X": np.zeros((N_VALUES, 1))})


def claimed_safetensors():
    entry = {"dtype": "F64", "shape": [2**40, 8], "data_offsets": [0, 2**46]}
    header = json.dumps({"a/X": entry}).encode()
    return len(header).to_bytes(8, "little") + header + bytes(64)


def wide_safetensors():
    """Bytes that take eight times as much as floats."""
    header = json.dumps(
        {"a/X": {"dtype": "U8", "shape": [N_VALUES, 1], "data_offsets": [0, N_VALUES]}}
    ).encode()
    return len(header).to_bytes(8, "little") + header + bytes(N_VALUES)


BOMBS = {
    "gzip": ("text/csv", lambda: gzip.compress(rows_of_csv()), TOO_LARGE),
    "zstd": ("text/csv", lambda: pa.compress(rows_of_csv(), "zstd", asbytes=True), TOO_LARGE),
    "parquet": ("application/vnd.apache.parquet", parquet, TOO_LARGE),
    "arrow stream": (
        "application/vnd.apache.arrow.stream",
        lambda: arrow(pa.ipc.new_stream),
        TOO_LARGE,
    ),
    "arrow file": ("application/vnd.apache.arrow.file", lambda: arrow(pa.ipc.new_file), TOO_LARGE),
    "workbook": (
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        workbook,
        TOO_LARGE,
    ),
    "matlab 5": ("application/x-matlab-data", matlab_5, TOO_LARGE),
    "matlab 7.3": ("application/x-matlab-data", matlab_7, TOO_LARGE),
    "matlab 7.3 cells": ("application/x-matlab-data", matlab_references, TOO_LARGE),
    "npz": ("application/x-npz", npz, TOO_LARGE),
    "safetensors": ("application/vnd.safetensors", wide_safetensors, TOO_LARGE),
    "claimed safetensors": ("application/vnd.safetensors", claimed_safetensors, "corrupt-file"),
}


def encoded(kind, n_rows=6_000_000):
    """Return a file of a few kilobytes with millions of rows."""
    sink = io.BytesIO()
    if kind == "parquet":
        pq.write_table(pa.table({"task": ["a"] * n_rows, "x": np.zeros(n_rows)}), sink)
        return sink.getvalue()
    task = pa.RunEndEncodedArray.from_arrays(pa.array([n_rows], pa.int32()), pa.array(["a"]))
    arrays = {"run-end": task, "null": pa.nulls(n_rows)}
    batch = pa.record_batch({"task": task, "x": arrays[kind]})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["parquet", "run-end", "null"])
@pytest.mark.quick(1)
def test_a_small_file_of_very_many_rows_exceeds_the_ratio(make_app, kind):
    media_type = BOMBS["parquet" if kind == "parquet" else "arrow stream"][0]
    content = encoded(kind)
    assert len(content) < 50_000
    app = make_app()
    app.assert_rejected(app.upload(content, media_type), TOO_LARGE, "times as large")


@pytest.mark.slow
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_rejected_and_leaves_nothing(make_app, name):
    media_type, make, code = BOMBS[name]
    app = make_app(max_decompressed_bytes=LIMIT_BYTES, ingest_memory_mb=512)
    app.assert_rejected(app.upload(make(), media_type), code)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("media_type", "body"),
    [
        ("application/json", b"[" + b"{}," * (3 * MIB) + b"{}]"),
        ("application/x-ndjson", b"{}\n" * (4 * MIB)),
    ],
)
def test_records_that_take_more_memory_than_their_text_are_rejected(make_app, media_type, body):
    app = make_app(ingest_memory_mb=256)
    response = app.upload(body, media_type)
    assert response.status_code == 422
    # the JSON library crashes in some places where it gets no memory
    codes = {error["code"] for error in response.json()["errors"]}
    assert codes <= {"ingest-out-of-memory", "parser-crashed"}
    assert app.left_behind() == {}
