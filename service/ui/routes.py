"""The start page, which shows datasets, jobs with their progress, and models."""

from functools import cache
from pathlib import Path
from typing import Final

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

router = APIRouter(include_in_schema=False)

#: Only inline scripts and styles, and only requests to this service.
_POLICY: Final = (
    "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
)


@cache
def _page() -> str:
    return (Path(__file__).parent / "index.html").read_text(encoding="utf-8")


@router.get("/")
def start_page() -> HTMLResponse:
    """Return the start page."""
    return HTMLResponse(_page(), headers={"Content-Security-Policy": _POLICY})
