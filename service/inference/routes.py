"""Inference over HTTP: a method of a model's latest version, or of one version, on rows."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from service.context import Context, Services
from service.errors import Problem
from service.http import Owner, StrictRoute, problems
from service.inference.schemas import InferenceRequest, InferenceResponse
from service.inference.wire import JSON, NPY, Call, accepted_type, read_call, write_outputs
from service.models.routes import Name, Version, find_version

router = APIRouter(prefix="/v1/models", tags=["inference"], route_class=StrictRoute)

#: Methods in addresses, and as models have them.
METHODS: Final = {"transform": "transform", "inverse-transform": "inverse_transform"}

MethodName = Annotated[str, Path(pattern=f"^({'|'.join(METHODS)})$")]
TaskName = Annotated[str | None, Query(description="Task of the rows in a .npy body.")]

_DOCS: Final[dict[str, Any]] = {
    "response_model": InferenceResponse,
    "responses": {
        200: {"content": {NPY: {}}, "description": "One output row for each input row, in order."},
        **problems(
            "malformed-json",
            "malformed-body",
            "not-found",
            "not-acceptable",
            "body-too-large",
            "unsupported-media-type",
            "invalid-request",
            "invalid-data",
            "unknown-task",
            "unsupported-method",
        ),
    },
    "openapi_extra": {
        "requestBody": {
            "required": True,
            "content": {
                JSON: {"schema": InferenceRequest.model_json_schema()},
                NPY: {"schema": {"type": "string", "format": "binary"}},
            },
        }
    },
}


@dataclass(frozen=True, slots=True)
class Target:
    """Which model is called."""

    name: str
    version: int | None


@router.post("/{name}/{method}", **_DOCS)
async def call_latest(
    name: Name,
    method: MethodName,
    request: Request,
    services: Context,
    owner: Owner,
    *,
    task: TaskName = None,
) -> Response:
    """Apply a method of the latest version of a model to rows."""
    del task  # read with the body; declared for the documentation
    return await _call(request, Target(name, None), services, owner, method=METHODS[method])


@router.post("/{name}/versions/{version}/{method}", **_DOCS)
async def call_version(
    name: Name,
    version: Version,
    method: MethodName,
    request: Request,
    *,
    services: Context,
    owner: Owner,
    task: TaskName = None,
) -> Response:
    """Apply a method of one version of a model to rows."""
    del task
    return await _call(request, Target(name, version), services, owner, method=METHODS[method])


async def _call(
    request: Request, target: Target, services: Services, owner: str, *, method: str
) -> Response:
    media_type = accepted_type(request)
    body = await request.body()
    call = await run_in_threadpool(read_call, request, body)
    content = await run_in_threadpool(
        _compute, services, owner, target, call, method=method, media_type=media_type
    )
    return Response(content, media_type=media_type)


def _compute(
    services: Services, owner: str, target: Target, call: Call, *, method: str, media_type: str
) -> bytes:
    found = find_version(services, owner, target.name, target.version)
    if method not in found.row.methods:
        can = ", ".join(found.row.methods)
        raise Problem(
            "unsupported-method",
            f"model '{target.name}' ({found.row.algorithm}) cannot {method}; it can {can}",
        )
    model = services.models.get(found.row)
    outputs = getattr(model, method)(call.inputs, task=call.task)
    head = {"model": target.name, "version": found.row.version, "task": call.task}
    return write_outputs(outputs, head, media_type)
