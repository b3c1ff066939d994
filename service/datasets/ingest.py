"""Ingestion: from uploaded bytes to tasks, in a supervised process."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

from service.blobs import BlobStore
from service.database import Database
from service.datasets import store
from service.datasets.complaints import Complaint
from service.datasets.options import Limits
from service.logs import log
from service.rows import DatasetRow
from service.settings import MIB, Settings

#: Uploads that are parsed at a time: each may take its whole memory limit.
_AT_A_TIME: Final = 2
_NOISE_SHOWN: Final = 500

Answer = dict[str, Any]


class Ingester:
    """Parses uploads, a few at a time, each in a process of its own."""

    def __init__(self, database: Database, blobs: BlobStore, settings: Settings) -> None:
        self._database = database
        self._blobs = blobs
        self._settings = settings
        self._turn = threading.BoundedSemaphore(_AT_A_TIME)

    def ingest(self, dataset_id: str) -> None:
        """Make an uploaded dataset ready, or rejected with its complaints."""
        with self._turn:
            with self._database.write() as session:
                row = store.begin_ingest(session, dataset_id)
            if row is not None:
                self._ingest(row)

    def recover(self) -> None:
        """Ingest again what a process that died had begun, and sweep what uploads left behind."""
        with self._database.write() as session:
            store.sweep_partial_blobs(session)
            orphans = store.take_orphans(session)
        for dataset_id in orphans:
            log.info("dataset.recovered", dataset_id=dataset_id)
            self.ingest(dataset_id)

    def _ingest(self, row: DatasetRow) -> None:
        assert row.upload_blob_id is not None
        scratch = self._settings.data_dir.resolve() / "ingest"
        scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            content = Path(folder) / "content"
            upload = Path(folder) / "upload"
            with upload.open("wb") as file:
                for chunk in self._blobs.chunks(row.upload_blob_id):
                    file.write(chunk)
            answer = self._run_child(row, upload, content)
            with self._database.write() as session:
                if "manifest" in answer:
                    blob = self._blobs.put_file(session, content)
                    store.make_ready(session, row.id, answer["manifest"], blob)
                else:
                    store.reject(session, row.id, answer["complaints"])
        log.info("dataset.ingested", dataset_id=row.id, is_ready="manifest" in answer)

    def _run_child(self, row: DatasetRow, upload: Path, content: Path) -> Answer:
        answer = upload.with_name("answer.json")
        order = upload.with_name("order.json")
        order.write_text(
            json.dumps(
                {
                    "parent": os.getpid(),
                    "media_type": row.media_type,
                    "options": row.options,
                    "limits": Limits.from_settings(self._settings).model_dump(),
                    "memory_bytes": self._settings.ingest_memory_mb * MIB,
                    "upload": str(upload),
                    "content": str(content),
                    "answer": str(answer),
                }
            )
        )
        failure = _supervise(order, self._settings.ingest_timeout_s)
        if failure is not None:
            return {"complaints": [Complaint(failure).to_json()]}
        result: Answer = json.loads(answer.read_text())
        return result


def _supervise(order: Path, timeout_s: float) -> str | None:
    """Run the child to its end; give a sentence where it did not end well."""
    noise = order.with_name("noise")
    with noise.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-P", "-m", "service.datasets.ingest_child", str(order)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return f"reading the upload took longer than {timeout_s:g} s, the limit"
    if code == 0:
        return None
    log.error("ingest.crashed", code=code, output=noise.read_text(errors="replace")[-_NOISE_SHOWN:])
    if code < 0:
        name = signal.Signals(-code).name
        return f"reading the upload was ended by {name}; it may need more memory than allowed"
    return "reading the upload failed; the service's log has the details"
