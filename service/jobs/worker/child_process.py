"""The child process as its supervisor sees it: requests, results, output and exit."""

import contextlib
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from typing import Any, Final

import psutil

from service.jobs.worker.wire import Wire
from service.settings import MIB

#: Between SIGTERM and SIGKILL.
TERM_GRACE_S: Final = 1.0
#: CPU time per thread that a child may use after the last heartbeat of its supervisor: the kernel
#: stops the child of a frozen supervisor.
CPU_LIMIT_S: Final = 300
_OUTPUT_TAIL_BYTES: Final = 4096
#: Limit on consecutive reads of the output, so that endless output blocks nothing else.
_MAX_READS: Final = 64
_POLL_S: Final = 0.01
#: Dask sets this for its workers, whose memory it limits. Every array would then be mapped and
#: cleared anew, which takes up to 40 % of the time of a fit.
_TRIM_THRESHOLD: Final = "MALLOC_TRIM_THRESHOLD_"


class ChildProcess:
    """A child process, and the supervisor's end of the socket pair."""

    def __init__(self, threads: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self.process = _start(theirs.fileno(), threads)
            except BaseException:
                ours.close()
                raise
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.wire = Wire(ours)
        self.threads = threads
        self.is_ready = False
        self._requested_at: float | None = None
        self._request: dict[str, Any] | None = None
        self._memory_mb = 0
        self._tail = b""
        self._is_output_closed = False

    def is_alive(self) -> bool:
        """Return whether the process runs and its connection is open."""
        return self.process.poll() is None and not self.wire.is_closed

    def begin(self, request: dict[str, Any], *, memory_mb: int) -> None:
        """Send a request to the child, with a memory limit that the kernel enforces.

        The child reads nothing until its imports are done, so the request waits for "ready".
        """
        self._tail = b""
        self._request, self._memory_mb, self._requested_at = request, memory_mb, None
        if self.is_ready:
            self._send_request()

    def receive(self, timeout_s: float) -> dict[str, Any] | None:
        """Return the next message; None after the timeout, or once the child has exited.

        Its output is read meanwhile: a full pipe would block it.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            message = self.wire.receive(0)
            if message is not None and message["type"] == "ready":
                self.is_ready = True
                self._send_request()
            elif message is not None or self.wire.is_closed:
                return message
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return None
            connection, output = self.wire.fileno(), self._output_fd()
            readable = [connection] if self._is_output_closed else [connection, output]
            select.select(readable, [], [], left_s)
            self.drain_output()

    def elapsed_s(self) -> float:
        """Return the time since the request was sent."""
        return 0.0 if self._requested_at is None else time.monotonic() - self._requested_at

    def extend_cpu(self) -> None:
        """Raise the CPU limit of the child.

        Without repeated calls the child reaches the limit, and the kernel kills it.
        """
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            used = sum(psutil.Process(self.process.pid).cpu_times()[:2])
            soft = int(used) + CPU_LIMIT_S * self.threads
            limits = (soft, resource.RLIM_INFINITY)
            resource.prlimit(self.process.pid, resource.RLIMIT_CPU, limits)

    def memory_bytes(self) -> int:
        """Return the resident memory of the child."""
        try:
            return int(psutil.Process(self.process.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    def drain_output(self) -> None:
        """Read the output of the child so far, and keep its last bytes."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MAX_READS):
                data = os.read(self._output_fd(), MIB)
                if not data:
                    self._is_output_closed = True
                    return
                self._tail = (self._tail + data)[-_OUTPUT_TAIL_BYTES:]

    def tail(self) -> str:
        """Return the last output of the child."""
        self.drain_output()
        return self._tail.decode(errors="replace").strip()

    def end(self) -> int:
        """Wait for the exit of a child that closed its connection; return its exit code."""
        deadline = time.monotonic() + TERM_GRACE_S
        while (code := self.process.poll()) is None:
            self.drain_output()  # a full pipe would keep it from exiting
            if time.monotonic() > deadline:
                self.signal(signal.SIGKILL)
            time.sleep(_POLL_S)
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child's process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """Kill the process and close the connection."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.wire.close()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _send_request(self) -> None:
        if self._request is None:
            return
        limit = self._memory_mb * MIB
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(
                self.process.pid, resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY)
            )
        self.extend_cpu()
        self.wire.send({"type": "train", **self._request})
        self._request, self._requested_at = None, time.monotonic()

    def _output_fd(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()


def _start(connection: int, threads: int) -> subprocess.Popen[bytes]:
    """Start the process, and pass it its end of the socket pair."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    inherited = {name: value for name, value in os.environ.items() if name != _TRIM_THRESHOLD}
    command = [sys.executable, "-P", "-m", "service.jobs.worker.child"]
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [*command, str(connection), str(os.getpid())],
        pass_fds=[connection],
        start_new_session=True,  # in a group of its own, so that a kill reaches its descendants
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**inherited, **dict.fromkeys(names, str(threads))},
    )
