"""HTTP routes of the report of a version: one HTML file with everything inside."""

import base64
import hashlib
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from service.errors.problems import Problem
from service.http.documentation import problems
from service.http.routing import secured
from service.models.routes import Name
from service.models.version_paths import add_version_routes
from service.ui.api import Api, Refused, segment
from service.ui.rendering import render_file
from service.ui.views.model_report import report_view

router = APIRouter(prefix="/v1/models", tags=["models"], route_class=secured("models:{}"))

#: Of this service, so no text in it needs to be escaped.
_STYLE: Final = Markup((Path(__file__).parent / "templates" / "report.css").read_text())  # noqa: S704
_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_DOCUMENTED: Final[dict[str, Any]] = {
    "response_class": HTMLResponse,
    "responses": {
        200: {
            "description": "A document with its style and pictures inside, which prints as PDF.",
            "content": {"text/html": {"schema": {"type": "string"}}},
        },
        **problems("not-found", "invalid-request"),
    },
}


async def _report(name: Name, version: int | None, request: Request) -> HTMLResponse:
    """Return a report to read, print and send: answer, plots, methods, data, versions, sources."""
    api = Api(request)
    if version is None:
        model = await _answered(api.get(f"/v1/models/{segment(name)}"))
        name, version = model["name"], model["version"]
    view = await _answered(report_view(api, name, version))
    text = render_file(request, "report.html", view=view, style=_STYLE)
    file = f"report-{view.version.model['name']}-{version}.html"
    headers = {
        "Content-Security-Policy": _POLICY,
        "Content-Disposition": f'inline; filename="{file}"',
    }
    return HTMLResponse(text, headers=headers)


async def _answered(requests: Any) -> Any:
    """Return the result of requests to the API; raise the problem of the one that is refused."""
    try:
        return await requests
    except Refused as error:
        raise Problem(error.problem["code"], error.problem["detail"]) from None


add_version_routes(
    router,
    "GET",
    "/{name}/report.html",
    _report,
    names=("get_readable_report_of_latest", "get_readable_report_of_version"),
    summaries=("Report to read, latest version", "Report to read, given version"),
    **_DOCUMENTED,
)
