"""HTTP routes of the Open Inference Protocol."""

from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import version as installed_version
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response

from algorithms.interface.errors import InvalidArtifact
from service.errors.problems import Problem
from service.http.bodies import JSON, OCTETS
from service.http.documentation import file_body, v2_problems
from service.http.requests import StrictRequest
from service.http.routing import Owner, secured
from service.inference.call import Body, Call, InferenceResult, raise_invalid_request
from service.inference.context import Context, InferenceServices, TaskName
from service.inference.handler import InferenceHandler, ParsedCall, Reply
from service.inference.new_tasks import NewTasksOption
from service.inference.respond import respond
from service.inference.statistics import Clock, MethodKey
from service.inference.task_column import TaskSource
from service.inference.v2.metadata import PLATFORM, config_of, statistics_of, tensors_of
from service.inference.v2.names import alias_names_of, find_named, main_method, names_of
from service.inference.v2.request import InferRequest, read_request
from service.inference.v2.response import write_response
from service.inference.v2.schemas import (
    IndexEntry,
    InferResponse,
    ModelMetadata,
    ModelReady,
    ModelStatistics,
    ServerMetadata,
)
from service.models import store
from service.models.resolver import ResolvedModel
from service.models.store import ServableVersion
from service.models.version_paths import add_version_routes, paths_of
from service.observability.logs import log
from service.storage.shortages import find_shortage

#: The scope `infer` also covers metadata, unlike under /v1.
_SECURED: Final[dict[str, Any]] = {
    "prefix": "/v2",
    "tags": ["open inference protocol"],
    "route_class": secured("infer"),
}
calls = APIRouter(**_SECURED)
router = APIRouter(**_SECURED)
public = APIRouter(tags=["open inference protocol"])

#: Size of the cache of accepted content types.
_MAX_CACHED_TYPES: Final = 16
_HEADER_LENGTH: Final = "inference-header-content-length"
_JSON_HEADERS: Final = ((b"content-type", JSON.encode()),)
_OCTET_HEADERS: Final = ((b"content-type", OCTETS.encode()),)
_EXTENSIONS: Final = ("binary_tensor_data", "model_configuration", "model_repository", "statistics")

Name = Annotated[
    str,
    Path(
        max_length=220,
        description="Model name, which calls `predict`, or `transform` if the model has no "
        "`predict`; or NAME.method. NAME may be NAME@ALIAS.",
    ),
]
Level = Annotated[
    float | None,
    Query(
        gt=0,
        lt=1,
        allow_inf_nan=False,
        description="Level of `predict_interval` and `predict_set`, if the body does not have it.",
    ),
]
_METADATA: Final[dict[str, Any]] = {"responses": v2_problems("not-found", "invalid-request")}
_INFER: Final[dict[str, Any]] = {
    "response_model": InferResponse,
    "responses": {
        200: {
            "content": {OCTETS: {}},
            "description": "One output row per input row, in the same order.",
        },
        **v2_problems(
            "malformed-json",
            "malformed-body",
            "not-found",
            "body-too-large",
            "too-many-rows",
            "unsupported-media-type",
            "invalid-request",
            "invalid-data",
            "unknown-task",
        ),
    },
    "openapi_extra": file_body("JSON, or JSON with binary tensors.", json_schema="InferBody"),
}


@public.get("/v2", name="v2_server", summary="Server metadata")
@public.get("/v2/", include_in_schema=False)
async def server() -> ServerMetadata:
    """Return the name, version and extensions of the server."""
    return ServerMetadata(
        name=PLATFORM, version=installed_version("sibling"), extensions=list(_EXTENSIONS)
    )


class ProtocolHandler(InferenceHandler):
    """Handler of an inference request of the protocol."""

    def __init__(
        self, services: InferenceServices, parsed: ParsedCall, body: Body, clock: Clock
    ) -> None:
        super().__init__(services, parsed, body, clock)
        _check_type(parsed.headers.get("content-type", JSON))
        self._infer_request: InferRequest | None = None

    def find(self) -> ResolvedModel:
        """Query the version and the method that the name refers to."""
        parsed = self.parsed
        return find_named(self.services, parsed.owner, parsed.name, parsed.version)

    def read(self, tasks: TaskSource) -> Call:
        """Parse the rows and the requested outputs."""
        parsed = self.parsed
        length = parsed.headers.get(_HEADER_LENGTH)
        names = tasks.column, parsed.name, parsed.version
        body = self.decompressed_body()
        self._infer_request, call = read_request(body, length, names, tasks)
        return call

    def write(self, result: InferenceResult) -> Reply:
        """Return the requested outputs."""
        assert self._infer_request is not None  # set by read
        content, length = write_response(self._infer_request, result, self.parsed.name)
        if length is None:
            return self.make_reply(content, _JSON_HEADERS, result)
        sized = (_HEADER_LENGTH.encode(), b"%d" % length)
        return self.make_reply(content, (*_OCTET_HEADERS, sized), result)


_PATH: Final = "/models/{name}/infer"
_PATHS: Final = paths_of(calls.prefix + _PATH)
#: Request handlers by path of the route.
HANDLERS: Final = dict.fromkeys(_PATHS, ProtocolHandler)


async def _infer(
    name: Name,
    version: int | None,
    request: StrictRequest,
    *,
    services: Context,
    owner: Owner,
    task: TaskName = None,
    level: Level = None,
    new_tasks: NewTasksOption = None,
) -> Response:
    path, headers = _PATHS[version is not None], request.plain_headers
    parsed = ParsedCall(path, owner, name, version, task, headers, level, new_tasks)
    return await respond(ProtocolHandler, services, parsed, request)


add_version_routes(
    calls,
    "POST",
    _PATH,
    _infer,
    names=("v2_infer_latest", "v2_infer_version"),
    summaries=("Inference, latest version", "Inference, given version"),
    descriptions=(
        "Apply the latest version of a model to rows.",
        "Apply a version of a model to rows.",
    ),
    **_INFER,
)


@router.get(
    "/models/stats",
    name="v2_all_stats",
    summary="Statistics of all models",
    responses=v2_problems(),
)
def all_stats(services: Context, owner: Owner) -> ModelStatistics:
    """Return the inference statistics of all models."""
    with services.database.read() as session:
        versions = store.list_served(session, owner)
    named_keys = [
        (name, (owner, s.name, s.version, method))
        for s in versions
        for name, method in zip(names_of(s), (main_method(s.methods), *s.methods), strict=True)
    ]
    return _statistics(services, named_keys)


@router.post(
    "/repository/index",
    name="v2_index",
    summary="Index of all models",
    responses=v2_problems("malformed-json"),
)
async def index(request: Request, services: Context, owner: Owner) -> list[IndexEntry]:
    """List all versions of all models under each of their names."""
    document = await request.json() if (await request.body()).strip() else {}
    if not isinstance(document, dict) or not isinstance(document.get("ready", False), bool):
        raise_invalid_request("", "expected an empty body or {'ready': true}")

    def read_index() -> list[IndexEntry]:
        with services.database.read() as session:
            versions = store.list_served(session, owner)
            aliases = store.aliases_of_owner(session, owner)
        is_ready_only = document.get("ready", False)
        return [
            IndexEntry(
                name=name,
                version=str(served.version),
                state="UNAVAILABLE" if error else "READY",
                reason=error,
            )
            for served in versions
            if not (error := services.models.error_of(served)) or not is_ready_only
            for name in (*names_of(served), *alias_names_of(served, aliases[served.id]))
        ]

    return await services.compute.run(read_index)


def _metadata(
    services: InferenceServices, owner: str, name: str, number: int | None
) -> ModelMetadata:
    served, method = find_named(services, owner, name, number)
    inputs, outputs = tensors_of(services, served, method)
    versions = _versions_of(services, owner, name, number, served)
    return ModelMetadata.model_validate(
        {
            "name": name,
            "versions": [str(n) for n in versions],
            "platform": PLATFORM,
            "inputs": inputs,
            "outputs": outputs,
            "properties": {
                "method": method,
                "tasks": list(services.models.get(served).tasks),
                "task_column": served.task_column,
                "new_tasks": served.new_tasks,
                "algorithm": served.algorithm,
            },
        }
    )


def _config(
    services: InferenceServices, owner: str, name: str, number: int | None
) -> dict[str, Any]:
    served, method = find_named(services, owner, name, number)
    return config_of(name, *tensors_of(services, served, method))


def _ready(services: InferenceServices, owner: str, name: str, number: int | None) -> ModelReady:
    served, _ = find_named(services, owner, name, number)
    try:
        services.models.get(served)
    except (OSError, InvalidArtifact) as error:
        if find_shortage(error) is not None:
            raise
        log.error("artifact.invalid", exc_info=error)
        detail = f"model '{name}' is not ready: {services.models.error_of(served)}"
        raise Problem("unavailable", detail) from error
    return ModelReady(name=name, ready=True)


def _stats(
    services: InferenceServices, owner: str, name: str, number: int | None
) -> ModelStatistics:
    served, method = find_named(services, owner, name, number)
    numbers = _versions_of(services, owner, name, number, served)
    return _statistics(services, [(name, (owner, served.name, n, method)) for n in numbers])


def _statistics(
    services: InferenceServices, named_keys: Sequence[tuple[str, MethodKey]]
) -> ModelStatistics:
    """Return statistics, each under a given name."""
    records = services.statistics.read([key for _, key in named_keys])
    stats = [
        statistics_of(record, name, key[2])
        for (name, key), record in zip(named_keys, records, strict=True)
    ]
    return ModelStatistics(model_stats=stats)


def _versions_of(
    services: InferenceServices, owner: str, name: str, number: int | None, served: ServableVersion
) -> Sequence[int]:
    """Return the versions of a name: all, unless a number or an alias selects one."""
    if number is not None or store.ALIAS_SEPARATOR in name:
        return [served.version]
    with services.database.read() as session:
        return store.version_numbers(session, owner, served.name)


def _add_metadata_routes(suffix: str, read: Any, name: str, text: tuple[str, str]) -> None:
    """Add the two routes of some metadata: for the latest version, and for a given version."""
    response_model = read.__annotations__["return"]
    summary, description = text

    def endpoint(name: Name, version: int | None, services: Context, owner: Owner) -> Any:
        return read(services, owner, name, version)

    add_version_routes(
        router,
        "GET",
        f"/models/{{name}}{suffix}",
        endpoint,
        names=(f"v2_{name}_of_latest", f"v2_{name}_of_version"),
        summaries=(f"{summary}, latest version", f"{summary}, given version"),
        descriptions=[description] * 2,
        response_model=response_model,
        **_METADATA,
    )


@lru_cache(_MAX_CACHED_TYPES)
def _check_type(content_type: str) -> None:
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type not in (JSON, OCTETS):
        detail = f"media type '{media_type}' is not supported; send {JSON} or {OCTETS}"
        raise Problem("unsupported-media-type", detail)


for _suffix, _read, _name, *_text in (
    ("", _metadata, "outputs", "Model metadata", "Return the inputs and outputs of a model."),
    (
        "/config",
        _config,
        "configuration",
        "Model configuration",
        "Return the configuration in the format of Triton.",
    ),
    ("/ready", _ready, "ready", "Model readiness", "Check whether a model is ready."),
    ("/stats", _stats, "stats", "Model statistics", "Return the inference statistics of a model."),
):
    _add_metadata_routes(_suffix, _read, _name, (_text[0], _text[1]))
