"""SQL of API keys."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.access import sessions
from service.access.keys import Key
from service.database import now
from service.rows import KeyRow


def create(
    session: Session,
    key: Key,
    *,
    owner: str,
    scopes: Sequence[str],
    expires_at: datetime | None,
    name: str | None = None,
) -> KeyRow:
    """Store a key, without its secret."""
    row = KeyRow(
        id=key.id,
        owner=owner,
        name=name,
        secret_sha256=key.secret_sha256(),
        scopes=list(scopes),
        expires_at=expires_at,
    )
    session.add(row)
    session.flush()
    return row


def get(session: Session, key_id: str) -> KeyRow | None:
    """Return the row of a key."""
    return session.get(KeyRow, key_id)


def list_all(session: Session) -> Sequence[KeyRow]:
    """Return every key, oldest first."""
    return session.scalars(sa.select(KeyRow).order_by(KeyRow.created_at, KeyRow.id)).all()


def list_page(session: Session, owner: str, *, after: str | None, limit: int) -> Sequence[KeyRow]:
    """Return keys of an owner, newest first, that are older than the key ``after``."""
    query = sa.select(KeyRow).where(KeyRow.owner == owner)
    query = query.order_by(KeyRow.created_at.desc(), KeyRow.id.desc()).limit(limit)
    if after is not None:
        last = session.get(KeyRow, after)
        if last is None:
            return []
        is_same_time = sa.and_(KeyRow.created_at == last.created_at, KeyRow.id < after)
        query = query.where(sa.or_(KeyRow.created_at < last.created_at, is_same_time))
    return session.scalars(query).all()


def has_active(session: Session) -> bool:
    """Return whether any key is valid now."""
    return session.scalar(sa.select(KeyRow.id).where(*_are_active()).limit(1)) is not None


def count_active(session: Session, owner: str) -> int:
    """Return the number of valid keys of an owner."""
    query = sa.select(sa.func.count()).where(KeyRow.owner == owner, *_are_active())
    return session.scalar(query) or 0


def revoke(session: Session, key_id: str) -> bool:
    """Revoke a key and end its sessions; return whether it existed and was active."""
    row = session.get(KeyRow, key_id)
    if row is None or row.revoked_at is not None:
        return False
    row.revoked_at = now()
    sessions.end_all(session, key_id)
    return True


def _are_active() -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions of keys that are valid now."""
    return (
        KeyRow.revoked_at.is_(None),
        sa.or_(KeyRow.expires_at.is_(None), KeyRow.expires_at > now()),
    )
