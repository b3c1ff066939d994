"""Inference over HTTP: a method of a model's latest version, or of one version, on rows."""

from dataclasses import dataclass
from typing import Annotated, Any, Final

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from numpy.typing import NDArray

from algorithms.interface.model import CLASS_METHODS, METHODS, Model
from service.context import Context, Services
from service.errors import Problem
from service.http import JSON, Owner, problems, secured
from service.inference.schemas import InferenceRequest, InferenceResponse
from service.inference.wire import NPY, Call, accepted_type, as_matrix, read_call, write_outputs
from service.models.routes import Name, Version, find_version

router = APIRouter(prefix="/v1/models", tags=["inference"], route_class=secured("infer"))

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
    """Which method of which model is called."""

    name: str
    version: int | None
    method: str


def _add_method(method: str) -> None:
    """Add the two addresses of a method: of a model's latest version, and of one version."""

    async def call_latest(
        name: Name, request: Request, services: Context, owner: Owner, *, task: TaskName = None
    ) -> Response:
        del task  # read with the body; declared for the documentation
        return await _call(request, Target(name, None, method), services, owner)

    async def call_version(
        name: Name,
        version: Version,
        request: Request,
        *,
        services: Context,
        owner: Owner,
        task: TaskName = None,
    ) -> Response:
        del task
        return await _call(request, Target(name, version, method), services, owner)

    for endpoint, path, of in (
        (call_latest, "/{name}", "the latest version of a model"),
        (call_version, "/{name}/versions/{version}", "one version of a model"),
    ):
        router.add_api_route(
            f"{path}/{method.replace('_', '-')}",
            endpoint,
            methods=["POST"],
            name=f"{method}_{endpoint.__name__.removeprefix('call_')}",
            description=f"Apply `{method}` of {of} to rows.",
            **_DOCS,
        )


async def _call(request: Request, target: Target, services: Services, owner: str) -> Response:
    media_type = accepted_type(request)
    body = await request.body()

    def compute() -> bytes:
        call = read_call(request, body)
        version, model = _find_model(services, owner, target)
        outputs = _apply(model, target.method, call)
        head: dict[str, Any] = {"model": target.name, "version": version, "task": call.task}
        if target.method in CLASS_METHODS and outputs.ndim == 2:
            head["classes"] = model.classes(call.task)
        return write_outputs(outputs, head, media_type)

    return Response(await services.compute.run(compute), media_type=media_type)


def _find_model(services: Services, owner: str, target: Target) -> tuple[int, Model]:
    found = find_version(services, owner, target.name, target.version)
    if target.method not in found.row.methods:
        can = ", ".join(found.row.methods)
        detail = f"'{target.name}' ({found.row.algorithm}) cannot {target.method}; it can {can}"
        raise Problem("unsupported-method", f"model {detail}")
    return found.row.version, services.models.get(found.row)


def _apply(model: Model, method: str, call: Call) -> NDArray[Any]:
    rows = as_matrix(
        call,
        method=method,
        width=model.width(method, task=call.task),
        is_missing_taken=method in model.takes_missing,
    )
    with np.errstate(over="ignore", invalid="ignore"):
        outputs: NDArray[Any] = getattr(model, method)(rows, task=call.task)
    if outputs.dtype.kind == "f" and not np.isfinite(outputs).all():
        detail = f"task '{call.task}': the rows are so large that {method} of them overflows"
        raise Problem("invalid-data", detail)
    return outputs


for _method in METHODS:
    _add_method(_method)
