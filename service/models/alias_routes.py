"""HTTP routes of aliases: names such as production that point to a model version."""

import re
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from service.errors.patterns import ALIAS
from service.errors.problems import Problem
from service.errors.validation import entry_at
from service.http.documentation import JSON_BODY, problems
from service.http.paging import Page, Paging, page
from service.http.preconditions import check_if_match, check_overwrite, etag, is_not_modified
from service.http.responses import json_response
from service.http.routing import Confirm, Owner, Record, secured
from service.models import alias_store, store
from service.models.alias_store import NamedAlias
from service.models.context import Context, ModelServices
from service.models.messages import unknown_model
from service.models.routes import Name, find_version
from service.models.schemas import Alias, AliasSpec
from service.observability.logs import log

router = APIRouter(
    prefix="/v1/models/{name}/aliases", tags=["models"], route_class=secured("models:{}")
)


def _not_reserved(alias: str) -> str:
    """Reject aliases that look like a version number, and `latest`."""
    if re.fullmatch(r"[vV][0-9]+|latest", alias):
        detail = f"'{alias}' is reserved for versions; choose a name such as 'production'"
        raise PydanticCustomError("reserved", "{detail}", {"detail": detail})
    return alias


AliasName = Annotated[
    str,
    Path(
        pattern=ALIAS,
        description="Alias: a letter, then letters, digits, _ and -; not v1, v2, ... or latest.",
    ),
    AfterValidator(_not_reserved),
]


@router.get(
    "",
    summary="List the aliases of a model",
    responses=problems("invalid-page-token", "not-found", "invalid-request"),
)
def list_aliases(name: Name, services: Context, owner: Owner, query: Paging) -> Page[Alias]:
    """List the aliases of a model in alphabetical order."""
    model = _model(services, owner, name)
    with services.database.read() as session:
        aliases = alias_store.list_aliases(
            session, owner, model, after=query.after(), limit=query.page_size + 1
        )
    return page([Alias.from_row(model, a) for a in aliases], query, key=lambda item: item.alias)


@router.get(
    "/{alias}",
    summary="Read an alias",
    response_model=Alias,
    responses={
        304: {"description": "Not modified."},
        **problems("not-found", "invalid-request"),
    },
)
def get_alias(
    name: Name, alias: AliasName, request: Request, services: Context, owner: Owner
) -> Response:
    """Return the version that an alias points to."""
    name = _model(services, owner, name)
    with services.database.read() as session:
        stored = found_alias(alias_store.get_alias(session, owner, name, alias), name, alias)
    if is_not_modified(request, _tag(stored)):
        return Response(status_code=304, headers={"ETag": _tag(stored)})
    return json_response(Alias.from_row(name, stored), ETag=_tag(stored))


@router.put(
    "/{alias}",
    summary="Create or move an alias",
    response_model=Alias,
    responses={
        200: {"description": "The alias existed and points to this version now."},
        201: {"model": Alias, "description": "The alias was created."},
        **problems(*JSON_BODY, "not-found", "precondition-failed", "precondition-required"),
    },
)
def put_alias(
    name: Name,
    alias: AliasName,
    spec: AliasSpec,
    request: Request,
    *,
    services: Context,
    owner: Owner,
    confirm: Confirm,
    record: Record,
) -> Response:
    """Point an alias at a version. Moving an existing alias requires `If-Match`."""
    name = _model(services, owner, name)
    with services.database.write() as session:
        confirm(session)
        alias_store.lock_model(session, owner, name)
        version = store.get_version(session, owner, name, spec.version)
        if version is None:
            detail = unknown_model(name, spec.version)
            raise Problem("not-found", detail, errors=[entry_at("/version", detail)])
        before = alias_store.get_alias(session, owner, name, alias)
        check_overwrite(request, None if before is None else _tag(before))
        alias_store.move(session, version.row, alias)
        stored = found_alias(alias_store.get_alias(session, owner, name, alias), name, alias)
        status = 201 if before is None else 200
        record(session, status)
    services.resolver.wait_for_replicas()
    log.info("alias.moved", model_id=stored.row.model_id, alias=alias, version=stored.version)
    headers = {"ETag": _tag(stored)}
    if before is None:
        headers["Location"] = f"/v1/models/{name}/aliases/{alias}"
    return json_response(Alias.from_row(name, stored), status=status, **headers)


@router.delete(
    "/{alias}",
    summary="Delete an alias",
    status_code=204,
    responses=problems("not-found", "precondition-failed", "invalid-request"),
)
def delete_alias(
    name: Name,
    alias: AliasName,
    request: Request,
    *,
    services: Context,
    owner: Owner,
    confirm: Confirm,
    record: Record,
) -> Response:
    """Delete an alias, but not the version that it points to."""
    name = _model(services, owner, name)
    with services.database.write() as session:
        confirm(session)
        alias_store.lock_model(session, owner, name)
        stored = found_alias(alias_store.get_alias(session, owner, name, alias), name, alias)
        check_if_match(request, _tag(stored))
        alias_store.delete(session, stored.row)
        record(session, 204)
    services.resolver.wait_for_replicas()
    return Response(status_code=204)


def _model(services: ModelServices, owner: str, name: str) -> str:
    """Return the name of the model, which in a path may be followed by an alias of a version."""
    return find_version(services, owner, name, None).name


def _tag(stored: NamedAlias) -> str:
    return etag(stored.row.move_id)


def found_alias(stored: NamedAlias | None, name: str, alias: str) -> NamedAlias:
    """Return an alias of a model, or raise a not-found problem if there is none."""
    if stored is None:
        raise Problem("not-found", f"model '{name}' has no alias '{alias}'")
    return stored
