"""Path prefix of a service behind a reverse proxy, such as ``/ml``.

The application knows only its own paths: this middleware removes the prefix of requests, and adds
it to ``Location``. Pages add it to their links (``service/ui/rendering.py``), scripts with
``pathOf``
(``static/request.js``), and cookies have it as their path.
"""

import contextlib
import ipaddress
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.http.requests import PATH_PREFIX
from service.server.connections import CONNECTION
from service.settings import ROOT_PATH, Settings

_HEADER: Final = b"x-forwarded-prefix"
_MAX_CACHED: Final = 256


class PathPrefix:
    """ASGI application that removes the prefix of paths, and adds it to redirects.

    Parameters
    ----------
    serve
        The application that handles requests.
    settings
        ``root_path``, and ``trusted_proxies`` whose ``X-Forwarded-Prefix`` takes its place.
    routes
        Paths of the application. A prefix that begins as one of them is added, but not removed:
        behind ``/models``, the path ``/models/x`` is the page of the model 'x'.
    """

    def __init__(self, serve: ASGIApp, settings: Settings, routes: Iterable[str]) -> None:
        self._serve = serve
        self._root = settings.root_path
        own = {path.split("/")[1] for path in routes}
        self._is_removed = self._root.partition("/")[2].partition("/")[0] not in own
        self._proxies = [part.strip() for part in settings.trusted_proxies.split(",")]
        self._networks = list(_networks(self._proxies))
        self._is_trusted = lru_cache(_MAX_CACHED)(self._find_proxy)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        prefix = self._prefix_of(scope) if scope["type"] == "http" else ""
        if not prefix:
            await self._serve(scope, receive, send)
            return
        encoded = prefix.encode()

        async def send_prefixed(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [
                    (name, encoded + value if name == b"location" and _is_path(value) else value)
                    for name, value in message["headers"]
                ]
                message = {**message, "headers": headers}
            await send(message)

        await self._serve(self._without(scope, prefix), receive, send_prefixed)

    def _prefix_of(self, scope: Scope) -> str:
        """Return the prefix that the browser sees: of the proxy's header, or else of the setting.

        Each proxy adds a header, or a value to it, with the part that it has removed.
        """
        values = [value for name, value in scope["headers"] if name == _HEADER]
        if values and self._is_trusted(scope["state"][CONNECTION].peer()):
            parts = b",".join(values).decode("latin-1").split(",")
            prefix = "".join(part.strip().rstrip("/") for part in parts)
            if re.fullmatch(ROOT_PATH, prefix):
                return prefix
        return self._root

    def _without(self, scope: Scope, prefix: str) -> Scope:
        """Return the scope of a request without the prefix, which the proxy may have removed."""
        path, raw_path = scope["path"], scope["raw_path"]
        if prefix == self._root and self._is_removed and f"{path}/".startswith(f"{prefix}/"):
            path, raw_path = path[len(prefix) :] or "/", raw_path[len(prefix) :] or b"/"
        return {**scope, "path": path, "raw_path": raw_path, PATH_PREFIX: prefix}

    def _find_proxy(self, peer: str) -> bool:
        """Return whether the address of a connection is of a trusted proxy."""
        if "*" in self._proxies or peer in self._proxies:
            return True
        return any(ipaddress.ip_address(peer) in network for network in self._networks)


def _networks(texts: Iterable[str]) -> Iterator[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Yield the addresses and networks among texts; uvicorn also knows names, which have none."""
    for text in texts:
        with contextlib.suppress(ValueError):
            yield ipaddress.ip_network(text)


def _is_path(location: bytes) -> bool:
    return location.startswith(b"/") and not location.startswith(b"//")
