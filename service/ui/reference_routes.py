"""The documentation of the API, with scripts of this service only."""

from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from service.http.requests import prefix_of

router = APIRouter(include_in_schema=False)

_HERE: Final = Path(__file__).parent
_POLICY: Final = (
    "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_SWAGGER_POLICY: Final = f"{_POLICY}; script-src 'self'; style-src 'self'; img-src 'self' data:"
#: Redoc makes style elements: empty ones, which it fills by the object model, and one with a text.
#: After an update of Redoc, the console of a browser shows the hash of a text that has changed.
_REDOC_STYLES: Final = (
    "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='",
    "'sha256-QMIg+bpjm3JdElJ388KYke01izlUW0UoNOeKjpMxdgc='",
)
#: Redoc searches in a worker that it makes of text.
_REDOC_POLICY: Final = (
    f"{_POLICY}; script-src 'self'; style-src 'self' {' '.join(_REDOC_STYLES)}; "
    "img-src 'self' data:; worker-src blob:"
)
_PACKAGED: Final = files("fastapi_standalone_docs") / "static"
_ASSETS: Final = {
    "swagger-ui.css": (_PACKAGED / "swagger" / "swagger-ui.css", "text/css"),
    "swagger-ui-bundle.js": (_PACKAGED / "swagger" / "swagger-ui-bundle.js", "text/javascript"),
    "redoc.standalone.js": (_PACKAGED / "redoc" / "redoc.standalone.js", "text/javascript"),
    "swagger.js": (_HERE / "swagger.js", "text/javascript"),
}


@router.get("/docs")
def swagger_page() -> HTMLResponse:
    """Return the documentation of the API, in which requests can be tried out."""
    return HTMLResponse(_page("swagger.html"), headers={"Content-Security-Policy": _SWAGGER_POLICY})


@router.get("/redoc")
def redoc_page() -> HTMLResponse:
    """Return the reference of the API."""
    return HTMLResponse(_page("redoc.html"), headers={"Content-Security-Policy": _REDOC_POLICY})


@router.get("/redoc/logo-mini.svg")
def redoc_logo() -> Response:
    """Return the logo of Redoc, which its page asks for at this address."""
    content = (_PACKAGED / "redoc" / "logo-mini.svg").read_bytes()
    return Response(content, media_type="image/svg+xml", headers={"Cache-Control": "no-cache"})


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


@cache
def _page(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
