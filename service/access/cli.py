"""``sibling keys``: for whoever runs the service; it works on the database itself."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Console
from rich.table import Table

from service.access.keys import SCOPES, new_key

if TYPE_CHECKING:
    from service.database import Database

keys = typer.Typer(help="Make, list and revoke API keys (on the database that is set).")

_DEFAULT_SCOPES: Final = ",".join(s for s in SCOPES if s not in ("metrics:read", "admin"))
_out = Console(highlight=False, soft_wrap=True)


@keys.command()
def create(
    owner: Annotated[str, typer.Option(help="To whom everything belongs that the key makes.")],
    scopes: Annotated[str, typer.Option(help="Comma-separated.")] = _DEFAULT_SCOPES,
    days: Annotated[
        int | None, typer.Option(min=1, max=3650, help="Valid for so long; for ever if left out.")
    ] = None,
) -> None:
    """Make a key and show it: this once, for only a hash of it is kept."""
    from service.access import store
    from service.database import now

    wanted = [scope.strip() for scope in scopes.split(",")]
    unknown = sorted(set(wanted) - set(SCOPES))
    if unknown:
        raise ValueError(f"unknown scope '{unknown[0]}'; there are {', '.join(SCOPES)}")
    if not 1 <= len(owner.strip()) <= 200:
        raise ValueError("the owner needs a name of 1 to 200 characters")
    key = new_key()
    expires_at = None if days is None else now() + timedelta(days=days)
    with _database() as database, database.write() as session:
        store.create(session, key, owner=owner.strip(), scopes=wanted, expires_at=expires_at)
    _out.print(key.text())


@keys.command(name="list")
def list_keys() -> None:
    """List the keys, without their secrets."""
    from service.access import store

    table = Table("id", "owner", "scopes", "created", "expires", "revoked", box=None)
    with _database() as database, database.read() as session:
        for row in store.list_all(session):
            times = (row.created_at, row.expires_at, row.revoked_at)
            shown = ("" if t is None else t.isoformat(timespec="seconds") for t in times)
            table.add_row(row.id, row.owner, ", ".join(row.scopes), *shown)
    _out.print(table)


@keys.command()
def revoke(key_id: Annotated[str, typer.Argument(help="The id: sib_<id>_<secret>.")]) -> None:
    """End a key; services stop taking it within seconds."""
    from service.access import store

    with _database() as database, database.write() as session:
        if not store.revoke(session, key_id):
            raise ValueError(f"there is no key '{key_id}' that could be revoked")
    _out.print(f"key {key_id} is revoked")


@contextmanager
def _database() -> "Iterator[Database]":
    from service.app import open_database
    from service.settings import Settings

    database = open_database(Settings())
    try:
        yield database
    finally:
        database.close()
