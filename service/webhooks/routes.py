"""HTTP routes of webhooks: addresses that get the events of their owner."""

from typing import Annotated, Final

import httpx
from fastapi import APIRouter, Path, Query, Response
from pydantic import Field

from service.access.keys import allows
from service.errors.problems import Problem
from service.errors.validation import entry_at
from service.http.documentation import JSON_BODY, problems
from service.http.paging import Page, PageQuery, Paging, page
from service.http.responses import json_response
from service.http.routing import Confirm, Owner, Record, app_state, secured
from service.settings import Settings
from service.storage.database import Database
from service.storage.tables import WebhookRow, new_id
from service.webhooks import events, store
from service.webhooks.schemas import Delivery, Webhook, WebhookSpec, WebhookWithSecret
from service.webhooks.signatures import new_secret
from service.webhooks.targets import Refused, Targets

router = APIRouter(prefix="/v1/webhooks", tags=["webhooks"], route_class=secured("webhooks:{}"))

#: Maximum number of webhooks of one owner.
MAX_WEBHOOKS: Final = 10

Configured = Annotated[Settings, app_state("settings")]
Webhooks = Annotated[Database, app_state("database")]
WebhookId = Annotated[str, Path(max_length=40, description="Id of the webhook.")]


class DeliveryQuery(PageQuery):
    """Query parameters of the deliveries of a webhook."""

    state: store.DeliveryState | None = Field(None, description="Only deliveries in this state.")


@router.get(
    "", summary="List webhooks", responses=problems("invalid-page-token", "invalid-request")
)
def list_webhooks(database: Webhooks, owner: Owner, query: Paging) -> Page[Webhook]:
    """List the webhooks of the caller's owner, newest first, without their secrets."""
    with database.read() as session:
        rows = store.list_page(session, owner, after=query.after(), limit=query.page_size + 1)
    return page([Webhook.model_validate(row) for row in rows], query, key=lambda item: item.id)


@router.post(
    "",
    summary="Create a webhook",
    status_code=201,
    response_model=WebhookWithSecret,
    responses=problems(*JSON_BODY, "wrong-state", "quota-exceeded"),
)
def create_webhook(
    spec: WebhookSpec,
    *,
    settings: Configured,
    database: Webhooks,
    owner: Owner,
    confirm: Confirm,
    record: Record,
) -> Response:
    """Have the events of the caller's owner sent to an address, and return the secret once."""
    _check_url(settings, spec.url)
    with database.write() as session:
        n_webhooks = store.lock_webhooks(session, owner)
        caller = confirm(session)
        if caller is not None:
            _check_scopes(caller.scopes, spec)
        if n_webhooks >= MAX_WEBHOOKS:
            detail = f"you have {n_webhooks} webhooks, the maximum; delete those you do not need"
            raise Problem("quota-exceeded", detail)
        row = WebhookRow(
            id=new_id("wh"), owner=owner, secret=new_secret(), **spec.model_dump(mode="json")
        )
        session.add(row)
        session.flush()
        path = f"/v1/webhooks/{row.id}"
        record(session, 201, path)
    return json_response(WebhookWithSecret.model_validate(row), status=201, Location=path)


@router.get(
    "/{webhook_id}", summary="Read a webhook", responses=problems("not-found", "invalid-request")
)
def get_webhook(webhook_id: WebhookId, database: Webhooks, owner: Owner) -> Webhook:
    """Return a webhook without its secret."""
    with database.read() as session:
        return Webhook.model_validate(_found(store.get(session, webhook_id, owner), webhook_id))


@router.delete(
    "/{webhook_id}",
    summary="Delete a webhook",
    status_code=204,
    responses=problems("not-found", "invalid-request"),
)
def delete_webhook(
    webhook_id: WebhookId, database: Webhooks, owner: Owner, record: Record
) -> Response:
    """Delete a webhook, its pending deliveries and its log."""
    with database.write() as session:
        _found(store.get(session, webhook_id, owner), webhook_id)
        store.delete(session, webhook_id)
        record(session, 204)
    return Response(status_code=204)


@router.post(
    "/{webhook_id}:test",
    summary="Test a webhook",
    status_code=202,
    response_model=Delivery,
    responses=problems("not-found", "invalid-request", "wrong-state"),
)
def test_webhook(
    webhook_id: WebhookId,
    settings: Configured,
    database: Webhooks,
    owner: Owner,
    record: Record,
) -> Response:
    """Send an event of the type `webhook.test`, once; the delivery at `Location` has the outcome.

    It follows earlier tests that are pending.
    """
    _require_hosts(settings)
    with database.write() as session:
        row = _found(store.get(session, webhook_id, owner, is_locked=True), webhook_id)
        delivery = Delivery.from_row(events.emit_test(session, row))
        record(session, 202)
    path = f"/v1/webhooks/{webhook_id}/deliveries/{delivery.id}"
    return json_response(delivery, status=202, Location=path)


@router.get(
    "/{webhook_id}/deliveries",
    summary="List the deliveries of a webhook",
    responses=problems("invalid-page-token", "not-found", "invalid-request"),
)
def list_deliveries(
    webhook_id: WebhookId,
    database: Webhooks,
    owner: Owner,
    query: Annotated[DeliveryQuery, Query()],
) -> Page[Delivery]:
    """List the events that were sent to a webhook, or will be, newest first."""
    after = query.after_number()
    with database.read() as session:
        _found(store.get(session, webhook_id, owner), webhook_id)
        rows = store.list_deliveries(
            session, webhook_id, state=query.state, after=after, limit=query.page_size + 1
        )
    return page([Delivery.from_row(row) for row in rows], query, key=lambda item: str(item.id))


@router.get(
    "/{webhook_id}/deliveries/{delivery_id}",
    summary="Read a delivery of a webhook",
    responses=problems("not-found", "invalid-request"),
)
def get_delivery(
    webhook_id: WebhookId,
    delivery_id: Annotated[int, Path(ge=1, lt=2**63, description="Id of the delivery.")],
    database: Webhooks,
    owner: Owner,
) -> Delivery:
    """Return the state of a delivery, and the outcome of its last attempt."""
    with database.read() as session:
        _found(store.get(session, webhook_id, owner), webhook_id)
        row = store.get_delivery(session, webhook_id, delivery_id)
        if row is None:
            raise Problem("not-found", f"webhook '{webhook_id}' has no delivery {delivery_id}")
        return Delivery.from_row(row)


def _require_hosts(settings: Settings) -> None:
    """Raise a problem if the operator allows no host."""
    if not settings.resolved_webhook_hosts():
        detail = (
            "this service sends no webhooks; the operator can allow hosts with "
            "SIBLING_WEBHOOK_HOSTS"
        )
        raise Problem("wrong-state", detail)


def _check_url(settings: Settings, url: str) -> None:
    """Raise a problem unless webhooks may be sent to the host of a URL."""
    _require_hosts(settings)
    try:
        Targets(settings).check(httpx.URL(url))
    except (Refused, httpx.InvalidURL, UnicodeError) as error:
        raise Problem(
            "invalid-request", str(error), errors=[entry_at("/url", str(error))]
        ) from None


def _check_scopes(granted: list[str], spec: WebhookSpec) -> None:
    """Raise a problem unless a key may read what the events are about."""
    for kind in spec.types or events.TYPES:
        needed = "jobs:read" if kind.startswith("job.") else "models:read"
        if not allows(granted, needed):
            detail = f"events of the type '{kind}' need the scope '{needed}', which the key lacks"
            raise Problem("forbidden", detail)


def _found(row: WebhookRow | None, webhook_id: str) -> WebhookRow:
    if row is None:
        raise Problem("not-found", f"there is no webhook '{webhook_id}'")
    return row
