"""The child process of a worker, which trains: its limits, and how a request ends for a job."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from service.jobs.queue.outcome import Outcome, without_paths
from service.processes.supervision import (
    NOT_STARTED,
    START_TIMEOUT_S,
    TIMED_OUT,
    End,
    ProcessLimits,
    Program,
    Request,
    Stop,
    SupervisedProcess,
    signal_name,
)
from service.settings import MIB, Settings
from service.storage.job_states import AttemptCommand
from service.storage.shortages import Shortage

#: CPU time per thread that a child may use after the last heartbeat of its supervisor.
CPU_LIMIT_S: Final = 300
#: Errors whose text can have paths of the server; the texts of others are about the data.
_CODES_WITH_PATHS: Final = ("internal-error", "invalid-artifact")
_THREADS: Final = (
    "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"
)  # fmt: skip
#: Dask sets this for its workers, whose memory it limits. Every array would then be mapped and
#: cleared anew, which takes up to 40 % of the time of a fit.
_TRIM_THRESHOLD: Final = "MALLOC_TRIM_THRESHOLD_"
#: Outcomes of a stopped attempt, by the command that stopped it.
_OUTCOMES: Final = {
    AttemptCommand.CANCEL: Outcome("cancelled", "cancelled", "cancelled by its owner"),
    AttemptCommand.RELEASE: Outcome("released", "requeued", "stopped to continue elsewhere"),
}

#: Takes the progress of an attempt; returns at once the command for it, or None if another attempt
#: owns the job.
Heartbeat = Callable[[dict[str, Any] | None], AttemptCommand | None]


class Supervisor:
    """A child process that trains, one request at a time.

    Attributes
    ----------
    threads
        Default number of threads of a job: its share of this machine.
    """

    def __init__(self, settings: Settings) -> None:
        self._heartbeat_interval_s = settings.heartbeat_interval_s
        self._grace_s = settings.stop_grace_s
        self.threads = max(1, (os.cpu_count() or 1) // settings.resolved_worker_slots())
        self._process = SupervisedProcess()

    def warm_up(self) -> int:
        """Return the pid of the child process; start it if there is none."""
        return self._process.warm_up(program(self.threads))

    def run(
        self,
        request: dict[str, Any],
        *,
        heartbeat: Heartbeat,
        timeout_s: float,
        memory_mb: int,
        threads: int | None = None,
    ) -> Outcome:
        """Run a request; return its outcome.

        Parameters
        ----------
        heartbeat
            Called with the progress while the request runs; returns the command for it.
        timeout_s, memory_mb
            Limits of the job.
        threads
            Number of threads; by default, the share of this machine.
        """

        def on_beat(progress: dict[str, Any] | None, memory_bytes: int) -> Stop | Request | None:
            command = heartbeat(progress)
            if command is None:
                return Stop(Outcome("fenced"))
            if memory_bytes > memory_mb * MIB:
                detail = f"the job needs more than its memory limit of {memory_mb} MiB"
                return Stop(Outcome("failed", "out-of-memory", detail))
            if command == AttemptCommand.FINISH:
                return Request(command)
            outcome = _OUTCOMES.get(command)
            return None if outcome is None else Stop(outcome, self._grace_s)

        threads = threads or self.threads
        limits = ProcessLimits(timeout_s, self._grace_s, memory_mb * MIB, CPU_LIMIT_S * threads)
        beat_s = self._heartbeat_interval_s
        end = self._process.run(program(threads), request, limits, beat_s=beat_s, on_beat=on_beat)
        outcome = _outcome(end, timeout_s)
        if outcome.code in ("out-of-memory", "internal-error"):  # it may have lost more than a job
            self.close()
        if outcome.kind == "succeeded":
            return Outcome("succeeded", artifact=Path(request["artifact"]), result=outcome.result)
        Path(request["artifact"]).unlink(missing_ok=True)
        return outcome

    def close(self) -> None:
        """Kill the child process."""
        self._process.close()


def program(threads: int) -> Program:
    """Return the program that trains. Extensions of it may need any environment variable."""
    inherited = {name: value for name, value in os.environ.items() if name != _TRIM_THRESHOLD}
    return Program("service.jobs.worker.child", inherited | dict.fromkeys(_THREADS, str(threads)))


def _outcome(end: End, timeout_s: float) -> Outcome:
    answer = end.answer
    if answer is not None and answer["type"] in ("succeeded", "scored"):
        return Outcome(answer["type"], result=answer["result"])
    if end.stopped == TIMED_OUT:
        detail = f"stopped after its time limit of {timeout_s:g} s"
        return Outcome("timed_out", "timed-out", detail)
    if end.stopped == NOT_STARTED:
        detail = f"the child process did not start within {START_TIMEOUT_S} s\n{end.output}"
        return Outcome("lost", "worker-start-failed", without_paths(detail))
    if end.stopped is not None:
        outcome: Outcome = end.stopped
        return outcome
    return _of_exit(end) if answer is None else _of_answer(answer, end.output)


def _of_answer(answer: dict[str, Any], output: str) -> Outcome:
    """Return the outcome of a request without a result."""
    if answer["type"] == "postponed":
        return postponed(answer["detail"])
    if answer["type"] == "cancelled":
        return Outcome("lost", "worker-exited", "the child process stopped without a request")
    detail = answer["detail"]
    if answer["code"] == "internal-error" and output:
        detail = f"{detail}\n{output}"
    if answer["code"] in _CODES_WITH_PATHS:
        detail = without_paths(detail)
    return Outcome("failed", answer["code"], detail, answer["place"])


def _of_exit(end: End) -> Outcome:
    """Return the outcome of a child that exited without an answer."""
    output = without_paths(end.output)
    if end.exit_code >= 0:
        detail = f"the child process exited with code {end.exit_code}\n{output}"
        return Outcome("failed", "crashed", detail)
    detail = f"the child process was killed by {signal_name(-end.exit_code)}\n{output}"
    return Outcome("lost", "crashed", detail)


def postponed(shortage: Shortage | str) -> Outcome:
    """Return the outcome of an attempt on a machine that lacks a resource."""
    return Outcome("postponed", "resource-shortage", f"the worker's machine reports: {shortage}")
