"""Rows that tests store: what the database requires, and what a test gives."""

from typing import Any

import sqlalchemy as sa

from service.jobs.queue.store import NewJob
from service.storage.database import Database
from service.storage.tables import DatasetRow, JobRow, Row, VersionRow

JOB: dict[str, Any] = {
    "owner": "ada", "dataset_id": "ds_1", "algorithm": "pca", "params": {}, "seed": 0,
    "model_name": "m", "timeout_s": 60, "memory_mb": 1024, "max_attempts": 1,
}  # fmt: skip


def dataset_row(**values: Any) -> DatasetRow:
    plain = {
        "id": "ds_1", "owner": "ada", "name": "d", "state": "ready", "media_type": "text/csv",
        "options": {}, "fingerprint": "f", "upload_sha256": "0", "size_bytes": 1,
    }  # fmt: skip
    return DatasetRow(**plain | values)


def job_of(**values: Any) -> NewJob:
    return NewJob(**{**JOB, "priority": 0, "threads": None, "traceparent": None, **values})


def job_row(job_id: str, **values: Any) -> JobRow:
    return JobRow(**{**JOB, "id": job_id, "root_id": job_id, "state": "queued", **values})


def version_row(**values: Any) -> VersionRow:
    plain = {
        "id": "mdl_1", "model_id": "mod_1", "version": 1, "dataset_id": "ds_1",
        "dataset_sha256": "0", "algorithm": "pca", "seed": 0, "artifact_sha256": "0",
        "artifact_bytes": 5, "params": {}, "software": {}, "classes": {}, "metrics": {},
        "history": {}, "methods": [], "tasks": [], "warnings": [],
    }  # fmt: skip
    return VersionRow(**plain | values)


def count(database: Database, row: type[Row]) -> int:
    with database.read() as session:
        return session.scalar(sa.select(sa.func.count()).select_from(row)) or 0
