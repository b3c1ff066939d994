"""SQL of audit events."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final, Literal, get_args

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.audit.events import AuditEvent
from service.storage.tables import AuditRow, DatasetRow, JobRow, KeyRow, new_id

_LENGTHS: Final = {
    column.name: column.type.length
    for column in AuditRow.__table__.columns
    if isinstance(column.type, sa.String)
}


#: Outcomes of events: of requests with an error, and of all others.
Outcome = Literal["done", "refused"]
OUTCOMES: Final = get_args(Outcome)
_FIRST_REFUSED: Final = 400
#: Parts of a path such as ``/v1/jobs/job_1``.
_N_PARTS: Final = 4
#: Collections whose resources have names.
_NAMED: Final = {
    "datasets": (DatasetRow.id, DatasetRow.name),
    "jobs": (JobRow.id, JobRow.model_name),
    "keys": (KeyRow.id, KeyRow.name),
}


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Conditions that all returned events meet; None accepts any value."""

    owner: str | None = None
    key_id: str | None = None
    operation: str | None = None
    object: str | None = None
    outcome: str | None = None
    since: datetime | None = None
    until: datetime | None = None


def add(session: Session, event: AuditEvent, *, then: Callable[[], None] = lambda: None) -> None:
    """Store an event; its texts are shortened to the sizes of their columns.

    The path of a refused request may contain NUL, which PostgreSQL cannot store.

    Parameters
    ----------
    then
        Is called once the transaction is committed.
    """
    values = asdict(event)
    for name, value in values.items():
        if isinstance(value, str):
            values[name] = value.replace("\0", "\ufffd")[: _LENGTHS[name]]
    session.add(AuditRow(id=new_id("aud"), **values))
    sa.event.listen(session, "after_commit", lambda _: then(), once=True)


def list_page(
    session: Session, where: AuditFilter, *, after: str | None, limit: int
) -> Sequence[AuditRow]:
    """Return events, newest first, below the id ``after``."""
    query = sa.select(AuditRow).order_by(AuditRow.id.desc()).limit(limit)
    for name in ("owner", "key_id", "operation", "object"):
        value = getattr(where, name)
        if value is not None:
            query = query.where(getattr(AuditRow, name) == value)
    if where.outcome is not None:
        is_refused = sa.func.coalesce(AuditRow.status, 0) >= _FIRST_REFUSED
        query = query.where(is_refused if where.outcome == "refused" else ~is_refused)
    if where.since is not None:
        query = query.where(AuditRow.created_at >= where.since)
    if where.until is not None:
        query = query.where(AuditRow.created_at < where.until)
    if after is not None:
        query = query.where(AuditRow.id < after)
    return session.scalars(query).all()


def names_of(session: Session, paths: Iterable[str | None]) -> dict[str, str]:
    """Return the names of those resources that exist, by their path in the API."""
    ids: dict[str, set[str]] = {collection: set() for collection in _NAMED}
    for path in paths:
        parts = (path or "").split("/")
        if len(parts) == _N_PARTS and parts[2] in ids:
            ids[parts[2]].add(parts[3])
    names: dict[str, str] = {}
    for collection, (key, name) in _NAMED.items():
        rows = session.execute(sa.select(key, name).where(key.in_(ids[collection]))).all()
        names |= {f"/v1/{collection}/{one}": text for one, text in rows if text}
    return names
