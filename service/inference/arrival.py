"""Calls of models, known by their head before anything else is made of them."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from service.access.authenticator import Bearer, parse_bearer
from service.context import Services
from service.errors import Problem
from service.http import request_id_of
from service.inference.call import Body
from service.inference.exchange import Exchange, Head, Reply
from service.inference.respond import MakeExchange
from service.inference.statistics import Clock
from service.metrics import Metrics

#: What names, versions and tasks are plain; the framework tells what is wrong with others.
_PARTS: Final = {
    "{name}": r"(?P<name>[A-Za-z0-9._@~-]{1,100})",
    "{version}": r"(?P<version>[1-9][0-9]{0,8})",
}
_QUERY: Final = r"(?:\?task=(?P<task>[A-Za-z0-9._~-]+))?"
#: Headers by which a request is more than a head and a body of known length.
_NOT_PLAIN: Final = frozenset({"transfer-encoding", "expect", "upgrade"})
#: Addresses that are remembered; beyond, all are forgotten.
_MOST: Final = 10_000
_OK: Final = 200
_SCOPE: Final = "infer"


class _Place(NamedTuple):
    """What an address names: a route, and what its parts say."""

    path: str
    name: str
    version: int | None
    task: str | None


class Arrival(NamedTuple):
    """A call whose body is still to come.

    Attributes
    ----------
    n_bytes
        Size of the body.
    """

    head: Head
    bearer: Bearer | None
    n_bytes: int
    clock: Clock


class Calls:
    """Recognises plain calls of models, and answers those that take little time.

    Whatever is not plain about a request is left to the framework.

    Parameters
    ----------
    exchanges
        What serves the calls of a route, by its path.
    """

    def __init__(
        self, services: Services, metrics: Metrics, exchanges: Mapping[str, MakeExchange]
    ) -> None:
        self._services = services
        self._metrics = metrics
        self._exchanges = exchanges
        self._patterns = [(_pattern(path), path) for path in exchanges]
        self._places: dict[bytes, _Place] = {}

    def recognise(self, url: bytes, headers: Iterable[tuple[bytes, bytes]]) -> Arrival | None:
        """Give a plain call by somebody who may call; else None."""
        clock = Clock()
        place = self._places.get(url) or self._find(url)
        if place is None:
            return None
        pairs = list(headers)
        named = {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}
        length = named.get("content-length", "")
        if len(named) < len(pairs) or not _NOT_PLAIN.isdisjoint(named) or not length.isdecimal():
            return None
        bearer, n_bytes = parse_bearer(named.get("authorization")), int(length)
        owner = self._services.authenticator.cached_owner(bearer, _SCOPE)
        if owner is None or n_bytes > self._services.settings.max_body_bytes:
            return None
        head = Head(place.path, owner, place.name, place.version, place.task, named)
        return Arrival(head, bearer, n_bytes, clock)

    def again(self, before: Arrival, body: bytes) -> Exchange | None:
        """Give the exchange of a call that has the head of one before; None as above."""
        clock = Clock()
        owner = self._services.authenticator.cached_owner(before.bearer, _SCOPE)
        if owner is None or len(body) > self._services.settings.max_body_bytes:
            return None
        return self.exchange(before.head, body, clock)

    def exchange(self, head: Head, body: Body, clock: Clock) -> Exchange | None:
        """Give the exchange of a call; None where its head asks for what is not there."""
        try:
            return self._exchanges[head.path](self._services, head, body, clock)
        except Problem:
            return None

    def count(self, exchange: Exchange) -> None:
        """Count a call that was answered."""
        elapsed_s = exchange.clock.total() / 1e9
        path = exchange.head.path
        self._metrics.observe(method="POST", route=path, status=_OK, elapsed_s=elapsed_s)
        exchange.count()

    def _find(self, url: bytes) -> _Place | None:
        text = url.decode("latin-1")
        for pattern, path in self._patterns:
            match = pattern.fullmatch(text)
            if match is not None:
                found = match.groupdict()
                version = found.get("version")
                number = None if version is None else int(version)
                if len(self._places) >= _MOST:
                    self._places.clear()
                place = _Place(path, found["name"], number, found["task"])
                self._places[url] = place
                return place
        return None


def written(exchange: Exchange, reply: Reply) -> bytes:
    """Give the headers of a reply and its body as they are sent."""
    told = "".join([f"{name}: {value}\r\n" for name, value in reply.headers.items()])
    named = request_id_of(exchange.head.headers.get("x-request-id", ""))
    lines = f"content-length: {len(reply.body)}\r\n{told}x-request-id: {named}\r\n\r\n"
    return lines.encode("latin-1") + reply.body


def _pattern(path: str) -> re.Pattern[str]:
    for part, pattern in _PARTS.items():
        path = path.replace(part, pattern)
    return re.compile(path + _QUERY)
