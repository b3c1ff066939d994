"""Requests of the client: one place that sends, retries and reads errors."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from service.client.errors import ServiceError

_RETRIES: Final = 4
_FIRST_PAUSE_S: Final = 0.2
#: Longest pause that a service may ask for.
_MAX_PAUSE_S: Final = 30
_PASSING: Final = frozenset({429, 502, 503, 504})


class Http:
    """A connection to one service.

    A request that can be sent again without harm is, after a passing failure.
    """

    def __init__(self, base_url: str, *, api_key: str | None = None, timeout_s: float) -> None:
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._client = httpx.Client(base_url=base_url, headers=headers, timeout=timeout_s)

    def send(self, method: str, path: str, *, again: bool = True, **request: Any) -> httpx.Response:
        """Return the response, or raise the ServiceError that it tells."""
        pause = _FIRST_PAUSE_S
        for retry in range(_RETRIES + 1):
            is_last = retry == _RETRIES or not again
            try:
                response = self._client.request(method, path, **request)
            except httpx.TransportError:
                if is_last:
                    raise
            else:
                if response.status_code not in _PASSING or is_last:
                    break
                pause = max(pause, _asked_pause(response))
            time.sleep(pause)
            pause *= 2
        if response.is_error:
            raise ServiceError.from_response(response)
        return response

    def download(self, path: str, target: Path) -> None:
        """Write the body of an answer to a file, piece by piece: the whole of it, or no file."""
        partial = target.with_name(target.name + ".part")
        try:
            with self._client.stream("GET", path) as response:
                if response.is_error:
                    response.read()
                    raise ServiceError.from_response(response)
                with partial.open("wb") as file:
                    for piece in response.iter_bytes():
                        file.write(piece)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)

    def pages(self, path: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Return the items of a collection, page after page."""
        while True:
            body = self.send("GET", path, params=params).json()
            yield from body["items"]
            if body["next_page_token"] is None:
                return
            params["page_token"] = body["next_page_token"]

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


def path(*parts: str | int) -> str:
    """Return the path made of parts, each of which may hold any character."""
    return "".join("/" + quote(str(part), safe="") for part in parts)


def _asked_pause(response: httpx.Response) -> float:
    """Return the seconds in Retry-After; a proxy may send a date there, which is not followed."""
    asked = response.headers.get("retry-after", "")
    return min(float(asked), _MAX_PAUSE_S) if asked.isdecimal() else 0.0
