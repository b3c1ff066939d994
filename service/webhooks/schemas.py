"""Schemas of webhooks and deliveries."""

from datetime import datetime
from typing import Self

from pydantic import BaseModel, Field

from service.errors.patterns import TEXT_LINE
from service.http.schemas import WireModel
from service.storage.tables import DeliveryRow
from service.webhooks.events import TYPES, EventType
from service.webhooks.store import DeliveryState


class WebhookSpec(WireModel):
    """Specification of a webhook."""

    url: str = Field(
        min_length=1,
        max_length=2000,
        pattern=TEXT_LINE,
        description="Address that gets the events, of a host that the operator allows.",
    )
    types: list[EventType] | None = Field(
        None,
        min_length=1,
        max_length=len(TYPES),
        description="Types of the events; default: all, also those of later versions. The key "
        "needs the scope to read what they are about.",
    )
    name: str | None = Field(
        None, min_length=1, max_length=200, pattern=TEXT_LINE, description="Purpose of the webhook."
    )


class Webhook(BaseModel, from_attributes=True):
    """An address that gets events, without its secret."""

    id: str = Field(description="Id of the webhook.")
    name: str | None = Field(description="Purpose of the webhook.")
    url: str = Field(description="Address that gets the events.")
    types: list[str] | None = Field(description="Types of the events; null for all.")
    created_at: datetime = Field(description="Time of creation.")


class WebhookWithSecret(Webhook):
    """A webhook that has just been created."""

    secret: str = Field(
        description="Secret of the signatures, `whsec_` and base64, which cannot be read again."
    )


class Delivery(BaseModel, title="WebhookDelivery", from_attributes=True):
    """An event that was or will be sent to a webhook."""

    id: int = Field(description="Id of the delivery; ids sort by time.")
    event_id: str = Field(description="Id of the event: `webhook-id`, and `id` in the body.")
    type: str = Field(description="Type of the event.")
    source: str = Field(description="Path of the resource whose events are sent in order.")
    subject: str = Field(description="Path of what has changed.")
    state: DeliveryState = Field(
        description="Whether it will be sent (again), was accepted, or has failed for good."
    )
    n_attempts: int = Field(description="Number of attempts so far.")
    status: int | None = Field(
        description="HTTP status of the last response; null if the last attempt had none."
    )
    error: str | None = Field(description="Why the last attempt failed; null if it did not.")
    created_at: datetime = Field(description="Time of the event.")
    attempted_at: datetime | None = Field(description="Time of the last attempt.")
    due_at: datetime | None = Field(
        description="Time of the next attempt, unless an earlier event of the same source is "
        "pending; null if there is none."
    )

    @classmethod
    def from_row(cls, row: DeliveryRow) -> Self:
        """Return the schema of a row."""
        return cls.model_validate(row)
