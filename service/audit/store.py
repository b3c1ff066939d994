"""SQL of audit events."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.audit.events import AuditEvent
from service.storage.tables import AuditRow, new_id

_LENGTHS: Final = {
    column.name: column.type.length
    for column in AuditRow.__table__.columns
    if isinstance(column.type, sa.String)
}


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Conditions that all returned events meet; None accepts any value."""

    owner: str | None = None
    key_id: str | None = None
    operation: str | None = None
    object: str | None = None
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
    if where.since is not None:
        query = query.where(AuditRow.created_at >= where.since)
    if where.until is not None:
        query = query.where(AuditRow.created_at < where.until)
    if after is not None:
        query = query.where(AuditRow.id < after)
    return session.scalars(query).all()
