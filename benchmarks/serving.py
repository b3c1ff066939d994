"""How fast a model is called: against a bare application, against other servers, and over time.

The same projection, 256 -> 10, is served from the same arrays by each, one after another in turns,
on one machine, in one run. Ours asks for a key and counts, as it does in production. The bare
application reads the body and sends back as many bytes as ours answers, under the same uvicorn: it
is the limit for whoever serves by it.

    python benchmarks/serving.py --peers mlserver        # two to four minutes
    python benchmarks/serving.py --memory                # 10^5 calls, 500 loads

Peers are installed into environments of their own below --folder.
"""

import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import psutil
import uvloop

from algorithms.registry import load_model
from service.client import Client

ROOT = Path(__file__).parents[1]
KEY = "sib_" + "a" * 12 + "_" + "b" * 43
N_FEATURES, N_OUT = 256, 10
START_S = 90
#: The parts that watch and dispatch grow a little while nobody calls: so long is looked at them.
IDLE_S = 30

ECHO = """
import os
ANSWERS = {size: os.urandom(size) for size in SIZES}
async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    size = int(dict(scope["headers"])[b"x-size"])
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    headers = [(b"content-length", str(size).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": ANSWERS[size]})
"""

MLSERVER_MODEL = """
import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse

class Projection(MLModel):
    async def load(self):
        arrays = np.load("projection.npz")
        self.mean, self.basis = arrays["mean"], arrays["basis"]
        return True

    async def predict(self, payload):
        rows = NumpyCodec.decode_input(payload.inputs[0])
        outputs = (rows - self.mean) @ self.basis
        output = NumpyCodec.encode_output("output", outputs)
        return InferenceResponse(model_name=self.name, outputs=[output])
"""


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


# --- calling -------------------------------------------------------------------------------------


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
    """Give what came of so many connections that each call again as soon as they are answered."""
    request = server.request(rows)
    times: list[float] = []
    end = time.perf_counter() + seconds

    async def call() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=1 << 26)
        await send(reader, writer, request)
        while (started := time.perf_counter()) < end:
            await send(reader, writer, request)
            times.append(time.perf_counter() - started)
        writer.close()

    started = time.perf_counter()
    await asyncio.gather(*(call() for _ in range(connections)))
    per_s = len(times) / (time.perf_counter() - started)
    p50, p99 = np.quantile(times, (0.5, 0.99)) * 1e3
    return Result(per_s, p50, p99)


# --- servers -------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(command: list[str], folder: Path, **env: str) -> Iterator[subprocess.Popen[str]]:
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **env},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as running,
    ):
        try:
            yield running
        finally:
            running.terminate()
            running.wait(30)


def wait_for(url: str) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        try:
            if httpx.get(url, timeout=2).status_code == 200:
                return
        except httpx.TransportError:
            pass
        time.sleep(0.2)
    raise SystemExit(f"{url} does not answer")


@contextmanager
def sibling(folder: Path, **env: str) -> Iterator[tuple[int, int]]:
    """Run our service; give its port and the id of its process."""
    folder.mkdir()
    keys = {"SIBLING_REQUIRE_KEYS": "true", "SIBLING_FIRST_KEY": KEY, "SIBLING_SLOTS": "1"}
    paths = {"PYTHONPATH": str(ROOT), "SIBLING_DATA_DIR": str(folder / "data")}
    command = [sys.executable, "-m", "service", "serve", "--port", "0"]
    with process(command, folder, **keys, **paths, **env) as running:
        assert running.stdout is not None
        port = int(running.stdout.readline().split()[3].rpartition(":")[2])
        wait_for(f"http://127.0.0.1:{port}/v2/health/ready")
        yield port, running.pid


@contextmanager
def echo(folder: Path, sizes: list[int]) -> Iterator[int]:
    folder.mkdir()
    (folder / "echo.py").write_text(ECHO.replace("SIZES", repr(sizes)))
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "echo:app", "--port", str(port)]
    with process([*command, "--no-access-log", "--log-level", "error"], folder):
        wait_for_port(port)
        yield port


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise SystemExit(f"nothing listens at {port}")


@contextmanager
def mlserver(folder: Path, environment: Path, arrays: dict[str, np.ndarray]) -> Iterator[int]:
    """Run MLServer without a process for each model, which is its faster way here."""
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "mlserver"], check=True)
    folder.mkdir()
    np.savez(folder / "projection.npz", **arrays)
    (folder / "projection.py").write_text(MLSERVER_MODEL)
    port, grpc, metrics = free_port(), free_port(), free_port()
    ports = {"http_port": port, "grpc_port": grpc, "metrics_port": metrics}
    quiet = {"parallel_workers": 0, "debug": False, "host": "127.0.0.1"}
    (folder / "settings.json").write_text(json.dumps({**ports, **quiet}))
    model = {"name": "projection", "implementation": "projection.Projection"}
    (folder / "model-settings.json").write_text(json.dumps(model))
    command = [str(environment / "bin" / "mlserver"), "start", "."]
    with process(command, folder, PYTHONPATH=str(folder)) as running:
        assert running.stdout is not None
        wait_for(f"http://127.0.0.1:{port}/v2/models/projection/ready")
        yield port


# --- requests ------------------------------------------------------------------------------------


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


def train(port: int, folder: Path, name: str = "projection") -> Path:
    X = np.random.default_rng(0).standard_normal((400, N_FEATURES))
    with Client(f"http://127.0.0.1:{port}", api_key=KEY) as client:
        data = client.upload({"a": X})
        model = client.train(data, "pca", model=name, k=N_OUT).wait()
        return model.download(folder / f"{name}.safetensors")


# --- what is shown -------------------------------------------------------------------------------


def compare(servers: list[Server], rounds: int, seconds: float, peer: str | None) -> None:
    rng = np.random.default_rng(1)
    print(
        f"\n{'':18}{'rows':>6}{'conns':>6}{'req/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'of limit':>10}",
        end="",
    )
    print(f"{'x ' + peer:>12}" if peer else "")
    for n_rows in (1, 1000):
        rows = rng.standard_normal((n_rows, N_FEATURES))
        for connections in (1, 32):
            found: dict[str, list[Result]] = {server.name: [] for server in servers}
            for _ in range(rounds):
                for server in servers:
                    result = uvloop.run(measure(server, rows, connections, seconds))
                    found[server.name].append(result)
            best = {
                name: Result(
                    *(
                        statistics.median(getattr(r, f) for r in results)
                        for f in ("per_s", "p50_ms", "p99_ms")
                    )
                )
                for name, results in found.items()
            }
            for name, result in best.items():
                print(
                    f"{name:18}{n_rows:6}{connections:6}{result.per_s:9.0f}{result.p50_ms:9.2f}"
                    f"{result.p99_ms:9.2f}{result.per_s / best['bare ASGI'].per_s:10.2f}",
                    end="",
                )
                print(f"{result.per_s / best[peer].per_s:12.1f}" if peer else "")


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


def memory(folder: Path) -> None:
    """Print how the server grows with calls, and with models that come and go."""
    # a cache that holds one model: each call of the other loads it anew
    with sibling(folder / "ours", SIBLING_MODEL_CACHE_BYTES="1") as (port, pid):
        train(port, folder, "projection")
        train(port, folder, "other")
        server = psutil.Process(pid)
        row = np.ones((1, N_FEATURES))
        paths = [f"/v2/models/{name}.transform/infer" for name in ("projection", "other")]
        requests = [v2_binary(path)(row) for path in paths]

        async def call(of: Callable[[int], bytes], n: int, every: int) -> list[tuple[int, float]]:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            seen = []
            for i in range(n):
                await send(reader, writer, of(i))
                if i % every == 0:
                    seen.append((i, server.memory_info().rss / 1024))
            writer.close()
            return seen

        uvloop.run(call(lambda i: requests[i % 2], 200, 100))  # warm
        before = server.memory_info().rss
        time.sleep(IDLE_S)
        print(f"idle: {(server.memory_info().rss - before) / 1024 / IDLE_S:+.1f} KiB a second")
        for what, of, n in (
            ("calls", lambda _: requests[0], 100_000),
            ("loads", lambda i: requests[i % 2], 1000),
        ):
            started = time.perf_counter()
            seen = np.array(uvloop.run(call(of, n, max(1, n // 100))))
            later = seen[len(seen) // 5 :]
            slope = np.polyfit(later[:, 0], later[:, 1], 1)[0]
            print(
                f"{n} {what}: {1000 * slope:+.1f} KiB per 1000, from {later[0, 1]:.0f} to "
                f"{later[-1, 1]:.0f} KiB, in {time.perf_counter() - started:.0f} s"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", nargs="*", default=[], choices=["mlserver"])
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "peers")
    options = parser.parse_args()
    options.folder.mkdir(exist_ok=True)
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        if options.memory:
            memory(folder)
            return
        port, _ = stack.enter_context(sibling(folder / "ours"))
        model = load_model(train(port, folder))

        def transform(rows: np.ndarray) -> np.ndarray:
            return model.transform(rows, task="a")

        for n_rows in (1, 1000):
            rows = np.random.default_rng(1).standard_normal((n_rows, N_FEATURES))
            bare = statistics.median(timed(lambda rows=rows: transform(rows)) for _ in range(50))
            print(f"bare call of {n_rows} rows: {bare * 1e3:.3f} ms")
        path = "/v2/models/projection/infer"
        sizes = {n: 160 + 20 * N_OUT * n for n in (1, 1000)}
        limit = stack.enter_context(echo(folder / "echo", list(sizes.values())))
        of_json = v2_json(path, "rows", task="a")

        def of_echo(rows: np.ndarray) -> bytes:
            body = of_json(rows).partition(b"\r\n\r\n")[2]
            return http_request("/", body, X_Size=sizes[len(rows)])

        servers = [
            Server("bare ASGI", limit, of_echo),
            Server("ours, JSON", port, of_json),
            Server("ours, binary", port, v2_binary(path)),
        ]
        peer = None
        if "mlserver" in options.peers:
            zero, one = transform(np.zeros((1, N_FEATURES))), transform(np.eye(N_FEATURES))
            arrays = {"mean": np.zeros(N_FEATURES), "basis": one - zero}
            environment = options.folder / "mlserver"
            theirs = stack.enter_context(mlserver(folder / "mlserver", environment, arrays))
            peer = "MLServer"
            servers.append(Server(peer, theirs, v2_json("/v2/models/projection/infer", "rows")))
        compare(servers, options.rounds, options.seconds, peer)
        large(servers[2], transform)
        print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
