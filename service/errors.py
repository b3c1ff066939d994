"""Errors over HTTP: one table of codes, one exception, one shape (RFC 9457)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import OperationalError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from algorithms.interface.errors import AlgorithmError
from service.logs import log, request_id


@dataclass(frozen=True, slots=True)
class Kind:
    """What one code means: its status, its title, what causes it and what cures it."""

    status: int
    title: str
    cause: str
    cure: str


#: Every code of the ``error`` of a job that no response has: what causes it, and what cures it.
JOB_CODES: Final[dict[str, tuple[str, str]]] = {
    "diverged": (
        "The objective became infinite or no number.",
        "Rescale the data, or regularise more.",
    ),
    "out-of-memory": (
        "The work needed more than `memory_mb`.",
        "Raise `memory_mb`, or give less data at a time.",
    ),
    "timed-out": ("An attempt took longer than `timeout_s`.", "Raise `timeout_s`."),
    "cancelled": ("Its owner cancelled it.", "Submit it again if it is wanted after all."),
    "base-model-deleted": (
        "The model that it was to start from, or to call, was deleted as it was submitted.",
        "Submit it with a model that is there.",
    ),
    "worker-lost": (
        "The process that supervised it died or was cut off, as often as `max_attempts` allows.",
        "Look at the machine; raise `max_attempts`.",
    ),
    "worker-failed": (
        "The worker could not fetch what it needs.",
        "Look at the detail, and its log.",
    ),
    "result-not-stored": (
        "The result could not be stored.",
        "Make room in the database; submit it again.",
    ),
    "never-started": (
        "The pool took it and never began, again and again.",
        "Look at the pool's log.",
    ),
    "worker-start-failed": (
        "The process of the work did not start.",
        "Look at the detail and the machine.",
    ),
    "requeued": ("It was stopped and returned to the queue.", "Nothing: it continues by itself."),
    "worker-exited": (
        "The process of the work ended by itself.",
        "Look at the detail; submit it again.",
    ),
    "crashed": ("The process of the work ended in a crash.", "Look at the detail; report it."),
    "internal-error": ("An error of ours; the detail has where.", "Report it with the detail."),
}

#: Every code that a response can carry; ``docs/errors.md`` is made from it.
KINDS: Final[dict[str, Kind]] = {
    "malformed-json": Kind(
        400,
        "The body is not JSON",
        "The body cannot be read as JSON (RFC 8259): a syntax error, NaN or Infinity, "
        "a lone surrogate, bytes that are not UTF-8, or nesting without end.",
        "Send valid JSON. There is no NaN in JSON: leave such rows out.",
    ),
    "malformed-body": Kind(
        400,
        "The body is not what its type says",
        "A binary body is truncated or damaged.",
        "Send the file again; the detail says where reading stopped.",
    ),
    "invalid-page-token": Kind(
        400,
        "The page token is not one of ours",
        "`page_token` was changed or made up.",
        "Take `next_page_token` from the page before, or leave it out for the first page.",
    ),
    "unauthenticated": Kind(
        401,
        "No valid key",
        "The service asks for an API key, and the request has none that is valid now.",
        "Send `Authorization: Bearer sib_...`; the operator makes keys with `sibling keys create`.",
    ),
    "forbidden": Kind(
        403,
        "The key does not allow this",
        "The key is valid, but lacks the scope that the detail names.",
        "Use a key with this scope.",
    ),
    "not-found": Kind(
        404,
        "Nothing is there",
        "The path, or the id or name in it, is unknown, or belongs to another owner.",
        "List the collection to see what is there.",
    ),
    "no-relations": Kind(
        404,
        "The model has no relations",
        "It learned its tasks apart, or one thing for all of them.",
        "Train a model that relates its tasks, such as one of `fmtl`, `mtfl` or `rmt-pca`.",
    ),
    "no-report": Kind(
        404,
        "The model has no report",
        "It was trained without a search, a comparison or an evaluation.",
        "Submit a job with `search`, `compare` or `evaluate` to have one.",
    ),
    "method-not-allowed": Kind(
        405,
        "The method is not allowed here",
        "The path exists, but not with this method.",
        "Use one of the methods in the `Allow` header.",
    ),
    "not-acceptable": Kind(
        406,
        "No such representation",
        "`Accept` names no format that this endpoint can give.",
        "Use one of the formats in the detail.",
    ),
    "in-use": Kind(
        409,
        "Something still needs it",
        "A dataset is needed by a job that has not ended or by a model; a version of a model, by "
        "such a job too, by an alias that names it, or by a model that goes on from it.",
        "Cancel the job, delete the model or move the alias that the detail names, then delete "
        "again.",
    ),
    "wrong-state": Kind(
        409,
        "Not possible in this state",
        "The resource is in a state in which this cannot be done, such as training on a "
        "dataset that is not ready, or cancelling a job that has ended.",
        "Read the resource; wait until its state allows it.",
    ),
    "precondition-failed": Kind(
        412,
        "It has changed meanwhile",
        "`If-Match` names another version than the present one.",
        "Read the resource again, then decide again.",
    ),
    "body-too-large": Kind(
        413,
        "The body is too large",
        "The body has more bytes than the limit that the detail names.",
        "Send less, or have the operator raise the limit.",
    ),
    "too-many-rows": Kind(
        413,
        "Too many rows at a time",
        "An inference call has more rows, or would give a larger answer, than the operator allows.",
        "Send the rows in several calls.",
    ),
    "unsupported-media-type": Kind(
        415,
        "This format is not read here",
        "`Content-Type` names a format that this endpoint does not read, or the bytes are of "
        "another format than it says. Pickle and joblib are never read.",
        "Use one of the formats in the detail.",
    ),
    "invalid-request": Kind(
        422,
        "A field is missing, unknown or out of bounds",
        "The body is JSON, but not the JSON that the endpoint takes.",
        "Each entry of `errors` names one place (`pointer` into the body, or `parameter`).",
    ),
    "invalid-params": Kind(
        422,
        "A parameter of the algorithm is out of bounds",
        "A parameter is unknown, out of its bounds, or impossible for these tasks.",
        "See `GET /v1/algorithms/{name}` for names, bounds and defaults.",
    ),
    "invalid-data": Kind(
        422,
        "The data do not fit",
        "The tasks do not fit the algorithm, or rows do not fit the model.",
        "The detail names the task, and the row and column where there is one.",
    ),
    "invalid-dataset": Kind(
        422,
        "The upload was rejected",
        "The upload breaks the rules of its layout; `errors` lists every complaint.",
        "Mend the places named and upload again. Nothing of the upload was kept.",
    ),
    "unknown-task": Kind(
        422,
        "The model does not know this task",
        "The model was not trained on a task of this name.",
        "Use one of the names in the detail, or train a model with this task.",
    ),
    "unknown-algorithm": Kind(
        422,
        "There is no such algorithm",
        "The job names an algorithm that is not installed.",
        "See `GET /v1/algorithms`.",
    ),
    "key-reused": Kind(
        422,
        "The Idempotency-Key was used for another request",
        "The same `Idempotency-Key` came before with another body or path.",
        "Use a fresh key for a new request.",
    ),
    "unsupported-method": Kind(
        422,
        "The model has no such method",
        "The model cannot do what is asked, such as predict with a projection.",
        "The model's `methods` lists what it can do.",
    ),
    "precondition-required": Kind(
        428,
        "Say what you write over",
        "The request would write over something that is there, and has no `If-Match`.",
        "Read the resource, and send its `ETag` as `If-Match`.",
    ),
    "queue-full": Kind(
        429,
        "Too many jobs are waiting",
        "The owner has as many waiting jobs as the operator allows.",
        "Submit again after the seconds that `Retry-After` names, or cancel waiting jobs.",
    ),
    "internal": Kind(
        500,
        "Our fault",
        "A defect of the service.",
        "Report it with the `request_id`; the log has the details under it.",
    ),
    "unavailable": Kind(
        503,
        "Not now",
        "The service is starting, stopping or overloaded, or its database is away.",
        "Try again after the seconds that `Retry-After` names.",
    ),
}

#: What any route may answer.
ANYWHERE: Final = (
    "unauthenticated",
    "forbidden",
    "invalid-request",
    "internal",
    "unavailable",
)

PROBLEM_TYPE: Final = "application/problem+json"
_CODES_BY_STATUS: Final = {404: "not-found", 405: "method-not-allowed"}
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
_LOCATIONS: Final = {"query": "query", "path": "path", "header": "header", "cookie": "cookie"}


class Problem(HTTPException):
    """An error for the caller; raised anywhere below a route, answered in one place.

    Parameters
    ----------
    code
        One of :data:`KINDS`.
    detail
        One sentence: what was expected, what came, where, what to do.
    errors
        Places: ``{"pointer" | "parameter", "code", "detail", ...}``.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(KINDS[code].status, detail, dict(headers or {}))
        self.code = code
        self.errors = list(errors)


def from_algorithm_error(error: AlgorithmError) -> Problem:
    """Give the problem that tells an algorithm's complaint."""
    code = error.code if error.code in KINDS else "invalid-data"
    place = {"task": error.task, "row": error.row, "column": error.column}
    entry: dict[str, Any] = {k: v for k, v in place.items() if v is not None}
    if error.field is not None:
        entry["pointer"] = f"/{error.place}/{error.field}"
    elif error.place != "params":
        entry["pointer"] = f"/{error.place}"
    if not entry:
        return Problem(code, error.message)
    return Problem(code, error.message, errors=[{"code": code, "detail": error.message, **entry}])


def problem_response(problem: Problem, path: str = "") -> Response:
    """Give the response of a problem, as the protocol of the path has it."""
    kind = KINDS[problem.code]
    is_v2 = path == "/v2" or path.startswith("/v2/")
    # clients of the protocol know 400 for whatever is wrong with a request
    status = 400 if is_v2 and kind.status == 422 else kind.status
    body = {
        "type": f"urn:sibling:error:{problem.code}",
        "title": kind.title,
        "status": status,
        "code": problem.code,
        "detail": problem.detail,
        "request_id": request_id(),
        "errors": problem.errors,
    }
    if is_v2:
        body["error"] = problem.detail
    return Response(
        orjson.dumps(body),
        status_code=status,
        headers=problem.headers,
        media_type="application/json" if is_v2 else PROBLEM_TYPE,
    )


def problem_of(error: Exception) -> Problem | None:
    """Give the problem that an error below a route stands for; None for a defect."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, AlgorithmError):
        return from_algorithm_error(error)
    if isinstance(error, OperationalError):
        log.error("database.away", exc_info=error)
        detail = "the database does not answer; try again"
        return Problem("unavailable", detail, headers={"Retry-After": "1"})
    return None


def install_handlers(app: FastAPI) -> None:
    """Make the app answer every error as a problem."""
    for kind in (Problem, AlgorithmError, OperationalError):
        app.add_exception_handler(kind, _on_problem)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_validation_error)


async def _on_problem(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    assert problem is not None
    return problem_response(problem, request.url.path)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CODES_BY_STATUS.get(error.status_code, "invalid-request")
    if code == "method-not-allowed":
        methods = ", ".join(_allowed_methods(request))
        if request.method == "OPTIONS":
            return Response(status_code=204, headers={"Allow": methods})
        detail = f"{request.method} is not allowed for {request.url.path}; allowed: {methods}"
        return problem_response(Problem(code, detail, headers={"Allow": methods}), request.url.path)
    if code == "not-found":
        return problem_response(
            Problem(code, f"there is nothing at {request.url.path}"), request.url.path
        )
    return problem_response(Problem(code, str(error.detail)), request.url.path)


def _allowed_methods(request: Request) -> list[str]:
    """Give the methods that some route takes at this path: the framework names one route's only."""
    routes = request.app.router.routes
    methods = {"OPTIONS"}
    for method in _METHODS:
        scope = {**request.scope, "method": method}
        if any(route.matches(dict(scope))[0] == Match.FULL for route in routes):
            methods.add(method)
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)


async def _on_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    entries = [_place(e) for e in error.errors()]
    first = entries[0]
    where = first.get("pointer", first.get("parameter", ""))
    more = f" (and {len(entries) - 1} more)" if len(entries) > 1 else ""
    detail = f"{where}: {first['detail']}{more}"
    return problem_response(Problem("invalid-request", detail, errors=entries), request.url.path)


def _place(error: Mapping[str, Any]) -> dict[str, Any]:
    """Give one entry of ``errors``; the offending input is never echoed."""
    location, *rest = error["loc"]
    entry = {"code": error["type"], "detail": error["msg"]}
    if location in _LOCATIONS:
        return {"parameter": f"{location}:{'.'.join(str(part) for part in rest)}", **entry}
    return {"pointer": json_pointer(rest), **entry}


def json_pointer(path: Sequence[str | int]) -> str:
    """Give the JSON pointer (RFC 6901) of a path."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
