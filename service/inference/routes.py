"""Inference over HTTP: a method of a model's latest version, or of one version, on rows."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response

from algorithms.interface.model import METHODS
from service.context import Context, Services
from service.http import JSON, Owner, StrictRequest, problems, secured
from service.inference.call import Answer, Call
from service.inference.encoding import compress, expand
from service.inference.formats import FORMATS, accepted_type, format_of
from service.inference.lookup import Found, Target
from service.inference.schemas import InferenceRequest, InferenceResponse
from service.inference.serving import LIGHT_BYTES, serve
from service.inference.statistics import Clock
from service.models.routes import Name, Version

router = APIRouter(prefix="/v1/models", tags=["inference"], route_class=secured("infer"))

TaskName = Annotated[
    str | None, Query(description="Task of the rows of a body that names none itself.")
]

_BINARY: Final = {"schema": {"type": "string", "format": "binary"}}
_OTHERS: Final = [media_type for media_type in FORMATS if media_type != JSON]
_DOCS: Final[dict[str, Any]] = {
    "response_model": InferenceResponse,
    "responses": {
        200: {
            "content": {media_type: {} for media_type in _OTHERS},
            "description": "One output row for each input row, in order.",
        },
        **problems(
            "malformed-json",
            "malformed-body",
            "not-found",
            "not-acceptable",
            "body-too-large",
            "too-many-rows",
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
                **dict.fromkeys(_OTHERS, _BINARY),
            },
        }
    },
}


def _add_method(method: str) -> None:
    """Add the two addresses of a method: of a model's latest version, and of one version."""

    async def call_latest(
        name: Name,
        request: StrictRequest,
        services: Context,
        owner: Owner,
        *,
        task: TaskName = None,
    ) -> Response:
        return await _call(request, (name, None, method), services, owner, task=task)

    async def call_version(
        name: Name,
        version: Version,
        request: StrictRequest,
        *,
        services: Context,
        owner: Owner,
        task: TaskName = None,
    ) -> Response:
        return await _call(request, (name, version, method), services, owner, task=task)

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


async def _call(
    request: StrictRequest,
    target: tuple[str, int | None, str],
    services: Services,
    owner: str,
    *,
    task: str | None,
) -> Response:
    clock = Clock()
    name, version, method = target
    headers = request.first_headers
    media_type = accepted_type(",".join(request.headers.getlist("accept")))
    format_ = format_of(headers.get("content-type", JSON))
    body = await request.body()

    def find() -> Found:
        return Found(services.lookup.find(owner, name, version), method)

    def read() -> Call:
        plain = expand(body, headers.get("content-encoding", ""), services.settings)
        return format_.read(plain, task)

    def write(answer: Answer) -> tuple[bytes, str | None]:
        written = FORMATS[media_type].write(answer)
        return compress(written, headers.get("accept-encoding", ""))

    content, coding = await serve(
        services,
        Target(method, owner, name, version),
        clock=clock,
        find=find,
        read=read,
        write=write,
        is_light=format_.is_light
        and len(body) <= LIGHT_BYTES
        and "content-encoding" not in headers,
    )
    answered = {"Content-Type": media_type, "Vary": "Accept, Accept-Encoding"}
    if coding is not None:
        answered["Content-Encoding"] = coding
    return Response(content, headers=answered)


for _method in METHODS:
    _add_method(_method)
