"""Routes of pages: errors of the API become pages."""

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import Depends, Request
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute
from starlette.responses import Response

from service.ui.api import Api, Refused
from service.ui.rendering import Frame, render

_UNAUTHENTICATED: Final = 401
_NOT_FOUND: Final = 404
_COLLECTIONS: Final = ("/datasets", "/jobs", "/models", "/algorithms")


class PageRoute(APIRoute):
    """A route that answers errors of the API with a page, or with the page to sign in."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler."""
        handle = super().get_route_handler()

        async def page(request: Request) -> Response:
            try:
                return await handle(request)
            except Refused as error:
                return error_page(request, error.problem)

        return page


def error_page(request: Request, problem: dict[str, Any]) -> Response:
    """Return the page of an error."""
    if problem["status"] == _UNAUTHENTICATED:
        query = f"?{request.url.query}" if request.url.query else ""
        target = quote(f"{request.url.path}{query}", safe="")
        return RedirectResponse(f"/login?next={target}", status_code=303)
    section = f"/{request.url.path.split('/')[1]}"
    is_missing = problem["status"] == _NOT_FOUND and section in _COLLECTIONS
    view = {"problem": problem, "collection": section if is_missing else ""}
    frame = Frame(title=problem["title"], section=section)
    return render(request, "error.html", frame, view, status=problem["status"])


async def _api(request: Request) -> Api:
    return Api(request)


#: Dependency of pages: the API with the access of the request.
Access = Annotated[Api, Depends(_api)]
