"""SQL of API keys."""

from collections.abc import Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.access.keys import Key
from service.database import now
from service.rows import KeyRow


def create(
    session: Session, key: Key, *, owner: str, scopes: Sequence[str], expires_at: datetime | None
) -> KeyRow:
    """Store a key, without its secret."""
    row = KeyRow(
        id=key.id,
        owner=owner,
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


def has_any(session: Session) -> bool:
    """Return whether any key is valid now."""
    query = sa.select(KeyRow.id).where(
        KeyRow.revoked_at.is_(None),
        sa.or_(KeyRow.expires_at.is_(None), KeyRow.expires_at > now()),
    )
    return session.scalar(query.limit(1)) is not None


def revoke(session: Session, key_id: str) -> bool:
    """Revoke a key; return whether it existed and was active."""
    row = session.get(KeyRow, key_id)
    if row is None or row.revoked_at is not None:
        return False
    row.revoked_at = now()
    return True
