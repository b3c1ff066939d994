"""Creation of the dataset of uploaded bytes: keys, quotas and equal uploads, in one transaction."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from sqlalchemy.orm import Session

from service.access.quotas import check_upload
from service.datasets import store
from service.datasets.context import DatasetServices
from service.datasets.formats.options import ReadOptions
from service.datasets.formats.registry import Format
from service.datasets.ingestion.fresh import FreshUpload
from service.datasets.issues import ValidationIssue
from service.datasets.schemas import error_entries
from service.errors.problems import Problem
from service.http.idempotency import find_created, fingerprint, remember_created
from service.http.routing import RecordEvent, unrecorded
from service.observability.tracing import add_to_span
from service.storage.blob_rows import Blob
from service.storage.blobs import BlobWriter
from service.storage.dataset_states import DatasetState
from service.storage.tables import DatasetRow


@dataclass(frozen=True, slots=True)
class UploadRequest:
    """Owner, name and options of an upload.

    Attributes
    ----------
    record
        Stores the audit event of the request, if that is possible, in a transaction.
    """

    owner: str
    name: str
    options: ReadOptions
    idempotency_key: str | None = None
    record: RecordEvent = unrecorded


class Registration:
    """Creation of the dataset of an upload, whose bytes are in a writer.

    Attributes
    ----------
    stored
        Its row and whether it is new, once :meth:`store_ready` has been committed.
    """

    def __init__(
        self, services: DatasetServices, writer: BlobWriter, upload: UploadRequest, format_: Format
    ) -> None:
        if writer.size_bytes == 0:
            raise rejected([ValidationIssue("empty-file", "the upload has no bytes").to_json()])
        self.services = services
        self.stored: tuple[DatasetRow, bool]
        self._writer = writer
        self._upload = upload
        self._format = format_
        content = content_fingerprint(writer.sha256(), upload, format_)
        self._same = fingerprint(content, upload.name)
        self._request = fingerprint("POST /v1/datasets", upload.name, content)

    def fresh(self) -> FreshUpload:
        """Return the upload for the thread that reads it."""
        options = self._upload.options.model_dump(mode="json")
        media_type, body = self._format.media_types[0], self._writer.held_bytes()
        return FreshUpload(self._upload.owner, body, media_type, options, self.store_ready)

    def is_known(self) -> bool:
        """Return whether an equal request or dataset was stored, so that nothing has to be read.

        Raises
        ------
        Problem
            The key was used with a different request, or a new dataset would exceed a quota.
        """
        owner = self._upload.owner
        with self.services.database.read() as session:
            if find_created(session, owner, self._upload.idempotency_key, self._request):
                return True
            if store.has_same(session, owner, self._same):
                return True
            self._check(session)
        return False

    def store_upload(self, state: DatasetState = DatasetState.UPLOADED) -> tuple[DatasetRow, bool]:
        """Store the upload; return its row, and whether the row is new."""
        with self.services.database.write() as session:
            row, is_new = self._find_or_create(
                session,
                lambda new: store.create(session, new, self._writer.finish(session), state=state),
            )
            if is_new and state == DatasetState.INGESTING:
                self._record(session, row, HTTPStatus.ACCEPTED)
        if not is_new:
            self._writer.discard()
        return row, is_new

    def store_ready(self, manifest: dict[str, Any], session: Session, content: BlobWriter) -> bool:
        """Store the dataset without the upload; return whether the row is new."""
        upload = Blob("", self._writer.sha256(), self._writer.size_bytes)
        row, is_new = self.stored = self._find_or_create(
            session,
            lambda new: store.create_ready(session, new, upload, manifest, content.finish(session)),
        )
        add_to_span(dataset_id=row.id)
        if is_new:
            self._record(session, row, HTTPStatus.CREATED)
        return is_new

    def _find_or_create(
        self, session: Session, create: Callable[[store.NewDataset], DatasetRow]
    ) -> tuple[DatasetRow, bool]:
        owner, key = self._upload.owner, self._upload.idempotency_key
        created = find_created(session, owner, key, self._request)
        row = None if created is None else store.get(session, created, owner=owner)
        is_new = False
        if row is None:
            row, is_new = register_in(
                session, self._same, self._upload, self._format, create, check=self._check
            )
        if created is None:
            remember_created(session, owner, key, self._request, row.id)
        return row, is_new

    def _check(self, session: Session) -> None:
        settings = self.services.settings
        check_upload(session, self._upload.owner, settings, size_bytes=self._writer.size_bytes)

    def _record(self, session: Session, row: DatasetRow, status: int) -> None:
        self._upload.record(session, status, f"/v1/datasets/{row.id}")


def register_in(
    session: Session,
    same: str,
    upload: UploadRequest,
    format_: Format,
    create: Callable[[store.NewDataset], DatasetRow],
    *,
    check: Callable[[Session], None] = lambda _: None,
) -> tuple[DatasetRow, bool]:
    """Return the row of a dataset of some bytes, and whether it is new.

    Parameters
    ----------
    same
        Fingerprint of the bytes, of how they are read, and of the name.
    check
        Raises a problem if a new dataset is beyond a quota.
    """
    row = store.find_same(session, upload.owner, same)
    if row is not None:
        return row, False
    check(session)
    options = upload.options.model_dump(mode="json")
    media_type = format_.media_types[0]
    return create(store.NewDataset(upload.owner, upload.name, media_type, options, same)), True


def content_fingerprint(sha256: str, upload: UploadRequest, format_: Format) -> str:
    """Return the fingerprint of equal bytes that are read in the same way."""
    return fingerprint(format_.media_types[0], upload.options.model_dump_json(), sha256)


def rejected(issues: list[dict[str, Any]]) -> Problem:
    """Return the problem of an upload with issues."""
    errors = error_entries(issues)
    code = "quota-exceeded" if errors[0]["code"] == "quota-exceeded" else "invalid-dataset"
    return Problem(code, errors[0]["detail"], errors=errors)
