"""Webhooks of the owner, and their deliveries."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from service.ui import tables
from service.ui.api import Api, segment
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.lists import PAGE_SIZE, ListFilter, ListView, list_view, titled
from service.webhooks.events import TYPES
from service.webhooks.store import DeliveryState


@dataclass(frozen=True, slots=True)
class WebhooksView:
    """Webhooks, which are few.

    Parameters
    ----------
    is_on
        Whether the operator allows webhooks.
    types
        Types of events that a new webhook can have.
    """

    table: Table
    is_on: bool
    types: Sequence[str]


async def webhooks_view(api: Api, *, is_on: bool) -> WebhooksView:
    """Return the list of webhooks."""
    items = (await api.get("/v1/webhooks", page_size=PAGE_SIZE))["items"]
    rows = [TableRow(item["id"], _cells(item)) for item in items]
    columns = ("Address", "For", "Events", "Created")
    table = Table("Webhooks, newest first", columns, rows, "There is no webhook.")
    return WebhooksView(table, is_on, TYPES)


async def deliveries_view(api: Api, webhook_id: str, query: Mapping[str, str]) -> ListView:
    """Return a page of the deliveries of a webhook."""
    path = f"/v1/webhooks/{segment(webhook_id)}"
    webhook = await api.get(path)
    filters = {name: query[name] for name in ("state", "page_token") if query.get(name)}
    page = await api.get(f"{path}/deliveries", page_size=PAGE_SIZE, **filters)
    rows = [TableRow(str(item["id"]), _delivery_cells(item)) for item in page["items"]]
    columns = ("Event", "About", "State", "Attempts", "Status", "Time", "Last attempt")
    empty = "No delivery matches." if filters else "No event has been sent yet."
    states = titled(get_args(DeliveryState))
    return list_view(
        f"/webhooks/{segment(webhook_id)}",
        f"Webhook {webhook['name'] or webhook_id}",
        f"Events that were sent to {webhook['url']}, or will be.",
        Table("Deliveries, newest first", columns, rows, empty),
        query=filters,
        page=page,
        noun="delivery",
        choices=[ListFilter("state", "State", states, filters.get("state", ""))],
        has_text=False,
    )


def _cells(webhook: Mapping[str, Any]) -> list[Cell]:
    return [
        tables.text(webhook["url"], f"/webhooks/{webhook['id']}", note=webhook["id"]),
        tables.text(webhook["name"]),
        tables.text(webhook["types"] or "all"),
        tables.time(webhook["created_at"]),
    ]


def _delivery_cells(delivery: Mapping[str, Any]) -> list[Cell]:
    note = delivery["error"] or ""
    return [
        tables.text(delivery["type"], note=delivery["event_id"]),
        tables.text(delivery["subject"]),
        tables.state(delivery["state"], note),
        tables.number(delivery["n_attempts"]),
        tables.number(delivery["status"]),
        tables.time(delivery["created_at"]),
        tables.time(delivery["attempted_at"]),
    ]
