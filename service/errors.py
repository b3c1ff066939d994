"""HTTP errors: the table of codes, the exception and the response (RFC 9457)."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from algorithms.interface.errors import AlgorithmError, InvalidArtifact, explain_unknown
from service.database import UNAVAILABLE
from service.observability.logs import log, request_id
from service.patterns import EXPECTED


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """Status, title, cause and remedy of one error code."""

    status: int
    title: str
    cause: str
    remedy: str


#: Cause and remedy of every code that only the ``error`` of a job can have.
JOB_CODES: Final[dict[str, tuple[str, str]]] = {
    "diverged": (
        "The objective became infinite or NaN.",
        "Rescale the data, or increase the regularisation.",
    ),
    "invalid-artifact": (
        "The stored dataset or model is corrupt, or the model's algorithm is not installed.",
        "Upload the dataset or train the model again, or install the package of the algorithm.",
    ),
    "out-of-memory": (
        "The job used more memory than its `memory_mb`.",
        "Increase `memory_mb`, or submit less data.",
    ),
    "timed-out": ("An attempt ran longer than `timeout_s`.", "Increase `timeout_s`."),
    "cancelled": ("The owner cancelled the job.", "Submit a new job if you still need the result."),
    "base-model-deleted": (
        "The model that the job adapts or applies was deleted while the job was being submitted.",
        "Submit the job again with an existing model.",
    ),
    "worker-lost": (
        "The worker died or lost its connection in each of `max_attempts` attempts.",
        "Check the worker's host and log, then submit the job again.",
    ),
    "worker-failed": (
        "The worker could not fetch the dataset or the model, or could not run the job's process.",
        "Read the detail and the worker's log.",
    ),
    "resource-shortage": (
        "The worker's machine lacked disk space, memory or file handles.",
        "Nothing: the job is tried again after a while. Free the resource that the detail names.",
    ),
    "result-not-stored": (
        "The result could not be written to the database.",
        "Free space in the database, then submit the job again.",
    ),
    "never-started": (
        "The worker pool accepted the job several times but never started it.",
        "Check the logs of the scheduler and the workers.",
    ),
    "worker-start-failed": (
        "The job's process did not start.",
        "Read the detail; check memory and process limits on the worker's host.",
    ),
    "requeued": (
        "The service or the worker was stopped, and the job went back to the queue.",
        "Nothing: the job continues by itself.",
    ),
    "worker-exited": (
        "The job's process exited unexpectedly.",
        "Read the detail, then submit the job again.",
    ),
    "crashed": (
        "A signal, such as a segmentation fault, ended the job's process.",
        "Report it as a bug, with the detail.",
    ),
    "internal-error": (
        "A bug in the service or in the algorithm.",
        "Report it with the detail, which says where it happened.",
    ),
}

#: Every code that a response can have; ``docs/reference/errors.md`` is generated from this table.
ERRORS: Final[dict[str, ErrorSpec]] = {
    "malformed-json": ErrorSpec(
        400,
        "Malformed JSON",
        "The body is not valid JSON (RFC 8259): a syntax error, NaN or Infinity, a lone "
        "surrogate, invalid UTF-8, or too many nested levels.",
        "Send valid JSON. JSON has no NaN: write null for a missing value.",
    ),
    "malformed-body": ErrorSpec(
        400,
        "Malformed body",
        "A body that is not JSON is truncated, corrupt, or not in the format of its Content-Type.",
        "Send the file again; the detail says where reading failed.",
    ),
    "invalid-page-token": ErrorSpec(
        400,
        "Invalid page token",
        "`page_token` is not one that this collection returned.",
        "Use `next_page_token` of the previous page, or omit it to get the first page.",
    ),
    "unauthenticated": ErrorSpec(
        401,
        "Authentication required",
        "The request has no API key, or its key is unknown, expired or revoked.",
        "Send `Authorization: Bearer sib_...`. An operator creates keys with "
        "`sibling keys create`.",
    ),
    "forbidden": ErrorSpec(
        403,
        "Forbidden",
        "The API key is valid, but does not have the scope that the detail names.",
        "Use a key with this scope.",
    ),
    "foreign-origin": ErrorSpec(
        403,
        "Request from another site",
        "A web page of another site sent the request: its `Origin` is not this service.",
        "Send the request from a program, or ask the operator to add the host of the page to "
        "`SIBLING_ALLOWED_HOSTS`.",
    ),
    "not-found": ErrorSpec(
        404,
        "Not found",
        "The URL is wrong, or the id or name in it does not exist or belongs to another owner.",
        "Check the URL; list the collection to see its items.",
    ),
    "no-relations": ErrorSpec(
        404,
        "Model has no relations",
        "The algorithm trains tasks independently or pools them, so it has no task relations.",
        "Train with an algorithm that learns relations, such as `fmtl`, `mtfl` or `rmt-pca`.",
    ),
    "no-plot": ErrorSpec(
        404,
        "Model has no such plot",
        "There is no plot of this name, or the model has learned nothing that it could show.",
        "Use a plot that `GET /v1/models/{name}/plots` lists.",
    ),
    "no-importance": ErrorSpec(
        404,
        "Model has no importance of columns",
        "The model predicts no targets, was adapted, imported or trained by an earlier release, or "
        "permuting its columns would have taken too long.",
        "Train a model that predicts targets, such as `mtfl` or `boosted-trees`, on all tasks.",
    ),
    "no-report": ErrorSpec(
        404,
        "Model has no report",
        "The model was trained without a search, comparison, evaluation, automatic choice or "
        "calibration.",
        "Submit a job with `search`, `compare`, `evaluate` or `calibration`.",
    ),
    "method-not-allowed": ErrorSpec(
        405,
        "Method not allowed",
        "The URL exists, but does not support this HTTP method.",
        "Use one of the methods in the `Allow` header.",
    ),
    "not-acceptable": ErrorSpec(
        406,
        "Not acceptable",
        "`Accept` lists no format that this endpoint can return.",
        "Use one of the formats in the detail.",
    ),
    "request-timeout": ErrorSpec(
        408,
        "Request timeout",
        "The headers or the body of the request arrived too slowly: the headers as a whole, or no "
        "byte of the body for the time in the detail.",
        "Check the network, and send the request again.",
    ),
    "in-use": ErrorSpec(
        409,
        "Resource in use",
        "Something depends on what you want to delete: on a dataset, an unfinished job or a "
        "model; on a model version, an unfinished job, an alias, or a model adapted from it; on a "
        "job, the model version that it made, or its parent.",
        "Cancel the job, delete the model or move the alias that the detail names, then retry.",
    ),
    "offset-mismatch": ErrorSpec(
        409,
        "Wrong upload offset",
        "A part of an upload does not begin where the last one ended.",
        "Ask for Upload-Offset with HEAD, and continue there.",
    ),
    "wrong-state": ErrorSpec(
        409,
        "Not possible in this state",
        "The resource is in a state that does not allow the request: training on a dataset that "
        "is not ready, for example, cancelling a job that has finished, or deleting one that has "
        "not.",
        "Read the resource, and wait until its state allows the request; cancel a job that you "
        "want to delete.",
    ),
    "precondition-failed": ErrorSpec(
        412,
        "Precondition failed",
        "The resource has changed: the condition `If-Match` or `If-None-Match` is false for its "
        "current ETag.",
        "Read the resource again, and retry with its current ETag if you still want the change.",
    ),
    "unsupported-version": ErrorSpec(
        412,
        "Unsupported version",
        "`Tus-Resumable` names a version of the tus protocol that the service does not support.",
        "Send the version in the detail and in the header `Tus-Version`.",
    ),
    "body-too-large": ErrorSpec(
        413,
        "Body too large",
        "The body has more bytes, or more values, than the limit that the detail names.",
        "Send a smaller body, or ask the operator to raise the limit.",
    ),
    "too-many-rows": ErrorSpec(
        413,
        "Too many rows",
        "An inference request has more rows, or would return a larger array, than the operator "
        "allows.",
        "Split the rows over several requests, or run a batch inference job.",
    ),
    "unsupported-media-type": ErrorSpec(
        415,
        "Unsupported media type",
        "The endpoint does not read the format in `Content-Type`, or the bytes are in a "
        "different format. Pickle and joblib files are never read.",
        "Use one of the formats in the detail.",
    ),
    "unknown-host": ErrorSpec(
        421,
        "Unknown host",
        "The `Host` header is a name under which this service does not respond. On loopback it "
        "responds to localhost, 127.0.0.1 and [::1] only, so that pages of other sites cannot use "
        "it (DNS rebinding).",
        "Use one of these names, or ask the operator to add the name to `SIBLING_ALLOWED_HOSTS`.",
    ),
    "invalid-request": ErrorSpec(
        422,
        "Invalid request",
        "A field, query parameter or header is missing, unknown or out of bounds.",
        "Correct each place in `errors`: `pointer` is a path in the body, `parameter` a query "
        "parameter or header.",
    ),
    "invalid-params": ErrorSpec(
        422,
        "Invalid algorithm parameters",
        "A parameter of the algorithm is unknown, out of bounds, or impossible for these tasks.",
        "See `GET /v1/algorithms/{name}` for names, bounds and defaults.",
    ),
    "exceeds-memory": ErrorSpec(
        422,
        "Job exceeds its memory limit",
        "The fit is expected to need more memory than the `memory_mb` of the job, or than the "
        "machine of the service has.",
        "Do what the detail says, or increase `memory_mb`.",
    ),
    "invalid-data": ErrorSpec(
        422,
        "Invalid data",
        "The tasks do not meet the algorithm's requirements, or the rows those of the model.",
        "Correct the data; the detail names the task and, if known, the row and column.",
    ),
    "checksum-mismatch": ErrorSpec(
        422,
        "Checksum mismatch",
        "The bytes of a resumable upload do not have the SHA-256 that the client declared: the "
        "file changed while it was sent.",
        "Upload the file again.",
    ),
    "invalid-dataset": ErrorSpec(
        422,
        "Invalid dataset",
        "The upload or combination was rejected; `errors` lists every issue that was found.",
        "Correct the issues, and upload or combine again. Nothing of the rejected dataset was "
        "stored.",
    ),
    "unknown-task": ErrorSpec(
        422,
        "Unknown task",
        "The model has no task of this name.",
        "Use one of the names in the detail, or add the task to the model.",
    ),
    "unknown-algorithm": ErrorSpec(
        422,
        "Unknown algorithm",
        "No algorithm of this name is installed.",
        "See `GET /v1/algorithms`.",
    ),
    "key-reused": ErrorSpec(
        422,
        "Idempotency key reused",
        "The same `Idempotency-Key` was sent before with a different body or URL.",
        "Use a new key for each new request.",
    ),
    "unsupported-method": ErrorSpec(
        422,
        "Method not supported by the model",
        "The model does not have this method: `predict` of a projection, for example.",
        "Use one of the model's `methods`.",
    ),
    "precondition-required": ErrorSpec(
        428,
        "Precondition required",
        "The request would overwrite an existing resource, but has no `If-Match` header.",
        "Read the resource, and send its `ETag` as `If-Match`.",
    ),
    "queue-full": ErrorSpec(
        429,
        "Too many queued jobs",
        "The owner has as many queued jobs as the operator allows.",
        "Retry after the number of seconds in `Retry-After`, or cancel queued jobs.",
    ),
    "quota-exceeded": ErrorSpec(
        429,
        "Quota exceeded",
        "The owner has as many datasets, model versions or stored bytes as the operator allows.",
        "Delete what you no longer need, or ask the operator for more; waiting does not help.",
    ),
    "rate-limited": ErrorSpec(
        429,
        "Too many requests",
        "The owner sends more requests per second than the operator allows.",
        "Retry after the number of seconds in `Retry-After`, and send fewer requests; "
        "`RateLimit-Policy` has the limit.",
    ),
    "too-many-streams": ErrorSpec(
        429,
        "Too many event streams",
        "The owner has as many event streams and waiting requests as the operator allows.",
        "Close other streams, or poll the events without a stream.",
    ),
    "headers-too-large": ErrorSpec(
        431,
        "Headers too large",
        "The URL and the headers together are larger than 64 KiB.",
        "Send a shorter URL and shorter headers.",
    ),
    "internal": ErrorSpec(
        500,
        "Internal server error",
        "A bug in the service.",
        "Report it with the `request_id`, under which the log has the details.",
    ),
    "unavailable": ErrorSpec(
        503,
        "Service unavailable",
        "The service is starting, stopping or overloaded, or cannot reach its database.",
        "Retry after the number of seconds in `Retry-After`.",
    ),
}

#: Codes that any route can return.
ANYWHERE: Final = (
    "unauthenticated",
    "forbidden",
    "rate-limited",
    "headers-too-large",
    "invalid-request",
    "internal",
    "unavailable",
)

PROBLEM_TYPE: Final = "application/problem+json"
_CODES_BY_STATUS: Final = {404: "not-found", 405: "method-not-allowed"}
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_LOCATIONS: Final = ("query", "path", "header", "cookie")
#: Maximum number of entries of ``errors`` in a response, and length of a text in it. A request of
#: a megabyte can have 50,000 errors, or one with a name of a megabyte.
MAX_ENTRIES: Final = 100
MAX_TEXT_LENGTH: Final = 4000


def remedy_of(code: str) -> str | None:
    """Return what to do about an error of a request or a job; None if the code is unknown."""
    if code in JOB_CODES:
        return JOB_CODES[code][1]
    return ERRORS[code].remedy if code in ERRORS else None


class Problem(HTTPException):
    """An error for the client, raised below a route and turned into a response by a handler.

    Parameters
    ----------
    code
        One of :data:`ERRORS`.
    detail
        One sentence: what was expected, what came, where, what to do.
    errors
        Locations of the error: ``{"pointer" | "parameter", "code", "detail", ...}``.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(ERRORS[code].status, detail, dict(headers or {}))
        self.code = code
        self.errors = [dict(entry) for entry in errors]


def from_algorithm_error(error: AlgorithmError) -> Problem:
    """Return the problem of an algorithm's error."""
    code = error.code if error.code in ERRORS else "invalid-data"
    place = {"task": error.task, "row": error.row, "column": error.column}
    entry: dict[str, Any] = {k: v for k, v in place.items() if v is not None}
    if error.field is not None:
        entry["pointer"] = f"/{error.place}/{error.field}"
    elif error.place != "params":
        entry["pointer"] = f"/{error.place}"
    if not entry:
        return Problem(code, error.message)
    return Problem(code, error.message, errors=[{"code": code, "detail": error.message, **entry}])


def problem_response(problem: Problem, scope: Scope | None = None) -> Response:
    """Return the response of a problem, in the format of the path's protocol.

    Parameters
    ----------
    scope
        Scope of the request, in which ``problem_code`` is set for its audit event; None if the
        request could not be parsed.
    """
    path = ""
    if scope is not None:
        scope["problem_code"] = problem.code
        path = scope["path"]
    spec = ERRORS[problem.code]
    is_v2 = path == "/v2" or path.startswith("/v2/")
    # the Open Inference Protocol has 400 for every invalid request
    status = 400 if is_v2 and spec.status == 422 else spec.status
    body = {
        "type": f"urn:sibling:error:{problem.code}",
        "title": spec.title,
        "status": status,
        "code": problem.code,
        "detail": _shorten(problem.detail),
        "remedy": spec.remedy,
        "request_id": request_id(),
        "errors": [
            {name: _shorten(value) for name, value in entry.items()}
            for entry in problem.errors[:MAX_ENTRIES]
        ],
    }
    if is_v2:
        body["error"] = body["detail"]
    return Response(
        orjson.dumps(body),
        status_code=status,
        headers=problem.headers,
        media_type="application/json" if is_v2 else PROBLEM_TYPE,
    )


def _shorten(value: Any) -> Any:
    """Return a value that an error shows; a very long text is cut."""
    if isinstance(value, str) and len(value) > MAX_TEXT_LENGTH:
        return f"{value[:MAX_TEXT_LENGTH]}... ({len(value)} characters)"
    return value


def problem_of(error: Exception) -> Problem | None:
    """Return the problem that an error below a route maps to; None for a bug."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, InvalidArtifact):  # clients send no models, so that it is a stored file
        log.error("artifact.invalid", exc_info=error)
        detail = "a stored file cannot be read; the log has the details under this request_id"
        return Problem("internal", detail)
    if isinstance(error, AlgorithmError):
        return from_algorithm_error(error)
    is_cut_off = isinstance(error, DBAPIError) and error.connection_invalidated
    if is_cut_off or isinstance(error, UNAVAILABLE):
        log.error("database.unavailable", exc_info=error)
        detail = "the database is not available; retry later"
        return Problem("unavailable", detail, headers={"Retry-After": "1"})
    return None


def install_handlers(app: FastAPI) -> None:
    """Make the app return every error as a problem document."""
    for error in (Problem, AlgorithmError, *UNAVAILABLE):
        app.add_exception_handler(error, _on_problem)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_validation_error)


async def _on_problem(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    assert problem is not None
    return problem_response(problem, request.scope)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CODES_BY_STATUS.get(error.status_code, "invalid-request")
    if code == "method-not-allowed":
        methods = ", ".join(_allowed_methods(request))
        headers = {**(error.headers or {}), "Allow": methods}
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
        detail = f"{request.url.path} does not support {request.method}; use one of {methods}"
        return problem_response(Problem(code, detail, headers=headers), request.scope)
    if code == "not-found":
        detail = f"there is no endpoint at {request.url.path}"
        return problem_response(Problem(code, detail), request.scope)
    return problem_response(Problem(code, str(error.detail)), request.scope)


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes at this path; the framework returns those of one route."""
    routes = request.app.router.routes
    methods = {"OPTIONS"}
    for method in _METHODS:
        scope = {**request.scope, "method": method}
        if any(route.matches(dict(scope))[0] == Match.FULL for route in routes):
            methods.add(method)
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)


async def _on_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    invalid = [one for one in error.errors() if one["loc"][0] in _LOCATIONS]
    of_body = [one for one in error.errors() if one["loc"][0] not in _LOCATIONS]
    invalid += without_branches(of_body, {"body": error.body})
    entries = [_place(e) for e in invalid[:MAX_ENTRIES]]
    first = entries[0]
    where = first.get("pointer", first.get("parameter", ""))
    more = f" (and {len(invalid) - 1} more)" if len(invalid) > 1 else ""
    detail = f"{where}: {first['detail']}{more}" if where else f"{first['detail']}{more}"
    return problem_response(Problem("invalid-request", detail, errors=entries), request.scope)


def _place(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return one entry of ``errors``, without the invalid input itself."""
    location, *rest = error["loc"]
    entry = {"code": error["type"], "detail": describe(error)}
    if location in _LOCATIONS:
        return {"parameter": f"{location}:{'.'.join(str(part) for part in rest)}", **entry}
    return {"pointer": json_pointer(rest), **entry}


def without_branches(errors: Sequence[Mapping[str, Any]], value: Any) -> list[dict[str, Any]]:
    """Return errors with the places of what was sent, without the names of branches of unions.

    pydantic reports the errors of every branch of a union, such as ``Literal["none"] | dict``. Only
    those of the branch that fits best are returned.

    Parameters
    ----------
    errors
        ``ValidationError.errors()``.
    value
        What was validated.
    """
    found = []
    branches: dict[tuple[Any, ...], dict[str, int]] = {}
    for error in errors:
        place, tags = _split_place(error, value)
        found.append((place, tags, error))
        for at, tag in tags:
            fits = 2 if len(place) > len(at) else int(not error["type"].endswith("_type"))
            fit = branches.setdefault(at, {})
            fit[tag] = max(fit.get(tag, 0), fits)
    return [
        {**error, "loc": place}
        for place, tags, error in found
        if all(branches[at][tag] == max(branches[at].values()) for at, tag in tags)
    ]


def _split_place(
    error: Mapping[str, Any], value: Any
) -> tuple[tuple[str | int, ...], list[tuple[tuple[str | int, ...], str]]]:
    """Return the place of an error in a value, and the branches of unions with their places."""
    place: list[str | int] = []
    tags = []
    for position, part in enumerate(error["loc"], start=1):
        is_absent = error["type"] == "missing" and position == len(error["loc"])
        is_item = isinstance(value, list) and isinstance(part, int)
        if is_absent or is_item or (isinstance(value, Mapping) and part in value):
            place.append(part)
            value = None if is_absent else value[part]
        else:
            tags.append((tuple(place), str(part)))
    return tuple(place), tags


def describe(error: Mapping[str, Any], known: Collection[str] = (), what: str = "field") -> str:
    """Return a message for an invalid value: pydantic's, or a plainer one for names.

    An unknown name gets a suggestion, and a malformed one the description of valid names.

    Parameters
    ----------
    error
        One of ``ValidationError.errors()``.
    known
        The valid names, if the caller knows them.
    what
        The term for a name in the message, such as "parameter".
    """
    if error["type"] == "missing" and len(error["loc"]) == 1:
        return "the body is missing; send a JSON object, or {} if it needs no field"
    if error["type"] == "string_pattern_mismatch":
        return EXPECTED.get(error["ctx"]["pattern"], str(error["msg"]))
    if error["type"] != "extra_forbidden":
        return str(error["msg"]).removeprefix("Value error, ")
    location, name = error["loc"][0], str(error["loc"][-1])
    if location in _LOCATIONS:
        what = f"{location} parameter"
    return explain_unknown(name, known, what=what)


def json_pointer(path: Sequence[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) of a path."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
