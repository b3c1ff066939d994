"""Starts the child, feeds it, watches it, and stops it when it must.

Stop = flag, grace, SIGTERM, SIGKILL to the process group: nothing less ends a LAPACK call.
"""

import contextlib
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import psutil

from service.jobs.states import Wish
from service.jobs.wire import Wire
from service.settings import MIB, Settings

OutcomeKind = Literal[
    "succeeded", "scored", "failed", "cancelled", "timed_out", "lost", "released", "fenced"
]

#: Between SIGTERM and SIGKILL.
TERM_GRACE_S: Final = 1.0
#: CPU time that a child may use beyond its last heartbeat, per thread: the kernel stops it when
#: its supervisor is frozen.
DEAD_MAN_CPU_S: Final = 300
_STDERR_TAIL_BYTES: Final = 4096
_START_TIMEOUT_S: Final = 120

#: Says that an attempt is alive and how far it is; gives what is wanted of it, or None where it
#: has lost its right to the row.
Beat = Callable[[dict[str, Any] | None], Wish | None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended."""

    kind: OutcomeKind
    code: str = ""
    detail: str = ""
    place: dict[str, Any] = field(default_factory=dict)
    artifact: Path | None = None
    result: dict[str, Any] = field(default_factory=dict)


class Supervisor:
    """Keeps one child warm and runs orders in it, one at a time."""

    def __init__(self, settings: Settings) -> None:
        self._heartbeat_s = settings.heartbeat_s
        self._grace_s = settings.stop_grace_s
        self._threads = max(1, (os.cpu_count() or 1) // settings.resolved_slots())
        self._child: _Child | None = None

    def warm_up(self, threads: int | None = None) -> "_Child":
        """Give the child, started where there is none that uses so many threads."""
        threads = threads or self._threads
        child = self._child
        if child is not None and (child.threads != threads or not child.is_alive()):
            self._drop(child)
            child = None
        self._child = child or _Child(threads)
        return self._child

    def run(
        self,
        order: dict[str, Any],
        *,
        beat: Beat,
        timeout_s: float,
        memory_mb: int,
        threads: int | None = None,
    ) -> Outcome:
        """Give the outcome of one order."""
        child = self.warm_up(threads)
        child.begin(order, memory_mb=memory_mb)
        watch = _Watch(child, beat, self._heartbeat_s, self._grace_s, timeout_s, memory_mb)
        try:
            outcome = watch.until_end()
        except BaseException:
            self._drop(child)
            raise
        # only a child that answered is known to be in order
        if not watch.has_answered or outcome.code in ("out_of_memory", "defect"):
            self._drop(child)
        if outcome.kind == "succeeded":
            return Outcome("succeeded", artifact=Path(order["artifact"]), result=outcome.result)
        Path(order["artifact"]).unlink(missing_ok=True)
        return outcome

    def _drop(self, child: "_Child") -> None:
        child.kill()
        self._child = None


class _Child:
    """A training process and the supervisor's end of the line to it."""

    def __init__(self, threads: int) -> None:
        ours, theirs = socket.socketpair()
        names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
        command = [sys.executable, "-P", "-m", "service.jobs.child"]
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
        self._tail = b""
        self._is_ready = False

    def is_alive(self) -> bool:
        """Tell whether the process runs and its line is open."""
        return self.process.poll() is None and not self.wire.is_closed

    def begin(self, order: dict[str, Any], *, memory_mb: int) -> None:
        """Give the child an order, within a memory limit that the kernel keeps."""
        if not self._is_ready:  # until its imports are done it answers nothing
            self._is_ready = self.wire.receive(_START_TIMEOUT_S) is not None
        self._tail = b""
        limit = memory_mb * MIB
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(
                self.process.pid, resource.RLIMIT_DATA, (limit, resource.RLIM_INFINITY)
            )
        self.extend_cpu()
        self.wire.send({"type": "train", **order})

    def extend_cpu(self) -> None:
        """Let the child go on computing for a while: the dead-man's switch."""
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            used = sum(psutil.Process(self.process.pid).cpu_times()[:2])
            soft = int(used) + DEAD_MAN_CPU_S * self.threads
            limits = (soft, resource.RLIM_INFINITY)
            resource.prlimit(self.process.pid, resource.RLIMIT_CPU, limits)

    def memory_bytes(self) -> int:
        """Give the resident memory."""
        try:
            return int(psutil.Process(self.process.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    def drain_output(self) -> None:
        """Read what the child printed, keeping the end."""
        assert self.process.stdout is not None
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.process.stdout.fileno(), MIB):
                self._tail = (self._tail + data)[-_STDERR_TAIL_BYTES:]

    def tail(self) -> str:
        """Give the end of what the child printed."""
        self.drain_output()
        return self._tail.decode(errors="replace").strip()

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


@dataclass(slots=True)
class _Watch:
    """Watches one order until it ends."""

    child: _Child
    beat: Beat
    heartbeat_s: float
    grace_s: float
    timeout_s: float
    memory_mb: int
    has_answered: bool = False
    _progress: dict[str, Any] | None = None
    _stop: Outcome | None = None
    _stop_at: float = 0.0
    _signalled: signal.Signals | None = None

    def until_end(self) -> Outcome:
        """Give the outcome."""
        started = time.monotonic()
        next_beat = started + self.heartbeat_s  # what ends sooner costs no write
        while True:
            message = self.child.wire.receive(max(0.0, next_beat - time.monotonic()))
            if message is not None and message["type"] == "progress":
                self._progress = message["progress"]
            elif message is not None:
                self.has_answered = True
                return self._from_answer(message)
            elif self.child.wire.is_closed:
                return self._from_end()
            now = time.monotonic()
            if now < next_beat:
                continue
            next_beat = now + self.heartbeat_s
            if not self._heartbeat():
                return Outcome("fenced")
            if now - started > self.timeout_s:
                detail = f"ended after its time limit of {self.timeout_s:g} s"
                self._begin_stop(Outcome("timed_out", "timed_out", detail))
            self._escalate()

    def _heartbeat(self) -> bool:
        """Tell the row; stop where it says so. False where the attempt was fenced out."""
        self.child.extend_cpu()
        self.child.drain_output()
        wanted = self.beat(self._progress)
        self._progress = None
        if wanted is None:
            return False
        if wanted == Wish.CANCEL:
            self._begin_stop(Outcome("cancelled", "cancelled", "cancelled by its owner"))
        elif wanted == Wish.RELEASE:
            self._begin_stop(Outcome("released", "released", "stopped to go on elsewhere"))
        if self.child.memory_bytes() > self.memory_mb * MIB:
            self._stop = self._out_of_memory()
            self.child.signal(signal.SIGKILL)
        return True

    def _begin_stop(self, outcome: Outcome) -> None:
        if self._stop is None:
            self._stop = outcome
            self._stop_at = time.monotonic()
            self.child.wire.send({"type": "cancel"})

    def _escalate(self) -> None:
        if self._stop is None:
            return
        waited = time.monotonic() - self._stop_at
        if waited > self.grace_s + TERM_GRACE_S:
            self.child.signal(signal.SIGKILL)
        elif waited > self.grace_s and self._signalled is None:
            self._signalled = signal.SIGTERM
            self.child.signal(signal.SIGTERM)

    def _from_answer(self, message: dict[str, Any]) -> Outcome:
        if message["type"] in ("succeeded", "scored"):
            return Outcome(message["type"], result=message["result"])
        if self._stop is not None:
            return self._stop
        if message["type"] == "cancelled":
            return Outcome("lost", "stopped", "the training stopped by itself")
        detail = message["detail"]
        if message["code"] == "defect" and (tail := self.child.tail()):
            detail = f"{detail}\n{tail}"
        return Outcome("failed", message["code"], detail, message["place"])

    def _from_end(self) -> Outcome:
        """Tell how the child ended without an answer."""
        code = self.child.process.wait()
        if self._stop is not None:
            return self._stop
        tail = self.child.tail()
        if code >= 0:
            return Outcome("failed", "crashed", f"the training ended with code {code}\n{tail}")
        name = signal.Signals(-code).name
        return Outcome("lost", f"crashed: {name}", f"the training was ended by {name}\n{tail}")

    def _out_of_memory(self) -> Outcome:
        detail = f"the training needs more than its memory limit of {self.memory_mb} MiB"
        return Outcome("failed", "out_of_memory", detail)
