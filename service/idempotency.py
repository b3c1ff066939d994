"""Requests that are sent twice and done once.

The key is stored in the transaction that creates the resource, so there is no moment at which
one exists without the other; a concurrent twin waits for that transaction and gets its answer.
"""

from typing import Annotated

from fastapi import Header
from sqlalchemy.orm import Session

from service.database import lock
from service.errors import Problem
from service.rows import IdempotencyRow

#: What makes a request that is sent again done once.
IdempotencyKey = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=200,
        description="A request sent again with the same key is done once.",
    ),
]


def find_created(session: Session, owner: str, key: str | None, request: str) -> str | None:
    """Return the id of what an earlier request with this key created.

    Parameters
    ----------
    request
        Fingerprint of the request: path and body.

    Raises
    ------
    Problem
        The key came before with another request.
    """
    if key is None:
        return None
    lock(session, "idempotency", owner, key)
    row = session.get(IdempotencyRow, (owner, key))
    if row is None:
        return None
    if row.fingerprint != request:
        raise Problem(
            "key-reused", f"the Idempotency-Key '{key}' was used before for another request"
        )
    return row.resource_id


def remember_created(
    session: Session, owner: str, key: str | None, request: str, resource_id: str
) -> None:
    """Store what a request with a key created."""
    if key is None:
        return
    session.add(IdempotencyRow(owner=owner, key=key, fingerprint=request, resource_id=resource_id))
    session.flush()
