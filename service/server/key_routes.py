"""HTTP routes of API keys: list, create and revoke the keys of the caller's owner.

Keys of other owners are made with the command ``sibling keys``.
"""

from datetime import timedelta
from typing import Annotated, Final

from fastapi import APIRouter, Path, Query, Response
from pydantic import Field
from sqlalchemy.orm import Session

from service.access import store
from service.access.keys import Scope, allows, new_key
from service.access.schemas import ApiKey, NewApiKey
from service.errors.patterns import TEXT_LINE
from service.errors.problems import Problem
from service.http.documentation import problems
from service.http.paging import Page, Paging, page
from service.http.responses import json_response
from service.http.routing import Confirm, Owner, Record, app_state, secured
from service.http.schemas import WireModel
from service.storage.database import Database, now
from service.storage.tables import KeyRow

router = APIRouter(prefix="/v1/keys", tags=["keys"], route_class=secured("keys:{}"))

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
    days: int | None = Field(
        None,
        ge=1,
        le=3650,
        description="Days until the key expires; default: never. It never expires later than the "
        "key that creates it.",
    )


@router.get("", summary="List keys", responses=problems("invalid-page-token", "invalid-request"))
def list_keys(database: Keys, owner: Owner, query: Paging) -> Page[ApiKey]:
    """List the keys of the caller's owner, newest first, without their secrets."""
    with database.read() as session:
        rows = store.list_page(session, owner, after=query.after(), limit=query.page_size + 1)
        below = store.count_active_descendants(session, owner)
    keys = [ApiKey.from_row(row, below.get(row.id, 0)) for row in rows]
    return page(keys, query, key=lambda key: key.id)


@router.post(
    "",
    summary="Create a key",
    status_code=201,
    response_model=NewApiKey,
    responses=problems(
        "malformed-json",
        "body-too-large",
        "unsupported-media-type",
        "invalid-request",
        "wrong-state",
        "quota-exceeded",
    ),
)
def create_key(
    spec: KeySpec, database: Keys, owner: Owner, confirm: Confirm, record: Record
) -> Response:
    """Create a key for the caller's owner. Only its hash is stored."""
    key = new_key()
    with database.write() as session:
        store.lock_keys(session, owner)
        caller = confirm(session)
        if caller is None:
            detail = "this service needs no keys; set SIBLING_REQUIRE_KEYS to require them"
            raise Problem("wrong-state", detail)
        _check(session, spec, caller)
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
        created = NewApiKey.from_key(row, key)
    return json_response(created, status=201, Location=f"/v1/keys/{key.id}")


@router.get(
    "/{key_id}",
    summary="Read a key",
    responses=problems("not-found", "invalid-request"),
)
def get_key(key_id: KeyId, database: Keys, owner: Owner) -> ApiKey:
    """Return a key without its secret."""
    with database.read() as session:
        row = _find(session, key_id, owner)
        return ApiKey.from_row(row, store.count_active_descendants(session, owner).get(key_id, 0))


@router.delete(
    "/{key_id}",
    summary="Revoke a key",
    status_code=204,
    responses=problems("not-found", "invalid-request"),
)
def revoke_key(
    key_id: KeyId,
    database: Keys,
    owner: Owner,
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
        store.lock_keys(session, owner)
        confirm(session)
        _find(session, key_id, owner)
        revoked = store.revoke(session, key_id, with_descendants=descendants)
        for revoked_id in dict.fromkeys([key_id, *revoked]):  # an audit event for each of them
            record(session, 204, f"/v1/keys/{revoked_id}")
    return Response(status_code=204)


def _check(session: Session, spec: KeySpec, caller: KeyRow) -> None:
    """Raise a problem if a key may not be created by the caller's key."""
    missing = [scope for scope in spec.scopes if not allows(caller.scopes, scope)]
    if missing:
        has = ", ".join(caller.scopes)
        detail = f"a key cannot give the scope '{missing[0]}', which it does not have; it has {has}"
        raise Problem("forbidden", detail)
    n_active = store.count_active(session, caller.owner)
    if n_active >= MAX_ACTIVE_KEYS:
        detail = f"you have {n_active} active keys, the maximum; revoke those you no longer need"
        raise Problem("quota-exceeded", detail)


def _find(session: Session, key_id: str, owner: str) -> KeyRow:
    row = store.get(session, key_id)
    if row is None or row.owner != owner:
        raise Problem("not-found", f"there is no key '{key_id}'")
    return row
