"""Models over HTTP: list, inspect, download, delete."""

from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import StreamingResponse

from algorithms.interface import relations
from service.context import Context, Services
from service.errors import Problem
from service.http import (
    Owner,
    Page,
    Paging,
    check_if_match,
    etag,
    is_not_modified,
    json_response,
    page,
    problems,
    secured,
)
from service.models import store
from service.models.picture import draw
from service.models.schemas import History, Model, Relations, Report

router = APIRouter(prefix="/v1/models", tags=["models"], route_class=secured("models:{}"))

Name = Annotated[str, Path(max_length=100, description="Name of a model.")]
Version = Annotated[int, Path(ge=1, lt=2**31, description="Number of a version.")]

_ARTIFACT_TYPE: Final = "application/vnd.sibling.model+safetensors"
_ONE: Final = {304: {"description": "Not modified."}, **problems("not-found", "invalid-request")}
_SVG: Final = "image/svg+xml"
_NO_RELATIONS: Final = ("not-found", "no-relations", "invalid-request")


@router.get("", responses=problems("invalid-page-token", "invalid-request"))
def list_models(services: Context, owner: Owner, query: Paging) -> Page[Model]:
    """List models by name, each by its latest version."""
    with services.database.read() as session:
        found = store.list_models(session, owner, after=query.after(), limit=query.page_size + 1)
    return page([Model.from_row(v) for v in found], query, key=lambda model: model.name)


@router.get(
    "/{name}/versions",
    responses=problems("invalid-page-token", "not-found", "invalid-request"),
)
def list_versions(name: Name, services: Context, owner: Owner, query: Paging) -> Page[Model]:
    """List the versions of a model, newest first."""
    below = _number(query.after())
    with services.database.read() as session:
        found = store.list_versions(session, owner, name, below=below, limit=query.page_size + 1)
    if not found and below is None:
        raise Problem("not-found", f"there is no model '{name}'")
    return page([Model.from_row(v) for v in found], query, key=lambda model: str(model.version))


@router.get("/{name}", response_model=Model, responses=_ONE)
def get_model(name: Name, request: Request, services: Context, owner: Owner) -> Response:
    """Give the latest version of a model."""
    return _answer(request, find_version(services, owner, name, None))


@router.get("/{name}/versions/{version}", response_model=Model, responses=_ONE)
def get_version(
    name: Name, version: Version, request: Request, services: Context, owner: Owner
) -> Response:
    """Give one version of a model."""
    return _answer(request, find_version(services, owner, name, version))


@router.get("/{name}/versions/{version}/history", response_model=History, responses=_ONE)
def get_history(
    name: Name, version: Version, request: Request, services: Context, owner: Owner
) -> Response:
    """Give how the fit went, step by step."""
    found = find_version(services, owner, name, version)
    tag = etag(found.row.id)
    if is_not_modified(request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    return json_response(History.model_validate(found.row.history), ETag=tag)


@router.get(
    "/{name}/versions/{version}/report",
    response_model=Report,
    responses={304: _ONE[304], **problems("not-found", "no-report", "invalid-request")},
)
def get_report(
    name: Name, version: Version, request: Request, services: Context, owner: Owner
) -> Response:
    """Give what was tried before the model was trained, and how it compares."""
    found = find_version(services, owner, name, version)
    tag = etag(found.row.id)
    if is_not_modified(request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    if found.row.report is None:
        how = "without search, comparison or evaluation"
        detail = f"version {found.row.version} of '{name}' was trained {how}"
        raise Problem("no-report", detail)
    return json_response(Report.model_validate(found.row.report), ETag=tag)


@router.get(
    "/{name}/versions/{version}/relations",
    response_model=Relations,
    responses={304: _ONE[304], **problems(*_NO_RELATIONS, "too-many-rows")},
)
def get_relations(
    name: Name, version: Version, request: Request, services: Context, owner: Owner
) -> Response:
    """Give how the tasks of a model are related, those that belong together side by side."""
    served, found = _relations(services, owner, name, version)
    tag = etag(served.id)
    if is_not_modified(request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    size, limit = found.strength.nbytes, services.settings.max_answer_bytes
    if size > limit:
        detail = (
            f"the strengths have {size} bytes, more than {limit}; draw them, or read the artifact"
        )
        raise Problem("too-many-rows", detail)
    return json_response(Relations.of(served, found), ETag=tag)


@router.get(
    "/{name}/versions/{version}/relations.svg",
    response_class=Response,
    responses={
        200: {"description": "A picture.", "content": {_SVG: {}}},
        304: _ONE[304],
        **problems(*_NO_RELATIONS),
    },
)
def get_relations_picture(
    name: Name, version: Version, request: Request, services: Context, owner: Owner
) -> Response:
    """Draw how the tasks of a model are related: blue for opposite, red for alike."""
    served, found = _relations(services, owner, name, version)
    tag = etag(served.id)
    if is_not_modified(request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    headers = {"ETag": tag, "Content-Security-Policy": "default-src 'none'"}
    return Response(draw(found), media_type=_SVG, headers=headers)


@router.get(
    "/{name}/versions/{version}/artifact",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Safetensors with a JSON header; readable without this service.",
            "content": {_ARTIFACT_TYPE: {}},
        },
        **_ONE,
    },
)
def get_artifact(
    name: Name, version: Version, request: Request, services: Context, owner: Owner
) -> Response:
    """Download a model as one file."""
    row = find_version(services, owner, name, version).row
    tag = etag(row.artifact_sha256)
    if is_not_modified(request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    headers = {
        "ETag": tag,
        "Content-Length": str(row.artifact_bytes),
        "Content-Disposition": f'attachment; filename="{name}-{version}.safetensors"',
    }
    chunks = services.blobs.chunks(row.artifact_blob_id)
    return StreamingResponse(chunks, media_type=_ARTIFACT_TYPE, headers=headers)


@router.delete(
    "/{name}/versions/{version}",
    status_code=204,
    responses=problems("not-found", "precondition-failed", "invalid-request"),
)
def delete_version(
    name: Name, version: Version, request: Request, services: Context, owner: Owner
) -> Response:
    """Delete one version of a model."""
    with services.database.write() as session:
        found = store.get_version(session, owner, name, version)
        if found is None:
            raise _no_model(name, version)
        check_if_match(request, etag(found.row.id))
        store.delete_version(session, found)
    return Response(status_code=204)


def find_version(
    services: Services, owner: str, name: str, version: int | None
) -> store.NamedVersion:
    """Give a version of a model, the latest by default, or the problem that there is none."""
    with services.database.read() as session:
        found = store.get_version(session, owner, name, version)
    if found is None:
        raise _no_model(name, version)
    return found


def _relations(
    services: Services, owner: str, name: str, version: int
) -> tuple[store.Served, relations.Relations]:
    served = services.lookup.find(owner, name, version)
    found = services.models.get(served).relations()
    if found is None:
        detail = f"version {version} of '{name}' ({served.algorithm}) learned no relations of tasks"
        raise Problem("no-relations", detail)
    return served, found


def _answer(request: Request, version: store.NamedVersion) -> Response:
    # not of the artifact: two versions may have the same bytes
    tag = etag(version.row.id)
    if is_not_modified(request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    return json_response(Model.from_row(version), ETag=tag)


def _number(token: str | None) -> int | None:
    if token is None:
        return None
    if not token.isdecimal() or int(token) >= 2**31:
        raise Problem("invalid-page-token", "the page token is not one of this collection")
    return int(token)


def _no_model(name: str, version: int | None) -> Problem:
    suffix = "" if version is None else f" with version {version}"
    return Problem("not-found", f"there is no model '{name}'{suffix}")
