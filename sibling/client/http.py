"""HTTP connection of the client: retries, pagination and errors."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import httpx

from sibling.client.errors import ServiceError, ServiceUnreachable

_RETRIES: Final = 4
_FIRST_PAUSE_S: Final = 0.2
#: Maximum pause for a Retry-After header.
_MAX_PAUSE_S: Final = 30
_TRANSIENT: Final = frozenset({429, 502, 503, 504})


class Http:
    """Connection to one service. Requests are retried after transient failures."""

    def __init__(self, base_url: str, *, api_key: str | None = None, timeout_s: float) -> None:
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        self._url = base_url
        try:
            self._client = httpx.Client(base_url=base_url, headers=headers, timeout=timeout_s)
        except httpx.InvalidURL as error:
            raise ServiceUnreachable(base_url, str(error)) from None

    def send(self, method: str, path: str, *, retry: bool = True, **request: Any) -> httpx.Response:
        """Send a request and return the response.

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
        pause = _FIRST_PAUSE_S
        for attempt in range(_RETRIES + 1):
            is_last = attempt == _RETRIES or not retry
            try:
                response = self._client.request(method, path, **request)
            except httpx.TransportError as error:
                if is_last:
                    raise self._unreachable(error) from error
            else:
                if not _is_transient(response) or is_last:
                    break
                pause = max(pause, _retry_after_s(response))
            time.sleep(pause)
            pause *= 2
        if response.is_error:
            raise ServiceError.from_response(response)
        return response

    def download(self, path: str, target: Path) -> None:
        """Stream a response body into a file; leave no partial file after an error."""
        partial = target.with_name(target.name + ".part")
        try:
            with self._client.stream("GET", path) as response:
                if response.is_error:
                    response.read()
                    raise ServiceError.from_response(response)
                with partial.open("wb") as file:
                    for chunk in response.iter_bytes():
                        file.write(chunk)
            partial.replace(target)
        except httpx.TransportError as error:
            raise self._unreachable(error) from error
        finally:
            partial.unlink(missing_ok=True)

    def pages(self, path: str, **params: Any) -> Iterator[dict[str, Any]]:
        """Yield the items of all pages of a collection."""
        while True:
            body = self.send("GET", path, params=params).json()
            yield from body["items"]
            if body["next_page_token"] is None:
                return
            params["page_token"] = body["next_page_token"]

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _unreachable(self, error: httpx.TransportError) -> ServiceUnreachable:
        return ServiceUnreachable(self._url, str(error) or type(error).__name__)


def path(*parts: str | int) -> str:
    """Return a URL path of percent-encoded segments."""
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
