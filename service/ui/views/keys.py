"""API keys, quotas and their use, and the form for a new key."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from service.access.keys import MEANINGS, PRESETS, allows
from service.ui import formats, tables
from service.ui.api import Api
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.lists import PAGE_SIZE, ListFilter, owner_filter

#: Days until a key expires that the form offers.
DAYS: Final = (30, 90, 365)
#: Owners whose quotas are shown.
MAX_OWNERS: Final = 200


@dataclass(frozen=True, slots=True)
class OwnerFilter:
    """The filter by owner; without choices for those who may not see others."""

    choices: Sequence[ListFilter]
    is_filtered: bool
    has_text: bool = False
    text: str = ""
    order_by: str = ""


@dataclass(frozen=True, slots=True)
class KeysView:
    """API keys.

    Parameters
    ----------
    scopes
        Scopes that a new key can have, with their meanings; none if the caller cannot create keys.
    presets
        Purposes whose scopes a new key can all have.
    quotas
        What the owners of the list have, and may have.
    owner
        Owner whose keys are listed, if the caller may see others and has chosen one.
    """

    table: Table
    quotas: Table
    filters: OwnerFilter
    owner: str
    scopes: Mapping[str, str]
    presets: Mapping[str, Sequence[str]]
    days: Sequence[int]
    previous_href: str | None
    next_href: str | None
    first_href: str
    is_first: bool


async def keys_view(api: Api, query: Mapping[str, str], scopes: Sequence[str]) -> KeysView:
    """Return a page of keys.

    Parameters
    ----------
    scopes
        Scopes of the caller.
    """
    token, owner = query.get("page_token"), query.get("owner", "")
    page = await api.get("/v1/keys", page_size=PAGE_SIZE, page_token=token, owner=owner)
    quotas = await api.items("/v1/quotas", limit=MAX_OWNERS, owner=owner)
    granted = list(scopes)
    may_write = allows(granted, "keys:write")
    offered: dict[str, str] = {
        scope: text for scope, text in MEANINGS.items() if may_write and allows(granted, scope)
    }
    rows = [TableRow(key["id"], _cells(key, may_write=may_write)) for key in page["items"]]
    titles = ("Name", "Owner", "Key", "State", "Scopes", "Created", "Created by", "Expires")
    columns = (*titles, "", "") if may_write else titles
    following = page["next_page_token"]
    return KeysView(
        table=Table("API keys, newest first", columns, rows, "There is no key."),
        quotas=_quota_table(quotas),
        filters=OwnerFilter(await owner_filter(api, query, scopes), bool(owner)),
        owner=owner,
        scopes=offered,
        presets={name: of for name, of in PRESETS.items() if offered.keys() >= set(of)},
        days=DAYS,
        previous_href=None,  # keys are few
        first_href=f"/keys?{urlencode({'owner': owner})}" if owner else "/keys",
        next_href=None
        if following is None
        else f"/keys?{urlencode({'page_token': following, 'owner': owner})}",
        is_first=not token,
    )


def _quota_table(items: Sequence[Mapping[str, Any]]) -> Table:
    titles = ("Owner", "Active keys", "Unfinished jobs", "Datasets", "Model versions", "Stored")
    rows = [
        TableRow(
            f"quotas-{one['owner']}",
            [
                tables.text(one["owner"]),
                tables.number(one["n_active_keys"]),
                tables.number(one["n_unfinished_jobs"]),
                _used(one["datasets"], formats.number),
                _used(one["models"], formats.number),
                _used(one["stored_bytes"], formats.size),
            ],
        )
        for one in items
    ]
    return Table("Quotas and their use", titles, rows)


def _used(quota: Mapping[str, int | None], form: Callable[[Any], str]) -> Cell:
    """Return how much of a quota is used, as a bar where there is a limit."""
    used, maximum = quota["used"] or 0, quota["maximum"]
    if maximum is None:
        return tables.quantity(form(used))
    return tables.meter(min(used / maximum, 1.0), f"{form(used)} of {form(maximum)}")


def _cells(key: Mapping[str, Any], *, may_write: bool) -> list[Cell]:
    state = "active" if key["is_active"] else "revoked" if key["revoked_at"] else "expired"
    cells = [
        tables.text(key["name"] or "no name"),
        tables.text(key["owner"]),
        tables.code(_shown(key["id"])),
        tables.state(state),
        tables.text(key["scopes"]),
        tables.time(key["created_at"]),
        tables.code(_shown(key["creator_id"]))
        if key["creator_id"]
        else tables.text("the operator"),
        tables.time(key["expires_at"]) if key["expires_at"] else tables.text("never"),
    ]
    if not may_write:
        return cells
    question = f"Revoke the key {key['name'] or key['id']}? Programs with it are refused."
    path = f"/v1/keys/{key['id']}"
    revoke = tables.action("Revoke", "DELETE", path, question, label=f"Revoke {key['id']}")
    n_below, nothing = key["n_active_descendants"], Cell("")
    question = f"Revoke the key {key['name'] or key['id']}, and all that it has created?"
    label = f"Revoke {key['id']} and its descendants"
    text, path = f"Revoke with {formats.count(n_below, 'descendant')}", f"{path}?descendants=true"
    revoke_all = tables.action(text, "DELETE", path, question, label=label)
    return [*cells, revoke if key["is_active"] else nothing, revoke_all if n_below else nothing]


def _shown(key_id: str) -> str:
    """Return a key without its secret."""
    return f"sib_{key_id}_…"
