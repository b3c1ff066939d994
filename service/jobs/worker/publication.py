"""Publication of a model or of outputs, in one transaction with the job's success."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy.orm import Session

from service.jobs.queue import store
from service.jobs.queue.outcome import Outcome
from service.models.publication import add_version
from service.storage.blob_rows import Blob
from service.storage.blobs import BlobStore
from service.storage.dataset_states import DatasetState
from service.storage.job_states import JobState
from service.storage.tables import DatasetRow, JobRow, new_id

#: Media type of datasets made of outputs, which were never uploaded.
MEDIA_TYPE: Final = "application/vnd.sibling.outputs"


@dataclass(frozen=True, slots=True)
class Outputs:
    """Files that an attempt at a batch inference has written."""

    job: JobRow
    source: DatasetRow
    outcome: Outcome
    #: File of the dataset, if the job makes one.
    content: Path


def publish_model(
    session: Session, blobs: BlobStore, job: JobRow, dataset: DatasetRow, outcome: Outcome
) -> bool:
    """Publish the model of an attempt; return False if another attempt has replaced it."""
    if not _succeed(session, job, result=_summary(outcome.result["report"] or {})):
        return False
    assert outcome.artifact is not None
    add_version(session, blobs, job, dataset, result=outcome.result, artifact=outcome.artifact)
    return True


def _summary(report: dict[str, Any]) -> dict[str, Any] | None:
    """Return the result of a job from its report: the choice, or the verdict of a comparison."""
    choice: dict[str, Any] | None = report.get("choice")
    comparison = report.get("comparison")
    if choice is not None or comparison is None:
        return choice
    return {
        "verdict": comparison["verdict"],
        "reason": comparison["sharing"]["reason"],
        "sentence": comparison["sentences"][0],
    }


def publish_outputs(session: Session, blobs: BlobStore, outputs: Outputs) -> bool:
    """Publish outputs; return False, storing nothing, if another attempt has replaced this one."""
    job, result = outputs.job, dict(outputs.outcome.result)
    if not _succeed(session, job):
        return False
    assert outputs.outcome.artifact is not None
    output = blobs.put_file(session, outputs.outcome.artifact)
    manifest = result.pop("manifest")
    result["output"] = {"sha256": output.sha256, "size_bytes": output.size_bytes}
    result["dataset_id"] = None
    if manifest is not None:
        blob = blobs.put_file(session, outputs.content)
        result["dataset_id"] = _add_dataset(session, outputs, manifest, blob)
    store.set_output(session, job.id, output.id, result)
    return True


def _succeed(session: Session, job: JobRow, *, result: dict[str, Any] | None = None) -> bool:
    values: dict[str, Any] = {} if result is None else {"result": result}
    here = (session, job.id, job.attempt, JobState.RUNNING)
    return store.move(*here, JobState.SUCCEEDED, error=None, **values)


def _add_dataset(session: Session, outputs: Outputs, manifest: dict[str, Any], blob: Blob) -> str:
    """Add a dataset of the outputs; return its id."""
    job, source, plan = outputs.job, outputs.source, outputs.job.plan
    assert plan is not None
    origin = {name: plan[name] for name in ("model", "version", "version_id", "method")}
    row = DatasetRow(
        id=new_id("ds"),
        owner=job.owner,
        name=plan["dataset_name"],
        state=DatasetState.READY,
        media_type=MEDIA_TYPE,
        options={},
        fingerprint=job.id,
        upload_sha256=blob.sha256,
        size_bytes=blob.size_bytes,
        content_blob_id=blob.id,
        content_sha256=blob.sha256,
        manifest=manifest,
        origin=origin
        | {"job_id": job.id, "dataset_id": source.id, "dataset_sha256": source.content_sha256}
        | {"tasks": plan["mapping"]},
    )
    session.add(row)
    session.flush()
    return row.id
