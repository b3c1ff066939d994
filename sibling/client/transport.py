"""The two ways to wait for the network: blocking, and with asyncio."""

import asyncio
import os
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Generic, Protocol, TypeVar

import httpx

Result = TypeVar("Result")
HttpxClient = TypeVar("HttpxClient", httpx.Client, httpx.AsyncClient)


class Transport(Protocol):
    """Sends requests and waits; its coroutines are the only ones that may be suspended."""

    is_async: bool

    def run(self, coroutine: Any) -> Any:
        """Return the result of a coroutine, or the coroutine if it is for the caller to await."""

    async def request(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request, and return the response with its body."""

    def stream(self, path: str, **request: Any) -> AbstractAsyncContextManager[httpx.Response]:
        """Send a GET request, and return the response before its body."""

    def chunks(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """Yield the body of a streamed response."""

    async def read(self, response: httpx.Response) -> None:
        """Read the body of a streamed response."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    async def call(self, function: Callable[..., Result], *args: Any) -> Result:
        """Call a function that takes long."""

    async def close(self) -> None:
        """Close the connections."""


class _OwnClient(Generic[HttpxClient]):
    """Holder of an httpx client for each process that uses it.

    A fork has the open sockets of its parent, and would read responses to others. It keeps them
    unused, without closing them: that could end TLS for the parent as well, or wait for a lock that
    a thread of the parent held at the fork.
    """

    def __init__(self, kind: type[HttpxClient], options: dict[str, Any]) -> None:
        self._kind: type[HttpxClient] = kind
        self._options = options
        self._clients: dict[Any, HttpxClient] = {self._place(): kind(**options)}

    @property
    def _client(self) -> HttpxClient:
        place = self._place()
        if place not in self._clients:
            # of several threads, one wins; a lock could be one that the parent held at the fork
            self._clients.setdefault(place, self._kind(**self._options))
        return self._clients[place]

    def _place(self) -> Any:
        """Return what the connections of a client belong to."""
        return os.getpid()


class BlockingTransport(_OwnClient[httpx.Client]):
    """Transport whose coroutines are never suspended.

    Its connections are closed with it, as when a remote estimator drops its client.
    """

    is_async = False

    def __init__(self, **options: Any) -> None:
        super().__init__(httpx.Client, options)
        weakref.finalize(self, _close_own, self._clients)

    def run(self, coroutine: Any) -> Any:
        """Run a coroutine to its end, and return its result."""
        try:
            coroutine.send(None)
        except StopIteration as end:
            return end.value
        raise RuntimeError("a coroutine of the blocking client has been suspended")

    async def request(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request, and return the response with its body."""
        return self._client.request(method, path, **request)

    @asynccontextmanager
    async def stream(self, path: str, **request: Any) -> AsyncIterator[httpx.Response]:
        """Send a GET request, and return the response before its body."""
        with self._client.stream("GET", path, **request) as response:
            yield response

    async def chunks(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """Yield the body of a streamed response."""
        for chunk in response.iter_bytes():
            yield chunk

    async def read(self, response: httpx.Response) -> None:
        """Read the body of a streamed response."""
        response.read()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)  # noqa: ASYNC251 - nothing else runs

    async def call(self, function: Callable[..., Result], *args: Any) -> Result:
        """Call a function that takes long."""
        return function(*args)

    async def close(self) -> None:
        """Close the connections."""
        self._client.close()


def _close_own(clients: dict[Any, httpx.Client]) -> None:
    """Close the client of this process, if it has one."""
    if os.getpid() in clients:
        clients[os.getpid()].close()


class AsyncTransport(_OwnClient[httpx.AsyncClient]):
    """Transport for asyncio; each event loop, such as of ``asyncio.run``, has connections."""

    is_async = True

    def __init__(self, **options: Any) -> None:
        super().__init__(httpx.AsyncClient, options)

    @property
    def _client(self) -> httpx.AsyncClient:
        place = self._place()
        if place not in self._clients:
            for pid, loop in tuple(self._clients):
                if loop is not None and loop.is_closed():  # so are its connections
                    self._clients.pop((pid, loop), None)
            unused = self._clients.pop((os.getpid(), None), None)
            if unused is not None:
                self._clients.setdefault(place, unused)
        return super()._client

    def _place(self) -> Any:
        try:
            return os.getpid(), asyncio.get_running_loop()
        except RuntimeError:  # before the first loop, or in a library without loops
            return os.getpid(), None

    def run(self, coroutine: Any) -> Any:
        """Return the coroutine, which the caller awaits."""
        return coroutine

    async def request(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Send a request, and return the response with its body."""
        content = request.get("content")
        if isinstance(content, Iterator):
            request["content"] = self._as_async(content)
        return await self._client.request(method, path, **request)

    @asynccontextmanager
    async def stream(self, path: str, **request: Any) -> AsyncIterator[httpx.Response]:
        """Send a GET request, and return the response before its body."""
        async with self._client.stream("GET", path, **request) as response:
            yield response

    def chunks(self, response: httpx.Response) -> AsyncIterator[bytes]:
        """Yield the body of a streamed response."""
        return response.aiter_bytes()

    async def read(self, response: httpx.Response) -> None:
        """Read the body of a streamed response."""
        await response.aread()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        import anyio  # of httpx; only needed here

        await anyio.sleep(seconds)

    async def call(self, function: Callable[..., Result], *args: Any) -> Result:
        """Call a function that takes long, in a thread."""
        import anyio.to_thread

        return await anyio.to_thread.run_sync(function, *args)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _as_async(self, chunks: Iterator[bytes]) -> AsyncIterator[bytes]:
        while (chunk := await self.call(next, chunks, None)) is not None:
            yield chunk
