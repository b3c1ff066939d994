"""Addition of a version to a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.storage.blob_rows import Blob
from service.storage.blobs import BlobStore
from service.storage.database import lock
from service.storage.tables import DatasetRow, JobRow, ModelRow, VersionRow, new_id
from service.webhooks.events import emit


def add_version(
    session: Session,
    blobs: BlobStore,
    job: JobRow,
    dataset: DatasetRow,
    *,
    result: Mapping[str, Any],
    artifact: Path,
) -> None:
    """Store the artifact of a training job, and add it as the next version of the job's model.

    Parameters
    ----------
    result
        Columns of the version, as returned by the training process.
    """
    # locks in the same order as deleting a version does, to avoid a deadlock
    model = _next_version(session, job)
    blob = blobs.put_file(session, artifact)
    version = _version(job, dataset, result, model, blob)
    session.add(version)
    names = ("id", "version", "job_id", "dataset_id", "algorithm")
    emit(
        session,
        job.owner,
        "version.created",
        source=f"/v1/models/{model.name}",
        subject=f"/v1/models/{model.name}/versions/{version.version}",
        data={"model": model.name, **{name: getattr(version, name) for name in names}},
    )


def _next_version(session: Session, job: JobRow) -> ModelRow:
    """Return the model row, created if needed, with ``latest_version`` incremented."""
    lock(session, "model", job.owner, job.model_name)
    model = session.scalar(
        sa.select(ModelRow).where(ModelRow.owner == job.owner, ModelRow.name == job.model_name)
    )
    if model is None:
        model = ModelRow(id=new_id("mod"), owner=job.owner, name=job.model_name, latest_version=0)
        session.add(model)
    model.latest_version += 1
    session.flush()
    return model


def _version(
    job: JobRow, dataset: DatasetRow, result: Mapping[str, Any], model: ModelRow, blob: Blob
) -> VersionRow:
    base_id = (job.plan or {}).get("version_id")
    assert dataset.content_sha256 is not None
    return VersionRow(
        id=new_id("mdl"),
        model_id=model.id,
        version=model.latest_version,
        job_id=job.id,
        base_id=base_id,
        dataset_id=dataset.id,
        dataset_sha256=dataset.content_sha256,
        algorithm=result["algorithm"],
        params=result["params"],
        seed=job.seed,
        software=result["software"],
        methods=result["methods"],
        tasks=result["tasks"],
        task_column=result["task_column"],
        new_tasks=result["new_tasks"],
        classes=result["classes"],
        metrics=result["metrics"],
        history=result["history"],
        warnings=[*job.warnings, *result["warnings"]],
        report=result["report"],
        importance=result.get("importance"),
        preparation=result.get("preparation"),
        artifact_blob_id=blob.id,
        artifact_sha256=blob.sha256,
        artifact_bytes=blob.size_bytes,
        is_challenger=job.is_challenger,
    )
