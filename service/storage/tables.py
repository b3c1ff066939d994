"""Database tables. A row is a table class; API classes are called schemas."""

from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from ulid import ULID

from algorithms.interface.header import DEFAULT_TASK_COLUMN
from algorithms.interface.new_tasks import DEFAULT_NEW_TASKS
from algorithms.interface.ties import DEFAULT_TIES
from service.storage.database import UtcTime, now

#: Names of constraints, so that migrations can refer to them on every database.
_NAMING: Final = {
    "ix": "ix_%(column_0_label)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}


class Row(DeclarativeBase):
    """Base class of the tables; an instance is a row."""

    metadata = sa.MetaData(naming_convention=_NAMING)
    type_annotation_map = {datetime: UtcTime, dict[str, Any]: sa.JSON, list[Any]: sa.JSON}  # noqa: RUF012


def new_id(prefix: str) -> str:
    """Return a new id such as ``ds_01j9...``; ids sort by time of creation."""
    return f"{prefix}_{str(ULID()).lower()}"


class BlobRow(Row):
    """Binary data, identified by its SHA-256 once complete."""

    __tablename__ = "blobs"

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    sha256: Mapped[str | None] = mapped_column(sa.String(64), unique=True)
    #: Of a resumable upload, the number of bytes so far.
    size_bytes: Mapped[int] = mapped_column(sa.BigInteger, default=0)
    #: Time of the last chunk of a blob that was written in several transactions.
    created_at: Mapped[datetime] = mapped_column(default=now)


class BlobChunkRow(Row):
    """A chunk of a blob."""

    __tablename__ = "blob_chunks"

    blob_id: Mapped[str] = mapped_column(
        ForeignKey("blobs.id", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(primary_key=True)
    data: Mapped[bytes]


class DatasetRow(Row):
    """A set of tasks: uploaded → ingesting → ready | rejected."""

    __tablename__ = "datasets"
    __table_args__ = (
        UniqueConstraint("owner", "fingerprint"),
        Index("ix_datasets_list", "owner", "id"),
        Index("ix_datasets_state", "state"),
    )

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    owner: Mapped[str] = mapped_column(sa.String(200))
    name: Mapped[str] = mapped_column(sa.String(200))
    state: Mapped[str] = mapped_column(sa.String(16))
    media_type: Mapped[str] = mapped_column(sa.String(100))
    options: Mapped[dict[str, Any]]
    #: SHA-256 of upload bytes, media type, options and name; identifies equal uploads.
    fingerprint: Mapped[str] = mapped_column(sa.String(64))
    upload_sha256: Mapped[str] = mapped_column(sa.String(64))
    size_bytes: Mapped[int] = mapped_column(sa.BigInteger)
    upload_blob_id: Mapped[str | None] = mapped_column(ForeignKey("blobs.id"), index=True)
    content_blob_id: Mapped[str | None] = mapped_column(ForeignKey("blobs.id"), index=True)
    content_sha256: Mapped[str | None] = mapped_column(sa.String(64))
    manifest: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    issues: Mapped[list[Any]] = mapped_column(default=list)
    #: Job and inputs that computed it; None for an upload.
    origin: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    #: Selections of other datasets that it was made of; None for an upload.
    sources: Mapped[list[dict[str, Any]] | None] = mapped_column(sa.JSON)
    #: Bytes of the upload that have been parsed, while that is known.
    parsed_bytes: Mapped[int | None] = mapped_column(sa.BigInteger)
    #: Process that ingests it, to detect ingestions whose process died.
    ingester: Mapped[str | None] = mapped_column(sa.String(500))
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)


class UploadRow(Row):
    """A resumable upload."""

    __tablename__ = "uploads"
    __table_args__ = (Index("ix_uploads_list", "owner", "id"),)

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    owner: Mapped[str] = mapped_column(sa.String(200))
    name: Mapped[str] = mapped_column(sa.String(200))
    media_type: Mapped[str] = mapped_column(sa.String(100))
    options: Mapped[dict[str, Any]]
    #: Text by which the client recognises the upload.
    tag: Mapped[str | None] = mapped_column(sa.String(200))
    #: SHA-256 that the whole file must have.
    sha256: Mapped[str | None] = mapped_column(sa.String(64))
    #: Number of bytes of the whole file; its blob has the number of bytes that have arrived.
    length: Mapped[int] = mapped_column(sa.BigInteger)
    blob_id: Mapped[str | None] = mapped_column(ForeignKey("blobs.id"), index=True)
    #: The dataset, once all bytes have arrived; it may have been deleted since.
    dataset_id: Mapped[str | None] = mapped_column(sa.String(40))
    created_at: Mapped[datetime] = mapped_column(default=now)
    updated_at: Mapped[datetime] = mapped_column(default=now, onupdate=now)


class JobRow(Row):
    """Queued work, such as one training of one model, or one batch inference."""

    __tablename__ = "jobs"
    __table_args__ = (
        Index("ix_jobs_queue", "state", "owner", "priority", "root_id", "id"),
        Index("ix_jobs_state", "state", "id"),
        Index("ix_jobs_list", "owner", "parent_id", "id"),
        Index("ix_jobs_list_by_state", "owner", "state", "parent_id", "id"),
        Index("ix_jobs_children", "parent_id", "state"),
        Index("ix_jobs_dataset", "dataset_id", "state"),
        Index("ix_jobs_finished_at", "finished_at"),
        Index(
            "ix_jobs_base_version",
            "owner",
            "state",
            "base_version_id",
            sqlite_where=sa.text("base_version_id IS NOT NULL"),
            postgresql_where=sa.text("base_version_id IS NOT NULL"),
        ),
        # times of earlier jobs
        Index(
            "ix_jobs_reference",
            "state",
            "id",
            sqlite_where=sa.text("reference_s IS NOT NULL"),
            postgresql_where=sa.text("reference_s IS NOT NULL"),
        ),
        # stored bytes of an owner
        Index(
            "ix_jobs_outputs",
            "owner",
            "output_blob_id",
            sqlite_where=sa.text("output_blob_id IS NOT NULL"),
            postgresql_where=sa.text("output_blob_id IS NOT NULL"),
        ),
    )

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    owner: Mapped[str] = mapped_column(sa.String(200))
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"))
    algorithm: Mapped[str] = mapped_column(sa.String(64))
    params: Mapped[dict[str, Any]]
    #: The specification as it was sent, of a training job.
    spec: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON, deferred=True)
    #: Options of the preparation of raw rows; None: the default of the dataset.
    preparation: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    #: Options of the calibration of the model; None: no calibration.
    calibration: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    #: Weights of classes in the fit; None: no weights.
    class_weight: Mapped[Any | None] = mapped_column(sa.JSON)
    #: What calls of the model do about tasks that it was not trained on.
    new_tasks: Mapped[str] = mapped_column(sa.String(16), server_default=DEFAULT_NEW_TASKS)
    #: Which equal rows are held out together.
    ties: Mapped[str] = mapped_column(sa.String(16), server_default=DEFAULT_TIES)
    seed: Mapped[int] = mapped_column(sa.BigInteger)
    model_name: Mapped[str] = mapped_column(sa.String(200))
    priority: Mapped[int] = mapped_column(default=0)
    timeout_s: Mapped[float]
    memory_mb: Mapped[int]
    max_attempts: Mapped[int]
    #: Expected time from the start to the end; None if it is unknown.
    expected_s: Mapped[float | None]
    #: Expected time of a single fit at reference speeds, unless it is short; None for other jobs.
    reference_s: Mapped[float | None]
    #: Number of threads; None: its share of the machine that first runs it.
    threads: Mapped[int | None]
    #: The parent of a child job.
    parent_id: Mapped[str | None] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    #: The parent of a child job, otherwise the job itself: a child job is as old as its parent.
    root_id: Mapped[str] = mapped_column(sa.String(40))
    #: Plan of a job that does more than one fit; see ``service.jobs.studies.plans``.
    plan: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    #: Model version that the job adapts or applies, as in its plan.
    base_version_id: Mapped[str | None] = mapped_column(sa.String(40))

    state: Mapped[str] = mapped_column(sa.String(16))
    attempt: Mapped[int] = mapped_column(default=0)
    #: Attempts that count against ``max_attempts``; one that never started does not.
    counted_attempts: Mapped[int] = mapped_column(default=0)
    is_cancel_requested: Mapped[bool] = mapped_column(default=False)
    #: Whether its supervisor should stop it and requeue it; that attempt does not count.
    is_release_requested: Mapped[bool] = mapped_column(default=False, server_default=sa.false())
    #: Whether a race of methods should end with those that are scored.
    is_finish_requested: Mapped[bool] = mapped_column(default=False, server_default=sa.false())
    #: Whether a renewal submitted it, so that its version is a challenger.
    is_challenger: Mapped[bool] = mapped_column(default=False, server_default=sa.false())
    #: The process that supervises the attempt, as ``ProcessIdentity`` writes it.
    worker: Mapped[str | None] = mapped_column(sa.String(500))
    heartbeat: Mapped[int] = mapped_column(sa.BigInteger, default=0)
    progress: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    error: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    #: Warnings about the data and parameters, in sentences; the model has them too.
    warnings: Mapped[list[Any]] = mapped_column(default=list)
    #: Result of a child job, batch inference or automatic choice, or verdict of a comparison.
    result: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    #: The outputs of a batch inference, as Parquet.
    output_blob_id: Mapped[str | None] = mapped_column(ForeignKey("blobs.id"), index=True)
    #: Checkpoint from which the next attempt continues.
    checkpoint_blob_id: Mapped[str | None] = mapped_column(ForeignKey("blobs.id"), index=True)
    traceparent: Mapped[str | None] = mapped_column(sa.String(100))
    #: A queued job is not submitted before this time.
    retry_at: Mapped[datetime | None] = mapped_column(index=True)
    created_at: Mapped[datetime] = mapped_column(default=now)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]


class TurnRow(Row):
    """The last turn of an owner in the queue."""

    __tablename__ = "owner_turns"

    owner: Mapped[str] = mapped_column(sa.String(200), primary_key=True)
    #: Number of the last submission of the owner's jobs; submissions of all owners are numbered.
    turn: Mapped[int] = mapped_column(sa.BigInteger)


class AttemptRow(Row):
    """One attempt at a job: its worker and its outcome."""

    __tablename__ = "attempts"

    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True)
    worker: Mapped[str] = mapped_column(sa.String(500))
    #: ``running``, a final state of the job, or ``lost``, ``postponed`` or ``released``.
    outcome: Mapped[str] = mapped_column(sa.String(16))
    error: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    started_at: Mapped[datetime] = mapped_column(default=now)
    finished_at: Mapped[datetime | None]


class EventRow(Row):
    """An event of a job."""

    __tablename__ = "events"
    __table_args__ = (Index("ix_events_job", "job_id", "id"),)

    id: Mapped[int] = mapped_column(
        sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id", ondelete="CASCADE"))
    attempt: Mapped[int]
    kind: Mapped[str] = mapped_column(sa.String(16))
    data: Mapped[dict[str, Any]]
    created_at: Mapped[datetime] = mapped_column(default=now)


class ModelRow(Row):
    """A model: the name of its versions."""

    __tablename__ = "models"
    __table_args__ = (UniqueConstraint("owner", "name"),)

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    owner: Mapped[str] = mapped_column(sa.String(200))
    name: Mapped[str] = mapped_column(sa.String(200))
    latest_version: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime] = mapped_column(default=now)


class VersionRow(Row):
    """A version of a model: immutable, trained by exactly one job."""

    __tablename__ = "model_versions"
    __table_args__ = (
        UniqueConstraint("model_id", "version"),
        # stored bytes of an owner
        Index("ix_model_versions_stored", "model_id", "artifact_blob_id"),
    )

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    model_id: Mapped[str] = mapped_column(ForeignKey("models.id"))
    version: Mapped[int]
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), unique=True)
    #: The version that it was adapted from, if it still exists.
    base_id: Mapped[str | None] = mapped_column(
        ForeignKey("model_versions.id", ondelete="SET NULL"), index=True
    )
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"), index=True)
    dataset_sha256: Mapped[str] = mapped_column(sa.String(64))
    algorithm: Mapped[str] = mapped_column(sa.String(64))
    params: Mapped[dict[str, Any]]
    seed: Mapped[int] = mapped_column(sa.BigInteger)
    software: Mapped[dict[str, Any]]
    methods: Mapped[list[Any]]
    tasks: Mapped[list[Any]]
    #: Column in which tables of rows have the task of each row.
    task_column: Mapped[str] = mapped_column(sa.String(200), server_default=DEFAULT_TASK_COLUMN)
    #: What calls do about tasks that it was not trained on.
    new_tasks: Mapped[str] = mapped_column(sa.String(16), server_default=DEFAULT_NEW_TASKS)
    #: Labels by task, for classifiers.
    classes: Mapped[dict[str, Any]]
    metrics: Mapped[dict[str, Any]]
    history: Mapped[dict[str, Any]]
    warnings: Mapped[list[Any]]
    #: Report of search, comparison, evaluation, automatic choice and calibration.
    report: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    #: Importance of the columns; None for a model without any.
    importance: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON, deferred=True)
    #: Raw columns and how they were prepared; None for a model of plain numbers.
    preparation: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    artifact_blob_id: Mapped[str] = mapped_column(ForeignKey("blobs.id"), index=True)
    artifact_sha256: Mapped[str] = mapped_column(sa.String(64))
    artifact_bytes: Mapped[int] = mapped_column(sa.BigInteger)
    #: Trained by a renewal and not promoted: never the latest version.
    is_challenger: Mapped[bool] = mapped_column(default=False, server_default=sa.false())
    created_at: Mapped[datetime] = mapped_column(default=now)


class AliasRow(Row):
    """A name of a model version, such as production, that can move to another version."""

    __tablename__ = "model_aliases"

    model_id: Mapped[str] = mapped_column(ForeignKey("models.id"), primary_key=True)
    alias: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    version_id: Mapped[str] = mapped_column(ForeignKey("model_versions.id"), index=True)
    #: New with every move, so that the ETag also changes when an alias moves away and back.
    move_id: Mapped[str] = mapped_column(sa.String(40))
    moved_at: Mapped[datetime]


class IdempotencyRow(Row):
    """The resource created by a request with an Idempotency-Key."""

    __tablename__ = "idempotency_keys"

    owner: Mapped[str] = mapped_column(sa.String(200), primary_key=True)
    key: Mapped[str] = mapped_column(sa.String(200), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(sa.String(64))
    #: Id of the resource that the first request created.
    resource_id: Mapped[str] = mapped_column(sa.String(40), index=True)
    created_at: Mapped[datetime] = mapped_column(default=now, index=True)


class KeyRow(Row):
    """An API key: owner, scopes, and a hash of the secret."""

    __tablename__ = "api_keys"

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    owner: Mapped[str] = mapped_column(sa.String(200), index=True)
    #: Purpose of the key.
    name: Mapped[str | None] = mapped_column(sa.String(200))
    #: The key that created it; None for a key of the command or the settings.
    creator_id: Mapped[str | None] = mapped_column(sa.String(40), index=True)
    secret_sha256: Mapped[str] = mapped_column(sa.String(64))
    scopes: Mapped[list[Any]]
    created_at: Mapped[datetime] = mapped_column(default=now)
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]


class SessionRow(Row):
    """A session of a browser: a hash of its token, and the API key that opened it."""

    __tablename__ = "sessions"

    token_sha256: Mapped[str] = mapped_column(sa.String(64), primary_key=True)
    key_id: Mapped[str] = mapped_column(ForeignKey("api_keys.id", ondelete="CASCADE"), index=True)
    created_at: Mapped[datetime] = mapped_column(default=now)
    expires_at: Mapped[datetime] = mapped_column(index=True)


class AuditRow(Row):
    """An audit event; see :class:`service.audit.events.AuditEvent`."""

    __tablename__ = "audit_events"
    __table_args__ = (
        Index("ix_audit_events_owner", "owner", "id"),
        Index("ix_audit_events_key", "key_id", "id"),
        Index("ix_audit_events_object", "object", "id"),
        Index("ix_audit_events_created_at", "created_at"),
    )

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    operation: Mapped[str] = mapped_column(sa.String(64))
    object: Mapped[str | None] = mapped_column(sa.String(500))
    status: Mapped[int | None]
    code: Mapped[str | None] = mapped_column(sa.String(64))
    owner: Mapped[str | None] = mapped_column(sa.String(200))
    key_id: Mapped[str | None] = mapped_column(sa.String(40))
    source: Mapped[str | None] = mapped_column(sa.String(200))
    request_id: Mapped[str | None] = mapped_column(sa.String(128))
    #: Why the service did it.
    reason: Mapped[str | None] = mapped_column(sa.String(500))
    created_at: Mapped[datetime] = mapped_column(default=now)


class WebhookRow(Row):
    """An address that gets the events of an owner."""

    __tablename__ = "webhooks"
    __table_args__ = (Index("ix_webhooks_list", "owner", "id"),)

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    owner: Mapped[str] = mapped_column(sa.String(200))
    #: Purpose of the webhook.
    name: Mapped[str | None] = mapped_column(sa.String(200))
    url: Mapped[str] = mapped_column(sa.String(2000))
    #: Types of its events; None: all.
    types: Mapped[list[Any] | None] = mapped_column(sa.JSON(none_as_null=True))
    #: Key of the signatures, which needs to be known to sign.
    secret: Mapped[str] = mapped_column(sa.String(100))
    created_at: Mapped[datetime] = mapped_column(default=now)


class DeliveryRow(Row):
    """An event to be sent to a webhook, with the outcome of its last attempt."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        Index("ix_webhook_deliveries_list", "webhook_id", "id"),
        # pending ones: those that are due, and the first of each source
        *(
            Index(
                f"ix_webhook_deliveries_{name}",
                "webhook_id",
                *columns,
                sqlite_where=sa.text("due_at IS NOT NULL"),
                postgresql_where=sa.text("due_at IS NOT NULL"),
            )
            for name, columns in (("due", ["due_at"]), ("pending", ["source", "id"]))
        ),
        Index("ix_webhook_deliveries_created_at", "created_at"),
    )

    id: Mapped[int] = mapped_column(
        sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True
    )
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    #: The same for all webhooks.
    event_id: Mapped[str] = mapped_column(sa.String(40))
    type: Mapped[str] = mapped_column(sa.String(64))
    #: Path of the resource whose events are sent in order, and path of what has changed in it.
    source: Mapped[str] = mapped_column(sa.String(300))
    subject: Mapped[str] = mapped_column(sa.String(500))
    body: Mapped[str] = mapped_column(sa.Text, deferred=True)
    n_attempts: Mapped[int] = mapped_column(default=0)
    #: Time of the next attempt; None once it is delivered, or has failed for good.
    due_at: Mapped[datetime | None]
    attempted_at: Mapped[datetime | None]
    #: HTTP status of the last attempt; None without a response.
    status: Mapped[int | None]
    #: Why the last attempt failed.
    error: Mapped[str | None] = mapped_column(sa.String(500))
    created_at: Mapped[datetime] = mapped_column(default=now)

    @property
    def state(self) -> str:
        """Whether it is pending, delivered or failed."""
        if self.due_at is not None:
            return "pending"
        return "delivered" if self.error is None else "failed"


class LeaseRow(Row):
    """An exclusive role of one process, such as dispatching."""

    __tablename__ = "leases"

    name: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    #: Host, boot and pid of the holder; a dead holder on this machine is replaced at once.
    holder: Mapped[str] = mapped_column(sa.String(500))
    #: Number of renewals; waiting processes time its changes with their own clock.
    renewals: Mapped[int] = mapped_column(sa.BigInteger, default=0)


class MonitorRow(Row):
    """The record of the calls of an alias; it ends with the alias."""

    __tablename__ = "monitors"
    __table_args__ = (
        UniqueConstraint("model_id", "alias"),
        ForeignKeyConstraint(
            ["model_id", "alias"],
            ["model_aliases.model_id", "model_aliases.alias"],
            ondelete="CASCADE",
        ),
    )

    id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    model_id: Mapped[str] = mapped_column(sa.String(40))
    alias: Mapped[str] = mapped_column(sa.String(64))
    #: Share of the rows that are kept, chosen by the hash of their id.
    share: Mapped[float]
    #: Days after which rows and targets are deleted.
    days: Mapped[int]
    #: Columns whose values are never kept.
    never_keep: Mapped[list[Any]]
    #: Rows that were to be kept, but found the queue or the quota full.
    n_dropped: Mapped[int] = mapped_column(sa.BigInteger, default=0)
    #: Last daily look at alarms, and the oldest alarm that it found.
    looked_at: Mapped[datetime | None]
    alarm_since: Mapped[datetime | None]
    #: Number of challengers that renewals have tried against each version.
    trials: Mapped[dict[str, Any]] = mapped_column(default=dict)
    #: New with every change, for the ETag.
    change_id: Mapped[str] = mapped_column(sa.String(40))
    created_at: Mapped[datetime] = mapped_column(default=now)


class MonitoredRow(Row):
    """A row that a version predicted, or a labelled row that none did; monitors may end before."""

    __tablename__ = "monitored_rows"
    __table_args__ = (Index("ix_monitored_rows_time", "monitor_id", "created_at", "size_bytes"),)

    monitor_id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    row_id: Mapped[str] = mapped_column(sa.String(200), primary_key=True)
    #: Number of the version; no key, since versions may be deleted.
    version: Mapped[int] = mapped_column(primary_key=True)
    task: Mapped[str] = mapped_column(sa.String(1000))
    #: A number, or a label as text; null for a row that was not predicted.
    prediction: Mapped[Any | None] = mapped_column(sa.JSON(none_as_null=True))
    #: Ends of the interval, of a calibrated model of numbers.
    low: Mapped[float | None]
    high: Mapped[float | None]
    #: Probability of the predicted class, of a calibrated classifier.
    probability: Mapped[float | None]
    #: Encoded values as float64, in the order of the version's columns; infinite if not kept.
    values: Mapped[bytes | None]
    #: Texts of categories that the training rows do not have, by column.
    unknown: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON(none_as_null=True))
    size_bytes: Mapped[int]
    created_at: Mapped[datetime]


class MonitoredTarget(Row):
    """The target of a row, as far as it is known."""

    __tablename__ = "monitored_targets"
    __table_args__ = (Index("ix_monitored_targets_time", "monitor_id", "created_at"),)

    monitor_id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    row_id: Mapped[str] = mapped_column(sa.String(200), primary_key=True)
    #: A number, or a label as text.
    target: Mapped[Any] = mapped_column(sa.JSON)
    #: Time of the first target; corrections do not change it.
    created_at: Mapped[datetime]
    updated_at: Mapped[datetime]


class RenewalRow(Row):
    """The rule by which an alias is renewed, and how far that is; its monitor may end before."""

    __tablename__ = "renewals"

    monitor_id: Mapped[str] = mapped_column(sa.String(40), primary_key=True)
    rule: Mapped[dict[str, Any]]
    #: Dataset of the model, to which labelled rows are added.
    dataset_id: Mapped[str] = mapped_column(sa.String(40))
    state: Mapped[str] = mapped_column(sa.String(16))
    #: State after the copies of rows are gone; None: the renewal ends.
    next_state: Mapped[str | None] = mapped_column(sa.String(16))
    reason: Mapped[str] = mapped_column(sa.String(500))
    #: Counts changes, so that of two writers one sees that it comes late.
    step: Mapped[int] = mapped_column(default=0)
    #: Counts trainings that were begun, for the keys of their requests.
    attempt: Mapped[int] = mapped_column(default=0)
    #: Targets that came before were there to be copied; later ones are new.
    copied_at: Mapped[datetime]
    due_at: Mapped[datetime | None]
    #: The copied rows, and these combined with the dataset of the model, until the job has ended.
    rows_id: Mapped[str | None] = mapped_column(sa.String(40))
    combined_id: Mapped[str | None] = mapped_column(sa.String(40))
    job_id: Mapped[str | None] = mapped_column(sa.String(40))
    champion: Mapped[int | None]
    challenger: Mapped[int | None]
    trial_at: Mapped[datetime | None]
    #: Usual losses by task, and the days that are weighed.
    trial: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON(none_as_null=True))
    #: Number of challengers that were tried against the champion, with the present one.
    n_trials: Mapped[int] = mapped_column(default=0)
    #: Version of the alias before the last promotion.
    previous_version: Mapped[int | None]
    #: Time of the next attempt at a step that an unexpected error has stopped.
    retry_at: Mapped[datetime | None]
    change_id: Mapped[str] = mapped_column(sa.String(40))
    updated_at: Mapped[datetime] = mapped_column(default=now)
