"""SQL of renewals, and of the rows that champion and challenger predict."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased

from service.audit import store as audit_store
from service.audit.events import AuditEvent
from service.models import alias_store
from service.models import store as model_store
from service.models.store import NamedVersion
from service.observability.logs import log
from service.storage.database import Database, now
from service.storage.dataset_states import DELETED
from service.storage.tables import (
    AliasRow,
    DatasetRow,
    JobRow,
    ModelRow,
    MonitoredRow,
    MonitoredTarget,
    MonitorRow,
    RenewalRow,
    VersionRow,
    new_id,
)
from service.webhooks.events import EventType, emit

_MAX_REASON: Final = 500


class Renewing(NamedTuple):
    """A renewal with what it belongs to."""

    row: RenewalRow
    monitor: MonitorRow
    owner: str
    name: str

    @property
    def path(self) -> str:
        """Path of the alias."""
        return f"/v1/models/{self.name}/aliases/{self.monitor.alias}"


class Listed(NamedTuple):
    """What is read of every renewal in each turn: little, as trials may have long histories."""

    monitor_id: str
    state: str
    step: int
    job_id: str | None
    retry_at: datetime | None
    has_monitor: bool


def list_renewals(session: Session) -> list[Listed]:
    """Return the renewals that do not wait for their next attempt after an error."""
    row, has_monitor = RenewalRow, MonitorRow.id.is_not(None)
    query = (
        sa.select(row.monitor_id, row.state, row.step, row.job_id, row.retry_at, has_monitor)
        .outerjoin(MonitorRow, MonitorRow.id == row.monitor_id)
        .where(row.retry_at.is_(None) | (row.retry_at <= now()))
    )
    return [Listed(*found) for found in session.execute(query)]


def retry_at(session: Session, monitor_id: str, moment: datetime | None) -> None:
    """Store when a renewal is tried again after an unexpected error; None: it goes on."""
    query = sa.update(RenewalRow).where(RenewalRow.monitor_id == monitor_id)
    session.execute(query.values(retry_at=moment))


def reason_of(row: RenewalRow) -> str:
    """Return what happened last, and why; and that an error has stopped what follows."""
    if row.retry_at is None:
        return row.reason
    when = f"{row.retry_at:%Y-%m-%d %H:%M} UTC"
    return (
        f"An unexpected error has stopped the next step: the log of the service has it. The step "
        f"is tried again at {when}, or once the rule is set again. Before: {row.reason}"
    )


def find(session: Session, monitor_id: str, *, is_locked: bool = False) -> Renewing | None:
    """Return the renewal of a monitor, unless it ends."""
    query = (
        sa.select(RenewalRow, MonitorRow, ModelRow.owner, ModelRow.name)
        .join(MonitorRow, MonitorRow.id == RenewalRow.monitor_id)
        .join(ModelRow, ModelRow.id == MonitorRow.model_id)
        .where(RenewalRow.monitor_id == monitor_id)
        .execution_options(populate_existing=True)
    )
    if is_locked:
        query = query.with_for_update(of=RenewalRow)
    found = session.execute(query).first()
    if found is None or (found[0].state == "clearing" and found[0].next_state is None):
        return None
    return Renewing(*found)


class Late(Exception):
    """Another process or a request has changed the renewal meanwhile."""


@contextmanager
def stepping(database: Database, seen: Renewing) -> Iterator[tuple[Session, Renewing]]:
    """Yield a transaction with the renewal as it was seen; its change is the next step.

    Raises
    ------
    Late
        It has changed since.
    """
    with database.write() as session:
        alias_store.lock_model(session, seen.owner, seen.name)
        found = find(session, seen.row.monitor_id, is_locked=True)
        if found is None or found.row.step != seen.row.step:
            raise Late
        touch(found.row)
        yield session, found


def touch(row: RenewalRow) -> None:
    """Count a change, so that others who have seen the renewal before come late."""
    row.step += 1
    row.updated_at, row.retry_at = now(), None


def note(session: Session, renewing: Renewing, kind: EventType, reason: str) -> None:
    """Store a step with its reason: in the renewal, the audit log and the events for webhooks."""
    row = renewing.row
    row.reason = reason[:_MAX_REASON]
    event = AuditEvent(
        kind, f"{renewing.path}/renewal", owner=renewing.owner, source="renewal", reason=row.reason
    )
    audit_store.add(session, event, then=lambda: log.info(kind, **event.log_fields()))
    data = {
        "model": renewing.name,
        "alias": renewing.monitor.alias,
        "reason": row.reason,
        "champion": row.champion,
        "challenger": row.challenger,
        "job_id": row.job_id,
    }
    source = f"/v1/models/{renewing.name}"
    emit(session, renewing.owner, kind, source=source, subject=renewing.path, data=data)


def new_row(monitor_id: str, dataset_id: str, copied_at: datetime) -> RenewalRow:
    """Return the row of a new renewal, without its rule."""
    return RenewalRow(
        monitor_id=monitor_id,
        dataset_id=dataset_id,
        copied_at=copied_at,
        state="waiting",
        reason="Waits for its rule.",
        step=0,
        attempt=0,
        n_trials=0,
        change_id=new_id("chg"),
        updated_at=now(),
    )


def copies_of_rows(session: Session, row: RenewalRow) -> list[DatasetRow]:
    """Return the datasets of a training that have rows of the monitor.

    The combined one is found by its sources, too: a process may have ended before it stored the id.
    """
    copied = None if row.rows_id is None else session.get(DatasetRow, row.rows_id)
    ids = {row.combined_id}
    if copied is not None:
        query = sa.select(DatasetRow.id, DatasetRow.sources).where(
            DatasetRow.owner == copied.owner,
            DatasetRow.name == copied.name,
            DatasetRow.sources.is_not(None),
        )
        for id_, sources in session.execute(query):
            if any(source["dataset_id"] == copied.id for source in sources or ()):
                ids.add(id_)
    found = [session.get(DatasetRow, id_, populate_existing=True) for id_ in ids if id_ is not None]
    return [dataset for dataset in (copied, *found) if dataset and dataset.state != DELETED]


def version_of(session: Session, monitor: MonitorRow, number: int | None) -> VersionRow | None:
    """Return a version of the model of a monitor by its number, by default that of the alias."""
    query = sa.select(VersionRow).where(VersionRow.model_id == monitor.model_id)
    if number is not None:
        return session.scalar(query.where(VersionRow.version == number))
    query = query.join(AliasRow, AliasRow.version_id == VersionRow.id)
    return session.scalar(query.where(AliasRow.alias == monitor.alias))


def count_new_targets(session: Session, renewing: Renewing) -> int:
    """Return the number of targets that came since the last training."""
    query = sa.select(sa.func.count()).where(
        MonitoredTarget.monitor_id == renewing.monitor.id,
        MonitoredTarget.created_at > renewing.row.copied_at,
    )
    return int(session.scalar(query) or 0)


def labelled_rows(
    session: Session, monitor_id: str, *, since: datetime, until: datetime, limit: int
) -> Sequence[sa.Row[Any]]:
    """Return the values of the newest labelled rows, each of one version, newest labels first."""
    row, target = MonitoredRow, MonitoredTarget
    ranked = (
        sa.select(
            *(row.version, row.task, row.values, row.unknown, target.target),
            target.created_at.label("labelled_at"),
            row.row_id,
            sa.func.row_number()
            .over(partition_by=row.row_id, order_by=row.version.desc())
            .label("place"),
        )
        .join(target, (target.monitor_id == row.monitor_id) & (target.row_id == row.row_id))
        .where(row.monitor_id == monitor_id, row.values.is_not(None))
        .where(row.created_at >= since, target.created_at <= until)
        .subquery()
    )
    query = sa.select(ranked).where(ranked.c.place == 1)
    return session.execute(
        query.order_by(ranked.c.labelled_at.desc(), ranked.c.row_id).limit(limit)
    ).all()


def unanswered_rows(
    session: Session, renewing: Renewing, *, after: datetime, limit: int
) -> Sequence[MonitoredRow]:
    """Return rows that the champion has predicted since the copy, and the challenger has not."""
    row, answer = MonitoredRow, aliased(MonitoredRow)
    answered = sa.exists().where(
        answer.monitor_id == row.monitor_id,
        answer.row_id == row.row_id,
        answer.version == renewing.row.challenger,
    )
    query = sa.select(row).where(
        row.monitor_id == renewing.monitor.id,
        row.version == renewing.row.champion,
        row.created_at > max(after, renewing.row.copied_at),
        row.prediction.is_not(None),
        row.values.is_not(None),
        ~answered,
    )
    return session.scalars(query.order_by(row.created_at, row.row_id).limit(limit)).all()


def paired_rows(
    session: Session, renewing: Renewing, begin: datetime, end: datetime, *, limit: int
) -> Sequence[sa.Row[Any]]:
    """Return both predictions and the target of rows between two moments; of more, a random sample.

    Rows and targets came after the copy of rows: the challenger was not trained on them.
    """
    ours, theirs, target = MonitoredRow, aliased(MonitoredRow), MonitoredTarget
    copied_at = renewing.row.copied_at
    same = (theirs.monitor_id == ours.monitor_id) & (theirs.row_id == ours.row_id)
    labelled = (target.monitor_id == ours.monitor_id) & (target.row_id == ours.row_id)
    query = (
        sa.select(
            ours.task,
            ours.prediction.label("champion"),
            theirs.prediction.label("challenger"),
            target.target,
        )
        .join(theirs, same & (theirs.version == renewing.row.challenger))
        .join(target, labelled)
        .where(
            ours.monitor_id == renewing.monitor.id,
            ours.version == renewing.row.champion,
            ours.created_at > copied_at,
            ours.created_at >= begin,
            ours.created_at < end,
            ours.prediction.is_not(None),
            theirs.prediction.is_not(None),
            target.created_at > copied_at,
        )
        .order_by(sa.func.random())
        .limit(limit)
    )
    return session.execute(query).all()


def origin_of(session: Session, version: VersionRow) -> tuple[JobRow, DatasetRow | None]:
    """Return the job of a version, and the dataset to which rows are added; None if it is deleted.

    For a version of a renewal it is the dataset that it began with, so that no row counts twice.
    """
    job = session.get_one(JobRow, version.job_id)
    dataset = session.get(DatasetRow, version.dataset_id)
    if job.is_challenger and dataset is not None:
        dataset = session.get(DatasetRow, (dataset.sources or [])[0]["dataset_id"])
    return job, None if dataset is None or dataset.state == DELETED else dataset


def delete_unused_version(session: Session, job: JobRow) -> None:
    """Delete the version of a training that ended before it was stopped, unless it is used."""
    version = session.scalar(sa.select(VersionRow).where(VersionRow.job_id == job.id))
    if version is None or not version.is_challenger or model_store.needed_by(session, version):
        return
    model_store.delete_version(session, NamedVersion(job.model_name, version, ()))


def is_ending(session: Session, monitor_id: str) -> bool:
    """Return whether a renewal of a monitor was deleted, and its copies of rows not yet."""
    return session.get(RenewalRow, monitor_id) is not None
