"""Checks of the headers ``Host`` and ``Origin``, against pages of other sites in a browser.

A page can have its own host name resolve to 127.0.0.1 (DNS rebinding). The browser then lets it
read and change everything on a service that needs no key, but sends the page's name as ``Host``.
"""

from functools import lru_cache
from typing import Final

from starlette.types import Scope

from service.errors.problems import Problem
from service.http.routing import READING
from service.settings import Settings

#: Names of a service on a loopback address.
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_MAX_CACHED: Final = 256
#: Maximum length of a DNS name, and of a port.
_MAX_LENGTH: Final = 253 + 6


class HostPolicy:
    """The host names under which the service can be reached.

    Parameters
    ----------
    settings
        ``allowed_hosts``, to which the loopback names are added if the service listens on
        that address.
    """

    def __init__(self, settings: Settings) -> None:
        configured = {name.strip().lower() for name in settings.allowed_hosts.split(",")} - {""}
        self._configured = frozenset(configured)
        names = {_hostname(name) for name in configured}
        if settings.is_local():
            names |= _LOOPBACK | {_hostname(settings.host)}
        self._names = None if "*" in names or not names else frozenset(names)
        self._is_known = lru_cache(_MAX_CACHED)(self._find)

    def allows(self, host: str | None) -> bool:
        """Return whether a host is accepted; None: an HTTP/1.0 request without a Host header."""
        if self._names is None or host is None:
            return True
        return len(host) <= _MAX_LENGTH and self._is_known(host)

    def check(self, scope: Scope) -> None:
        """Raise a problem if the host is not allowed, or the request comes from another site.

        HTTP/1.1 needs one Host, by which a proxy and this service agree on the host (RFC 9112).
        """
        n_hosts = count_hosts(scope)
        if n_hosts > 1 or (n_hosts == 0 and scope["http_version"] != "1.0"):
            raise Problem("bad-host", f"expected one header Host, got {n_hosts or 'none'}")
        host = None
        for name, value in scope["headers"]:
            if name == b"host":
                host = value.decode("latin-1")
                if not self.allows(host):
                    detail = (
                        f"this service does not respond to the host '{host}'; the operator can "
                        "allow it with SIBLING_ALLOWED_HOSTS"
                    )
                    raise Problem("unknown-host", detail)
        if scope["method"] in READING:
            return
        for name, value in scope["headers"]:
            if name == b"origin":
                self._check_origin(value.decode("latin-1"), host)

    def _check_origin(self, origin: str, host: str | None) -> None:
        """Raise a problem for a page of another program, which may be on the same machine.

        Its port counts, unless a proxy has replaced Host by a name that is not of the page.
        """
        site, own = origin.partition("://")[2].lower(), (host or "").lower()
        name, own_name = _hostname(site), _hostname(own)
        has_own_port = site.removeprefix(name) == own.removeprefix(own_name)
        is_proxied = name in self._configured and name != own_name
        is_named = self._names is not None and self.allows(site) and (has_own_port or is_proxied)
        if site and (site == own or site in self._configured or is_named):
            return
        detail = (
            f"the request was sent by a page of '{origin}', which is not this service; the "
            "operator can allow its host with SIBLING_ALLOWED_HOSTS"
        )
        raise Problem("foreign-origin", detail)

    def _find(self, host: str) -> bool:
        return self._names is not None and _hostname(host) in self._names


def count_hosts(scope: Scope) -> int:
    """Return the number of Host headers of a request."""
    return sum(name == b"host" for name, _ in scope["headers"])


def _hostname(host: str) -> str:
    """Return a host without its port; an IPv6 address is in brackets."""
    host = host.strip().lower()
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    name = f"[{host}]" if host.count(":") > 1 else host.partition(":")[0]
    return name.removesuffix(".")
