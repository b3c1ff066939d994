"""How fast a model is called, against a bare application and against MLServer.

The same projection, 256 -> 10, is served from the same arrays by each, one after another in turns,
on one machine, in one run, each by one process. Ours checks a key and counts calls, as it does in
production. The bare application reads the body and sends back as many bytes as ours answers, under
the server that we build on: it is the limit for whoever serves by it as it is.

    python -m benchmarks.serving --peers mlserver

MLServer is installed into an environment of its own below --folder.
"""

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import uvloop

from algorithms.registry import load_model
from benchmarks.serving_calls import (
    KEY,
    Result,
    Server,
    http_request,
    measure,
    send,
    v2_binary,
    v2_json,
)
from benchmarks.serving_servers import echo, mlserver, sibling
from sibling import Client

N_FEATURES, N_OUT = 256, 10
PATH = "/v2/models/projection/infer"
#: The same, answered by the framework: a query that it does not know is left to it.
ROUTE = f"{PATH}?other=1"


def train(port: int, folder: Path, name: str = "projection") -> Path:
    X = np.random.default_rng(0).standard_normal((400, N_FEATURES))
    with Client(f"http://127.0.0.1:{port}", api_key=KEY) as client:
        data = client.upload({"a": X})
        model = client.train(data, "pca", model=name, k=N_OUT).wait()
        return model.download(folder / f"{name}.safetensors")


def compare(
    servers: list[Server],
    rounds: int,
    seconds: float,
    *,
    all_rows: tuple[int, ...] = (1, 1000),
    all_connections: tuple[int, ...] = (1, 32),
) -> None:
    """Print how fast each server is called; ratios above 1 are in favour of the first."""
    rng = np.random.default_rng(1)
    head = f"{'':14}{'rows':>6}{'conns':>6}{'calls/s':>9}{'p50 ms':>9}{'p99 ms':>9}"
    print(f"\n{head}{'first, calls/s':>15}{'first, p99':>11}")
    for n_rows in all_rows:
        rows = rng.standard_normal((n_rows, N_FEATURES))
        for connections in all_connections:
            found: dict[str, list[Result]] = {server.name: [] for server in servers}
            for _ in range(rounds):
                for server in servers:
                    result = uvloop.run(measure(server, rows, connections, seconds))
                    found[server.name].append(result)
            middle = {name: middle_of(results) for name, results in found.items()}
            ours = middle[servers[0].name]
            for name, result in middle.items():
                print(
                    f"{name:14}{n_rows:6}{connections:6}{result.per_s:9.0f}{result.p50_ms:9.2f}"
                    f"{result.p99_ms:9.2f}{ours.per_s / result.per_s:13.2f} x"
                    f"{result.p99_ms / ours.p99_ms:9.2f} x",
                    flush=True,
                )


def middle_of(results: list[Result]) -> Result:
    fields = ("per_s", "p50_ms", "p99_ms")
    return Result(*(statistics.median(getattr(r, field) for r in results) for field in fields))


def profile(limit: Server, ours: Server, n_calls: int = 4000) -> None:
    """Print how the time of a call of one row is spent."""
    row = np.random.default_rng(1).standard_normal((1, N_FEATURES))
    url = f"http://127.0.0.1:{ours.port}{PATH.removesuffix('infer')}stats"

    def stats() -> dict[str, dict[str, int]]:
        response = httpx.get(url, headers={"Authorization": f"Bearer {KEY}"})
        statistics: dict[str, dict[str, int]] = response.json()["model_stats"][0]["inference_stats"]
        return statistics

    async def calls(server: Server) -> float:
        """Return the median time of a call, in microseconds."""
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        request, times = server.request(row), []
        for _ in range(n_calls):
            started = time.perf_counter()
            await send(reader, writer, request)
            times.append(time.perf_counter() - started)
        writer.close()
        return statistics.median(times) * 1e6

    bare_us = uvloop.run(calls(limit))
    before = stats()
    ours_us = uvloop.run(calls(ours))
    after = stats()
    print(
        f"\na call of one row, in us: {ours_us:.0f} (of a bare application {bare_us:.0f}), of which"
    )
    inside_us = 0.0
    for phase, what in (
        ("queue", "arrival, until it is known what is called"),
        ("compute_input", "reading the body"),
        ("compute_infer", "computing"),
        ("compute_output", "writing the answer"),
    ):
        n = after[phase]["count"] - before[phase]["count"]
        spent_us = (after[phase]["ns"] - before[phase]["ns"]) / n / 1000
        inside_us += spent_us
        print(f"  {spent_us:6.0f}  {what}")
    print(f"  {ours_us - inside_us:6.0f}  the rest: the caller, the sockets, HTTP")


def large(server: Server, transform: Callable[[np.ndarray], np.ndarray]) -> None:
    rows = np.random.default_rng(2).standard_normal((4096, N_FEATURES))
    bare = min(timed(lambda: transform(rows)) for _ in range(20))

    async def calls() -> list[float]:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 26)
        request, times = server.request(rows), []
        for _ in range(20):
            started = time.perf_counter()
            await send(reader, writer, request)
            times.append(time.perf_counter() - started)
        writer.close()
        return times

    times = uvloop.run(calls())
    middle, worst = statistics.median(times) * 1e3, max(times) * 1e3
    print(
        f"\n8 MB in binary: {middle:.1f} ms (worst {worst:.1f}), bare call {bare * 1e3:.1f} ms: "
        f"{middle - bare * 1e3:.1f} ms more"
    )


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", nargs="*", default=[], choices=["mlserver"])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "peers")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name:
        speed(Path(name), options)
    print(f"load at the end {os.getloadavg()[0]:.1f}")


def speed(folder: Path, options: argparse.Namespace) -> None:
    """Print how fast ours and its peers are called, and how the time is spent."""
    with ExitStack() as stack:
        port = stack.enter_context(sibling(folder / "ours"))
        model = load_model(train(port, folder))

        def transform(rows: np.ndarray) -> np.ndarray:
            return model.transform(rows, task="a")

        for n_rows in (1, 1000):
            rows = np.random.default_rng(1).standard_normal((n_rows, N_FEATURES))
            bare = statistics.median(timed(lambda rows=rows: transform(rows)) for _ in range(50))
            print(f"bare call of {n_rows} rows: {bare * 1e3:.3f} ms")
        sizes = {n: 160 + 20 * N_OUT * n for n in (1, 1000)}
        limit = stack.enter_context(echo(folder / "echo", list(sizes.values())))
        of_json = v2_json(PATH, "rows", task="a")

        def of_echo(rows: np.ndarray) -> bytes:
            body = of_json(rows).partition(b"\r\n\r\n")[2]
            return http_request("/", body, X_Size=sizes[len(rows)])

        binary = [
            Server("ours, binary", port, v2_binary(PATH)),
            Server("route, binary", port, v2_binary(ROUTE)),
        ]
        servers = [
            Server("ours, JSON", port, of_json),
            Server("bare ASGI", limit, of_echo),
            Server("route, JSON", port, v2_json(ROUTE, "rows", task="a")),
            binary[0],
        ]
        zero, one = transform(np.zeros((1, N_FEATURES))), transform(np.eye(N_FEATURES))
        arrays = {"mean": np.zeros(N_FEATURES), "basis": one - zero}
        if options.peers:
            theirs = stack.enter_context(mlserver(folder / "mlserver", options.folder, arrays))
            servers.append(Server("MLServer", theirs, v2_json(PATH, "rows")))
        compare(servers, options.rounds, options.seconds)
        compare(binary, options.rounds, options.seconds, all_rows=(4096,), all_connections=(1, 8))
        profile(servers[1], servers[0])
        large(binary[0], transform)


if __name__ == "__main__":
    main()
