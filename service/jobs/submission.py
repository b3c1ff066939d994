"""Submission of training jobs."""

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

import orjson
from pydantic import ValidationError
from sqlalchemy.orm import Session

from service.access.quotas import check_training
from service.access.stored_bytes import lock_quotas
from service.errors.problems import Problem
from service.errors.validation import entry_of, without_branches
from service.http.idempotency import find_created, remember_created
from service.http.routing import RecordEvent, unrecorded
from service.jobs.limits import limits_of
from service.jobs.queue import child_store, queries, store
from service.jobs.reading import new_job, read_job
from service.jobs.schemas import Job
from service.jobs.spec_schemas import JobSpec, RepeatSpec
from service.jobs.validation import check
from service.settings import Settings
from service.storage.tables import JobRow

#: Retry-After when the queue is full.
_RETRY_AFTER_S: Final = 30


@dataclass(frozen=True, slots=True)
class Origin:
    """Owner and request of a job submission."""

    owner: str
    #: Idempotency-Key of the request, and the fingerprint of its body.
    key: str | None
    request: str
    traceparent: str | None
    record: RecordEvent = unrecorded
    #: Path of the job that the request names; None: the path of the new job.
    path: str | None = None

    def remember(self, session: Session, job_id: str) -> None:
        """Store key and audit event in the transaction that creates a job."""
        remember_created(session, self.owner, self.key, self.request, job_id)
        self.record_job(session, job_id)

    def record_job(self, session: Session, job_id: str) -> None:
        """Store the audit event in a transaction."""
        self.record(session, HTTPStatus.ACCEPTED, self.path or f"/v1/jobs/{job_id}")


def submit(session: Session, spec: JobSpec, origin: Origin, *, settings: Settings) -> Job:
    """Create a job; return the existing one if the same request was sent before.

    Raises
    ------
    Problem, AlgorithmError
        The specification is invalid; nothing is stored.
    """
    existing = find_submitted(session, origin)
    if existing is not None:
        return existing
    checked = check(session, spec, owner=origin.owner, settings=settings)
    check_queue_limit(session, origin.owner, settings)
    check_training(session, origin.owner, settings)
    study, calibration = checked.study, spec.complete_calibration()
    job = store.NewJob(
        owner=origin.owner,
        dataset_id=spec.dataset_id,
        algorithm=spec.algorithm,
        params=checked.params,
        preparation=None if spec.preparation is None else spec.preparation.model_dump(mode="json"),
        calibration=None if calibration is None else calibration.model_dump(mode="json"),
        class_weight=checked.class_weight,
        new_tasks=spec.new_tasks,
        ties=spec.ties,
        seed=spec.seed,
        model_name=spec.model,
        traceparent=origin.traceparent,
        warnings=checked.warnings,
        spec=spec.model_dump(mode="json", exclude_unset=True),
        expected_s=None if checked.time is None else round(checked.time.expected_s, 3),
        reference_s=None if checked.time is None else checked.time.reference_s,
        plan=None if study is None else study.plan,
        **limits_of(spec, settings),
    )
    children = () if study is None else study.child_jobs
    row = child_store.create_with_child_jobs(session, job, children)
    origin.remember(session, row.id)
    return new_job(row, n_child_jobs=len(children))


def find_submitted(session: Session, origin: Origin) -> Job | None:
    """Return the job that the same request has created before, if any."""
    job_id = find_created(session, origin.owner, origin.key, origin.request)
    if job_id is None:
        return None
    origin.record_job(session, job_id)
    return read_job(session, session.get_one(JobRow, job_id))


def repeated(row: JobRow, changes: RepeatSpec) -> JobSpec:
    """Return the specification of a training job with some changes.

    Raises
    ------
    Problem
        The job has no specification, or one that is invalid now.
    """
    values = {**spec_of(row), **changes.model_dump(mode="json", exclude_none=True)}
    try:
        return JobSpec.model_validate_json(orjson.dumps(values))
    except ValidationError as error:  # an earlier version accepted it
        entries = [
            entry_of({**fault, "loc": ("body", *fault["loc"])})
            for fault in without_branches(error.errors(), values)
        ]
        detail = f"the specification of job '{row.id}' is not valid any more: "
        raise Problem("invalid-request", detail + entries[0]["detail"], errors=entries) from None


def spec_of(row: JobRow) -> dict[str, Any]:
    """Return the specification of a training job as it was sent.

    Raises
    ------
    Problem
        The job has no specification.
    """
    if row.spec is None:
        detail = f"job '{row.id}' has no specification to repeat: it is not a training job of its"
        raise Problem("wrong-state", f"{detail} own, or an earlier version submitted it")
    return row.spec


def check_queue_limit(session: Session, owner: str, settings: Settings) -> None:
    """Raise a Problem if the owner has the maximum number of queued jobs."""
    lock_quotas(session, owner)
    waiting = queries.count_waiting(session, owner)
    if waiting >= settings.max_queued_jobs:
        detail = (
            f"you have {waiting} queued jobs, the maximum is {settings.max_queued_jobs}; try later"
        )
        raise Problem("queue-full", detail, headers={"Retry-After": str(_RETRY_AFTER_S)})
