"""``sibling keys``: commands for operators, which use the database directly."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from algorithms.interface.errors import explain_unknown
from service.access.keys import SCOPES, new_key
from sibling.commands.app import noun
from sibling.commands.output import print_list, print_result

if TYPE_CHECKING:
    from service.storage.database import Database

keys = noun("Create, list and revoke API keys in the configured database.")

#: Scopes that a key has only if the command names them.
_OPERATOR_SCOPES: Final = (
    *("keys:read", "keys:write", "webhooks:read", "webhooks:write"),
    *("metrics:read", "audit:read", "admin", "operator"),
)
_DEFAULT_SCOPES: Final = ",".join(s for s in SCOPES if s not in _OPERATOR_SCOPES)


@keys.command()
def create(
    owner: Annotated[
        str, typer.Option(help="Owner of the datasets, jobs and models that the key creates.")
    ],
    scopes: Annotated[str, typer.Option(help="Scopes, separated by commas.")] = _DEFAULT_SCOPES,
    days: Annotated[
        int | None,
        typer.Option(min=1, max=3650, help="Days until the key expires. Default: never."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Purpose of the key, at most 200 characters.")
    ] = None,
) -> None:
    """Create a key and print it. Only its hash is stored, so it is never shown again."""
    from service.access import store
    from service.audit import store as audit
    from service.audit.events import command_event
    from service.storage.database import now

    requested = [scope.strip() for scope in scopes.split(",")]
    unknown = sorted(set(requested) - set(SCOPES))
    if unknown:
        raise ValueError(explain_unknown(unknown[0], SCOPES, what="scope"))
    if not 1 <= len(owner.strip()) <= 200:
        raise ValueError(f"expected an owner of 1 to 200 characters, got {len(owner.strip())}")
    if name is not None and not 1 <= len(name) <= 200:
        raise ValueError(f"expected a name of 1 to 200 characters, got {len(name)}")
    key = new_key()
    expires_at = None if days is None else now() + timedelta(days=days)
    with _database() as database, database.write() as session:
        store.create(
            session,
            key,
            owner=owner.strip(),
            name=name,
            scopes=requested,
            expires_at=expires_at,
        )
        audit.add(session, command_event("keys create", f"/v1/keys/{key.id}"))
    print_result(key.text(), id=key.id, key=key.text(), owner=owner.strip(), scopes=requested)


@keys.command(name="list")
def list_keys() -> None:
    """List the keys without their secrets."""
    from service.access import store

    about = ("id", "owner", "name", "creator_id", "scopes")
    columns = (*about, "created_at", "expires_at", "revoked_at")
    with _database() as database, database.read() as session:
        below = store.count_active_descendants(session)
        found = (
            {name: getattr(row, name) for name in columns}
            | {"n_active_descendants": below.get(row.id, 0)}
            for row in store.list_all(session)
        )
        print_list(found, *columns, "n_active_descendants")


@keys.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="Id of the key, as in sib_<id>_<secret>.")],
    *,
    descendants: Annotated[
        bool,
        typer.Option("--descendants", help="Also revoke the keys that it created, and theirs."),
    ] = False,
) -> None:
    """Revoke a key. Running services reject it within seconds."""
    from service.access import store
    from service.audit import store as audit
    from service.audit.events import command_event

    with _database() as database, database.write() as session:
        revoked = store.revoke(session, key_id, with_descendants=descendants)
        if not revoked:
            what = "active key among the descendants of" if descendants else "active key"
            raise ValueError(f"there is no {what} '{key_id}'")
        for one in revoked:
            audit.add(session, command_event("keys revoke", f"/v1/keys/{one}"))
    text = "\n".join(f"key {one} is revoked" for one in revoked)
    print_result(text, id=key_id, revoked=revoked)


@keys.command()
def quotas() -> None:
    """List the owners, with what they store and have."""
    from service.access import quotas as access_quotas
    from service.access import store
    from service.settings import Settings

    columns = ("n_active_keys", "n_unfinished_jobs", "datasets", "models", "stored_bytes")
    with _database() as database, database.read() as session:
        found = [
            {"owner": owner, **access_quotas.use_of(session, owner, Settings())}
            for owner in store.list_owners(session)
        ]
    print_list(found, "owner", *columns)


@contextmanager
def _database() -> "Iterator[Database]":
    from service.settings import Settings
    from service.storage.migration import open_database, reported_errors

    with (
        reported_errors("the database cannot be used"),
        closing(open_database(Settings())) as database,
    ):
        yield database
