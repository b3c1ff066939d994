"""Supervision of the child process: start, requests, limits and stop.

A stop is a cancel message, then SIGTERM, then SIGKILL to the process group: only a signal ends a
LAPACK call.
"""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from service.jobs.queue.outcome import Outcome, without_paths
from service.jobs.worker.child_process import TERM_GRACE_S, ChildProcess
from service.settings import MIB, Settings
from service.storage.job_states import AttemptCommand
from service.storage.shortages import Shortage

_START_TIMEOUT_S: Final = 120
#: Errors whose text can have paths of the server; the texts of others are about the data.
_CODES_WITH_PATHS: Final = ("internal-error", "invalid-artifact")

#: Takes the progress of an attempt; returns at once the command for it, or None if another attempt
#: owns the job.
Heartbeat = Callable[[dict[str, Any] | None], AttemptCommand | None]


class Supervisor:
    """A child process that runs requests one at a time, with limits.

    Attributes
    ----------
    threads
        Default number of threads of a job: its share of this machine.
    """

    def __init__(self, settings: Settings) -> None:
        self._heartbeat_interval_s = settings.heartbeat_interval_s
        self._grace_s = settings.stop_grace_s
        self.threads = max(1, (os.cpu_count() or 1) // settings.resolved_worker_slots())
        self._child: ChildProcess | None = None

    def warm_up(self, threads: int | None = None) -> ChildProcess:
        """Return a child process with this number of threads; start one if there is none."""
        threads = threads or self.threads
        child = self._child
        if child is not None and (child.threads != threads or not child.is_alive()):
            self._drop(child)
            child = None
        self._child = child or ChildProcess(threads)
        return self._child

    def run(
        self,
        request: dict[str, Any],
        *,
        heartbeat: Heartbeat,
        timeout_s: float,
        memory_mb: int,
        threads: int | None = None,
    ) -> Outcome:
        """Run a request; return its outcome."""
        child = self.warm_up(threads)
        child.begin(request, memory_mb=memory_mb)
        run = _Run(
            child, heartbeat, self._heartbeat_interval_s, self._grace_s, timeout_s, memory_mb
        )
        try:
            outcome = run.wait()
        except BaseException:
            self._drop(child)
            raise
        # only a child that returned a result can be used again
        if not run.has_result or outcome.code in ("out-of-memory", "internal-error"):
            self._drop(child)
        if outcome.kind == "succeeded":
            return Outcome("succeeded", artifact=Path(request["artifact"]), result=outcome.result)
        Path(request["artifact"]).unlink(missing_ok=True)
        return outcome

    def _drop(self, child: ChildProcess) -> None:
        child.kill()
        self._child = None


@dataclass(slots=True)
class _Run:
    """One request in the child, from its start to its end."""

    child: ChildProcess
    heartbeat: Heartbeat
    heartbeat_interval_s: float
    grace_s: float
    timeout_s: float
    memory_mb: int
    has_result: bool = False
    _progress: dict[str, Any] | None = None
    #: The outcome if the run is being stopped.
    _stop: Outcome | None = None
    _stopped_at: float = 0.0
    _has_sent_sigterm: bool = False

    def wait(self) -> Outcome:
        """Wait for the end of the run; return its outcome."""
        started = time.monotonic()
        next_heartbeat = started + self.heartbeat_interval_s  # shorter runs write nothing
        while True:
            message = self.child.receive(max(0.0, next_heartbeat - time.monotonic()))
            if message is not None and message["type"] == "progress":
                self._progress = message["progress"]
            elif message is not None:
                self.has_result = True
                return self._from_result(message)
            elif self.child.wire.is_closed:
                return self._from_exit()
            now = time.monotonic()
            if now < next_heartbeat:
                continue
            next_heartbeat = now + self.heartbeat_interval_s
            if not self._send_heartbeat():
                return Outcome("fenced")
            if self.child.elapsed_s() > self.timeout_s:
                detail = f"stopped after its time limit of {self.timeout_s:g} s"
                self._begin_stop(Outcome("timed_out", "timed-out", detail))
            elif now - started > _START_TIMEOUT_S and not self.child.is_ready:
                self._begin_stop(self._start_failed())
            self._escalate()

    def _send_heartbeat(self) -> bool:
        """Send a heartbeat, obey its command; return False if another attempt owns the job."""
        self.child.extend_cpu()
        self.child.drain_output()
        command = self.heartbeat(self._progress)
        self._progress = None
        if command is None:
            return False
        if command == AttemptCommand.CANCEL:
            self._begin_stop(Outcome("cancelled", "cancelled", "cancelled by its owner"))
        elif command == AttemptCommand.RELEASE:
            self._begin_stop(Outcome("released", "requeued", "stopped to continue elsewhere"))
        if self.child.memory_bytes() > self.memory_mb * MIB:
            self._stop = self._out_of_memory()
            self.child.signal(signal.SIGKILL)
        return True

    def _begin_stop(self, outcome: Outcome) -> None:
        if self._stop is None:
            self._stop = outcome
            self._stopped_at = time.monotonic()
            if self.child.is_ready:
                self.child.wire.send({"type": "cancel"})
            else:  # it would read the message before its request, and ignore it
                self.child.signal(signal.SIGKILL)

    def _escalate(self) -> None:
        if self._stop is None:
            return
        waited = time.monotonic() - self._stopped_at
        if waited > self.grace_s + TERM_GRACE_S:
            self.child.signal(signal.SIGKILL)
        elif waited > self.grace_s and not self._has_sent_sigterm:
            self._has_sent_sigterm = True
            self.child.signal(signal.SIGTERM)

    def _from_result(self, message: dict[str, Any]) -> Outcome:
        if message["type"] in ("succeeded", "scored"):
            return Outcome(message["type"], result=message["result"])
        if self._stop is not None:
            return self._stop
        if message["type"] == "postponed":
            return postponed(message["detail"])
        if message["type"] == "cancelled":
            return Outcome("lost", "worker-exited", "the child process stopped without a request")
        detail = message["detail"]
        if message["code"] == "internal-error" and (tail := self.child.tail()):
            detail = f"{detail}\n{tail}"
        if message["code"] in _CODES_WITH_PATHS:
            detail = without_paths(detail)
        return Outcome("failed", message["code"], detail, message["place"])

    def _from_exit(self) -> Outcome:
        """Return the outcome of a child that exited without a result."""
        code = self.child.end()
        if self._stop is not None:
            return self._stop
        tail = without_paths(self.child.tail())
        if code >= 0:
            detail = f"the child process exited with code {code}\n{tail}"
            return Outcome("failed", "crashed", detail)
        detail = f"the child process was killed by {_signal_name(-code)}\n{tail}"
        return Outcome("lost", "crashed", detail)

    def _start_failed(self) -> Outcome:
        detail = f"the child process did not start within {_START_TIMEOUT_S} s"
        return Outcome(
            "lost", "worker-start-failed", without_paths(f"{detail}\n{self.child.tail()}")
        )

    def _out_of_memory(self) -> Outcome:
        detail = f"the job needs more than its memory limit of {self.memory_mb} MiB"
        return Outcome("failed", "out-of-memory", detail)


def postponed(shortage: Shortage | str) -> Outcome:
    """Return the outcome of an attempt on a machine that lacks something."""
    return Outcome("postponed", "resource-shortage", f"the worker's machine reports: {shortage}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"
