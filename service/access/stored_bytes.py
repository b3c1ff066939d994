"""Bytes that an owner stores, and their check after work in the background.

Parsing may make a dataset larger, and models and outputs get their size when their job ends.
"""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.storage.database import lock
from service.storage.tables import (
    BlobRow,
    DatasetRow,
    JobRow,
    ModelRow,
    MonitoredRow,
    MonitoredTarget,
    MonitorRow,
    UploadRow,
    VersionRow,
)

#: Bytes of the target of a monitored row.
TARGET_BYTES: Final = 200


class StoredBytesExceeded(Exception):
    """Exception for data beyond the quota of its owner, which must not be stored."""


def lock_quotas(session: Session, owner: str) -> None:
    """Lock the quotas of an owner until the transaction ends."""
    lock(session, "quotas", owner)


def stored_bytes(session: Session, owner: str) -> int:
    """Return the bytes of an owner's datasets, models, outputs, and monitored rows and targets.

    Equal files count once.

    A resumable upload counts with its whole length from its creation.
    """
    versions = sa.select(VersionRow.artifact_blob_id).join(
        ModelRow, ModelRow.id == VersionRow.model_id
    )
    references = sa.union(
        sa.select(DatasetRow.content_blob_id).where(DatasetRow.owner == owner),
        sa.select(DatasetRow.upload_blob_id).where(DatasetRow.owner == owner),
        sa.select(JobRow.output_blob_id).where(
            JobRow.owner == owner, JobRow.output_blob_id.is_not(None)
        ),
        versions.where(ModelRow.owner == owner),
    ).subquery()
    sizes = sa.select(sa.func.sum(BlobRow.size_bytes)).join(
        references, references.c[0] == BlobRow.id
    )
    unfinished = sa.select(sa.func.sum(UploadRow.length)).where(
        UploadRow.owner == owner, UploadRow.dataset_id.is_(None)
    )
    monitors = sa.select(MonitorRow.id).join(ModelRow, ModelRow.id == MonitorRow.model_id)
    owned = monitors.where(ModelRow.owner == owner)
    rows = sa.select(sa.func.sum(MonitoredRow.size_bytes)).where(MonitoredRow.monitor_id.in_(owned))
    targets = sa.select(sa.func.count() * TARGET_BYTES).where(MonitoredTarget.monitor_id.in_(owned))
    queries = (sizes, unfinished, rows, targets)
    return sum(int(session.scalar(query) or 0) for query in queries)


def check_after_storing(session: Session, owner: str, limit: int) -> None:
    """Check the stored bytes of an owner; for the end of a transaction with ``lock_quotas``.

    Parameters
    ----------
    limit
        Maximum number of bytes; 0: no limit.

    Raises
    ------
    StoredBytesExceeded
        The transaction must not be committed.
    """
    if not limit:
        return
    session.flush()
    used = stored_bytes(session, owner)
    if used > limit:
        raise StoredBytesExceeded(
            f"with this you would have {used} stored bytes; the maximum is {limit}: delete "
            "datasets, models, outputs and uploads that you no longer need, or ask the operator "
            "to raise it"
        )
