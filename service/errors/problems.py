"""HTTP errors: the exception, the response (RFC 9457), and the handlers of all errors."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import orjson
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match
from starlette.types import Scope

from algorithms.interface.errors import AlgorithmError, InvalidArtifact
from service.errors.codes import ERRORS
from service.errors.validation import entry_of, errors_of_request
from service.observability.logs import log, request_id
from service.storage.database import UNAVAILABLE
from service.storage.shortages import find_shortage

PROBLEM_TYPE: Final = "application/problem+json"
#: Beginnings of the paths of programs; their requests are not redirected.
_API: Final = ("/v1/", "/v2/")
_CODES_BY_STATUS: Final = {404: "not-found", 405: "method-not-allowed"}
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: Maximum number of entries of ``errors`` in a response, and length of a text in it. A request of
#: a megabyte can have 50,000 errors, or one with a name of a megabyte.
MAX_ENTRIES: Final = 100
MAX_TEXT_LENGTH: Final = 4000


class Problem(HTTPException):
    """An error for the client, raised below a route and turned into a response by a handler.

    Parameters
    ----------
    code
        One of :data:`service.errors.codes.ERRORS`.
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


def error_response(error: BaseException, scope: Scope | None = None) -> Response:
    """Return the response of an error, in the format of the path's protocol.

    Everything that reports an error uses this, also outside of the application.

    Parameters
    ----------
    scope
        Scope of the request, in which ``problem_code`` is set for its audit event; None if the
        request could not be parsed.
    """
    problem = problem_of(error)
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


def problem_of(error: BaseException, **place: str) -> Problem:
    """Return the problem of an error.

    Parameters
    ----------
    place
        Fields of the event by which a bug is logged.
    """
    if isinstance(error, Problem):
        return error
    if isinstance(error, asyncio.CancelledError):  # uvicorn cancels unfinished requests at its end
        detail = "the service is stopping; send the request again to a running one"
        return Problem("unavailable", detail, headers={"Retry-After": "1", "Connection": "close"})
    shortage = find_shortage(error)
    if shortage is not None:
        log.error("resource.shortage", shortage=str(shortage), exc_info=error)
        detail = f"the service's machine reports: {shortage}; retry once there is more of it"
        return Problem("resource-shortage", detail, headers={"Retry-After": "5"})
    if isinstance(error, AlgorithmError) and not isinstance(error, InvalidArtifact):
        return from_algorithm_error(error)
    is_cut_off = isinstance(error, DBAPIError) and error.connection_invalidated
    if is_cut_off or isinstance(error, UNAVAILABLE):
        log.error("database.unavailable", exc_info=error)
        detail = "the database is not available; retry later"
        return Problem("unavailable", detail, headers={"Retry-After": "1"})
    if isinstance(error, InvalidArtifact):  # clients send no models, so that it is a stored file
        event, what = "artifact.invalid", "a stored file cannot be read"
    else:
        event, what = "request.failed", "an unexpected error"
    log.error(event, **place, exc_info=error)
    return Problem("internal", f"{what}; the log has the details under this request_id")


def install_handlers(app: FastAPI) -> None:
    """Make the app return every error as a problem document."""
    for error in (Problem, AlgorithmError, *UNAVAILABLE):
        app.add_exception_handler(error, _on_problem)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_validation_error)


async def _on_problem(request: Request, error: Exception) -> Response:
    return error_response(error, request.scope)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = _CODES_BY_STATUS.get(error.status_code, "invalid-request")
    if code == "method-not-allowed":
        methods = ", ".join(_allowed_methods(request))
        headers = {**(error.headers or {}), "Allow": methods}
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
        detail = f"{request.url.path} does not support {request.method}; use one of {methods}"
        return error_response(Problem(code, detail, headers=headers), request.scope)
    if code == "not-found":
        detail = f"there is no endpoint at {request.url.path}"
        path = request.url.path.rstrip("/")
        if path != request.url.path and _has_route(request, path):
            if request.method == "GET" and not path.startswith(_API):
                query = f"?{request.url.query}" if request.url.query else ""
                location = {"Location": f"{quote(path)}{query}"}
                return Response(status_code=308, headers=location)
            detail += f", but at {path}, without the slash at the end"
        return error_response(Problem(code, detail), request.scope)
    return error_response(Problem(code, str(error.detail)), request.scope)


def _has_route(request: Request, path: str) -> bool:
    """Return whether there is an endpoint at another path, of this service."""
    if not path.startswith("/") or path.startswith("//"):
        return False
    routes = request.app.router.routes
    return any(route.matches({**request.scope, "path": path})[0] == Match.FULL for route in routes)


def _allowed_methods(request: Request) -> list[str]:
    """Return the methods of all routes at this path; the framework returns only one route's."""
    routes = request.app.router.routes
    methods = {"OPTIONS"}
    for method in _METHODS:
        scope = {**request.scope, "method": method}
        if any(route.matches(dict(scope))[0] == Match.FULL for route in routes):
            methods.add(method)
    return sorted(methods | {"HEAD"} if "GET" in methods else methods)


async def _on_validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    invalid = errors_of_request(error.errors(), error.body)
    entries = [entry_of(e) for e in invalid[:MAX_ENTRIES]]
    first = entries[0]
    where = first.get("pointer", first.get("parameter", ""))
    more = f" (and {len(invalid) - 1} more)" if len(invalid) > 1 else ""
    detail = f"{where}: {first['detail']}{more}" if where else f"{first['detail']}{more}"
    return error_response(Problem("invalid-request", detail, errors=entries), request.scope)
