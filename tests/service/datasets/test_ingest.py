"""Uploads when processes die, or exceed their memory or time."""

import os
import subprocess
import sys
import time

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from service.datasets import store
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.progress import progress_to
from service.datasets.formats.registry import find_format
from service.datasets.ingestion import supervision
from service.processes.lifetime import this_process
from service.storage.tables import DatasetRow
from tests.service.stored import dataset_row
from tests.written import written

TABLE = b"task,x\na,1\n"
CSV, ARROW = "text/csv", "application/vnd.apache.arrow.stream"
PARQUET, LINES = "application/vnd.apache.parquet", "application/x-ndjson"
NPZ = "application/zip"


def dead_process() -> str:
    code = "from service.processes.lifetime import this_process; print(this_process().to_text())"
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    ).stdout.strip()


def wide(n_bytes: int) -> bytes:
    return written(np.savez, **{"a/X": np.zeros((n_bytes, 1), np.uint8)})


def test_an_upload_that_needs_too_much_memory_is_rejected_with_the_limit(make_app):
    app = make_app(ingest_memory_mb=256)
    response = app.upload(wide(50_000_000), "application/x-npz")
    app.assert_rejected(response, "ingest-out-of-memory", "256 MiB", "fewer rows")


@pytest.mark.slow
@pytest.mark.parametrize("n_records", [500_000, 700_000, 3_000_000])
def test_a_json_document_that_needs_too_much_memory_is_rejected_with_the_limit(make_app, n_records):
    app = make_app(ingest_memory_mb=256)
    document = b"[" + b",".join([b'{"task":"a","x":1.5}'] * n_records) + b"]"
    response = app.upload(document, "application/json")
    app.assert_rejected(response, "ingest-out-of-memory", "256 MiB", "fewer rows")


def test_an_upload_that_takes_too_long_is_rejected_with_the_limit(make_app):
    app = make_app(ingest_timeout_s=0.001)
    response = app.upload(TABLE)
    app.assert_rejected(response, "ingest-timeout", "0.001 s")


LIMITS = Limits(
    decompressed_bytes=1000, decompression_ratio=10, tasks=5, features=5, name_length=20
)

#: Script that ingests the upload in a folder as the service does.
READ = f"""
import sys
from pathlib import Path
from service.datasets.ingestion import supervision
from service.datasets.formats.options import Limits
limits = Limits(**{LIMITS.model_dump()!r})
folder = Path(sys.argv[1])
task = supervision.IngestTask(folder, "text/csv", {{}}, limits, 2**29, 60)
supervision.ReaderProcess().read(task)
"""


def ingest_task(folder, memory_bytes=2**29):
    return supervision.IngestTask(folder, "text/csv", {}, LIMITS, memory_bytes, timeout_s=30)


@pytest.fixture
def process():
    with supervision.ReaderProcess() as process:
        yield process


@pytest.mark.slow
def test_one_process_reads_uploads_after_another_also_after_failures(process, tmp_path):
    upload = tmp_path / "upload"
    upload.mkdir()
    assert "issues" in process.read(ingest_task(tmp_path))
    first = process._child.process.pid
    upload.rmdir()
    upload.write_bytes(TABLE)
    assert "manifest" in process.read(ingest_task(tmp_path))
    assert process._child.process.pid == first
    assert len(psutil.Process(first).threads()) == 1  # or a fork of it could wait forever


@pytest.mark.slow
def test_a_process_that_was_killed_is_replaced(process, tmp_path, wait_until):
    (tmp_path / "upload").write_bytes(TABLE)
    assert "manifest" in process.read(ingest_task(tmp_path))
    first = process._child.process.pid
    psutil.Process(first).kill()
    wait_until(lambda: psutil.Process(first).status() == psutil.STATUS_ZOMBIE)
    assert "manifest" in process.read(ingest_task(tmp_path))
    assert process._child.process.pid != first


def test_a_parser_that_crashes_is_an_issue(process, tmp_path):
    (tmp_path / "upload").mkdir()  # opening a folder raises an error that no parser expects
    (issue,) = process.read(ingest_task(tmp_path))["issues"]
    assert issue["code"] == "parser-crashed"
    assert "status 1" in issue["detail"]


@pytest.mark.slow
def test_a_parser_without_memory_to_start_is_an_issue(process, tmp_path):
    (tmp_path / "upload").write_bytes(TABLE)
    (issue,) = process.read(ingest_task(tmp_path, memory_bytes=2**20))["issues"]
    assert issue["code"] == "ingest-out-of-memory"
    assert "more than 1 MiB" in issue["detail"]


@pytest.fixture
def stuck_reader(tmp_path):
    """Return a process and its child, which waits forever for its upload."""
    os.mkfifo(tmp_path / "upload")
    secret = {
        "SIBLING_DATABASE_URL": "postgresql://secret@nowhere/db",
        "SIBLING_SCHEDULER_URL": "tls://secret",
    }
    parent = subprocess.Popen([sys.executable, "-c", READ, str(tmp_path)], env=os.environ | secret)
    try:
        yield psutil.Process(parent.pid), wait_for_reader(parent.pid)
    finally:
        parent.kill()
        parent.wait()


def wait_for_reader(pid):
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        for child in psutil.Process(pid).children(recursive=True):
            # the last limit that the child sets before it opens the upload
            if child.rlimit(psutil.RLIMIT_CPU)[1] != psutil.RLIM_INFINITY:
                return child
        time.sleep(0.05)
    raise AssertionError("no reader was started")


@pytest.mark.slow  # starts a service of its own
def test_the_parser_does_not_inherit_settings(stuck_reader):
    parent, reader = stuck_reader
    assert "secret" in str(parent.environ())
    assert "secret" not in str(reader.environ())


@pytest.mark.slow  # starts a service of its own
def test_the_parser_does_not_outlive_the_service(stuck_reader):
    parent, reader = stuck_reader
    parent.kill()
    _, alive = psutil.wait_procs([reader], timeout=60)
    assert not alive


@pytest.mark.slow
@pytest.mark.sql
def test_uploads_of_a_dead_process_are_ingested_again(make_app):
    app = make_app(ingest_wait_s=0)
    for state in ("uploaded", "ingesting"):
        writer = app.services.blobs.writer()
        writer.write(TABLE + state.encode() + b",2\n")
        with app.services.database.write() as session:
            blob = writer.finish(session)
            size = {"size_bytes": blob.size_bytes, "upload_sha256": blob.sha256}
            made = {"upload_blob_id": blob.id, "ingester": dead_process(), "fingerprint": state}
            session.add(dataset_row(id=f"ds_{state}", owner="local", state=state, **size, **made))
    app.services.ingester.recover()
    for state in ("uploaded", "ingesting"):
        response = app.send("GET", f"/v1/datasets/ds_{state}", params={"wait": 30})
        assert response.json()["state"] == "ready"


@pytest.mark.sql
def test_uploads_of_a_live_process_are_not_ingested_again(app):
    folders = {}
    for name, worker in (("dead", dead_process()), ("living", this_process().to_text())):
        folders[name] = app.data_dir / "ingest" / name
        folders[name].mkdir(parents=True)
        (folders[name] / "worker").write_text(worker)
    app.services.ingester.recover()
    assert not folders["dead"].exists()
    assert folders["living"].exists()


@pytest.fixture(scope="module")
def long_table():
    """Return a table of several blocks as CSV and as an Arrow stream."""
    table = pa.table(
        {"task": ["a", "b"] * 150_000, "x": range(300_000), "y": ["long text" * 3] * 300_000}
    )
    csv, stream, parquet = (pa.BufferOutputStream() for _ in range(3))
    pyarrow.csv.write_csv(table, csv)
    pq.write_table(table, parquet, row_group_size=100_000)
    with pa.ipc.new_stream(stream, table.schema) as writer:
        writer.write_table(table, max_chunksize=100_000)
    return {
        CSV: csv.getvalue().to_pybytes(),
        ARROW: stream.getvalue().to_pybytes(),
        PARQUET: parquet.getvalue().to_pybytes(),
        LINES: b'{"task": "a", "x": 1.5}\n' * 300_000,
        NPZ: written(np.savez, **{f"t{i}/X": np.ones((100_000, 1)) for i in range(3)}),
    }


@pytest.mark.parametrize("media_type", [CSV, ARROW, PARQUET, LINES, NPZ])
@pytest.mark.quick(2)
def test_parsers_of_large_files_report_how_far_they_are(reader, long_table, media_type):
    shares = []
    (reader.folder / "upload").write_bytes(long_table[media_type])
    with progress_to(shares.append):
        parsed = find_format(media_type).read(
            reader.folder / "upload", ReadOptions(), reader.limits
        )
    assert sum(task.n_samples for task in parsed.tasks) == 300_000
    assert len(shares) > 2
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] <= 1


@pytest.mark.slow
def test_the_progress_of_parsing_is_on_the_dataset_until_it_is_ready(app, long_table, monkeypatch):
    seen = []

    def set_parsed(session, dataset_id, n_bytes):
        stored(session, dataset_id, n_bytes)
        session.flush()
        seen.append(session.get_one(DatasetRow, dataset_id).parsed_bytes)

    stored = store.set_parsed
    monkeypatch.setattr(store, "set_parsed", set_parsed)
    monkeypatch.setattr(supervision, "_PROGRESS_INTERVAL_S", 0.01)
    dataset = app.upload(long_table[CSV]).json()
    assert (dataset["state"], dataset["parsed_bytes"]) == ("ready", None)
    assert seen
    assert all(0 < n <= dataset["size_bytes"] for n in seen)


@pytest.mark.parametrize("progress", [None, "x", "", -1.0, 2.0, 1, True, {}, float("nan")])
def test_a_share_that_the_child_cannot_have_parsed_is_ignored(progress):
    assert not supervision.is_share(progress)
    assert supervision.is_share(0.25)
