"""HTTP routes of a version: history, report, relations, importance, artifact."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from algorithms.interface import relations
from service.errors.problems import Problem
from service.http.documentation import problems
from service.http.downloads import DOWNLOADED, download
from service.http.preconditions import etag, is_not_modified
from service.http.responses import json_response
from service.http.routing import Owner, secured
from service.models.context import Context, ModelServices
from service.models.report_schemas import Report
from service.models.routes import Name, find_version, version_tag
from service.models.schemas import History, Importance, Relations
from service.models.store import NamedVersion, ServableVersion, find_importance
from service.models.version_paths import add_version_routes

router = APIRouter(prefix="/v1/models", tags=["models"], route_class=secured("models:{}"))

_ARTIFACT_TYPE: Final = "application/vnd.sibling.model+safetensors"
_ONE: Final[dict[int | str, dict[str, Any]]] = {
    304: {"description": "Not modified."},
    **problems("not-found", "invalid-request"),
}
_NO_RELATIONS: Final = ("not-found", "no-relations", "invalid-request")


@dataclass(frozen=True, slots=True)
class VersionRequest:
    """A request for data of one version."""

    services: ModelServices
    request: Request
    owner: str
    version: NamedVersion


def _history(call: VersionRequest) -> Response:
    """Return the objective and residual of the fit, by step."""
    tag = version_tag(call.version.row.id, "history")
    if is_not_modified(call.request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    return json_response(History.model_validate(call.version.row.history), ETag=tag)


def _report(call: VersionRequest) -> Response:
    """Return the results of search, comparison, evaluation, automatic choice and calibration."""
    row = call.version.row
    if row.report is None:
        how = "without search, comparison, evaluation, automatic choice or calibration"
        detail = f"version {row.version} of '{call.version.name}' was trained {how}"
        raise Problem("no-report", detail)
    tag = version_tag(row.id, "report")
    if is_not_modified(call.request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    return json_response(Report.model_validate(row.report), ETag=tag)


def _importance(call: VersionRequest) -> Response:
    """Return the importance of the columns for each task and shared, the largest first.

    It is computed from training rows.
    """
    row = call.version.row
    with call.services.database.read() as session:
        stored = find_importance(session, row.id)
    if stored is None:
        detail = f"version {row.version} of '{call.version.name}' ({row.algorithm}) has none"
        raise Problem("no-importance", detail)
    tag = version_tag(row.id, "importance")
    if is_not_modified(call.request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    return json_response(Importance.of(call.version, stored), ETag=tag)


def _relations(call: VersionRequest) -> Response:
    """Return the relations between the tasks, with related tasks adjacent."""
    served, task_relations = _relations_of(call)
    size, limit = task_relations.strength.nbytes, call.services.settings.max_response_bytes
    if size > limit:
        detail = f"the strengths take {size} bytes, more than {limit}; use the plot or the artifact"
        raise Problem("too-many-rows", detail)
    tag = version_tag(served.id, "relations")
    if is_not_modified(call.request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    return json_response(Relations.of(served, task_relations), ETag=tag)


def _relations_of(call: VersionRequest) -> tuple[ServableVersion, relations.Relations]:
    name, version = call.version.name, call.version.row.version
    served = call.services.resolver.find(call.owner, name, version)
    task_relations = call.services.models.get(served).relations()
    if task_relations is None:
        detail = f"version {version} of '{name}' ({served.algorithm}) has no task relations"
        raise Problem("no-relations", detail)
    return served, task_relations


def _artifact(call: VersionRequest) -> Response:
    """Download the artifact of a version: a safetensors file with a JSON header."""
    row = call.version.row
    return download(
        call.request,
        partial(call.services.blobs.chunks, row.artifact_blob_id),
        tag=etag(row.artifact_sha256),
        size_bytes=row.artifact_bytes,
        media_type=_ARTIFACT_TYPE,
        file=f"{call.version.name}-{row.version}.safetensors",
    )


def _add_routes(
    path: str, handle: Callable[[VersionRequest], Response], summary: str, **documented: Any
) -> None:
    """Add both paths of a route: for the latest version or an alias, and for a number."""

    def endpoint(
        name: Name, version: int | None, request: Request, services: Context, owner: Owner
    ) -> Response:
        found = find_version(services, owner, name, version)
        return handle(VersionRequest(services, request, owner, found))

    add_version_routes(
        router,
        "GET",
        f"/{{name}}/{path}",
        endpoint,
        names=(f"get_{path}_of_latest", f"get_{path}_of_version"),
        summaries=(f"{summary}, latest version", f"{summary}, given version"),
        descriptions=[inspect.getdoc(handle) or ""] * 2,
        **documented,
    )


_add_routes("history", _history, "Training history", response_model=History, responses=_ONE)
_add_routes(
    "report",
    _report,
    "Report",
    response_model=Report,
    responses={304: _ONE[304], **problems("not-found", "no-report", "invalid-request")},
)
_add_routes(
    "relations",
    _relations,
    "Task relations",
    response_model=Relations,
    responses={304: _ONE[304], **problems(*_NO_RELATIONS, "too-many-rows")},
)
_add_routes(
    "importance",
    _importance,
    "Importance of columns",
    response_model=Importance,
    responses={304: _ONE[304], **problems("not-found", "no-importance", "invalid-request")},
)
_add_routes(
    "artifact",
    _artifact,
    "Artifact",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Safetensors with a JSON header, readable without this service.",
            "content": {_ARTIFACT_TYPE: {}},
        },
        **DOWNLOADED,
        **problems("not-found", "range-not-satisfiable", "invalid-request"),
    },
)
