"""Supervision of a child process: its start, requests, messages, output, limits, stop and exit.

A stop is a cancel message, then SIGTERM, then SIGKILL to the process group: only a signal ends a
LAPACK call. Without a grace period it is SIGKILL at once.
"""

import contextlib
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import uuid4

import psutil

from service.processes.lifetime import kill_marked
from service.processes.requests import IS_ALONE
from service.processes.wire import Wire
from service.settings import MIB

START_TIMEOUT_S: Final = 120
#: Between SIGTERM and SIGKILL, and between the end of a connection and SIGKILL.
TERM_GRACE_S: Final = 1.0
#: Reasons of the supervision for a stop.
TIMED_OUT: Final = "timed-out"
NOT_STARTED: Final = "not-started"
#: Environment variables of a child that needs no others: search paths and locale. Without settings,
#: a process that reads files of users has no database password.
_BARE: Final = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "HOME")
_OUTPUT_TAIL_BYTES: Final = 4096
#: Limit on consecutive reads of the output, so that endless output blocks nothing else.
_MAX_READS: Final = 64
_POLL_S: Final = 0.01
#: Environment variable by which the descendants of a child are found.
_MARK: Final = "SUPERVISED_AS"
#: Starts all children: the kernel kills a child when the *thread* that has started it ends.
_STARTER: Final = ThreadPoolExecutor(1, thread_name_prefix="start-child")


class Program(NamedTuple):
    """A module that serves requests, and the environment variables of its process."""

    module: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ProcessLimits:
    """Limits of a request."""

    #: Time from when the child gets the request.
    timeout_s: float
    #: Time that the child then has to stop by itself.
    grace_s: float = 0.0
    #: Memory that the kernel lets the process allocate.
    memory_bytes: int = resource.RLIM_INFINITY
    #: CPU time that the kernel lets it use after the last beat: it ends the child of a frozen
    #: supervisor. None for any.
    cpu_s: int | None = None


class Stop(NamedTuple):
    """A reason to stop a request, and the time between a cancel message and SIGTERM."""

    reason: Any
    grace_s: float = 0.0


class Request(NamedTuple):
    """Something to tell the child, by a message of this type, while it goes on."""

    type: str


class End(NamedTuple):
    """How a request ended."""

    #: The last message of the child; None if it died.
    answer: dict[str, Any] | None
    #: Exit code of a child that died, negative for a signal.
    exit_code: int
    #: Reason why it was stopped; None if it was not.
    stopped: Any
    #: The end of its output.
    output: str


#: Called regularly with the progress since the last call, if any, and the resident memory of the
#: child; returns whether to stop it, or what to tell it.
OnBeat = Callable[[Any, int], Stop | Request | None]


class SupervisedProcess:
    """A process that runs requests one at a time; it starts with the first, and if it has died."""

    def __init__(self) -> None:
        self._child: _Child | None = None
        self._lock = threading.RLock()

    def warm_up(self, program: Program) -> int:
        """Return the pid of the process; start it if there is none of this program."""
        child = self._child
        if child is None or child.program != program or not child.is_alive():
            self.close()
            self._child = child = _Child(program)
        return child.process.pid

    def run(
        self,
        program: Program,
        request: dict[str, Any],
        limits: ProcessLimits,
        *,
        beat_s: float = 1.0,
        on_beat: OnBeat = lambda *_: None,
    ) -> End:
        """Run a request; return how it ended. The next request replaces a child that has died.

        Parameters
        ----------
        beat_s
            Time between two calls of ``on_beat``.
        """
        with self._lock:
            self.warm_up(program)
            assert self._child is not None
            end = None
            try:
                end = self._child.run(request, limits, min(beat_s, limits.timeout_s), on_beat)
            finally:
                if end is None or end.answer is None or not end.answer.get(IS_ALONE):
                    self.close()
        return end

    def close(self) -> None:
        """Kill the process with its descendants; a request that runs in another thread ends."""
        if self._child is not None:
            self._child.signal(signal.SIGKILL)
        with self._lock:
            child, self._child = self._child, None
            if child is not None:
                child.kill()


class _Child:
    """A child process, and the supervisor's end of the socket pair."""

    def __init__(self, program: Program) -> None:
        ours, theirs = socket.socketpair()
        self._mark = uuid4().hex
        with theirs:
            try:
                start = _STARTER.submit(_start, program, theirs.fileno(), self._mark)
                self.process = start.result()
            except BaseException:
                ours.close()
                raise
        self.program = program
        self._wire = Wire(ours)
        assert self.process.stdout is not None
        self._output = self.process.stdout
        os.set_blocking(self._output.fileno(), False)
        self._poll = select.poll()
        self._poll.register(ours, select.POLLIN)
        self._poll.register(self._output, select.POLLIN)
        self._tail = b""
        self._is_ready = False
        self._told: Request | None = None
        self._stop: Stop | None = None
        self._stopped_at = 0.0

    def is_alive(self) -> bool:
        """Return whether the process runs and its connection is open."""
        return self.process.poll() is None and not self._wire.is_closed

    def run(
        self, request: dict[str, Any], limits: ProcessLimits, beat_s: float, on_beat: OnBeat
    ) -> End:
        """Run a request; return how it ended."""
        self._tail, self._stop, self._told = b"", None, None
        progress: Any = None
        sent_at = self._send(request, limits) if self._is_ready else None
        started_at = time.monotonic()
        next_beat = started_at + beat_s  # shorter runs have none
        while True:
            message = self._receive(max(0.0, next_beat - time.monotonic()))
            match message:
                case {"type": "ready"}:  # until its imports are done, it reads nothing
                    self._is_ready = True
                    sent_at = self._send(request, limits)
                case {"type": "progress", "progress": progress}:
                    pass
                case dict():
                    return self._end(message)
                # a daemon that it has left behind may hold the connection
                case None if self._wire.is_closed or self.process.poll() is not None:
                    return self._end(None, self._wait())
            now = time.monotonic()
            if now < next_beat:
                continue
            next_beat = now + beat_s
            self._extend_cpu(limits)
            wish, progress = on_beat(progress, self._memory_bytes()), None
            if isinstance(wish, Request) and sent_at is not None:
                self._tell(wish)
            stop = wish if isinstance(wish, Stop) else None
            if stop is None and sent_at is not None and now - sent_at > limits.timeout_s:
                stop = Stop(TIMED_OUT, limits.grace_s)
            if stop is None and sent_at is None and now - started_at > START_TIMEOUT_S:
                stop = Stop(NOT_STARTED)
            self._pursue(stop)

    def kill(self) -> None:
        """Kill the process with its descendants, and close the connection.

        Daemons are in groups of their own, but have its environment.
        """
        self.signal(signal.SIGKILL)
        kill_marked(self._mark)
        self.process.wait()
        self._wire.close()
        self._output.close()

    def _send(self, request: dict[str, Any], limits: ProcessLimits) -> float:
        """Send a request, with limits that the kernel enforces; return the time."""
        memory = (limits.memory_bytes, resource.RLIM_INFINITY)
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(self.process.pid, resource.RLIMIT_DATA, memory)
        self._extend_cpu(limits)
        self._wire.send({"type": "run", "request": request})
        return time.monotonic()

    def _receive(self, timeout_s: float) -> dict[str, Any] | None:
        """Return the next message; None after the timeout, or once the child has exited.

        Its output is read meanwhile: a full pipe would block it.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            self._drain_output()
            message = self._wire.receive(0)
            left_s = deadline - time.monotonic()
            if message is not None or self._wire.is_closed or left_s <= 0:
                return message
            self._poll.poll(1000 * left_s)

    def _tell(self, request: Request) -> None:
        """Send a message, unless it was the last one."""
        if request != self._told:
            self._told = request
            self._wire.send({"type": request.type})

    def _pursue(self, stop: Stop | None) -> None:
        """Begin a stop, or go on with the present one; a stop without grace is immediate."""
        if stop is not None and (self._stop is None or stop.grace_s == 0):
            self._stop, self._stopped_at = stop, time.monotonic()
            if stop.grace_s > 0 and self._is_ready:
                self._wire.send({"type": "cancel"})
            else:  # one that is not ready would read the message before its request, and ignore it
                self.signal(signal.SIGKILL)
        elif self._stop is not None:
            waited_s = time.monotonic() - self._stopped_at
            if waited_s > self._stop.grace_s + TERM_GRACE_S:
                self.signal(signal.SIGKILL)
            elif waited_s > self._stop.grace_s:
                self.signal(signal.SIGTERM)

    def _extend_cpu(self, limits: ProcessLimits) -> None:
        """Raise the CPU limit of the child, which it reaches without repeated calls."""
        if limits.cpu_s is None:
            return
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            used = sum(psutil.Process(self.process.pid).cpu_times()[:2])
            soft = int(used) + limits.cpu_s
            resource.prlimit(self.process.pid, resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))

    def _memory_bytes(self) -> int:
        try:
            return int(psutil.Process(self.process.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    def _drain_output(self) -> None:
        """Read the output of the child so far, and keep its last bytes."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MAX_READS):
                data = os.read(self._output.fileno(), MIB)
                if not data:
                    with contextlib.suppress(KeyError):  # its end has been seen before
                        self._poll.unregister(self._output)
                    return
                self._tail = (self._tail + data)[-_OUTPUT_TAIL_BYTES:]

    def _wait(self) -> int:
        """Wait for the exit of a child that closed its connection; return its exit code."""
        deadline = time.monotonic() + TERM_GRACE_S
        while (code := self.process.poll()) is None:
            self._drain_output()  # a full pipe would keep it from exiting
            if time.monotonic() > deadline:
                self.signal(signal.SIGKILL)
            time.sleep(_POLL_S)
        return code

    def _end(self, answer: dict[str, Any] | None, exit_code: int = 0) -> End:
        self._drain_output()
        stopped = None if self._stop is None else self._stop.reason
        return End(answer, exit_code, stopped, self._tail.decode(errors="replace").strip())

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the child's process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)


def bare_environment() -> dict[str, str]:
    """Return the environment variables of a child process that needs no settings."""
    return {name: os.environ[name] for name in _BARE if name in os.environ}


def signal_name(number: int) -> str:
    """Return the name of a signal, such as SIGKILL."""
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def _start(program: Program, connection: int, mark: str) -> subprocess.Popen[bytes]:
    """Start the process, and pass it its end of the socket pair."""
    command = [sys.executable, "-P", "-m", program.module]
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [*command, str(connection), str(os.getpid())],
        pass_fds=[connection],
        start_new_session=True,  # in a group of its own, so that a kill reaches its descendants
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**program.environment, _MARK: mark},
    )
