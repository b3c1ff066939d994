"""Audit events of requests.

The middleware calls :func:`record_change` for every response, so that no route can be forgotten. A
route that knows its status beforehand has stored the event with the change. A route whose requests
change nothing, although their method may write, sets ``StrictRoute.is_audited`` to false.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from fastapi.routing import APIRoute
from sqlalchemy.orm import Session
from starlette.routing import Match
from starlette.types import Message, Scope

from service.access.authenticator import Authenticator
from service.audit import store
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
    """Record a request that changes something, or was refused to.

    Parameters
    ----------
    start
        First message of the response; None if the client disconnected before it.
    """
    if scope["method"] in READING or "app" not in scope:  # refused before the application
        return
    recorder: AuditRecorder = scope["app"].state.audit
    status = None if start is None else start["status"]
    stored: list[AuditEvent] = scope.get("stored_events", [])
    for event in stored:
        recorder.note_stored(event)
    if any(status in (None, event.status) for event in stored):
        return
    target = _target_of(scope)
    if target is None:
        return
    event = _event_of(scope, target, request_id)
    path = _object_of(target, start)
    await recorder.record(
        replace(event, object=path, status=status, code=scope.get("problem_code"))
    )


def store_event(
    scope: Scope, request_id: str, session: Session, status: int, path: str | None = None
) -> None:
    """Store the event of a request in the transaction of its change, so that neither is alone.

    Parameters
    ----------
    status
        Status of the response to be sent. If another one is sent, that leaves an event too.
    path
        Path of the changed resource. Default: the path of the request.
    """
    target = _target_of(scope)
    assert target is not None  # its route calls this
    event = _event_of(scope, target, request_id)
    event = replace(event, object=path or _object_of(target, None), status=status)
    store.add(session, event, then=lambda: scope.setdefault("stored_events", []).append(event))


def _event_of(scope: Scope, target: "_Target", request_id: str) -> AuditEvent:
    """Return the event of a request, without its outcome."""
    authenticator: Authenticator = scope["app"].state.authenticator
    caller = authenticator.describe(_authorization_of(scope))
    client = scope.get("client")
    return AuditEvent(
        operation=target.route.name,
        # the key may have left the cache during a long request
        owner=scope.get("owner", caller.owner),
        key_id=scope.get("key_id", caller.key_id),
        source=None if client is None else client[0],
        request_id=request_id,
    )


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
        match, child_scope = route.matches(scope)
        if match == Match.FULL:
            return route, child_scope["path_params"]
    return None, {}


def _object_of(target: _Target, start: Message | None) -> str | None:
    """Return the path of the resource: up to the last parameter of the route, or Location."""
    template, bracket, _ = target.route.path_format.rpartition("}")
    if bracket:
        return f"{template}{bracket}".format(**target.path_params)
    if start is None:
        return None
    return headers_of(start["headers"]).get("location")
