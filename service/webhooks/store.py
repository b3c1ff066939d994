"""SQL of webhooks and deliveries."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import sqlalchemy as sa
from sqlalchemy.engine import CursorResult
from sqlalchemy.orm import Session, aliased

from service.storage.database import lock
from service.storage.tables import DeliveryRow, WebhookRow

DeliveryState = Literal["pending", "delivered", "failed"]
#: A delivery has been accepted; one that is not pending otherwise has failed for good.
_IS_DELIVERED = DeliveryRow.due_at.is_(None) & DeliveryRow.error.is_(None)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery that is due, as it is sent."""

    id: int
    webhook_id: str
    url: str
    secret: str
    type: str
    event_id: str
    body: str
    n_attempts: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of an attempt: the status of the response, or an error; both of a refusal."""

    status: int | None
    error: str | None


def lock_webhooks(session: Session, owner: str) -> int:
    """Return the number of an owner's webhooks, which no other transaction changes meanwhile."""
    lock(session, "webhooks", owner)
    query = sa.select(sa.func.count()).where(WebhookRow.owner == owner)
    return session.scalar(query) or 0


def list_page(
    session: Session, owner: str, *, after: str | None, limit: int
) -> Sequence[WebhookRow]:
    """Return webhooks, newest first, below the id ``after``."""
    query = sa.select(WebhookRow).where(WebhookRow.owner == owner)
    if after is not None:
        query = query.where(WebhookRow.id < after)
    return session.scalars(query.order_by(WebhookRow.id.desc()).limit(limit)).all()


def get(
    session: Session, webhook_id: str, owner: str, *, is_locked: bool = False
) -> WebhookRow | None:
    """Return a webhook of an owner.

    Parameters
    ----------
    is_locked
        Whether nobody can delete it until the transaction ends.
    """
    lock_options = {"read": True, "key_share": True} if is_locked else None
    row = session.get(WebhookRow, webhook_id, with_for_update=lock_options)
    return None if row is None or row.owner != owner else row


def delete(session: Session, webhook_id: str) -> None:
    """Delete a webhook and its deliveries."""
    session.execute(sa.delete(WebhookRow).where(WebhookRow.id == webhook_id))


def list_deliveries(
    session: Session,
    webhook_id: str,
    *,
    state: DeliveryState | None = None,
    after: int,
    limit: int,
) -> Sequence[DeliveryRow]:
    """Return deliveries, newest first, below the id ``after``, or from the first one if it is 0."""
    query = sa.select(DeliveryRow).where(DeliveryRow.webhook_id == webhook_id)
    if state == "pending":
        query = query.where(DeliveryRow.due_at.is_not(None))
    elif state is not None:
        is_wanted = _IS_DELIVERED if state == "delivered" else DeliveryRow.error.is_not(None)
        query = query.where(DeliveryRow.due_at.is_(None), is_wanted)
    if after:
        query = query.where(DeliveryRow.id < after)
    return session.scalars(query.order_by(DeliveryRow.id.desc()).limit(limit)).all()


def get_delivery(session: Session, webhook_id: str, delivery_id: int) -> DeliveryRow | None:
    """Return a delivery of a webhook."""
    row = session.get(DeliveryRow, delivery_id)
    return None if row is None or row.webhook_id != webhook_id else row


def due(
    session: Session, moment: datetime, *, without: Collection[str], limit: int
) -> list[Delivery]:
    """Return for each webhook the delivery that is due for longest, at most ``limit`` in all.

    A delivery waits for all earlier ones of its webhook and source.

    Parameters
    ----------
    without
        Webhooks that a delivery is being sent to.
    """
    one, earlier = aliased(DeliveryRow), aliased(DeliveryRow)
    waits = sa.exists().where(
        earlier.webhook_id == one.webhook_id,
        earlier.source == one.source,
        earlier.due_at.is_not(None),
        earlier.id < one.id,
    )
    first = (
        sa.select(one.id)
        .where(one.webhook_id == WebhookRow.id, one.due_at <= moment, ~waits)
        .order_by(one.due_at, one.id)
        .limit(1)
        .correlate(WebhookRow)
        .scalar_subquery()
    )
    row = DeliveryRow
    query = (
        sa.select(
            *(row.id, row.webhook_id, WebhookRow.url, WebhookRow.secret),
            *(row.type, row.event_id, row.body, row.n_attempts),
        )
        .join(WebhookRow, row.id == first)
        .where(WebhookRow.id.notin_(without))
        .order_by(row.due_at, row.id)
        .limit(limit)
    )
    return [Delivery(*values) for values in session.execute(query)]


def record(
    session: Session,
    delivery: Delivery,
    outcome: Outcome,
    *,
    attempted_at: datetime,
    due_at: datetime | None,
) -> bool:
    """Store the outcome of an attempt; return False if another process has stored one meanwhile.

    Parameters
    ----------
    due_at
        Time of the next attempt; None if there is none.
    """
    statement = (
        sa.update(DeliveryRow)
        .where(
            DeliveryRow.id == delivery.id,
            DeliveryRow.n_attempts == delivery.n_attempts,
            DeliveryRow.due_at.is_not(None),
        )
        .values(
            n_attempts=delivery.n_attempts + 1,
            status=outcome.status,
            error=outcome.error,
            attempted_at=attempted_at,
            due_at=due_at,
        )
        .execution_options(synchronize_session=False)
    )
    result = session.execute(statement)
    assert isinstance(result, CursorResult)
    return result.rowcount == 1
