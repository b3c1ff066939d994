"""Parts of models over HTTP: of the latest version, of one that an alias names, or of a number."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from algorithms.interface import relations
from service.context import Context, Services
from service.errors import Problem
from service.http import Owner, etag, is_not_modified, json_response, problems, secured
from service.models.relations_svg import draw
from service.models.routes import Name, Version, find_version
from service.models.schemas import History, Relations, Report
from service.models.store import NamedVersion, Served

router = APIRouter(prefix="/v1/models", tags=["models"], route_class=secured("models:{}"))

_ARTIFACT_TYPE: Final = "application/vnd.sibling.model+safetensors"
_SVG: Final = "image/svg+xml"
_ONE: Final[dict[int | str, dict[str, Any]]] = {
    304: {"description": "Not modified."},
    **problems("not-found", "invalid-request"),
}
_NO_RELATIONS: Final = ("not-found", "no-relations", "invalid-request")


@dataclass(frozen=True, slots=True)
class _Asked:
    """Who asks for a part of which version."""

    services: Services
    request: Request
    owner: str
    version: NamedVersion


def _history(asked: _Asked) -> Response:
    """Give how the fit went, step by step."""
    tag = etag(asked.version.row.id)
    if is_not_modified(asked.request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    return json_response(History.model_validate(asked.version.row.history), ETag=tag)


def _report(asked: _Asked) -> Response:
    """Give what was tried before the model was trained, and how it compares."""
    tag = etag(asked.version.row.id)
    if is_not_modified(asked.request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    if asked.version.row.report is None:
        how = "without search, comparison or evaluation"
        detail = f"version {asked.version.row.version} of '{asked.version.name}' was trained {how}"
        raise Problem("no-report", detail)
    return json_response(Report.model_validate(asked.version.row.report), ETag=tag)


def _relations(asked: _Asked) -> Response:
    """Give how the tasks of a model are related, those that belong together side by side."""
    served, found = _learned(asked)
    tag = etag(served.id)
    if is_not_modified(asked.request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    size, limit = found.strength.nbytes, asked.services.settings.max_answer_bytes
    if size > limit:
        detail = (
            f"the strengths have {size} bytes, more than {limit}; draw them, or read the artifact"
        )
        raise Problem("too-many-rows", detail)
    return json_response(Relations.of(served, found), ETag=tag)


def _picture(asked: _Asked) -> Response:
    """Draw how the tasks of a model are related: blue for opposite, red for alike."""
    served, found = _learned(asked)
    tag = etag(served.id)
    if is_not_modified(asked.request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    headers = {"ETag": tag, "Content-Security-Policy": "default-src 'none'"}
    return Response(draw(found), media_type=_SVG, headers=headers)


def _learned(asked: _Asked) -> tuple[Served, relations.Relations]:
    name, version = asked.version.name, asked.version.row.version
    served = asked.services.lookup.find(asked.owner, name, version)
    found = asked.services.models.get(served).relations()
    if found is None:
        detail = f"version {version} of '{name}' ({served.algorithm}) learned no relations of tasks"
        raise Problem("no-relations", detail)
    return served, found


def _artifact(asked: _Asked) -> Response:
    """Download a model as one file."""
    row = asked.version.row
    tag = etag(row.artifact_sha256)
    if is_not_modified(asked.request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    file = f"{asked.version.name}-{row.version}.safetensors"
    headers = {
        "ETag": tag,
        "Content-Length": str(row.artifact_bytes),
        "Content-Disposition": f'attachment; filename="{file}"',
    }
    chunks = asked.services.blobs.chunks(row.artifact_blob_id)
    return StreamingResponse(chunks, media_type=_ARTIFACT_TYPE, headers=headers)


def _add_part(part: str, give: Callable[[_Asked], Response], **documented: Any) -> None:
    """Add the two addresses of a part: of the latest version or of an alias, and of one version."""

    def of_latest(name: Name, request: Request, services: Context, owner: Owner) -> Response:
        return give(_Asked(services, request, owner, find_version(services, owner, name, None)))

    def of_version(
        name: Name, version: Version, request: Request, services: Context, owner: Owner
    ) -> Response:
        return give(_Asked(services, request, owner, find_version(services, owner, name, version)))

    for endpoint, path in ((of_latest, "/{name}"), (of_version, "/{name}/versions/{version}")):
        router.add_api_route(
            f"{path}/{part}",
            endpoint,
            name=f"get_{part.replace('.', '_')}_{endpoint.__name__}",
            description=inspect.getdoc(give),
            **documented,
        )


_add_part("history", _history, response_model=History, responses=_ONE)
_add_part(
    "report",
    _report,
    response_model=Report,
    responses={304: _ONE[304], **problems("not-found", "no-report", "invalid-request")},
)
_add_part(
    "relations",
    _relations,
    response_model=Relations,
    responses={304: _ONE[304], **problems(*_NO_RELATIONS, "too-many-rows")},
)
_add_part(
    "relations.svg",
    _picture,
    response_class=Response,
    responses={
        200: {"description": "A picture.", "content": {_SVG: {}}},
        304: _ONE[304],
        **problems(*_NO_RELATIONS),
    },
)
_add_part(
    "artifact",
    _artifact,
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Safetensors with a JSON header; readable without this service.",
            "content": {_ARTIFACT_TYPE: {}},
        },
        **_ONE,
    },
)
