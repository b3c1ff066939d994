"""SQL of resumable uploads."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.storage.blob_rows import release_blob
from service.storage.tables import UploadRow


def get(
    session: Session, upload_id: str, *, owner: str, for_update: bool = False
) -> UploadRow | None:
    """Return an upload, or None if it does not exist or has another owner.

    Parameters
    ----------
    for_update
        Whether to lock it until the transaction ends.
    """
    query = sa.select(UploadRow).where(UploadRow.id == upload_id, UploadRow.owner == owner)
    if for_update:
        query = query.with_for_update()
    return session.scalar(query.execution_options(populate_existing=True))


def list_page(
    session: Session, owner: str, *, after: str | None, limit: int
) -> Sequence[UploadRow]:
    """Return uploads, newest first, older than the upload ``after``."""
    query = sa.select(UploadRow).where(UploadRow.owner == owner)
    if after is not None:
        query = query.where(UploadRow.id < after)
    return session.scalars(query.order_by(UploadRow.id.desc()).limit(limit)).all()


def delete(session: Session, row: UploadRow) -> None:
    """Delete an upload and the bytes that nothing else references."""
    blob_id = row.blob_id
    session.execute(sa.delete(UploadRow).where(UploadRow.id == row.id))
    if blob_id is not None:
        release_blob(session, blob_id)
