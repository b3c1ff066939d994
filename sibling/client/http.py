"""HTTP connection of the client: retries, pagination and errors."""

import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar
from urllib.parse import quote
from uuid import uuid4

import httpx
import numpy as np

from algorithms.interface.files import replaced_file
from sibling.client.environment import headers_of, opened, unreachable, url_of
from sibling.client.errors import ServiceError, json_of
from sibling.client.transport import Transport

Result = TypeVar("Result")

_RETRIES: Final = 4
_FIRST_PAUSE_S: Final = 0.2
#: Maximum pause for a Retry-After header.
_MAX_PAUSE_S: Final = 30
#: Pause after a response that came early, since too many requests wait.
_WAIT_PAUSE_S: Final = 1
_TRANSIENT: Final = frozenset({429, 502, 503, 504})


class Http:
    """Connection to one service. Requests are retried after transient failures."""

    def __init__(self, transport: Transport, url: str, timeout_s: float) -> None:
        self._transport = transport
        self._url = url
        self._timeout_s = timeout_s

    def __deepcopy__(self, _: dict[int, Any]) -> Self:
        """Return the same connection, which copies of objects of the service share."""
        return self

    def __copy__(self) -> Self:
        """Return the same connection, as above."""
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process connects; secrets are not pickled."""
        url = str(httpx.URL(self._url).copy_with(userinfo=b""))
        return connect, (type(self._transport), url, None, self._timeout_s)

    @property
    def is_async(self) -> bool:
        """Whether :meth:`run` returns a coroutine instead of its result."""
        return self._transport.is_async

    def run(self, coroutine: Awaitable[Any]) -> Any:
        """Return the result of a coroutine, or the coroutine, as the transport does."""
        return self._transport.run(coroutine)

    async def send(
        self, method: str, path: str, *, retry: bool = True, **request: Any
    ) -> httpx.Response:
        """Send a request and return the response.

        If a deletion is repeated, 404 is no error: the attempt before may have deleted the resource
        without a response.

        Parameters
        ----------
        retry
            Whether the request may be sent again.

        Raises
        ------
        ServiceError
            The response is an error.
        ServiceUnreachable
            There is no response.
        """
        return await self._retry(
            lambda: self._transport.request(method, path, **request),
            can_repeat=retry,
            is_deletion=method == "DELETE",
        )

    async def get(self, path: str, **params: Any) -> Any:
        """Return the JSON at a path."""
        return json_of(await self.send("GET", path, params=params))

    async def get_final(self, path: str, wait_s: float, *, is_final: Callable[[Any], bool]) -> Any:
        """Return the JSON at a path once it is final, or as it is after ``wait_s`` seconds.

        The service waits, unless too many other requests are waiting; it is asked for half of the
        timeout of a request at most, so that its response is in time.
        """
        deadline = time.monotonic() + wait_s
        left_s = wait_s
        while True:
            body = await self.get(path, wait=min(left_s, (self._timeout_s or math.inf) / 2))
            left_s = max(0, deadline - time.monotonic())
            if left_s == 0 or is_final(body):
                return body
            await self.sleep(min(left_s, _WAIT_PAUSE_S))

    async def create(self, path: str, spec: Mapping[str, Any], **params: Any) -> Any:
        """Post JSON, and return the JSON of the response.

        An idempotency key makes retries safe: the resource is created only once.
        """
        headers = {"Idempotency-Key": uuid4().hex, "Content-Type": "application/json"}
        body = json.dumps(spec, default=_to_json)
        sent = await self.send("POST", path, content=body, headers=headers, params=params)
        return json_of(sent)

    async def download(self, path: str, target: str | Path, **request: Any) -> Path:
        """Stream a response body into a file; leave no partial file after an error."""
        target = Path(target)

        with replaced_file(target) as partial:

            async def fetch() -> httpx.Response:
                async with self._transport.stream(path, **request) as response:
                    if response.is_error:
                        await self._transport.read(response)
                        return response
                    with partial.open("wb") as file:
                        async for chunk in self._transport.chunks(response):
                            file.write(chunk)
                return response

            await self._retry(fetch, can_repeat=partial != target)  # a pipe keeps what it got
        return target

    async def pages(self, path: str, **params: Any) -> AsyncIterator[dict[str, Any]]:
        """Yield the items of all pages of a collection."""
        while True:
            body = await self.get(path, **params)
            for item in body["items"]:
                yield item
            if body["next_page_token"] is None:
                return
            params["page_token"] = body["next_page_token"]

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self._transport.sleep(seconds)

    async def call(self, function: Callable[..., Result], *args: Any) -> Result:
        """Call a function that takes long; with asyncio, in a thread."""
        return await self._transport.call(function, *args)

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def _retry(
        self,
        attempt: Callable[[], Awaitable[httpx.Response]],
        *,
        can_repeat: bool,
        is_deletion: bool = False,
    ) -> httpx.Response:
        """Return the response of the first attempt that does not fail transiently."""
        pause = _FIRST_PAUSE_S
        for count in range(_RETRIES + 1):
            is_last = count == _RETRIES or not can_repeat
            try:
                response = await attempt()
            except httpx.TransportError as error:
                if is_last:
                    raise unreachable(self._url, error) from error
            else:
                if not _is_transient(response) or is_last:
                    break
                pause = max(pause, _retry_after_s(response))
            await self._transport.sleep(pause)
            pause *= 2
        is_gone = response.status_code == httpx.codes.NOT_FOUND and count > 0
        is_redirect = response.has_redirect_location  # of a proxy, such as to a page to sign in
        if is_redirect or (response.is_error and not (is_deletion and is_gone)):
            raise ServiceError.from_response(response)
        return response


def connect(
    transport: Callable[..., Transport],
    base_url: str | None,
    api_key: str | None,
    timeout_s: float,
) -> Http:
    """Return the connection to a service; by default its URL and key are of the environment.

    Parameters
    ----------
    transport
        Class of the transport.

    Raises
    ------
    ServiceUnreachable
        The URL is invalid, or a variable of proxies or certificates.
    ValueError
        The key is invalid.
    """
    url, headers = url_of(base_url), headers_of(api_key)
    sender = opened(url, lambda: transport(base_url=url, headers=headers, timeout=timeout_s))
    return Http(sender, url, timeout_s)


def _to_json(value: Any) -> Any:
    """Return a numpy number or array as numbers and lists."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"expected a parameter that JSON can represent, got {value!r}")


def path(*parts: str | int) -> str:
    """Return a URL path of percent-encoded segments.

    Raises
    ------
    ValueError
        A part is empty, ``.`` or ``..``, or has a slash: it would be another path, since servers
        decode ``%2F`` before they look at it.
    """
    for part in map(str, parts):
        if part in ("", ".", "..") or "/" in part:
            raise ValueError(f"expected a name or an id without '/', got '{part}'")
    return "".join("/" + quote(str(part), safe="") for part in parts)


def _is_transient(response: httpx.Response) -> bool:
    """Return whether the request may succeed later; a used-up quota has no Retry-After."""
    is_quota = response.status_code == httpx.codes.TOO_MANY_REQUESTS
    return response.status_code in _TRANSIENT and (
        not is_quota or "retry-after" in response.headers
    )


def _retry_after_s(response: httpx.Response) -> float:
    """Return the seconds in Retry-After; 0 if it is missing or a date."""
    retry_after = response.headers.get("retry-after", "")
    return min(float(retry_after), _MAX_PAUSE_S) if retry_after.isdecimal() else 0.0
