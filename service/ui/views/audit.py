"""The audit log: changes, with owner, key and outcome."""

import csv
import io
from collections.abc import Mapping
from typing import Any, Final

from service.audit.store import OUTCOMES
from service.ui import formats, tables
from service.ui.api import Api
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.lists import (
    PAGE_SIZE,
    ListFilter,
    ListView,
    dates,
    in_utc,
    list_view,
    titled,
)

_TEXTS: Final = {
    "operation": "Operation",
    "object": "Resource",
    "owner": "Owner",
    "key_id": "Key",
}
#: Collections whose resources have pages.
_PAGES: Final = ("datasets", "jobs", "models")
_FIRST_REFUSED: Final = 400
#: Events of an export; a longer one is made in parts, by dates.
MAX_EXPORTED: Final = 100_000
_COLUMNS: Final = (
    *("created_at", "operation", "status", "code", "object", "name"),
    *("owner", "key_id", "source", "request_id"),
)


def filters_of(query: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of the page that the API accepts too, without the others."""
    names = (*_TEXTS, "outcome", "since", "until", "page_token")
    return {name: query[name] for name in names if query.get(name)}


async def audit_csv(api: Api, query: Mapping[str, str]) -> str:
    """Return the events that the filters of the page select, as CSV, newest first."""
    filters = {k: v for k, v in in_utc(filters_of(query)).items() if k != "page_token"}
    events = await api.items("/v1/audit", limit=MAX_EXPORTED, **filters)
    text = io.StringIO()
    writer = csv.DictWriter(text, _COLUMNS, extrasaction="ignore", lineterminator="\r\n")
    writer.writeheader()
    for event in events[:MAX_EXPORTED]:
        writer.writerow({name: _harmless(event[name]) for name in _COLUMNS})
    return text.getvalue()


def _harmless(value: Any) -> Any:
    """Return a value that spreadsheets do not compute."""
    return f"'{value}" if isinstance(value, str) and value.startswith(tuple("=+-@\t\r")) else value


async def audit_view(api: Api, query: Mapping[str, str]) -> ListView:
    """Return a page of the audit log."""
    filters = filters_of(query)
    page = await api.get("/v1/audit", page_size=PAGE_SIZE, **in_utc(filters))
    columns = ("Time", "Operation", "Outcome", "Resource", "Owner", "Key", "Client")
    rows = [TableRow(event["id"], _cells(event)) for event in page["items"]]
    empty = "No event matches." if filters else "Nothing has been changed yet."
    return list_view(
        "/audit",
        "Audit log",
        "Requests and commands of all owners that changed something, or were refused.",
        Table("Audit events, newest first", columns, rows, empty),
        query=filters,
        page=page,
        noun="event",
        choices=[
            *(ListFilter(name, label, (), query.get(name, "")) for name, label in _TEXTS.items()),
            ListFilter("outcome", "Outcome", titled(OUTCOMES), query.get("outcome", "")),
            *dates(filters),
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
        tables.text(event["name"] or event["object"], _href(event), note=_path(event)),
        tables.text(event["owner"]),
        tables.code(event["key_id"] or formats.NONE),
        tables.text(event["source"]),
    ]


def _path(event: Mapping[str, Any]) -> str:
    """Return the path of a resource that is shown by its name."""
    return str(event["object"]) if event["name"] else ""


def _href(event: Mapping[str, Any]) -> str | None:
    """Return the address of the page of a resource, if it has one and was not deleted."""
    parts = (event["object"] or "").split("/")
    if event["operation"].startswith("delete"):
        return None
    if len(parts) == 4 and parts[1] == "v1" and parts[2] in _PAGES:
        return "/" + "/".join(parts[2:])
    return None
