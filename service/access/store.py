"""SQL of API keys."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.access import sessions
from service.access.keys import Key
from service.storage.database import lock, now
from service.storage.tables import DatasetRow, JobRow, KeyRow, ModelRow


def create(
    session: Session,
    key: Key,
    *,
    owner: str,
    scopes: Sequence[str],
    expires_at: datetime | None,
    name: str | None = None,
    creator_id: str | None = None,
) -> KeyRow:
    """Store a key, without its secret.

    Parameters
    ----------
    expires_at
        None if the key never expires.
    creator_id
        Id of the key that creates this key; None for a key of an operator.
    """
    row = KeyRow(
        id=key.id,
        owner=owner,
        name=name,
        creator_id=creator_id,
        secret_sha256=key.secret_sha256(),
        scopes=list(scopes),
        expires_at=expires_at,
    )
    session.add(row)
    session.flush()
    return row


def get(session: Session, key_id: str, *, is_locked: bool = False) -> KeyRow | None:
    """Return the row of a key.

    Parameters
    ----------
    is_locked
        Whether nobody can revoke the key until the transaction ends.
    """
    return session.get(KeyRow, key_id, with_for_update={"read": True} if is_locked else None)


def lock_keys(session: Session, owner: str) -> None:
    """Lock the set of an owner's keys against other transactions until this one ends."""
    lock(session, "keys", owner)


def list_all(session: Session) -> Sequence[KeyRow]:
    """Return every key, oldest first."""
    return session.scalars(sa.select(KeyRow).order_by(KeyRow.created_at, KeyRow.id)).all()


def list_owners(session: Session, *, after: str = "", limit: int | None = None) -> Sequence[str]:
    """Return the owners of keys, datasets, jobs or models that come after one by their name."""
    tables = (KeyRow, DatasetRow, JobRow, ModelRow)
    names = sa.union(*(sa.select(table.owner) for table in tables)).subquery().c.owner
    return session.scalars(sa.select(names).where(names > after).order_by(names).limit(limit)).all()


def list_page(
    session: Session, owner: str | None, *, after: str | None, limit: int
) -> Sequence[KeyRow]:
    """Return keys of an owner, or of all, newest first, that are older than the key ``after``."""
    query = sa.select(KeyRow)
    if owner is not None:
        query = query.where(KeyRow.owner == owner)
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


def revoke(session: Session, key_id: str, *, with_descendants: bool = False) -> Sequence[str]:
    """Revoke a key and end its sessions; return the ids of the keys that were active until then.

    Parameters
    ----------
    with_descendants
        Whether to revoke also the keys that it created, the keys that they created, and so on.
    """
    found = session.get(KeyRow, key_id)
    if found is None:
        return []
    lock_keys(session, found.owner)
    ids, tree = set[str](), {key_id}
    while ids < tree:  # until it was locked, a key may have created one of another owner
        ids = tree
        query = sa.select(KeyRow).where(KeyRow.id.in_(ids), KeyRow.revoked_at.is_(None))
        query = query.order_by(KeyRow.created_at, KeyRow.id).with_for_update()
        rows = session.scalars(query, execution_options={"populate_existing": True}).all()
        if with_descendants:
            tree = ids.union(_descendants(session, key_id))
    revoked_at = now()
    for row in rows:
        row.revoked_at = revoked_at
        sessions.end_all(session, row.id)
    return [row.id for row in rows]


def _descendants(session: Session, key_id: str) -> Sequence[str]:
    """Return the ids of the keys that a key created, directly or through others."""
    tree = sa.select(KeyRow.id).where(KeyRow.creator_id == key_id).cte(recursive=True)
    tree = tree.union(sa.select(KeyRow.id).join(tree, KeyRow.creator_id == tree.c.id))
    return session.scalars(sa.select(tree.c.id)).all()


def count_active_descendants(session: Session) -> Mapping[str, int]:
    """Return the number of valid keys that each key created, directly or not."""
    made = sa.select(KeyRow.creator_id.label("ancestor"), KeyRow.id.label("key_id"))
    made = made.where(KeyRow.creator_id.is_not(None), *_are_active())
    tree = made.cte(recursive=True)
    above = sa.select(KeyRow.creator_id, tree.c.key_id).join(tree, KeyRow.id == tree.c.ancestor)
    tree = tree.union(above.where(KeyRow.creator_id.is_not(None)))
    query = sa.select(tree.c.ancestor, sa.func.count()).group_by(tree.c.ancestor)
    return dict(session.execute(query).all())


def _are_active() -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions of keys that are valid now."""
    return (
        KeyRow.revoked_at.is_(None),
        sa.or_(KeyRow.expires_at.is_(None), KeyRow.expires_at > now()),
    )
