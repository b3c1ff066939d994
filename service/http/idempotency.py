"""Idempotency keys: a request sent twice with the same key runs once.

The key is stored in the transaction that creates the resource, so that neither exists without the
other. A concurrent request with the same key waits for that transaction, and then
returns the resource that it created.
"""

from hashlib import sha256
from typing import Annotated

from fastapi import Header
from sqlalchemy.orm import Session

from service.errors.problems import Problem
from service.storage.database import lock
from service.storage.tables import IdempotencyRow

#: The Idempotency-Key header.
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        description="Requests with the same key run once.",
    ),
]


def find_created(session: Session, owner: str, key: str | None, request: str) -> str | None:
    """Return the id of the resource that an earlier request with this key created.

    Parameters
    ----------
    request
        Fingerprint of the request: path and body.

    Raises
    ------
    Problem
        The key was used with a different request.
    """
    if key is None:
        return None
    lock(session, "idempotency", owner, key)
    row = session.get(IdempotencyRow, (owner, key))
    if row is None:
        return None
    if row.fingerprint != request:
        raise Problem(
            "key-reused", f"the Idempotency-Key '{key}' was used with a different request"
        )
    return row.resource_id


def remember_created(
    session: Session, owner: str, key: str | None, request: str, resource_id: str
) -> None:
    """Store the id of the resource that a request with a key created.

    Parameters
    ----------
    request
        Fingerprint of the request: path and body.
    """
    if key is None:
        return
    session.add(IdempotencyRow(owner=owner, key=key, fingerprint=request, resource_id=resource_id))
    session.flush()


def fingerprint(*parts: str | bytes) -> str:
    """Return one hash of several parts and their lengths."""
    digest = sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8))
        digest.update(data)
    return digest.hexdigest()
