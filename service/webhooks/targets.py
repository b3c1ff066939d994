"""Hosts and addresses that webhooks may be sent to, against requests to machines inside."""

import ipaddress
import socket
from asyncio import get_running_loop
from typing import Final

import httpx

from service.settings import Settings

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_PORTS: Final = {"http": 80, "https": 443}


class Refused(Exception):
    """The operator does not allow a URL, or an address of its host."""


class Targets:
    """Allowed hosts, and networks inside that are allowed although they are not public."""

    def __init__(self, settings: Settings) -> None:
        self._hosts = settings.resolved_webhook_hosts()
        self._networks = settings.resolved_webhook_networks()

    def check(self, url: httpx.URL) -> None:
        """Raise an error unless a URL is of HTTP and its host is allowed."""
        host = url.raw_host.decode().removesuffix(".")
        if url.scheme not in _PORTS or not host or (url.port or 1) not in range(1, 65536):
            raise Refused(f"expected a URL such as https://HOST/PATH, got '{url}'")
        if url.userinfo or url.fragment:
            raise Refused("a URL of a webhook has no user, password or fragment (#...)")
        for name in self._hosts:
            if name in ("*", host) or (name.startswith("*.") and host.endswith(name[1:])):
                return
        raise Refused(
            f"webhooks may not be sent to the host '{host}'; the operator can allow it with "
            "SIBLING_WEBHOOK_HOSTS"
        )

    async def addresses(self, url: httpx.URL) -> list[str]:
        """Return the allowed addresses of the host of an allowed URL.

        Raises
        ------
        Refused
            The URL or all addresses are not allowed.
        OSError
            The name cannot be resolved.
        """
        self.check(url)
        port = url.port or _PORTS[url.scheme]
        found = await get_running_loop().getaddrinfo(url.host, port, type=socket.SOCK_STREAM)
        texts = list(dict.fromkeys(str(address[0]) for *_, address in found))
        allowed = [text for text in texts if self.allows(ipaddress.ip_address(text))]
        if not allowed:
            raise Refused(
                f"the host '{url.host}' has the address {texts[0]}, which is not public; the "
                "operator can allow its network with SIBLING_WEBHOOK_NETWORKS"
            )
        return allowed

    def allows(self, address: Address) -> bool:
        """Return whether an address is public, or in an allowed network."""
        if isinstance(address, ipaddress.IPv6Address):
            inner = address.ipv4_mapped or address.sixtofour
            if inner is not None:
                return self.allows(inner)
            if address.is_site_local or address.scope_id:
                return False
        if any(address in network for network in self._networks):
            return True
        return address.is_global and not (address.is_multicast or address.is_reserved)
