"""Sessions of browsers, each opened with an API key. Only a hash of their token is stored."""

import hashlib
import secrets
from datetime import datetime
from typing import Final

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.storage.database import lock, now
from service.storage.tables import KeyRow, SessionRow

#: Sessions of one key; a new one ends the oldest of them.
MAX_SESSIONS_PER_KEY: Final = 20
_TOKEN_BYTES: Final = 32


def create(session: Session, key_id: str, *, expires_at: datetime) -> str:
    """Store a session of a key and return its token; delete expired sessions of all keys."""
    lock(session, "sessions", key_id)
    session.execute(sa.delete(SessionRow).where(SessionRow.expires_at <= now()))
    of_key = sa.select(SessionRow.token_sha256).where(SessionRow.key_id == key_id)
    newest_first = of_key.order_by(SessionRow.created_at.desc(), SessionRow.token_sha256)
    oldest = session.scalars(newest_first.offset(MAX_SESSIONS_PER_KEY - 1)).all()
    session.execute(sa.delete(SessionRow).where(SessionRow.token_sha256.in_(oldest)))
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    session.add(SessionRow(token_sha256=_hash(token), key_id=key_id, expires_at=expires_at))
    session.flush()
    return token


def find(
    session: Session, token: str, *, is_locked: bool = False
) -> tuple[KeyRow, datetime] | None:
    """Return the key of a session, and when the session expires.

    Parameters
    ----------
    is_locked
        Whether nobody can revoke the key or end the session until the transaction ends.
    """
    query = (
        sa.select(KeyRow, SessionRow.expires_at)
        .join(SessionRow, SessionRow.key_id == KeyRow.id)
        .where(SessionRow.token_sha256 == _hash(token))
    )
    if is_locked:
        query = query.with_for_update(read=True)
    row = session.execute(query).one_or_none()
    return None if row is None else (row[0], row[1])


def end(session: Session, token: str) -> bool:
    """Delete a session; return whether it existed."""
    this = sa.delete(SessionRow).where(SessionRow.token_sha256 == _hash(token))
    return session.scalar(this.returning(SessionRow.key_id)) is not None


def end_all(session: Session, key_id: str) -> None:
    """Delete the sessions of a key."""
    session.execute(sa.delete(SessionRow).where(SessionRow.key_id == key_id))


def _hash(token: str) -> str:
    """Return the hash that is stored; for a long random token, a plain hash is safe."""
    return hashlib.sha256(token.encode()).hexdigest()
