"""Calls of servers of models over plain sockets: what they ask, how long that takes."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np

#: Calls that each connection has time for, were none faster than its first.
CALLS_EACH = 3
_LENGTH = re.compile(rb"\ncontent-length: *([0-9]+)", re.IGNORECASE)
KEY = "sib_" + "a" * 12 + "_" + "b" * 43


@dataclass(frozen=True)
class Server:
    """A server that is called: where, and with which request for some rows."""

    name: str
    port: int
    request: Callable[[np.ndarray], bytes]


@dataclass(frozen=True)
class Result:
    """What came of calling for a while."""

    per_s: float
    p50_ms: float
    p99_ms: float


def http_request(path: str, body: bytes, **headers: object) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise SystemExit(f"{head!r} {await reader.read(500)!r}")
    length = next(
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    )
    return await reader.readexactly(length)


class Caller(asyncio.Protocol):
    """A connection that calls again as soon as it is answered, and does as little else as it can.

    What a caller takes of the machine is taken from the server, and is a part of each time.
    """

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._answer = b""
        self._n_bytes = 0
        self._started = 0.0
        self._end = 0.0
        self._done: asyncio.Future[None]
        self.times: list[float] = []
        self.n_in_time = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        self.transport = cast("asyncio.Transport", transport)

    async def call_until(self, end: float) -> None:
        """Call until a time of ``perf_counter``, once at least."""
        self._end = end
        self._done = asyncio.get_running_loop().create_future()
        self._call()
        await self._done

    def _call(self) -> None:
        self._started = time.perf_counter()
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Take a part of an answer; the last one ends a call."""
        self._answer += data
        if not self._n_bytes:
            head, blank, _ = self._answer.partition(b"\r\n\r\n")
            if not blank:
                return
            if not head.startswith(b"HTTP/1.1 200"):
                self._done.set_exception(SystemExit(f"{self._answer[:1000]!r}"))
                return
            found = _LENGTH.search(head)
            assert found is not None
            self._n_bytes = len(head) + len(blank) + int(found[1])
        if len(self._answer) == self._n_bytes:
            self._note(time.perf_counter())

    def _note(self, now: float) -> None:
        self.times.append(now - self._started)
        self.n_in_time += now < self._end
        self._answer, self._n_bytes = b"", 0
        if now < self._end:
            self._call()
        elif not self._done.done():
            self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail all waiting calls: there will be no response."""
        if not self._done.done():
            self._done.set_exception(exc or ConnectionError("the server ended a connection"))


async def measure(server: Server, rows: np.ndarray, connections: int, seconds: float) -> Result:
    """Return what came of so many connections that each call again as soon as they are answered.

    All are warm when the time begins, and it is long enough for some calls of each.
    """
    request = server.request(rows)
    loop = asyncio.get_running_loop()

    async def connect() -> list[Caller]:
        made = [
            await loop.create_connection(lambda: Caller(request), "127.0.0.1", server.port)
            for _ in range(connections)
        ]
        return [caller for _, caller in made]

    warm = await connect()
    await asyncio.gather(*(caller.call_until(0.0) for caller in warm))
    for caller in warm:
        caller.transport.close()
    callers = await connect()  # one of before may end for its silence
    slowest = max(caller.times[0] for caller in warm)
    span = max(seconds, CALLS_EACH * slowest)
    end = time.perf_counter() + span
    await asyncio.gather(*(caller.call_until(end) for caller in callers))
    for caller in callers:
        caller.transport.close()
    times = [one for caller in callers for one in caller.times]
    p50, p99 = np.quantile(times, (0.5, 0.99)) * 1e3
    return Result(sum(caller.n_in_time for caller in callers) / span, p50, p99)


def v2_json(path: str, name: str, **parameters: str) -> Callable[[np.ndarray], bytes]:
    def request(rows: np.ndarray) -> bytes:
        tensor = {
            "name": name,
            "shape": rows.shape,
            "datatype": "FP64",
            "data": rows.ravel().tolist(),
        }
        body = json.dumps({"inputs": [tensor], "parameters": parameters}).encode()
        return http_request(
            path, body, Content_Type="application/json", Authorization=f"Bearer {KEY}"
        )

    return request


def v2_binary(path: str) -> Callable[[np.ndarray], bytes]:
    def request(rows: np.ndarray) -> bytes:
        tensor = {"name": "rows", "shape": rows.shape, "datatype": "FP64"}
        size = {"parameters": {"binary_data_size": rows.nbytes}}
        parameters = {"task": "a", "binary_data_output": True}
        header = json.dumps({"inputs": [tensor | size], "parameters": parameters}).encode()
        headers = {"Inference_Header_Content_Length": len(header), "Authorization": f"Bearer {KEY}"}
        return http_request(path, header + rows.tobytes(), **headers)

    return request
