"""The audit log: changes, with owner, key and outcome."""

import csv
import io
import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote, urlencode

from service.audit.store import OUTCOMES
from service.ui import formats, tables
from service.ui.api import Api, in_utc
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.lists import (
    PAGE_SIZE,
    ListFilter,
    ListView,
    dates,
    list_view,
    titled,
)

#: What requests, commands and renewals do, also those that were refused, by their operation.
ACTIONS: Final = {
    "put_alias": "set an alias to a version",
    "delete_alias": "delete an alias",
    "bootstrap key": "make the first key",
    "create_key": "make a key",
    "keys create": "make a key by a command",
    "revoke_key": "revoke a key",
    "keys revoke": "revoke a key by a command",
    "upload_dataset": "upload data",
    "create_upload": "begin an upload in parts",
    "continue_upload": "upload a part",
    "delete_upload": "give up an upload in parts",
    "combine_datasets": "make a dataset of others",
    "delete_dataset": "delete a dataset",
    "submit_job": "start a job",
    "submit_inference": "start a job that predicts",
    "repeat_job": "start a job again",
    "finish_job": "end a job early, with what it has",
    "cancel_job": "cancel a job",
    "delete_job": "delete a job",
    "delete_output": "delete the outputs of a job",
    "delete_version": "delete a version",
    "v2_load": "load a model",
    "v2_unload": "unload a model",
    "put_monitor": "watch a model, or change how",
    "delete_monitor": "stop watching a model",
    "send_feedback": "send true values",
    "delete_monitored_rows": "delete rows of a watched model",
    "put_renewal": "set when a model is renewed",
    "delete_renewal": "stop renewing a model",
    "promote_challenger": "let the new version answer",
    "put_version_back": "let the version before answer again",
    "renewal.started": "renewal: train again",
    "renewal.failed": "renewal: training failed",
    "renewal.trial": "renewal: try a new version",
    "renewal.promoted": "renewal: let the new version answer",
    "renewal.put_back": "renewal: let the version before answer again",
    "renewal.ended": "renewal: keep the present version",
    "create_webhook": "make a webhook",
    "test_webhook": "test a webhook",
    "delete_webhook": "delete a webhook",
    "login": "sign in",
    "logout": "sign out",
    "migrate": "bring the database to a new schema",
    "restore": "restore a backup",
}
_TEXTS: Final = {
    "object": "Resource",
    "owner": "Owner",
    "key_id": "Key",
}
#: Paths in the API of a model, a version, an alias, and the renewal of an alias.
_MODEL: Final = re.compile(
    r"/v1/models/([^/]+)(?:/versions/([^/]+)|/aliases/([^/]+)(?:/renewal)?)?"
)
_FIRST_REFUSED: Final = 400
#: Events of an export; a longer one is made in parts, by dates.
MAX_EXPORTED: Final = 100_000
_COLUMNS: Final = (
    *("created_at", "operation", "status", "code", "object", "name"),
    *("owner", "key_id", "source", "request_id"),
)


def filters_of(query: Mapping[str, str]) -> dict[str, str]:
    """Return the parameters of the page that the API accepts too, without the others."""
    names = (*_TEXTS, "operation", "outcome", "since", "until", "page_token")
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
    columns = ("Time", "What", "Outcome", "Resource", "Owner", "Key", "Client")
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
            ListFilter("operation", "What", list(ACTIONS.items()), query.get("operation", "")),
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
    action = ACTIONS.get(event["operation"], event["operation"])
    return [
        tables.time(event["created_at"]),
        tables.text(action, note=event["reason"] or ""),
        tables.state(outcome, event["code"] or ""),
        _resource(event),
        tables.text(event["owner"]),
        tables.code(event["key_id"] or formats.NONE),
        tables.text(event["source"]),
    ]


def _resource(event: Mapping[str, Any]) -> Cell:
    """Return the name of a resource above its path, with an address that is there.

    Models may be deleted since, or never have been: their address is that of a search.
    """
    path, name = event["object"] or "", event["name"]
    model = _MODEL.fullmatch(path)
    if model is not None:
        model_name, version, alias = model.groups()
        name = f"{model_name}@{alias}" if alias else " / ".join(filter(None, (model_name, version)))
    href = None if model is None else f"/models?{urlencode({'text': unquote(model[1])})}"
    if model is None and not event["operation"].startswith("delete_"):
        href = _href(event)
    return tables.text(name or event["object"], href, note=path if name else "")


def _href(event: Mapping[str, Any]) -> str | None:
    """Return the address of the page, or of the list, of a resource that was not deleted."""
    above, _, ident = str(event["object"] or "").rpartition("/")
    collection = above.removeprefix("/v1/")
    if collection in ("datasets", "jobs") and event["name"]:
        return f"/{collection}/{ident}"
    return {"keys": "/keys", "webhooks": "/webhooks"}.get(collection)
