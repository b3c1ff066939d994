"""HTTP routes of models and versions: list, inspect, delete."""

import re
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

import sibling
from service.errors.problems import Problem
from service.http.documentation import problems
from service.http.paging import ORDER_HELP, Page, Paging, SearchQuery, page, page_of_rows
from service.http.preconditions import check_if_match, etag, is_not_modified
from service.http.responses import json_response
from service.http.routing import Owner, Record, secured
from service.models import alias_store, store
from service.models.context import Context, ModelServices
from service.models.messages import unknown_model
from service.models.schemas import Model

router = APIRouter(prefix="/v1/models", tags=["models"], route_class=secured("models:{}"))

Name = Annotated[str, Path(max_length=200, description="Model name, or NAME@ALIAS.")]
Version = Annotated[int, Path(ge=1, lt=2**31, description="Version number.")]


ModelOrder = Literal["name", "-name", "created_at", "-created_at", "algorithm", "-algorithm"]


class ModelQuery(SearchQuery):
    """Query parameters of the list of models."""

    algorithm: str | None = Field(
        None, max_length=64, description="Only models whose latest version has this algorithm."
    )
    dataset_id: str | None = Field(
        None,
        max_length=40,
        description="Only models whose latest version was trained on this dataset.",
    )
    order_by: ModelOrder = Field("name", description=ORDER_HELP)


_ONE: Final = {304: {"description": "Not modified."}, **problems("not-found", "invalid-request")}


@router.get("", summary="List models", responses=problems("invalid-page-token", "invalid-request"))
def list_models(
    services: Context, owner: Owner, query: Annotated[ModelQuery, Query()]
) -> Page[Model]:
    """List the latest version of each model, by default in the order of their names."""
    with query.checked(), services.database.read() as session:
        versions, found = store.list_models(
            session,
            owner,
            query.wanted(query.order_by),
            algorithm=query.algorithm,
            dataset_id=query.dataset_id,
            text=query.text,
            since=query.since,
            until=query.until,
        )
    return page_of_rows([Model.from_row(version) for version in versions], found)


@router.get(
    "/{name}/versions",
    summary="List the versions of a model",
    responses=problems("invalid-page-token", "not-found", "invalid-request"),
)
def list_versions(name: Name, services: Context, owner: Owner, query: Paging) -> Page[Model]:
    """List the versions of a model, newest first."""
    below = _number(query.after())
    with services.database.read() as session:
        versions = store.list_versions(session, owner, name, below=below, limit=query.page_size + 1)
    if not versions and below is None:
        raise Problem("not-found", unknown_model(name))
    return page([Model.from_row(v) for v in versions], query, key=lambda model: str(model.version))


@router.get("/{name}", summary="Read a model", response_model=Model, responses=_ONE)
def get_model(name: Name, request: Request, services: Context, owner: Owner) -> Response:
    """Return the latest version of a model, or the version that an alias points to."""
    return _answer(request, find_version(services, owner, name, None))


@router.get(
    "/{name}/versions/{version}", summary="Read a version", response_model=Model, responses=_ONE
)
def get_version(
    name: Name, version: Version, request: Request, services: Context, owner: Owner
) -> Response:
    """Return one version of a model."""
    return _answer(request, find_version(services, owner, name, version))


@router.delete(
    "/{name}/versions/{version}",
    summary="Delete a version",
    status_code=204,
    responses=problems("not-found", "in-use", "precondition-failed", "invalid-request"),
)
def delete_version(
    name: Name,
    version: Version,
    request: Request,
    *,
    services: Context,
    owner: Owner,
    record: Record,
) -> Response:
    """Delete a version that no alias, unfinished job or other model uses."""
    with services.database.write() as session:
        alias_store.lock_model(session, owner, name.partition(store.ALIAS_SEPARATOR)[0])
        model = store.get_version(session, owner, name, version)
        if model is None:
            raise Problem("not-found", unknown_model(name, version))
        check_if_match(request, _tag(model))
        if model.aliases:
            aliases = " and ".join(f"'{alias}'" for alias in model.aliases)
            detail = (
                f"version {version} of '{name}' has the alias {aliases}; move or delete it first"
            )
            raise Problem("in-use", detail)
        needed = store.needed_by(session, model.row)
        if needed:
            detail = f"version {version} of '{name}' is used by {'; '.join(needed)}"
            raise Problem("in-use", detail)
        store.delete_version(session, model)
        record(session, 204)
    services.resolver.wait_for_replicas()
    return Response(status_code=204)


def find_version(
    services: ModelServices, owner: str, name: str, version: int | None
) -> store.NamedVersion:
    """Return a version as `store.get_version` does, or raise a not-found problem."""
    with services.database.read() as session:
        model = store.get_version(session, owner, name, version)
    if model is None:
        raise Problem("not-found", unknown_model(name, version))
    return model


def version_tag(version_id: str, *parts: str) -> str:
    """Return the ETag of a part of a version, as this release of the software shows it."""
    return etag(".".join((version_id, sibling.__version__, *parts)))


def _answer(request: Request, version: store.NamedVersion) -> Response:
    tag = _tag(version)
    if is_not_modified(request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    return json_response(Model.from_row(version), ETag=tag)


def _tag(version: store.NamedVersion) -> str:
    is_challenger = ("@challenger",) if version.row.is_challenger else ()
    return version_tag(version.row.id, "model", *version.aliases, *is_challenger)


def _number(token: str | None) -> int | None:
    if token is None:
        return None
    if not re.fullmatch(r"[0-9]{1,10}", token) or int(token) >= 2**31:
        raise Problem("invalid-page-token", "the page token is not valid for this collection")
    return int(token)
