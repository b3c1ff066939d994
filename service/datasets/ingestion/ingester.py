"""Ingestion of uploads: from uploaded bytes to stored tasks."""

import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from service.access.stored_bytes import (
    StoredBytesExceeded,
    check_after_storing,
    lock_quotas,
)
from service.datasets import store
from service.datasets.formats.options import Limits
from service.datasets.ingestion.fresh import FreshUpload
from service.datasets.ingestion.supervision import (
    IngestResult,
    IngestTask,
    ReaderProcess,
    rejection,
)
from service.datasets.issues import Rejected, ValidationIssue, reject
from service.datasets.selection import Selection
from service.observability.logs import log
from service.observability.tracing import add_to_span, current_traceparent, span
from service.processes.lifetime import ProcessIdentity, this_process
from service.settings import MIB, Settings
from service.storage.blobs import BlobStore, BlobWriter
from service.storage.database import Database, retry_while_unavailable
from service.storage.shortages import UPLOADS, Shortage, find_shortage, shortages_in
from service.storage.tables import DatasetRow

#: Uploads parsed at the same time; each may use its full memory limit.
N_THREADS: Final = 2
#: Bytes read at a time. Small next to a chunk, since the writer buffers up to a chunk and this.
_READ_BYTES: Final = 256 * 1024
#: Time after which an unused process that reads uploads ends, which frees its memory.
_MAX_IDLE_S: Final = 60
#: Pause of a thread after a shortage of disk space.
_SHORTAGE_PAUSE_S: Final = 2
#: File in each scratch folder with the identity of the process that uses the folder.
_WORKER_FILE: Final = "worker"

T = TypeVar("T")


class _Queued(NamedTuple):
    """A dataset to read.

    Attributes
    ----------
    parent
        Trace context of its upload.
    is_retry
        Whether a shortage ended an earlier try.
    """

    dataset_id: str
    parent: str | None
    future: "Future[None]"
    is_retry: bool = False


class _QueuedFresh(NamedTuple):
    """A small upload to read and store."""

    upload: FreshUpload
    parent: str | None
    future: "Future[IngestResult]"


class _QueuedInspection(NamedTuple):
    """A file to look at, in a folder as ``upload``."""

    folder: Path
    media_type: str
    options: dict[str, Any]
    parent: str | None
    future: "Future[IngestResult]"


class Ingester:
    """Thread pool that parses uploads, each in its own child process.

    Requests have other threads, so that queued uploads do not block requests.
    They are daemon threads; a child process that is still running dies with this process.

    Parameters
    ----------
    new_reader
        Returns the process that reads the uploads of a thread, each in a child.
    """

    def __init__(
        self,
        database: Database,
        blobs: BlobStore,
        settings: Settings,
        *,
        new_reader: Callable[[], ReaderProcess] = ReaderProcess,
    ) -> None:
        self._new_reader = new_reader
        self._database = database
        self._blobs = blobs
        self._settings = settings
        self._scratch = settings.data_dir.resolve() / "ingest"
        #: None ends a thread.
        self._queue: SimpleQueue[_Queued | _QueuedFresh | _QueuedInspection | None] = SimpleQueue()
        self._is_closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, name=f"ingest-{i}", daemon=True)
            for i in range(N_THREADS)
        ]
        for thread in self._threads:
            thread.start()

    def close(self, timeout_s: float) -> None:
        """End the threads once they have parsed the queued uploads; stop waiting after a time.

        The next process parses the datasets that are left.
        """
        deadline = time.monotonic() + timeout_s
        self._is_closing.set()
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def submit(self, dataset_id: str) -> "Future[None]":
        """Queue an uploaded dataset; the future resolves once it is ready or rejected."""
        future: Future[None] = Future()
        self._queue.put(_Queued(dataset_id, current_traceparent(), future))
        return future

    def read(self, upload: FreshUpload) -> "Future[IngestResult]":
        """Queue a small upload that is not stored; the future has the manifest, or the issues."""
        future: Future[IngestResult] = Future()
        self._queue.put(_QueuedFresh(upload, current_traceparent(), future))
        return future

    def inspect(
        self, folder: Path, media_type: str, options: dict[str, Any]
    ) -> "Future[IngestResult]":
        """Queue the file ``upload`` of a scratch folder, of which nothing is stored."""
        future: Future[IngestResult] = Future()
        parent = current_traceparent()
        self._queue.put(_QueuedInspection(folder, media_type, options, parent, future))
        return future

    def recover(self) -> None:
        """Queue again the datasets of processes that died, and remove their leftover files."""
        with self._database.write() as session:
            orphans = store.take_orphans(session)
        self._sweep_scratch()
        for dataset_id in orphans:
            log.info("dataset.recovered", dataset_id=dataset_id)
            self.submit(dataset_id)

    def _work(self) -> None:
        with self._new_reader() as reader:
            while True:
                try:
                    queued = self._queue.get(timeout=_MAX_IDLE_S)
                except Empty:
                    reader.close()
                    continue
                if queued is None:
                    return
                if isinstance(queued, _QueuedFresh):
                    self._read_or_report(queued, reader)
                elif isinstance(queued, _QueuedInspection):
                    self._inspect(queued, reader)
                else:
                    self._ingest_or_give_up(queued, reader)

    def _ingest_or_give_up(self, queued: _Queued, reader: ReaderProcess) -> None:
        try:
            with span("ingestion", parent=queued.parent, dataset_id=queued.dataset_id):
                self._ingest(queued, reader)
        except Exception as error:  # noqa: BLE001 - logged, and raised by the future
            self._postpone_or_give_up(queued, error)
        else:
            queued.future.set_result(None)

    def _read_or_report(self, queued: _QueuedFresh, reader: ReaderProcess) -> None:
        upload = queued.upload
        try:
            with span("ingestion", parent=queued.parent), shortages_in(UPLOADS):
                queued.future.set_result(self._read_fresh(upload, reader))
        except Exception as error:  # noqa: BLE001 - raised by the future, or logged
            if upload.claim("reader"):
                queued.future.set_exception(error)
                return
            row = upload.row.result()
            if row is not None:
                stored = _Queued(row.id, queued.parent, Future(), is_retry=True)
                self._postpone_or_give_up(stored, error)

    def _inspect(self, queued: _QueuedInspection, reader: ReaderProcess) -> None:
        task = self._task(queued.folder, queued.media_type, queued.options, inspects=True)
        try:
            with span("inspection", parent=queued.parent), shortages_in(UPLOADS):
                queued.future.set_result(reader.read(task))
        except Exception as error:  # noqa: BLE001 - raised by the future
            queued.future.set_exception(error)

    def _postpone_or_give_up(self, queued: _Queued, error: Exception) -> None:
        dataset_id = queued.dataset_id
        shortage = find_shortage(error)
        if shortage is not None:
            log.error("ingest.postponed", dataset_id=dataset_id, shortage=str(shortage))
            self._postpone(queued, shortage)
            return
        log.error("ingest.failed", dataset_id=dataset_id, exc_info=error)
        self._give_up(dataset_id)
        queued.future.set_exception(error)

    def _postpone(self, queued: _Queued, shortage: Shortage) -> None:
        """Queue a dataset again after a while: its bytes are stored, and shortages pass."""
        detail = f"the service's machine reports: {shortage}; the upload is read once there is more"
        issue = ValidationIssue("resource-shortage", detail)
        with suppress(SQLAlchemyError), self._database.write() as session:
            store.postpone(session, queued.dataset_id, [issue.to_json()])
        self._is_closing.wait(_SHORTAGE_PAUSE_S)
        self._queue.put(queued._replace(is_retry=True))

    def _ingest(self, queued: _Queued, reader: ReaderProcess) -> None:
        row = self._retry(
            lambda is_retry: self._begin(queued.dataset_id, is_retry or queued.is_retry)
        )
        if row is None:
            return  # another process has taken it
        with shortages_in(UPLOADS):
            result = self._read_and_publish(row, reader)
        log.info("dataset.ingested", dataset_id=row.id, is_ready="manifest" in result)

    def _read_and_publish(self, row: DatasetRow, reader: ReaderProcess) -> IngestResult:
        with self.scratch_folder() as folder:
            try:
                sources = self._retry(lambda _: self._fetch(row, folder))
            except Rejected as rejected:  # a source was deleted
                result = rejection(rejected.issues[0])
            else:
                task = self._task(folder, row.media_type, row.options, sources)
                result = reader.read(task, partial(self._show_progress, row))
            publish = partial(self._publish, row, result, folder / "content")
            self._retry(lambda _: publish())
        return result

    def _read_fresh(self, upload: FreshUpload, reader: ReaderProcess) -> IngestResult:
        with self.scratch_folder() as folder:
            (folder / "upload").write_bytes(upload.body)
            task = self._task(folder, upload.media_type, upload.options)
            result = reader.read(task)
            content = folder / "content"
            if not upload.claim("reader"):
                row = upload.row.result()
                if row is not None:
                    add_to_span(dataset_id=row.id)
                    self._retry(lambda _: self._publish(row, result, content))
            elif "manifest" in result:
                publish = partial(upload.store, result["manifest"])
                result = self._store_tasks(upload.owner, content, publish) or result
        log.info("dataset.ingested", is_ready="manifest" in result)
        return result

    @contextmanager
    def scratch_folder(self) -> Iterator[Path]:
        """Yield a folder until the end of the block."""
        self._scratch.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self._scratch) as name:
            folder = Path(name)
            (folder / _WORKER_FILE).write_text(this_process().to_text())
            yield folder

    def _show_progress(self, row: DatasetRow, share: float) -> None:
        n_bytes = int(share * row.size_bytes)
        with suppress(SQLAlchemyError), self._database.write() as session:
            store.set_parsed(session, row.id, n_bytes)

    def _give_up(self, dataset_id: str) -> None:
        """Reject a dataset whose ingestion failed with an internal error."""
        detail = "the service failed to read the upload; upload it again"
        issue = ValidationIssue("parser-crashed", detail)
        with suppress(SQLAlchemyError), self._database.write() as session:
            store.reject(session, dataset_id, [issue.to_json()])

    def _retry(self, step: Callable[[bool], T]) -> T:
        return retry_while_unavailable(step, self._settings.db_retry_timeout_s)

    def _begin(self, dataset_id: str, is_retry: bool) -> DatasetRow | None:  # noqa: FBT001 - a step
        with self._database.write() as session:
            return store.begin_ingest(session, dataset_id, is_retry=is_retry)

    def _fetch(self, row: DatasetRow, folder: Path) -> list[dict[str, Any]]:
        """Copy the upload, or the content of each source, to a file; return the sources."""
        if row.sources is not None:
            return [
                self._fetch_source(s, folder / f"source-{i}") for i, s in enumerate(row.sources)
            ]
        assert row.upload_blob_id is not None
        with (folder / "upload").open("wb") as file:
            for chunk in self._blobs.chunks(row.upload_blob_id):
                file.write(chunk)
                del chunk  # so that at most one chunk is in memory while the next is read
        return []

    def _fetch_source(self, source: dict[str, Any], content: Path) -> dict[str, Any]:
        """Copy the content of a dataset to a file, and return the source for the child.

        Raises
        ------
        Rejected
            The dataset has been deleted.
        """
        with self._database.read() as session:
            row = session.get(DatasetRow, source["dataset_id"])
        if row is None or row.content_blob_id is None:
            detail = f"dataset '{source['dataset_id']}' has been deleted"
            reject("missing-source", detail)
        self._blobs.copy(row.content_blob_id, content)
        selection = {k: v for k, v in source.items() if k in Selection.model_fields}
        return {"content": content.name, "manifest": row.manifest, "selection": selection}

    def _task(
        self,
        folder: Path,
        media_type: str,
        options: dict[str, Any],
        sources: Sequence[dict[str, Any]] = (),
        *,
        inspects: bool = False,
    ) -> IngestTask:
        """Return the task of reading the upload, or the sources."""
        return IngestTask(
            folder=folder,
            media_type=media_type,
            options=options,
            limits=Limits.from_settings(self._settings),
            memory_bytes=self._settings.ingest_memory_mb * MIB,
            timeout_s=self._settings.ingest_timeout_s,
            sources=sources,
            n_threads=self._settings.resolved_ingest_threads(),
            inspects=inspects,
        )

    def _publish(self, row: DatasetRow, result: IngestResult, content: Path) -> None:
        """Store the result."""
        if "manifest" in result:
            publish = partial(_make_ready, row, result["manifest"])
            result = self._store_tasks(row.owner, content, publish) or result
        if "issues" in result:
            with self._database.write() as session:
                store.reject(session, row.id, result["issues"])

    def _store_tasks(
        self, owner: str, content: Path, store: Callable[[Session, BlobWriter], bool]
    ) -> IngestResult | None:
        """Store the tasks in chunks, each in a transaction, so that other writers wait little.

        The tasks of a small dataset are stored in the transaction of ``store``, which returns
        whether it has used them. Return the issue if they exceed the owner's quota, else None.
        """
        writer = self._blobs.writer()
        is_used = False
        try:
            with content.open("rb") as file:
                while data := file.read(_READ_BYTES):
                    writer.write(data)
            writer.flush()
            with self._database.write() as session:
                is_stored = store(session, writer)
                check_after_storing(session, owner, self._settings.max_stored_bytes)
            is_used = is_stored
        except StoredBytesExceeded as error:
            return rejection(ValidationIssue("quota-exceeded", str(error)))
        finally:
            if not is_used:
                writer.discard()
        return None

    def _sweep_scratch(self) -> None:
        """Remove the scratch folders of processes that no longer run."""
        for worker in self._scratch.glob(f"*/{_WORKER_FILE}"):
            if ProcessIdentity.from_text(worker.read_text()).is_certainly_dead():
                shutil.rmtree(worker.parent, ignore_errors=True)


def _make_ready(
    row: DatasetRow, manifest: dict[str, Any], session: Session, writer: BlobWriter
) -> bool:
    """Publish a stored upload."""
    lock_quotas(session, row.owner)
    store.make_ready(session, row.id, manifest, writer.finish(session))
    return True
