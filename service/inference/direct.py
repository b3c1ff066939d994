"""Calls of models, answered ahead of the framework, which takes longer than all else about them.

What is not plain about an address goes on to the framework, which tells what is wrong with it.
"""

import re
from collections.abc import Sequence
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from service.http import StrictRequest, StrictRoute

#: What every route takes of an address; what a route takes beyond, its own declaration tells.
_PLAIN: Final = {"name": re.compile(r".{1,100}"), "version": re.compile(r"[1-9][0-9]{0,8}")}
_PLAIN_QUERY: Final = re.compile(rb"task=([A-Za-z0-9._~-]+)")


class DirectCalls:
    """Answers plain requests of some routes as the framework would.

    Parameters
    ----------
    routes
        Routes of POST whose endpoints take ``request``, ``services``, ``owner``, ``task``, and of
        the path ``name`` and ``version``.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[StrictRoute]) -> None:
        self._app = app
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        is_post = scope["type"] == "http" and scope["method"] == "POST"
        found = self._find(scope) if is_post else None
        if found is None:
            await self._app(scope, receive, send)
            return
        route, wanted = found
        scope["route"] = route
        request = StrictRequest(scope, receive)
        owner = await route.owner_of(request)
        response = await route.endpoint(
            request=request, services=request.app.state.services, owner=owner, **wanted
        )
        await response(scope, receive, send)

    def _find(self, scope: Scope) -> tuple[StrictRoute, dict[str, Any]] | None:
        """Give the route of a plain request, and what its endpoint takes of the address."""
        path, query = scope["path"], scope["query_string"]
        for route in self._routes:
            match = route.path_regex.match(path)
            if match is not None:
                wanted: dict[str, Any] = match.groupdict()
                is_plain = all(_PLAIN[name].fullmatch(text) for name, text in wanted.items())
                task = _PLAIN_QUERY.fullmatch(query) if query else None
                if not is_plain or (query and task is None):
                    return None
                if "version" in wanted:
                    wanted["version"] = int(wanted["version"])
                return route, {**wanted, "task": None if task is None else task[1].decode()}
        return None
