"""Pages about access: API keys, webhooks, and the audit log."""

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from service.ui.api_examples import ApiExample, listing
from service.ui.rendering import Frame, has_webhooks, render, scopes_of
from service.ui.routing import Access, PageRoute
from service.ui.views.audit import audit_csv, audit_view
from service.ui.views.keys import keys_view
from service.ui.views.webhooks import deliveries_view, webhooks_view

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_KEYS: Final = Frame("API keys", "/keys", listing("keys", {}), scripts=("actions.js", "keys.js"))
_WEBHOOK_SCRIPTS: Final = ("actions.js", "webhooks.js")


@router.get("/keys")
async def keys_page(request: Request, api: Access) -> Response:
    """Return the page of API keys."""
    await api.get("/v1/keys", page_size=1)  # refuses before the scopes are looked up
    view = await keys_view(api, request.query_params, scopes_of(request))
    return render(request, "keys.html", _KEYS, view)


@router.get("/webhooks")
async def webhooks_page(request: Request, api: Access) -> Response:
    """Return the list of webhooks, with the form for a new one."""
    view = await webhooks_view(api, is_on=has_webhooks(request))
    example = listing("webhooks", {})
    frame = Frame("Webhooks", "/webhooks", example, scripts=_WEBHOOK_SCRIPTS)
    return render(request, "webhooks.html", frame, view)


@router.get("/webhooks/{webhook_id}")
async def webhook_page(request: Request, api: Access, webhook_id: str) -> Response:
    """Return the deliveries of a webhook."""
    view = await deliveries_view(api, webhook_id, request.query_params)
    program = f"for delivery in client.webhook_deliveries({webhook_id!r}):\n    print(delivery)"
    example = ApiExample([f"/v1/webhooks/{webhook_id}/deliveries"], program)
    frame = Frame(view.title, "/webhooks", example, scripts=_WEBHOOK_SCRIPTS)
    return render(request, "webhook.html", frame, view)


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
