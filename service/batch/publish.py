"""Makes the outputs of an inference visible: file, dataset and success of the job, or nothing."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy.orm import Session

from service.blobs import Blob, BlobStore
from service.jobs.queue import store
from service.jobs.queue.outcome import Outcome
from service.jobs.queue.states import JobState
from service.rows import DatasetRow, JobRow, new_id

#: What a dataset of outputs was made from: nothing that anybody has sent.
MEDIA_TYPE: Final = "application/vnd.sibling.outputs"


@dataclass(frozen=True, slots=True)
class Outputs:
    """What an attempt at an inference has made."""

    job: JobRow
    source: DatasetRow
    outcome: Outcome
    #: File of the dataset, where one is made.
    content: Path


def publish_outputs(session: Session, blobs: BlobStore, made: Outputs) -> bool:
    """Publish outputs; false, and nothing kept, where the attempt was fenced out."""
    job, result = made.job, dict(made.outcome.result)
    if not store.move(
        session, job.id, job.attempt, JobState.RUNNING, JobState.SUCCEEDED, error=None
    ):
        return False
    assert made.outcome.artifact is not None
    output = blobs.put_file(session, made.outcome.artifact)
    manifest = result.pop("manifest")
    result["output"] = {"sha256": output.sha256, "size_bytes": output.size_bytes}
    result["dataset_id"] = None
    if manifest is not None:
        blob = blobs.put_file(session, made.content)
        result["dataset_id"] = _add_dataset(session, made, manifest, blob)
    store.keep_output(session, job.id, output.id, result)
    return True


def _add_dataset(session: Session, made: Outputs, manifest: dict[str, Any], blob: Blob) -> str:
    """Return the id of the dataset of the outputs."""
    job, source, plan = made.job, made.source, made.job.plan
    assert plan is not None
    origin = {name: plan[name] for name in ("model", "version", "version_id", "method")}
    row = DatasetRow(
        id=new_id("ds"),
        owner=job.owner,
        name=plan["dataset_name"],
        state="ready",
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
