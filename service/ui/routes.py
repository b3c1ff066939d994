"""The pages: the start page, and the documentation of the API.

All scripts come from this service, and the policy of each page allows no others: a script in the
page of an origin can read the API key that the start page stores for it.
"""

import base64
import hashlib
import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

router = APIRouter(include_in_schema=False)

_HERE: Final = Path(__file__).parent
_POLICY: Final = (
    "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
#: Swagger UI and Redoc set styles from scripts; Redoc searches in a worker that it makes of text.
_DOCS_POLICY: Final = (
    f"{_POLICY}; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "worker-src blob:"
)
_PACKAGED: Final = files("fastapi_standalone_docs") / "static"
_ASSETS: Final = {
    "swagger-ui.css": (_PACKAGED / "swagger" / "swagger-ui.css", "text/css"),
    "swagger-ui-bundle.js": (_PACKAGED / "swagger" / "swagger-ui-bundle.js", "text/javascript"),
    "redoc.standalone.js": (_PACKAGED / "redoc" / "redoc.standalone.js", "text/javascript"),
    "swagger.js": (_HERE / "swagger.js", "text/javascript"),
}


@router.get("/")
def start_page() -> HTMLResponse:
    """Return the start page."""
    text = _page("index.html")
    hashes = {name: " ".join(_inline_hashes(text, name)) for name in ("script", "style")}
    policy = f"{_POLICY}; script-src {hashes['script']}; style-src {hashes['style']}; img-src data:"
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})


@router.get("/docs")
def swagger_page() -> HTMLResponse:
    """Return the documentation of the API, in which requests can be tried out."""
    return HTMLResponse(_page("swagger.html"), headers={"Content-Security-Policy": _DOCS_POLICY})


@router.get("/redoc")
def redoc_page() -> HTMLResponse:
    """Return the reference of the API."""
    return HTMLResponse(_page("redoc.html"), headers={"Content-Security-Policy": _DOCS_POLICY})


@router.get("/openapi.json")
def openapi_document(request: Request) -> Response:
    """Return the OpenAPI document."""
    return Response(request.app.openapi_json, media_type="application/json")


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


@cache
def _inline_hashes(page: str, element: str) -> list[str]:
    """Return the hashes of the inline scripts or styles of a page, for its policy."""
    contents = re.findall(f"<{element}>(.*?)</{element}>", page, flags=re.DOTALL)
    digests = [hashlib.sha256(content.encode()).digest() for content in contents]
    return [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
