"""Starts the child, feeds it, watches it, and stops it when it must.

Stop = flag, grace, SIGTERM, SIGKILL to the process group: nothing less ends a LAPACK call.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from service.jobs.queue.outcome import Outcome
from service.jobs.queue.states import Wish
from service.jobs.worker.child_process import TERM_GRACE_S, ChildProcess
from service.settings import MIB, Settings

_START_TIMEOUT_S: Final = 120

#: Takes how far an attempt is; gives at once what is wanted of it, or None where it has lost its
#: right to the row.
Beat = Callable[[dict[str, Any] | None], Wish | None]


class Supervisor:
    """Keeps one child warm and runs orders in it, one at a time.

    ``threads`` is the number that work has which asks for none: its share of this machine.
    """

    def __init__(self, settings: Settings) -> None:
        self._heartbeat_s = settings.heartbeat_s
        self._grace_s = settings.stop_grace_s
        self.threads = max(1, (os.cpu_count() or 1) // settings.resolved_slots())
        self._child: ChildProcess | None = None

    def warm_up(self, threads: int | None = None) -> ChildProcess:
        """Return the child, started where there is none that uses so many threads."""
        threads = threads or self.threads
        child = self._child
        if child is not None and (child.threads != threads or not child.is_alive()):
            self._drop(child)
            child = None
        self._child = child or ChildProcess(threads)
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
        """Return the outcome of one order."""
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

    def _drop(self, child: ChildProcess) -> None:
        child.kill()
        self._child = None


@dataclass(slots=True)
class _Watch:
    """Watches one order until it ends."""

    child: ChildProcess
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
        """Return the outcome."""
        started = time.monotonic()
        next_beat = started + self.heartbeat_s  # what ends sooner costs no write
        while True:
            message = self.child.receive(max(0.0, next_beat - time.monotonic()))
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
            if self.child.worked_s() > self.timeout_s:
                detail = f"ended after its time limit of {self.timeout_s:g} s"
                self._begin_stop(Outcome("timed_out", "timed_out", detail))
            elif now - started > _START_TIMEOUT_S and not self.child.is_ready:
                self._begin_stop(self._not_ready())
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
            if self.child.is_ready:
                self.child.wire.send({"type": "cancel"})
            else:  # it would read that before its order, and pass it over
                self.child.signal(signal.SIGKILL)

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
        """Return how the child ended without an answer."""
        code = self.child.end()
        if self._stop is not None:
            return self._stop
        tail = self.child.tail()
        if code >= 0:
            return Outcome("failed", "crashed", f"the training ended with code {code}\n{tail}")
        name = _signal_name(-code)
        return Outcome("lost", f"crashed: {name}", f"the training was ended by {name}\n{tail}")

    def _not_ready(self) -> Outcome:
        detail = f"the training process was not ready after {_START_TIMEOUT_S} s"
        return Outcome("lost", "not_ready", f"{detail}\n{self.child.tail()}")

    def _out_of_memory(self) -> Outcome:
        detail = f"the training needs more than its memory limit of {self.memory_mb} MiB"
        return Outcome("failed", "out_of_memory", detail)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most of the real-time ones have no name
        return f"signal {number}"
