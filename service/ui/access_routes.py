"""Pages about access: API keys, and the audit log."""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.ui.api_examples import listing
from service.ui.rendering import Frame, render, scopes_of
from service.ui.routing import Access, PageRoute
from service.ui.views.audit import audit_csv, audit_view
from service.ui.views.keys import keys_view

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_KEYS: Final = Frame("API keys", "/keys", listing("keys", {}), scripts=("actions.js", "keys.js"))


@router.get("/keys")
async def keys_page(request: Request, api: Access) -> Response:
    """Return the page of API keys."""
    await api.get("/v1/keys", page_size=1)  # refuses before the scopes are looked up
    view = await keys_view(api, request.query_params, scopes_of(request))
    return render(request, "keys.html", _KEYS, view)


@router.get("/audit")
async def audit_page(request: Request, api: Access) -> Response:
    """Return the audit log."""
    view = await audit_view(api, request.query_params)
    frame = Frame("Audit log", "/audit", listing("audit", view.query))
    return render(request, "audit.html", frame, view)


@router.get("/audit/export")
async def audit_export(request: Request, api: Access) -> Response:
    """Return the events that the filters of the audit log select, as CSV."""
    return Response(
        await audit_csv(api, request.query_params),
        media_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="audit.csv"'},
    )
