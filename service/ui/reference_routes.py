"""The documentation of the API, with scripts of this service only."""

from importlib.resources import files
from pathlib import Path
from typing import Final

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from service.http.requests import prefix_of
from service.ui.rendering import Frame, render
from service.ui.views.reference import reference_view

router = APIRouter(include_in_schema=False)

_HERE: Final = Path(__file__).parent
_REFERENCE: Final = Frame("API reference", "/docs")
_TRY: Final = Frame("Try requests", "/docs")
_PACKAGED: Final = files("fastapi_standalone_docs") / "static"
_ASSETS: Final = {
    "swagger-ui.css": (_PACKAGED / "swagger" / "swagger-ui.css", "text/css"),
    "swagger-ui-bundle.js": (_PACKAGED / "swagger" / "swagger-ui-bundle.js", "text/javascript"),
    "swagger.js": (_HERE / "swagger.js", "text/javascript"),
}


@router.get("/docs")
def reference_page(request: Request) -> HTMLResponse:
    """Return the reference of the API."""
    return render(request, "reference.html", _REFERENCE, reference_view(request.app.openapi()))


@router.get("/docs/try")
def try_page(request: Request) -> HTMLResponse:
    """Return the page on which requests can be tried out."""
    return render(request, "try.html", _TRY)


@router.get("/openapi.json")
def openapi_document(request: Request) -> Response:
    """Return the OpenAPI document."""
    content = request.app.openapi_json
    prefix = prefix_of(request.scope)
    if prefix:
        content = orjson.dumps({**request.app.openapi(), "servers": [{"url": prefix}]})
    return Response(content, media_type="application/json")


def _add_asset(name: str) -> None:
    file, media_type = _ASSETS[name]

    def asset() -> Response:
        content = file.read_bytes()
        return Response(content, media_type=media_type, headers={"Cache-Control": "no-cache"})

    router.get(f"/docs/assets/{name}")(asset)


for _name in _ASSETS:
    _add_asset(_name)
