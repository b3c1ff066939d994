"""The documentation, from the files that ``make site`` builds."""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles

from service.ui.rendering import HEADERS, Frame, render

router = APIRouter(include_in_schema=False)

SITE: Final = Path(__file__).parents[1] / "help"
_files: Final = StaticFiles(directory=SITE, html=True, check_dir=False)
_FRAME: Final = Frame(title="Help", section="/help/")


@router.get("/help")
def help_address() -> RedirectResponse:
    """Redirect to the first page of the documentation; the others are below it."""
    return RedirectResponse("/help/", status_code=308)


@router.get("/help/{path:path}")
async def help_file(request: Request, path: str) -> Response:
    """Return a file of the documentation, or a page on how to build the documentation."""
    if not (SITE / "index.html").exists():
        return render(request, "help.html", _FRAME, status=404 if path else 200)
    response = await _files.get_response(path or "index.html", request.scope)
    if "location" in response.headers:  # of a folder; without the host, as all other redirects
        response.headers["location"] = urlsplit(response.headers["location"]).path
    # revalidated by ETag: the names of pages stay when their contents change
    response.headers.update({**HEADERS, "Cache-Control": "no-cache"})
    return response
