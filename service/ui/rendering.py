"""HTML responses from templates."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from fastapi import Request
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from service.access.authenticator import Authenticator
from service.access.keys import allows
from service.http.requests import base_of, prefix_of
from service.http.routing import session_of
from service.settings import Settings
from service.ui import assets, formats
from service.ui.api_examples import ApiExample
from service.ui.views.glossary import GLOSSARY, TERMS

#: Scripts and styles come from files of this service; none are inline.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
#: Browsers send ``Origin: null`` with forms of a page without referrer.
HEADERS: Final = {"Content-Security-Policy": POLICY, "Referrer-Policy": "same-origin"}

#: Pages of the navigation, with the scope that they need.
_PAGES: Final = (
    ("/", "Overview", "jobs:read"),
    ("/datasets", "Datasets", "datasets:read"),
    ("/jobs", "Jobs", "jobs:read"),
    ("/models", "Models", "models:read"),
    ("/algorithms", "Algorithms", None),
    ("/keys", "Keys", "keys:read"),
    ("/webhooks", "Webhooks", "webhooks:read"),
    ("/audit", "Audit", "audit:read"),
    ("/docs", "API", None),
    ("/help/", "Help", None),
)

#: Beginnings of links of a page to paths of this service.
_LINK: Final = re.compile(r'(\s(?:href|src|srcset|action)=")(?=/)')

_environment: Final = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
)
_environment.globals["asset"] = assets.address
_environment.globals["glossary"] = GLOSSARY
_environment.globals["terms"] = TERMS
for _filter in (formats.ago, formats.exact, formats.number, formats.plain, formats.size):
    _environment.filters[_filter.__name__] = _filter


@dataclass(frozen=True, slots=True)
class Frame:
    """Frame of a page: title, navigation, scripts and examples of API requests.

    Parameters
    ----------
    section
        Entry of the navigation that is marked; empty for none.
    example
        Requests to the API that return the contents of the page.
    submission
        Request that created the job of the page; None for other pages.
    live_path
        Path of the event stream that announces changes; empty for none.
    live_events
        Names of the events after which the page is read again.
    reloads
        Whether the whole page is loaded again once nothing changes any more.
    scripts
        Names of assets.
    """

    title: str
    section: str = ""
    example: ApiExample | None = None
    submission: ApiExample | None = None
    live_path: str = ""
    live_events: str = ""
    reloads: bool = False
    scripts: tuple[str, ...] = field(default=())


def scopes_of(request: Request) -> Sequence[str]:
    """Return the scopes of the caller, once the API has answered a request of theirs."""
    authenticator: Authenticator = request.app.state.authenticator
    session = session_of(request.headers.get("cookie", ""), request.scope)
    return authenticator.describe(request.headers.get("authorization", session)).scopes


def has_webhooks(request: Request) -> bool:
    """Return whether the operator allows webhooks."""
    settings: Settings = request.app.state.settings
    return bool(settings.resolved_webhook_hosts())


def pages_of(
    scopes: Sequence[str], *, is_open: bool, has_webhooks: bool = False
) -> list[tuple[str, str]]:
    """Return the paths and titles of the pages of a caller; the first page is their start page."""
    hidden = {"/keys"} if is_open else set()
    hidden |= set() if has_webhooks else {"/webhooks"}
    return [
        (path, title)
        for path, title, scope in _PAGES
        if allows(list(scopes), scope) and path not in hidden
    ]


def render(
    request: Request, template: str, frame: Frame, view: Any = None, *, status: int = 200
) -> HTMLResponse:
    """Return a page; its template asks ``may(scope)`` before it offers an action with a scope."""
    is_open = request.app.state.authenticator.is_open
    scopes, prefix = list(scopes_of(request)), prefix_of(request.scope)
    text = _environment.get_template(template).render(
        frame=frame,
        view=view,
        is_open=is_open,
        is_signed_in=is_open or bool(scopes),
        may=partial(allows, scopes),
        is_live=frame.live_path != "" and allows(scopes, "jobs:read"),
        pages=pages_of(scopes, is_open=is_open, has_webhooks=has_webhooks(request)),
        origin=base_of(request),
        prefix=prefix,
    )
    if prefix:
        text = _LINK.sub(rf"\1{prefix}", text)
    return HTMLResponse(text, status_code=status, headers=HEADERS)


def render_file(request: Request, template: str, **context: Any) -> str:
    """Return a document that is read without this service too: its links have the whole address."""
    text = _environment.get_template(template).render(**context)
    return _LINK.sub(rf"\1{base_of(request)}", text)
