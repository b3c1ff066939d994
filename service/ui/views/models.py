"""One model: its versions and aliases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.ui import formats, tables
from service.ui.api import Api, segment
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.lists import MODEL_COLUMNS, model_href, model_rows


@dataclass(frozen=True, slots=True)
class ModelView:
    """A model with its versions."""

    name: str
    sentence: str
    versions: Table
    aliases: Table
    next_href: str | None
    watch_href: str


def watch_href(name: str, aliases: Sequence[str], version: int | None) -> str:
    """Return where a version is watched, by its first alias; else by one that is set there."""
    alias = "production" if "production" in aliases or not aliases else aliases[0]
    query = "" if version is None else f"?version={version}"
    return f"{model_href(name)}/aliases/{alias}/monitor{query}"


async def model_view(api: Api, name: str, token: str | None) -> ModelView:
    """Return the view of a model."""
    path = f"/v1/models/{segment(name)}"
    page = await api.get(f"{path}/versions", page_token=token)
    aliases = (await api.get(f"{path}/aliases", page_size=200))["items"]
    names = [alias["alias"] for alias in aliases]
    latest = None if names else (await api.find(path) or {}).get("version")
    following = page["next_page_token"]
    return ModelView(
        name=name,
        sentence=_sentence(page["items"], has_more=following is not None or token is not None),
        versions=Table(f"Versions of {name}", MODEL_COLUMNS, model_rows(page["items"])),
        aliases=Table(
            "Aliases",
            ("Alias", "Version", "Moved", "In use"),
            [TableRow(f"alias-{alias['alias']}", _alias_cells(name, alias)) for alias in aliases],
            "No alias points to a version yet. “Is it still right?” sets production; so do the "
            "Details of a version.",
        ),
        next_href=None if following is None else f"{model_href(name)}?page_token={following}",
        watch_href=watch_href(name, names, latest),
    )


def _alias_cells(name: str, alias: Mapping[str, Any]) -> list[Cell]:
    version = alias["version"]
    return [
        tables.text(alias["alias"], note=f"{name}@{alias['alias']}"),
        Cell(formats.number(version), "number", model_href(name, version)),
        tables.time(alias["moved_at"]),
        tables.text("Is it still right?", f"{model_href(name)}/aliases/{alias['alias']}/monitor"),
    ]


def _sentence(versions: Sequence[Mapping[str, Any]], *, has_more: bool) -> str:
    """Return a sentence on the number of versions and on the newest version."""
    if has_more:
        return f"{formats.count(len(versions), 'version')} on this page, newest first."
    newest = versions[0]
    trained = f"trained {formats.ago(newest['created_at'])} by {newest['algorithm']}"
    return f"{formats.count(len(versions), 'version')}; the newest was {trained}."
