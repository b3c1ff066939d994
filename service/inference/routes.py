"""HTTP routes of inference under ``/v1/models``."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Response

from algorithms.interface.methods import DEFAULT_LEVEL, METHODS
from service.datasets.formats.csv_text import compression_of
from service.errors.problems import Problem
from service.http.bodies import JSON, ContentType
from service.http.documentation import file_body, problems
from service.http.requests import StrictRequest
from service.http.routing import Owner, secured
from service.inference.call import Body, Call, InferenceResult, Rows, raise_invalid_request
from service.inference.context import Context, InferenceServices, TaskName
from service.inference.encoding import unpack
from service.inference.formats import FORMATS, REQUEST_READERS, accepted_type, reader_of
from service.inference.formats.table import listed
from service.inference.handler import (
    Headers,
    InferenceHandler,
    ParsedCall,
    Reply,
)
from service.inference.new_tasks import NewTasksOption
from service.inference.respond import respond
from service.inference.row_ids import ROW_ID, ROW_IDS, read_unique_ids
from service.inference.schemas import InferenceRequest, InferenceResponse
from service.inference.sent_rows import names_of, table_of
from service.inference.statistics import Clock
from service.inference.task_column import TaskSource
from service.models.resolver import ResolvedModel
from service.models.routes import Name
from service.models.version_paths import add_version_routes, paths_of

router = APIRouter(prefix="/v1/models", tags=["inference"], route_class=secured("infer"))

Level = Annotated[
    float | None,
    Query(
        gt=0,
        lt=1,
        allow_inf_nan=False,
        description="Level of `predict_interval` and `predict_set`: the share of new rows that the "
        f"outputs cover. Default: {DEFAULT_LEVEL:g}.",
    ),
]

#: Codes of the problems of a request with rows.
ROW_PROBLEMS: Final = (
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
)
_BINARY_TYPES: Final = [media_type for media_type in FORMATS if media_type != JSON]
_DOCS: Final[dict[str, Any]] = {
    "response_model": InferenceResponse,
    "responses": {
        200: {
            "content": {media_type: {} for media_type in _BINARY_TYPES},
            "description": "One output per input row, in the same order.",
        },
        **problems("malformed-json", *ROW_PROBLEMS),
    },
    "openapi_extra": file_body(
        "Rows as JSON, or a file. A column `row_id`, unless the model has one, gives the ids by "
        "which monitors keep the rows of `predict`. Or the header `Sibling-Row-Ids` has them, "
        "percent-encoded and with commas between; or one id, followed by `-0`, `-1` and so on.",
        (*_BINARY_TYPES, *REQUEST_READERS),
        json_schema=InferenceRequest.__name__,
    ),
}
#: Headers of responses by media type.
_HEADERS: Final[dict[str, Headers]] = {
    media_type: ((b"content-type", media_type.encode()), (b"vary", b"Accept, Accept-Encoding"))
    for media_type in FORMATS
}


class MethodHandler(InferenceHandler):
    """Handler of a request to ``/v1/models/{name}/{method}``."""

    def __init__(
        self, services: InferenceServices, parsed: ParsedCall, body: Body, clock: Clock
    ) -> None:
        super().__init__(services, parsed, body, clock)
        headers = parsed.headers
        self._method = parsed.path.rpartition("/")[2].replace("-", "_")
        self._media_type = accepted_type(headers.get("accept", ""))
        self._read_body, is_cheap = reader_of(headers.get("content-type", JSON))
        self._sent_rows: Rows | None = None
        self._is_table = not is_cheap  # JSON and .npy say themselves that they are empty
        self.is_cheap_to_parse &= is_cheap and compression_of(body) is None

    def find(self) -> ResolvedModel:
        """Return the version and the method."""
        parsed = self.parsed
        served = self.services.resolver.find(parsed.owner, parsed.name, parsed.version)
        return ResolvedModel(served, self._method)

    def read(self, tasks: TaskSource) -> Call:
        """Parse the rows."""
        body = self.decompressed_body()
        # CSV files may be compressed; a body that is cheap to parse is known not to be
        if not self.is_cheap_to_parse:
            body = unpack(body, self.services.settings)
        if self._is_table and (not body or body.isspace()):
            kind = self.parsed.headers["content-type"]
            raise Problem("malformed-body", f"the body is empty; send the rows in it, as {kind}")
        call = self._read_body(body, tasks)
        self._sent_rows = call.rows
        return self._without_ids(call)

    def _without_ids(self, call: Call) -> Call:
        """Return the call without a column of ids, which monitors keep."""
        if ROW_ID not in names_of(call.rows):
            return call
        rows, served = table_of(call.rows), self._served()
        if rows is None or self.services.inputs.uses(served, ROW_ID):
            return call
        if self._row_ids is not None:
            detail = f"expected the ids of rows in the header or in the column '{ROW_ID}', got both"
            raise_invalid_request(f"header:{ROW_IDS}", detail)
        self._row_ids = read_unique_ids(listed(rows.values_of(ROW_ID)))
        return call._replace(rows=rows.without({ROW_ID}))

    def write(self, result: InferenceResult) -> Reply:
        """Return the outputs in the accepted format."""
        content = FORMATS[self._media_type].write(result)
        return self.make_reply(content, _HEADERS[self._media_type], result)


#: Request handlers by path of the route.
HANDLERS: Final[dict[str, type[MethodHandler]]] = {}


def _add_method(method: str) -> None:
    """Add the two routes of a method: for the latest version, and for a given version."""
    path = f"/{{name}}/{method.replace('_', '-')}"
    paths = paths_of(router.prefix + path)

    async def call(
        name: Name,
        version: int | None,
        request: StrictRequest,
        *,
        services: Context,
        owner: Owner,
        task: TaskName = None,
        level: Level = None,
        new_tasks: NewTasksOption = None,
        content_type: ContentType = None,
    ) -> Response:
        of_path, headers = paths[version is not None], request.plain_headers
        parsed = ParsedCall(of_path, owner, name, version, task, headers, level, new_tasks)
        return await respond(MethodHandler, services, parsed, request, content_type)

    which = ("the latest version", "a given version")
    add_version_routes(
        router,
        "POST",
        path,
        call,
        names=(f"{method}_latest", f"{method}_version"),
        summaries=[f"Apply {method} of {one}" for one in which],
        descriptions=[f"Apply `{method}` of {one} of a model to rows." for one in which],
        **_DOCS,
    )
    HANDLERS.update(dict.fromkeys(paths, MethodHandler))


for _method in METHODS:
    _add_method(_method)
