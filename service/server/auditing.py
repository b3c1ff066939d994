"""Audit events of requests.

The middleware calls this for every response, so that no route can be forgotten. A route whose
requests change nothing, although their method is not one that reads, has to say so
(``StrictRoute.is_audited``).
"""

from dataclasses import replace
from typing import Any, NamedTuple

from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import Message, Scope

from service.access.authenticator import Authenticator
from service.audit.events import AuditEvent
from service.audit.recorder import AuditRecorder
from service.errors.problems import Problem
from service.http.requests import headers_of
from service.http.routing import READING, StrictRoute, authorization_of


class _Target(NamedTuple):
    """Route of a request, and the parameters in its path."""

    route: APIRoute
    path_params: dict[str, Any]


async def record_change(scope: Scope, start: Message | None, request_id: str) -> None:
    """Record a request that changes something, or was refused to: an event for each object.

    A route that changes others than that of its path has their paths in ``scope["also_changed"]``.

    Parameters
    ----------
    start
        First message of the response; None if the client disconnected before it.
    """
    if scope["method"] in READING or "app" not in scope:  # refused before the application
        return
    target = _target_of(scope)
    if target is None:
        return
    state = scope["app"].state
    authenticator: Authenticator = state.authenticator
    caller = authenticator.describe(_authorization_of(scope))
    client = scope.get("client")
    recorder: AuditRecorder = state.audit
    event = AuditEvent(
        operation=target.route.name,
        object=_object_of(target, start),
        status=None if start is None else start["status"],
        code=scope.get("problem_code"),
        # the key may have left the cache during a long request
        owner=scope.get("owner", caller.owner),
        key_id=caller.key_id,
        source=None if client is None else client[0],
        request_id=request_id,
    )
    others = [replace(event, object=path) for path in scope.get("also_changed", ())]
    await recorder.record(event, *others)


def _authorization_of(scope: Scope) -> str | None:
    try:
        return authorization_of(headers_of(scope["headers"]), scope)
    except Problem:  # the request was refused for it
        return None


def _target_of(scope: Scope) -> _Target | None:
    """Return the audited route of a request; None if there is none at its path and method."""
    route, path_params = scope.get("route"), scope.get("path_params", {})
    if route is None:  # refused before a route was looked for
        route, path_params = _find_route(scope)
    # a path that exists with other methods has a route too
    if not isinstance(route, APIRoute) or scope["method"] not in (route.methods or ()):
        return None
    if isinstance(route, StrictRoute) and not route.is_audited:
        return None
    return _Target(route, path_params)


def _find_route(scope: Scope) -> tuple[object, dict[str, Any]]:
    for route in scope["app"].state.routes:
        match, found = route.matches(scope)
        if match == Match.FULL:
            return route, found["path_params"]
    return None, {}


def _object_of(target: _Target, start: Message | None) -> str | None:
    """Return the path of the resource: up to the last parameter of the route, or Location."""
    template, bracket, _ = target.route.path_format.rpartition("}")
    if bracket:
        return f"{template}{bracket}".format(**target.path_params)
    if start is None:
        return None
    return headers_of(start["headers"]).get("location")
