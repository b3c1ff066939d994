"""Ingestion: from uploaded bytes to tasks, in a supervised process."""

import shutil
import tempfile
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from sqlalchemy.exc import OperationalError, SQLAlchemyError

from service.blobs import BlobStore
from service.database import Database
from service.datasets import store
from service.datasets.formats.options import Limits
from service.datasets.ingestion.supervision import Order, read_upload
from service.datasets.issues import ValidationIssue
from service.logs import log
from service.processes import ProcessIdentity, this_process
from service.rows import DatasetRow
from service.settings import MIB, Settings

#: Uploads that are parsed at a time: each may take its whole memory limit.
_AT_A_TIME: Final = 2
#: How long a finished ingestion waits for a database that is away before it gives up.
_PUBLISH_FOR_S: Final = 60
_PUBLISH_EVERY_S: Final = 0.5
#: A small part of a chunk: what the writer gathers grows by no more than this beyond a chunk.
_PIECE_BYTES: Final = 256 * 1024
#: Names the process that works in a scratch folder.
_WORKER_FILE: Final = "worker"

Answer = dict[str, Any]


class Ingester:
    """Parses uploads, a few at a time, each in a process of its own.

    Its threads are its own, so that waiting uploads keep no request from a thread; they are
    daemons, and a child that is left behind dies with the process.
    """

    def __init__(self, database: Database, blobs: BlobStore, settings: Settings) -> None:
        self._database = database
        self._blobs = blobs
        self._settings = settings
        self._scratch = settings.data_dir.resolve() / "ingest"
        self._queue: SimpleQueue[tuple[str, Future[None]]] = SimpleQueue()
        for i in range(_AT_A_TIME):
            threading.Thread(target=self._work, name=f"ingest-{i}", daemon=True).start()

    def submit(self, dataset_id: str) -> "Future[None]":
        """Have an uploaded dataset made ready, or rejected with its issues."""
        future: Future[None] = Future()
        self._queue.put((dataset_id, future))
        return future

    def recover(self) -> None:
        """Ingest again what a process that died had begun, and sweep what it left behind."""
        with self._database.write() as session:
            store.sweep_partial_blobs(session)
            orphans = store.take_orphans(session)
        self._sweep_scratch()
        for dataset_id in orphans:
            log.info("dataset.recovered", dataset_id=dataset_id)
            self.submit(dataset_id)

    def _work(self) -> None:
        while True:
            dataset_id, future = self._queue.get()
            try:
                self._ingest(dataset_id)
            except Exception as error:  # noqa: BLE001 - told to who waits, and to the log
                log.error("ingest.failed", dataset_id=dataset_id, exc_info=error)
                self._give_up(dataset_id)
                future.set_exception(error)
            else:
                future.set_result(None)

    def _ingest(self, dataset_id: str) -> None:
        with self._database.write() as session:
            row = store.begin_ingest(session, dataset_id)
        if row is None:
            return  # another process was first
        self._scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._scratch) as name:
            folder = Path(name)
            (folder / _WORKER_FILE).write_text(this_process().to_text())
            answer = self._read(row, folder)
            self._publish(row.id, answer, folder / "content")
        log.info("dataset.ingested", dataset_id=row.id, is_ready="manifest" in answer)

    def _give_up(self, dataset_id: str) -> None:
        """Let nobody wait for a dataset whose ingestion hit a defect of ours."""
        issue = ValidationIssue(
            "parser-crashed", "reading failed within the service; upload it again"
        )
        with suppress(SQLAlchemyError), self._database.write() as session:
            store.reject(session, dataset_id, [issue.to_json()])

    def _read(self, row: DatasetRow, folder: Path) -> Answer:
        """Return the manifest or the issues of an upload."""
        assert row.upload_blob_id is not None
        with (folder / "upload").open("wb") as file:
            for chunk in self._blobs.chunks(row.upload_blob_id):
                file.write(chunk)
                del chunk  # or two would be held while the next one is read
        order = Order(
            folder=folder,
            media_type=row.media_type,
            options=row.options,
            limits=Limits.from_settings(self._settings),
            memory_bytes=self._settings.ingest_memory_mb * MIB,
            timeout_s=self._settings.ingest_timeout_s,
        )
        answer = read_upload(order)
        if isinstance(answer, ValidationIssue):
            return {"issues": [answer.to_json()]}
        return answer

    def _publish(self, dataset_id: str, answer: Answer, content: Path) -> None:
        """Store the outcome, waiting for a database that is away."""
        deadline = time.monotonic() + _PUBLISH_FOR_S
        while True:
            try:
                if "manifest" in answer:
                    self._publish_tasks(dataset_id, answer["manifest"], content)
                else:
                    with self._database.write() as session:
                        store.reject(session, dataset_id, answer["issues"])
            except OperationalError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PUBLISH_EVERY_S)
            else:
                return

    def _publish_tasks(self, dataset_id: str, manifest: Answer, content: Path) -> None:
        """Store the tasks piece by piece, so that no other writer waits for all of them."""
        writer = self._blobs.writer()
        try:
            with content.open("rb") as file:
                while piece := file.read(_PIECE_BYTES):
                    writer.write(piece)
            writer.flush()
            with self._database.write() as session:
                store.make_ready(session, dataset_id, manifest, writer.finish(session))
        except BaseException:
            writer.discard()
            raise

    def _sweep_scratch(self) -> None:
        """Remove the folders of processes that are gone."""
        for worker in self._scratch.glob(f"*/{_WORKER_FILE}"):
            if ProcessIdentity.from_text(worker.read_text()).is_certainly_dead():
                shutil.rmtree(worker.parent, ignore_errors=True)
