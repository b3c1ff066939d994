"""Events: rows of the transaction that changes something, from which they are sent later.

The format is CloudEvents 1.0, structured mode: https://github.com/cloudevents/spec
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args

import orjson
import sqlalchemy as sa
from sqlalchemy.orm import Session

from service.storage.database import now
from service.storage.tables import DeliveryRow, WebhookRow, new_id

EventType = Literal[
    "job.succeeded",
    "job.failed",
    "job.cancelled",
    "job.timed_out",
    "version.created",
    "alias.moved",
    "alias.deleted",
    "alarm.raised",
    "renewal.started",
    "renewal.failed",
    "renewal.trial",
    "renewal.ended",
    "renewal.promoted",
    "renewal.put_back",
]
TYPES: Final[tuple[EventType, ...]] = get_args(EventType)
#: Type of the events that test a webhook, which every webhook gets.
TEST: Final = "webhook.test"
#: Maximum size of the data of an event as JSON; an event with more has none.
MAX_DATA_BYTES: Final = 16 * 1024


def emit(
    session: Session,
    owner: str,
    kind: EventType,
    *,
    source: str,
    subject: str,
    data: Mapping[str, Any],
) -> None:
    """Store an event for each webhook of an owner that wants it, in the transaction of its change.

    Parameters
    ----------
    source
        Path of the resource whose events are sent in order: a job, or a model with all that
        belongs to it. The transaction holds the lock of that resource.
    subject
        Path of what has changed, such as an alias of the model.
    data
        What is to be known of it, as JSON; no rows of users.
    """
    query = sa.select(WebhookRow.id, WebhookRow.types).where(WebhookRow.owner == owner)
    # locked against deletion, which would fail the transaction
    rows = session.execute(query.with_for_update(read=True, key_share=True)).all()
    wanted = [webhook_id for webhook_id, types in rows if types is None or kind in types]
    _add(session, wanted, kind, source=source, subject=subject, data=data)


def emit_test(session: Session, webhook: WebhookRow) -> DeliveryRow:
    """Store an event that tests a webhook; return its delivery."""
    path = f"/v1/webhooks/{webhook.id}"
    ids = _add(session, [webhook.id], TEST, source=path, subject=path, data={"url": webhook.url})
    return session.get_one(DeliveryRow, ids[0])


def _add(
    session: Session,
    webhook_ids: Sequence[str],
    kind: str,
    *,
    source: str,
    subject: str,
    data: Mapping[str, Any],
) -> list[int]:
    """Store an event for some webhooks; return the ids of the deliveries."""
    if not webhook_ids:
        return []
    event_id, time = new_id("evt"), now()
    event = {
        "specversion": "1.0",
        "id": event_id,
        "source": source,
        "type": kind,
        "subject": subject,
        "time": time,
    }
    body = orjson.dumps(data)
    if len(body) <= MAX_DATA_BYTES:
        event |= {"datacontenttype": "application/json", "data": orjson.Fragment(body)}
    values = {
        "event_id": event_id,
        "type": kind,
        "source": source,
        "subject": subject,
        "body": orjson.dumps(event).decode(),
        "due_at": time,
        "created_at": time,
    }
    rows = [{"webhook_id": webhook_id, **values} for webhook_id in webhook_ids]
    return list(session.scalars(sa.insert(DeliveryRow).returning(DeliveryRow.id), rows))
