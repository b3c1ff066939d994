"""The audit log: changes, with owner, key and outcome."""

from collections.abc import Mapping
from typing import Any, Final

from service.ui import formats, tables
from service.ui.api import Api
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.lists import PAGE_SIZE, ListFilter, ListView, list_view

_FILTERS: Final = {
    "operation": "Operation",
    "object": "Resource",
    "owner": "Owner",
    "key_id": "Key",
}
#: Collections whose resources have pages.
_PAGES: Final = ("datasets", "jobs", "models")
_FIRST_REFUSED: Final = 400


async def audit_view(api: Api, query: Mapping[str, str]) -> ListView:
    """Return a page of the audit log."""
    filters = {name: query[name] for name in (*_FILTERS, "page_token") if query.get(name)}
    page = await api.get("/v1/audit", page_size=PAGE_SIZE, **filters)
    columns = ("Time", "Operation", "Outcome", "Resource", "Owner", "Key", "From")
    rows = [TableRow(event["id"], _cells(event)) for event in page["items"]]
    empty = "No event matches." if filters else "Nothing has been changed yet."
    return list_view(
        "/audit",
        "Audit log",
        "Requests and commands of all owners that changed something, or were refused.",
        Table("Audit events, newest first", columns, rows, empty),
        query=filters,
        token=page["next_page_token"],
        choices=[
            ListFilter(name, label, (), query.get(name, "")) for name, label in _FILTERS.items()
        ],
        has_text=False,
    )


def _cells(event: Mapping[str, Any]) -> list[Cell]:
    status = event["status"]
    outcome = "no response" if status is None else "done"
    if status is not None and status >= _FIRST_REFUSED:
        outcome = "refused"
    elif status is None and event["request_id"] is None:
        outcome = "done"  # a command
    return [
        tables.time(event["created_at"]),
        tables.text(event["operation"].replace("_", " ")),
        tables.state(outcome, event["code"] or ""),
        tables.text(event["object"], _href(event)),
        tables.text(event["owner"]),
        tables.code(event["key_id"] or formats.NONE),
        tables.text(event["source"]),
    ]


def _href(event: Mapping[str, Any]) -> str | None:
    """Return the address of the page of a resource, if it has one and was not deleted."""
    parts = (event["object"] or "").split("/")
    if event["operation"].startswith("delete"):
        return None
    if len(parts) == 4 and parts[1] == "v1" and parts[2] in _PAGES:
        return "/" + "/".join(parts[2:])
    return None
