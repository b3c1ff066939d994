"""Attacks on the availability of a service, and how health checks fare meanwhile.

    python -m benchmarks.attacks                        # a server of this tree
    python -m benchmarks.attacks --commit HEAD~1        # the same attacks on another version

Each attack runs alone. Another process asks for the health, each time on a new connection, before
and during the attack. Servers that the script starts require keys, allow 1,024 open files, and have
time limits of seconds, which older versions ignore.
"""

import argparse
import multiprocessing
import os
import re
import secrets
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import httpx
import numpy as np
import psutil

from sibling import Client

ROOT = Path(__file__).parents[1]
MIB = 1024 * 1024
N_FILES = 1024
#: Time for which an attacker holds connections, longer than the limits of the server.
HOLD_S = 12
LIMITS = {
    "SIBLING_HEADER_TIMEOUT_S": "3",
    "SIBLING_BODY_TIMEOUT_S": "3",
    "SIBLING_KEEP_ALIVE_TIMEOUT_S": "3",
    "SIBLING_SEND_TIMEOUT_S": "3",
}
HEALTH = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
HEALTH_TIMEOUT_S = 5
MODEL = "attacked"
SERVE = "serve", "--port", "0"


@dataclass(frozen=True, slots=True)
class Target:
    """A service under attack."""

    host: str
    port: int
    key: str
    other_key: str
    pid: int

    @property
    def url(self) -> str:
        """Return the base URL."""
        return f"http://{self.host}:{self.port}"

    def connect(self, timeout_s: float = 10) -> socket.socket:
        """Open a connection."""
        return socket.create_connection((self.host, self.port), timeout_s)

    def head(self, method: str, path: str, *headers: str, has_key: bool = True) -> bytes:
        """Return the head of a request."""
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", *headers]
        if has_key:
            lines.append(f"Authorization: Bearer {self.key}")
        return "\r\n".join([*lines, "", ""]).encode()

    def http(self, key: str) -> httpx.Client:
        """Return a client with a key."""
        headers = {"Authorization": f"Bearer {key}"}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60)

    def memory_mib(self) -> float:
        """Return the memory of the server process."""
        return psutil.Process(self.pid).memory_info().rss / MIB


# --- attacks; each returns what came of it -------------------------------------------------------


def silent(target: Target) -> str:
    return _hold(target, b"")


def half_heads(target: Target) -> str:
    return _hold(target, b"GET /v2/health/live HTTP/1.1\r\nHost: localho")


def half_bodies(target: Target) -> str:
    head = target.head("POST", "/v1/jobs", "Content-Type: application/json", "Content-Length: 99")
    return _hold(target, head + b"{", 200)


def slow_readers(target: Target) -> str:
    return _hold(target, target.head("GET", "/openapi.json") * 100, 200)


def _hold(target: Target, start: bytes, count: int = 1100) -> str:
    """Send the start of a request on each connection, and count those that the server ends."""
    held = []
    for _ in range(count):
        with suppress(OSError):
            connection = target.connect(2)
            connection.sendall(start)
            held.append(connection)
    time.sleep(HOLD_S)
    replies = [_reply(connection, 0.0) for connection in held]
    for connection in held:
        connection.close()
    ended = sum(end != "open" for _, end in replies)
    statuses = sorted({status for status, _ in replies if status})
    return f"{ended} of {count} ended {' '.join(statuses)}".strip()


def bad_target(target: Target) -> str:
    return _one(target, target.head("GET", "http://x", has_key=False))


def connect_method(target: Target) -> str:
    return _one(target, target.head("CONNECT", "x:1", has_key=False))


def upgrade_and_close(target: Target) -> str:
    return _one(target, target.head("GET", "/", "Connection: Upgrade, close", "Upgrade: h2c"))


def upgrades(target: Target) -> str:
    """Send 3,000 upgrade requests on one connection, each after the response of the last."""
    request = target.head("GET", "/v2/health/live", "Connection: Upgrade", "Upgrade: websocket")
    with target.connect() as connection:
        for i in range(3000):
            try:
                connection.sendall(request)
                status = _response(connection)
            except OSError as error:
                return f"{type(error).__name__} after {i}"
            if status != "200":
                return f"{status or 'no response'} after {i}"
    return "3000 responses"


def pipelined_upgrades(target: Target) -> str:
    request = target.head("GET", "/v2/health/live", "Connection: Upgrade", "Upgrade: websocket")
    return _one(target, request * 3000)


def long_head(target: Target) -> str:
    line = b"a: " + b"x" * 8000 + b"\r\n"
    return _flood(target, target.head("GET", "/", has_key=False)[:-2], line, 50 * MIB)


def trailers(target: Target) -> str:
    head = target.head("POST", "/v1/jobs", "Content-Type: application/json",
                       "Transfer-Encoding: chunked")  # fmt: skip
    return _flood(target, head + b"2\r\n{}\r\n0\r\n", b"a: b\r\n" * 1000, 50 * MIB)


def trailers_without_key(target: Target) -> str:
    head = target.head("POST", "/v1/jobs", "Transfer-Encoding: chunked", has_key=False)
    return _flood(target, head + b"2\r\n{}\r\n0\r\n", b"a: b\r\n" * 1000, 50 * MIB)


def empty_lists(target: Target) -> str:
    return _post(target, "/v1/jobs", b"[[[" + b"[]," * (MIB // 3 - 10) + b"[]]]]", 20)


def flat_numbers(target: Target) -> str:
    body = b"[" + b"1," * (4 * MIB) + b"1]"
    return _post(target, "/v1/jobs", body, 20)


def flat_numbers_to_model(target: Target) -> str:
    body = b"[" + b"1," * (4 * MIB) + b"1]"
    return _post(target, f"/v1/models/{MODEL}/transform", body, 20)


def long_addresses(target: Target) -> str:
    before = target.memory_mib()
    statuses = set()
    with target.connect(60) as connection:
        for i in range(10_000):
            path = f"/v1/models/{MODEL}/transform?task={i:05}{'x' * 60_000}"
            headers = "Content-Type: application/json", "Content-Length: 2"
            try:
                connection.sendall(target.head("POST", path, *headers) + b"{}")
                statuses.add(_response(connection))
            except OSError as error:
                return f"{type(error).__name__} after {i}"
            if "" in statuses:
                return f"no response to number {i}"
    return f"{' '.join(sorted(statuses))}; memory {target.memory_mib() - before:+.0f} MiB"


def rebinding(target: Target) -> str:
    request = b"GET /v1/models HTTP/1.1\r\nHost: attacker.example\r\nConnection: close\r\n\r\n"
    return _one(target, request)


def event_streams(target: Target) -> str:
    """Open 500 event streams of one owner, and measure calls of another one."""
    with (
        Client(target.url, api_key=target.key) as client,
        target.http(target.other_key) as http,
    ):
        rng = np.random.default_rng(0)
        data = client.upload({f"task {t}": rng.standard_normal((40, 24)) for t in range(120)})
        # longer than the measurement on any machine
        grid = [float(c) for c in np.geomspace(0.01, 1e4, 100)]
        job = client.train(
            data, "rmt-pca", model="long", k=5, selection="cv", grid=grid, starts="many"
        )
        head = target.head("GET", f"/v1/jobs/{job.id}/events", "Accept: text/event-stream")
        before = _median_ms(http)
        with ExitStack() as stack:
            opened = [stack.enter_context(target.connect(60)) for _ in range(500)]
            for connection in opened:
                connection.sendall(head)
            n_streams = sum(b" 200 " in connection.recv(500) for connection in opened)
            during = _median_ms(http)
        job.cancel()
    return f"{n_streams} streams; calls of another owner {before:.1f} -> {during:.1f} ms"


def _median_ms(http: httpx.Client) -> float:
    took = []
    for _ in range(200):
        began = time.perf_counter()
        http.get("/v1/algorithms/pca").raise_for_status()
        took.append(1000 * (time.perf_counter() - began))
    return statistics.median(took)


def _post(target: Target, path: str, body: bytes, count: int) -> str:
    headers = {"Content-Type": "application/json"}
    statuses = set()
    with target.http(target.key) as http:
        for _ in range(count):
            try:
                statuses.add(str(http.post(path, content=body, headers=headers).status_code))
            except httpx.TransportError as error:
                statuses.add(type(error).__name__)
    return " ".join(sorted(statuses))


def _one(target: Target, request: bytes) -> str:
    with target.connect() as connection:
        connection.sendall(request)
        status, end = _reply(connection, 2.0)
    return f"{status or 'no response'}, connection {end}"


def _flood(target: Target, start: bytes, line: bytes, size: int) -> str:
    """Send a line again and again."""
    before, sent = target.memory_mib(), 0
    with target.connect() as connection:
        try:
            connection.sendall(start)
            while sent < size:
                connection.sendall(line)
                sent += len(line)
        except OSError:
            pass
        grown = target.memory_mib() - before
        status, end = _reply(connection, 1.0)
    told = f"{sent / MIB:.1f} MiB sent, memory {grown:+.0f} MiB"
    return f"{status or 'no response'}, connection {end}; {told}"


def _response(connection: socket.socket) -> str:
    """Read one response of known length; return its status, empty if there is none."""
    received = b""
    while b"\r\n\r\n" not in received:
        chunk = connection.recv(MIB)
        if not chunk:
            return ""
        received += chunk
    head, _, body = received.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)content-length: (\d+)", head)
    left = 0 if length is None else int(length[1]) - len(body)
    while left > 0:
        left -= len(connection.recv(left)) or left
    return head[9:12].decode()


def _reply(connection: socket.socket, timeout_s: float) -> tuple[str, str]:
    """Return the status of the first response, and whether the server has ended the connection."""
    connection.settimeout(timeout_s)
    received = b""
    try:
        while chunk := connection.recv(MIB):
            received += chunk[: 100 - len(received)] if len(received) < 100 else b""
        end = "ended"
    except (TimeoutError, BlockingIOError):
        end = "open"
    except OSError:
        end = "reset"
    found = re.match(rb"HTTP/1.1 (\d+)", received)
    return (found[1].decode() if found else ""), end


ATTACKS: dict[str, tuple[str, Callable[[Target], str]]] = {
    "silent": ("1,100 silent connections", silent),
    "half-heads": ("1,100 heads that stop", half_heads),
    "half-bodies": ("200 bodies that stop", half_bodies),
    "slow-readers": ("200 clients that do not read", slow_readers),
    "long-head": ("a head of 50 MB", long_head),
    "trailers": ("50 MB of trailers", trailers),
    "trailers-without-key": ("50 MB of trailers, no key", trailers_without_key),
    "bad-target": ("`GET http://x`", bad_target),
    "connect": ("`CONNECT x:1`", connect_method),
    "upgrade-close": ("`Connection: Upgrade, close`", upgrade_and_close),
    "upgrades": ("3,000 upgrades in a row", upgrades),
    "pipelined-upgrades": ("3,000 upgrades sent at once", pipelined_upgrades),
    "empty-lists": ("1 MB of `[[],[],…]` to a job, 20 times", empty_lists),
    "flat-numbers": ("8 MB of numbers to a job, 20 times", flat_numbers),
    "flat-numbers-model": ("8 MB of numbers to a model, 20 times", flat_numbers_to_model),
    "long-addresses": ("10,000 addresses of 60 KB", long_addresses),
    "rebinding": ("`Host` of another site", rebinding),
    "event-streams": ("500 event streams, one job", event_streams),
}


# --- health --------------------------------------------------------------------------------------


def _probe(host: str, port: int, pipe: Connection) -> None:
    """Ask for the health until told to stop; send the times in seconds, inf for no response."""
    took = []
    while not pipe.poll(0.02):
        began = time.perf_counter()
        try:
            with socket.create_connection((host, port), HEALTH_TIMEOUT_S) as connection:
                connection.settimeout(HEALTH_TIMEOUT_S)
                connection.sendall(HEALTH)
                is_ok = connection.recv(100).startswith(b"HTTP/1.1 200")
        except OSError:
            is_ok = False
        took.append(time.perf_counter() - began if is_ok else float("inf"))
    pipe.send(took)


@contextmanager
def health(target: Target, into: list[float]) -> Iterator[None]:
    """Measure the health during the block, from another process."""
    ours, theirs = multiprocessing.Pipe()
    prober = multiprocessing.Process(target=_probe, args=(target.host, target.port, theirs))
    prober.start()
    try:
        yield
    finally:
        ours.send("stop")
        into.extend(ours.recv())
        prober.join()


def _ms(seconds: list[float]) -> str:
    answered = sorted(s for s in seconds if s < float("inf"))
    failed = len(seconds) - len(answered)
    if not answered:
        return f"none of {failed}"
    told = f"{1000 * statistics.median(answered):.1f} / {1000 * answered[-1]:.0f}"
    return f"{told}, {failed} of {len(seconds)} failed" if failed else told


# --- servers -------------------------------------------------------------------------------------


@contextmanager
def tree(commit: str | None) -> Iterator[Path]:
    """Return a folder with the code of a commit."""
    if commit is None:
        yield ROOT
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", path, commit], check=True)
        try:
            yield path
        finally:
            subprocess.run([*git, "remove", "--force", path], check=True)


@contextmanager
def server(code: Path) -> Iterator[Target]:
    """Run a server of some code that requires keys and may open 1,024 files."""
    with tempfile.TemporaryDirectory() as folder:
        key = f"sib_{secrets.token_hex(6)}_{secrets.token_urlsafe(32)}"
        settings = {
            "PYTHONPATH": str(code),
            "SIBLING_DATA_DIR": folder,
            "SIBLING_REQUIRE_KEYS": "true",
            "SIBLING_WORKER_SLOTS": "1",
            "SIBLING_BOOTSTRAP_KEY": key,
        }
        env = {**os.environ, **settings, **LIMITS}
        sibling = [sys.executable, "-m", "sibling"]
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen(
                ["sh", "-c", f'ulimit -n {N_FILES}; exec "$@"', "sh", *sibling, *SERVE],
                cwd=code, env=env, stdout=subprocess.PIPE, stderr=log,
            )  # fmt: skip
        try:
            assert process.stdout is not None
            words = process.stdout.readline().decode().split()
            if not words:
                sys.exit((Path(folder) / "log").read_text())
            host, port = words[3].removeprefix("http://").split(":")
            create = [*sibling, "keys", "create", "--owner", "other"]
            made = subprocess.run(create, cwd=code, env=env, check=True, capture_output=True)
            other = re.search(rb"sib_\w+_[\w-]+", made.stdout)
            assert other is not None
            yield Target(host, int(port), key, other[0].decode(), process.pid)
        finally:
            process.terminate()
            process.wait()


def prepare(target: Target) -> None:
    """Train the model that is attacked."""
    with Client(target.url, api_key=target.key) as client:
        rows = np.random.default_rng(0).standard_normal((40, 4))
        client.train(client.upload({"a": rows}), "pca", model=MODEL, k=2).wait()


def run(target: Target, name: str) -> tuple[str, ...]:
    """Return the attack, the health before and during it, and what came of it."""
    what, attack = ATTACKS[name]
    before: list[float] = []
    during: list[float] = []
    with health(target, before):
        time.sleep(1)
    with health(target, during):
        threading.Event().wait(0.2)
        outcome = attack(target)
    return what, _ms(before), _ms(during), outcome


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--commit", help="version of the server; default: this tree")
    parser.add_argument("--only", nargs="*", choices=ATTACKS, default=list(ATTACKS))
    chosen = parser.parse_args()
    with tree(chosen.commit) as code, server(code) as target:
        prepare(target)
        print("| Attack | Health before, ms (median / max) | during | Outcome |")
        print("| --- | --- | --- | --- |")
        for name in chosen.only:
            print(f"| {' | '.join(run(target, name))} |", flush=True)


if __name__ == "__main__":
    main()
