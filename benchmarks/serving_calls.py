"""Calls of servers of models over plain sockets: what they ask, how long that takes."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

#: Calls that each connection has time for, were none faster than its first.
CALLS_EACH = 3
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


async def measure(server: Server, rows: np.ndarray, connections: int, seconds: float) -> Result:
    """Give what came of so many connections that each call again as soon as they are answered.

    All are warm when the time begins, and it is long enough for some calls of each.
    """
    request = server.request(rows)
    times: list[float] = []
    warm: list[float] = []
    ready = asyncio.Barrier(connections)
    n_in_time = 0

    async def connect() -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 26)

    async def call() -> None:
        nonlocal n_in_time
        reader, writer = await connect()
        started = time.perf_counter()
        await send(reader, writer, request)
        warm.append(time.perf_counter() - started)
        writer.close()
        await ready.wait()
        reader, writer = await connect()  # the one before may have ended for its silence
        end = (started := time.perf_counter()) + max(seconds, CALLS_EACH * max(warm))
        while started < end:
            await send(reader, writer, request)
            times.append((done := time.perf_counter()) - started)
            n_in_time += done < end
            started = done
        writer.close()

    await asyncio.gather(*(call() for _ in range(connections)))
    p50, p99 = np.quantile(times, (0.5, 0.99)) * 1e3
    return Result(n_in_time / max(seconds, CALLS_EACH * max(warm)), p50, p99)


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


def plain_json(path: str, field: str) -> Callable[[np.ndarray], bytes]:
    """Give requests of rows as lists in one field of an object."""

    def request(rows: np.ndarray) -> bytes:
        body = json.dumps({field: rows.tolist()}).encode()
        return http_request(path, body, Content_Type="application/json")

    return request
