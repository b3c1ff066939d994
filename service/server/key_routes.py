"""HTTP routes of API keys and quotas: those of the caller's owner, for operators of all owners."""

from datetime import timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field
from sqlalchemy.orm import Session

from service.access import store
from service.access.keys import Scope, allows, new_key
from service.access.quotas import use_of
from service.access.schemas import ApiKey, ApiKeyWithSecret, Quotas
from service.errors.patterns import TEXT_LINE
from service.errors.problems import Problem
from service.errors.validation import entry_at
from service.http.documentation import JSON_BODY, problems
from service.http.paging import Page, PageQuery, page
from service.http.responses import json_response
from service.http.routing import (
    Confirm,
    Owner,
    Record,
    Visible,
    WantedOwner,
    app_state,
    chosen_owner,
    secured,
)
from service.http.schemas import WireModel
from service.jobs.context import Context
from service.storage.database import Database, now
from service.storage.tables import KeyRow

router = APIRouter(prefix="/v1/keys", tags=["keys"], route_class=secured("keys:{}"))
quotas = APIRouter(prefix="/v1/quotas", tags=["keys"], route_class=secured("keys:{}"))

#: Active keys of one owner that requests can create.
MAX_ACTIVE_KEYS: Final = 100

Keys = Annotated[Database, app_state("database")]
KeyId = Annotated[str, Path(max_length=40, description="Id of the key.")]


class KeySpec(WireModel):
    """Specification of an API key."""

    name: str | None = Field(
        None, min_length=1, max_length=200, pattern=TEXT_LINE, description="Purpose of the key."
    )
    scopes: list[Scope] = Field(
        min_length=1, max_length=20, description="Scopes, all of which the caller's key must have."
    )
    owner: str | None = Field(
        None,
        min_length=1,
        max_length=200,
        pattern=TEXT_LINE,
        description="Owner of what the key makes; another one than the caller's own, the default, "
        "needs the scope `operator`.",
    )
    days: int | None = Field(
        None,
        ge=1,
        le=3650,
        description="Days until the key expires; default: never. It never expires later than the "
        "key that creates it.",
    )


class KeyQuery(PageQuery):
    """Query parameters of lists of keys and quotas."""

    owner: WantedOwner = None


@quotas.get("", summary="List quotas", responses=problems("invalid-page-token", "invalid-request"))
def list_quotas(
    services: Context, caller: Owner, visible: Visible, query: Annotated[KeyQuery, Query()]
) -> Page[Quotas]:
    """List what the caller's owner, or each owner, has and may have."""
    owner = chosen_owner(query.owner, caller, visible)
    with services.database.read() as session:
        after = query.after() or ""
        owners = (
            store.list_owners(session, after=after, limit=query.page_size + 1)
            if owner is None
            else [owner]
        )
        found = [Quotas(owner=o, **use_of(session, o, services.settings)) for o in owners]
    return page(found, query, key=lambda one: one.owner)


@router.get("", summary="List keys", responses=problems("invalid-page-token", "invalid-request"))
def list_keys(
    database: Keys, caller: Owner, visible: Visible, query: Annotated[KeyQuery, Query()]
) -> Page[ApiKey]:
    """List the keys of the caller's owner, newest first, without their secrets."""
    owner = chosen_owner(query.owner, caller, visible)
    with database.read() as session:
        rows = store.list_page(session, owner, after=query.after(), limit=query.page_size + 1)
        below = store.count_active_descendants(session)
    keys = [ApiKey.from_row(row, below.get(row.id, 0)) for row in rows]
    return page(keys, query, key=lambda key: key.id)


@router.post(
    "",
    summary="Create a key",
    status_code=201,
    response_model=ApiKeyWithSecret,
    responses=problems(*JSON_BODY, "wrong-state", "quota-exceeded"),
)
def create_key(
    spec: KeySpec,
    database: Keys,
    own: Owner,
    visible: Visible,
    *,
    confirm: Confirm,
    record: Record,
) -> Response:
    """Create a key for the caller's owner, or for another one. Only its hash is stored."""
    key, owner = new_key(), chosen_owner(spec.owner, own, visible)
    if owner is None:
        detail = f"a key has one owner, not '{spec.owner}'"
        raise Problem("invalid-request", detail, errors=[entry_at("/owner", detail)])
    with database.write() as session:
        store.lock_keys(session, owner)
        caller = confirm(session)
        if caller is None:
            detail = "this service needs no keys; set SIBLING_REQUIRE_KEYS to require them"
            raise Problem("wrong-state", detail)
        _check(session, spec, caller, owner)
        limits = [] if spec.days is None else [now() + timedelta(days=spec.days)]
        limits += [] if caller.expires_at is None else [caller.expires_at]
        row = store.create(
            session,
            key,
            owner=owner,
            name=spec.name,
            creator_id=caller.id,
            scopes=list(dict.fromkeys(spec.scopes)),
            expires_at=min(limits, default=None),
        )
        record(session, 201, f"/v1/keys/{key.id}")
        created = ApiKeyWithSecret.from_key(row, key)
    return json_response(created, status=201, Location=f"/v1/keys/{key.id}")


@router.get(
    "/{key_id}",
    summary="Read a key",
    responses=problems("not-found", "invalid-request"),
)
def get_key(key_id: KeyId, database: Keys, owner: Visible) -> ApiKey:
    """Return a key without its secret."""
    with database.read() as session:
        row = _find(session, key_id, owner)
        return ApiKey.from_row(row, store.count_active_descendants(session).get(key_id, 0))


@router.delete(
    "/{key_id}",
    summary="Revoke a key",
    status_code=204,
    responses=problems("not-found", "invalid-request"),
)
def revoke_key(
    key_id: KeyId,
    database: Keys,
    owner: Visible,
    confirm: Confirm,
    record: Record,
    *,
    descendants: Annotated[
        bool,
        Query(description="Whether to revoke also the keys that descend from it."),
    ] = False,
) -> Response:
    """Revoke a key and end its sessions; running services reject it within seconds.

    It cannot create another key any more.
    """
    with database.write() as session:
        confirm(session)
        store.lock_keys(session, _find(session, key_id, owner).owner)
        revoked = store.revoke(session, key_id, with_descendants=descendants)
        for revoked_id in dict.fromkeys([key_id, *revoked]):  # an audit event for each of them
            record(session, 204, f"/v1/keys/{revoked_id}")
    return Response(status_code=204)


def _check(session: Session, spec: KeySpec, caller: KeyRow, owner: str) -> None:
    """Raise a problem if a key of an owner may not be created by the caller's key."""
    if owner != caller.owner and "operator" not in caller.scopes:
        raise Problem("forbidden", "keys of other owners need the scope 'operator'")
    missing = [scope for scope in spec.scopes if not allows(caller.scopes, scope)]
    if missing:
        has = ", ".join(caller.scopes)
        detail = f"a key cannot give the scope '{missing[0]}', which it does not have; it has {has}"
        raise Problem("forbidden", detail)
    n_active = store.count_active(session, owner)
    if n_active >= MAX_ACTIVE_KEYS:
        detail = f"{owner} has {n_active} active keys, the maximum; revoke those no longer needed"
        raise Problem("quota-exceeded", detail)


def _find(session: Session, key_id: str, owner: str | None) -> KeyRow:
    row = store.get(session, key_id)
    if row is None or owner not in (None, row.owner):
        raise Problem("not-found", f"there is no key '{key_id}'")
    return row
