"""Errors outside of the handlers of pages: a browser gets a page, a program a problem document."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any, Final

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from service.errors.problems import Problem
from service.storage.database import UNAVAILABLE
from service.ui.routing import error_page

#: Paths of programs.
_API: Final = ("/v1", "/v2")

Handler = Callable[[Request, Exception], Awaitable[Response]]


def install_error_pages(app: FastAPI) -> None:
    """Show browsers a page, for example where no route matches, or no session can be opened.

    The handlers of the API are installed before, and create the problem document.
    """
    for error in (HTTPException, RequestValidationError, Problem, *UNAVAILABLE):
        handler: Any = app.exception_handlers[error]
        app.add_exception_handler(error, _with_page(handler))


def _with_page(handle: Handler) -> Handler:
    async def handle_for_browsers(request: Request, error: Exception) -> Response:
        response = await handle(request, error)
        if not is_browser(request) or response.status_code < HTTPStatus.BAD_REQUEST:
            return response
        problem = orjson.loads(response.body)
        if problem["status"] == HTTPStatus.NOT_FOUND:
            problem |= {"detail": f"there is no page at {request.url.path}", "remedy": ""}
        page = error_page(request, problem)
        # such as Allow and Retry-After
        page.headers.update({k: v for k, v in response.headers.items() if k[:8] != "content-"})
        return page

    return handle_for_browsers


def is_browser(request: Request) -> bool:
    """Return whether somebody looks for a page."""
    accepts_html = "text/html" in request.headers.get("accept", "")
    return accepts_html and not request.url.path.startswith(_API)
