"""The supervisor's end of a training process: its order, its answer, its output, its end."""

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
#: CPU time that a child may use beyond its last heartbeat, per thread: the kernel stops it when
#: its supervisor is frozen.
DEAD_MAN_CPU_S: Final = 300
_STDERR_TAIL_BYTES: Final = 4096
#: Most reads of what a child prints before there is a look at anything else.
_MOST_READS: Final = 64
_POLL_S: Final = 0.01


class ChildProcess:
    """A training process and the supervisor's end of the line to it."""

    def __init__(self, threads: int) -> None:
        ours, theirs = socket.socketpair()
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
        command = [sys.executable, "-P", "-m", "service.jobs.worker.child"]
        self.process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [*command, str(theirs.fileno()), str(os.getpid())],
            pass_fds=[theirs.fileno()],
            start_new_session=True,  # a group of its own, so that a kill reaches all of it
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **dict.fromkeys(names, str(threads))},
        )
        theirs.close()
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self.wire = Wire(ours)
        self.threads = threads
        self.is_ready = False
        self._ordered_at: float | None = None
        self._order: dict[str, Any] | None = None
        self._memory_mb = 0
        self._tail = b""
        self._is_mute = False

    def is_alive(self) -> bool:
        """Return whether the process runs and its line is open."""
        return self.process.poll() is None and not self.wire.is_closed

    def begin(self, order: dict[str, Any], *, memory_mb: int) -> None:
        """Return the child an order, within a memory limit that the kernel keeps.

        Until its imports are done it reads nothing, so the order waits for its word.
        """
        self._tail = b""
        self._order, self._memory_mb, self._ordered_at = order, memory_mb, None
        if self.is_ready:
            self._send_order()

    def receive(self, timeout_s: float) -> dict[str, Any] | None:
        """Return the next message; None after the time, or once the child is gone.

        What it prints is read all the while: a full pipe would stop it.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            message = self.wire.receive(0)
            if message is not None and message["type"] == "ready":
                self.is_ready = True
                self._send_order()
            elif message is not None or self.wire.is_closed:
                return message
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return None
            line, output = self.wire.fileno(), self._output_fd()
            select.select([line] if self._is_mute else [line, output], [], [], left_s)
            self.drain_output()

    def worked_s(self) -> float:
        """Return the time since the child was given its order."""
        return 0.0 if self._ordered_at is None else time.monotonic() - self._ordered_at

    def extend_cpu(self) -> None:
        """Let the child go on computing for a while: the dead-man's switch."""
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            used = sum(psutil.Process(self.process.pid).cpu_times()[:2])
            soft = int(used) + DEAD_MAN_CPU_S * self.threads
            limits = (soft, resource.RLIM_INFINITY)
            resource.prlimit(self.process.pid, resource.RLIMIT_CPU, limits)

    def memory_bytes(self) -> int:
        """Return the resident memory."""
        try:
            return int(psutil.Process(self.process.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    def drain_output(self) -> None:
        """Read what the child has printed by now, keeping the end; a flood of it not for ever."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MOST_READS):
                data = os.read(self._output_fd(), MIB)
                if not data:
                    self._is_mute = True
                    return
                self._tail = (self._tail + data)[-_STDERR_TAIL_BYTES:]

    def tail(self) -> str:
        """Return the end of what the child printed."""
        self.drain_output()
        return self._tail.decode(errors="replace").strip()

    def end(self) -> int:
        """Return the exit code of a child that has closed its line, ended if it does not end."""
        deadline = time.monotonic() + TERM_GRACE_S
        while (code := self.process.poll()) is None:
            self.drain_output()  # a full pipe would keep it from ending
            if time.monotonic() > deadline:
                self.signal(signal.SIGKILL)
            time.sleep(_POLL_S)
        return code

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child's process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def kill(self) -> None:
        """End the process and close the line."""
        self.signal(signal.SIGKILL)
        self.process.wait()
        self.wire.close()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def _send_order(self) -> None:
        if self._order is None:
            return
        limit = self._memory_mb * MIB
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(
                self.process.pid, resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY)
            )
        self.extend_cpu()
        self.wire.send({"type": "train", **self._order})
        self._order, self._ordered_at = None, time.monotonic()

    def _output_fd(self) -> int:
        assert self.process.stdout is not None
        return self.process.stdout.fileno()
