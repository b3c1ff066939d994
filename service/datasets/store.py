"""SQL of datasets."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.processes.lifetime import ProcessIdentity, this_process
from service.storage.blob_rows import Blob, release_blob
from service.storage.database import contains, lock
from service.storage.dataset_states import DELETED, UNFINISHED_DATASETS, DatasetState
from service.storage.job_states import UNFINISHED
from service.storage.ordered_pages import PageRequest, RowPage, created_between, fetch_page
from service.storage.tables import DatasetRow, IdempotencyRow, JobRow, ModelRow, VersionRow, new_id

#: Number of jobs and of models that are named as users of a dataset.
MAX_NAMED: Final = 5
_ID_PREFIX: Final = "ds_"


@dataclass(frozen=True, slots=True)
class NewDataset:
    """Values of a new dataset.

    Attributes
    ----------
    sources
        Selections of other datasets; None for an upload.
    """

    owner: str
    name: str
    media_type: str
    options: dict[str, Any]
    fingerprint: str
    sources: list[dict[str, Any]] | None = None


def create(
    session: Session,
    new: NewDataset,
    blob: Blob | None,
    *,
    state: DatasetState = DatasetState.UPLOADED,
) -> DatasetRow:
    """Create the row of a complete upload that is not yet parsed.

    Parameters
    ----------
    blob
        The upload; None for a dataset that combines others.
    state
        INGESTING if this process parses it already.
    """
    row = _new_row(new, state)
    if blob is not None:
        row.upload_sha256, row.size_bytes, row.upload_blob_id = (
            blob.sha256,
            blob.size_bytes,
            blob.id,
        )
    session.add(row)
    session.flush()
    return row


def create_ready(
    session: Session, new: NewDataset, upload: Blob, manifest: dict[str, Any], content: Blob
) -> DatasetRow:
    """Create the row of an upload that is parsed.

    Parameters
    ----------
    upload
        Hash and size of the upload, which is not stored.
    """
    row = _new_row(new, DatasetState.READY)
    row.upload_sha256, row.size_bytes = upload.sha256, upload.size_bytes
    row.manifest, row.content_blob_id, row.content_sha256 = manifest, content.id, content.sha256
    session.add(row)
    session.flush()
    return row


def _new_row(new: NewDataset, state: DatasetState) -> DatasetRow:
    return DatasetRow(
        id=new_id("ds"),
        owner=new.owner,
        name=new.name,
        state=state,
        media_type=new.media_type,
        options=new.options,
        fingerprint=new.fingerprint,
        upload_sha256=new.fingerprint,
        size_bytes=0,
        sources=new.sources,
        ingester=this_process().to_text(),
    )


def get(session: Session, dataset_id: str, *, owner: str) -> DatasetRow | None:
    """Return a dataset, or None if it does not exist, is deleted, or has another owner."""
    row = session.get(DatasetRow, dataset_id, populate_existing=True)
    return row if row is not None and row.owner == owner and row.state != DELETED else None


def find_same(session: Session, owner: str, fingerprint: str) -> DatasetRow | None:
    """Return the dataset of the owner with the same content, options and name.

    A rejected dataset is deleted, so that the upload is read again. Until this transaction ends, no
    other transaction creates such a dataset.
    """
    lock(session, "dataset", owner, fingerprint)
    query = sa.select(DatasetRow).where(
        DatasetRow.owner == owner, DatasetRow.fingerprint == fingerprint
    )
    row = session.scalar(query)
    if row is None or row.state != DatasetState.REJECTED:
        return row
    forget(session, row)
    return None


def has_same(session: Session, owner: str, fingerprint: str) -> bool:
    """Return whether the owner has a dataset with the same content, options and name."""
    query = sa.select(DatasetRow.id).where(
        DatasetRow.owner == owner,
        DatasetRow.fingerprint == fingerprint,
        DatasetRow.state != DatasetState.REJECTED,
    )
    return session.scalar(query) is not None


#: Columns by which datasets can be sorted; ids sort by time of creation.
ORDERS: Final = {
    "created_at": DatasetRow.id,
    "name": DatasetRow.name,
    "state": DatasetRow.state,
    "size_bytes": DatasetRow.size_bytes,
}


def list_page(
    session: Session,
    owner: str,
    wanted: PageRequest,
    *,
    state: str | None = None,
    text: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
) -> RowPage:
    """Return a page of datasets.

    Parameters
    ----------
    text
        Part of the id or of the name.
    """
    query = sa.select(DatasetRow).where(DatasetRow.owner == owner, DatasetRow.state != DELETED)
    if state is not None:
        query = query.where(DatasetRow.state == state)
    if text is not None:
        query = query.where(contains(text, DatasetRow.id, DatasetRow.name))
    query = created_between(query, DatasetRow.created_at, since, until)
    return fetch_page(session, query, ORDERS, DatasetRow.id, wanted)


def begin_ingest(session: Session, dataset_id: str, *, is_retry: bool = False) -> DatasetRow | None:
    """Mark an uploaded dataset as ingesting; return None if another process has taken it.

    Parameters
    ----------
    is_retry
        Whether this process has tried before, and does not know whether that was committed.
    """
    row = session.get(DatasetRow, dataset_id, populate_existing=True)
    me = this_process().to_text()
    if row is None:
        return None
    is_mine = is_retry and (row.state, row.ingester) == (DatasetState.INGESTING, me)
    if row.state != DatasetState.UPLOADED and not is_mine:
        return None
    row.state, row.ingester, row.parsed_bytes = DatasetState.INGESTING, me, None
    return row


def set_parsed(session: Session, dataset_id: str, n_bytes: int) -> None:
    """Store how many bytes of an upload have been parsed."""
    query = sa.update(DatasetRow).where(
        DatasetRow.id == dataset_id, DatasetRow.state == DatasetState.INGESTING
    )
    session.execute(query.values(parsed_bytes=n_bytes))


def make_ready(session: Session, dataset_id: str, manifest: dict[str, Any], blob: Blob) -> None:
    """Store the parsed dataset and delete the upload.

    Parameters
    ----------
    blob
        The stored tasks.
    """
    row = session.get_one(DatasetRow, dataset_id)
    row.state, row.manifest, row.parsed_bytes = DatasetState.READY, manifest, None
    row.issues = []  # the shortage, if any, has passed
    row.content_blob_id, row.content_sha256 = blob.id, blob.sha256
    if row.sources is not None:
        row.upload_sha256, row.size_bytes = blob.sha256, blob.size_bytes
    _drop_upload(session, row)


def postpone(session: Session, dataset_id: str, issues: list[dict[str, Any]]) -> None:
    """Store why a dataset is not read yet."""
    query = sa.update(DatasetRow).where(
        DatasetRow.id == dataset_id, DatasetRow.state.in_(UNFINISHED_DATASETS)
    )
    session.execute(query.values(state=DatasetState.UPLOADED, issues=issues, parsed_bytes=None))


def reject(session: Session, dataset_id: str, issues: list[dict[str, Any]]) -> None:
    """Store the issues of a rejected dataset and delete the upload."""
    row = session.get_one(DatasetRow, dataset_id)
    row.state, row.issues, row.parsed_bytes = DatasetState.REJECTED, issues, None
    _drop_upload(session, row)


def forget(session: Session, row: DatasetRow) -> None:
    """Delete the row and the idempotency keys of a dataset that nothing references."""
    session.execute(sa.delete(IdempotencyRow).where(IdempotencyRow.resource_id == row.id))
    session.execute(sa.delete(DatasetRow).where(DatasetRow.id == row.id))


def describe_missing(reference: str) -> str:
    """Return the message about a dataset that does not exist, with a hint if this is not an id."""
    text = f"there is no dataset '{reference}'"
    if reference.startswith(_ID_PREFIX):
        return text
    return (
        f"{text}; expected an id ({_ID_PREFIX}...), which GET /v1/datasets?text=... or "
        "client.datasets(text=...) finds by its name"
    )


def describe_unready(row: DatasetRow) -> str:
    """Return a message on a dataset that is not ready."""
    if row.state == DatasetState.REJECTED:
        return f"dataset '{row.id}' was rejected; correct its issues and upload it again"
    if row.state == DELETED:
        return f"the rows of dataset '{row.id}' were deleted; choose another dataset"
    return f"dataset '{row.id}' is {row.state}; wait until it is ready"


def delete(session: Session, row: DatasetRow, *, keeps_manifest: bool = False) -> None:
    """Delete the data of a dataset; keep a hidden row if finished jobs reference it.

    Parameters
    ----------
    keeps_manifest
        Whether models need its description of columns.
    """
    content, row.content_blob_id = row.content_blob_id, None
    row.state, row.fingerprint = DELETED, row.id
    if not keeps_manifest:
        row.manifest = None
    _drop_upload(session, row)
    if content is not None:
        release_blob(session, content)
    jobs = sa.select(JobRow.id).where(JobRow.dataset_id == row.id)
    if session.scalar(jobs.limit(1)) is None:
        forget(session, row)


def forget_unused(session: Session, dataset_id: str) -> None:
    """Delete the hidden row of a deleted dataset if no job and no model references it any more."""
    # locked whatever its state, since the dataset may be deleted at the same time
    query = sa.select(DatasetRow).where(DatasetRow.id == dataset_id)
    query = query.with_for_update(key_share=True).execution_options(populate_existing=True)
    row = session.scalar(query)
    if row is None or row.state != DELETED:
        return
    for column in (JobRow.dataset_id, VersionRow.dataset_id):
        used = sa.select(sa.literal(1)).where(column == dataset_id)
        if session.scalar(used.limit(1)) is not None:
            return
    forget(session, row)


def needed_by(session: Session, dataset_id: str) -> list[str]:
    """Return some unfinished jobs that use a dataset, and some models that were trained on it."""
    jobs = session.execute(  # in no order: sorting would read all of them
        sa.select(JobRow.id, JobRow.model_name)
        .where(JobRow.dataset_id == dataset_id, JobRow.state.in_(UNFINISHED))
        .limit(MAX_NAMED + 1)
    ).all()
    models = session.execute(
        sa.select(ModelRow.name, VersionRow.version)
        .join(VersionRow, VersionRow.model_id == ModelRow.id)
        .where(VersionRow.dataset_id == dataset_id)
        .limit(MAX_NAMED + 1)
    ).all()
    users = [
        *(f"model {name}, version {version}" for name, version in sorted(models)),
        *(f"an unfinished job for {name} (job {job_id})" for job_id, name in sorted(jobs)),
    ]
    return users if len(users) <= MAX_NAMED else [*users[:MAX_NAMED], "and more"]


def take_orphans(session: Session) -> list[str]:
    """Reset the datasets whose ingesting process died, and return their ids."""
    rows = session.scalars(sa.select(DatasetRow).where(DatasetRow.state.in_(UNFINISHED_DATASETS)))
    orphans = [row for row in rows if _is_orphan(row)]
    for row in orphans:
        row.state = DatasetState.UPLOADED
    return [row.id for row in orphans]


def _is_orphan(row: DatasetRow) -> bool:
    return row.ingester is None or ProcessIdentity.from_text(row.ingester).is_certainly_dead()


def _drop_upload(session: Session, row: DatasetRow) -> None:
    upload, row.upload_blob_id = row.upload_blob_id, None
    session.flush()
    if upload is not None:
        release_blob(session, upload)


def unfinished_marker(session: Session, owner: str) -> tuple[Any, ...]:
    """Return a value that changes when a dataset of an owner is created, read further or ready."""
    newest = session.scalar(sa.select(sa.func.max(DatasetRow.id)).where(DatasetRow.owner == owner))
    columns = (DatasetRow.id, DatasetRow.state, DatasetRow.parsed_bytes)
    unfinished = sa.select(*columns).where(
        DatasetRow.owner == owner, DatasetRow.state.in_(UNFINISHED_DATASETS)
    )
    rows = session.execute(unfinished.order_by(DatasetRow.id)).all()
    return newest, tuple(tuple(row) for row in rows)
