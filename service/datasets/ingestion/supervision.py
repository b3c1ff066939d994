"""The process that reads uploads: its limits, and the issue of an upload if it fails."""

import errno
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from service.datasets.formats.options import Limits
from service.datasets.issues import ValidationIssue, out_of_memory
from service.observability.logs import log
from service.processes import supervision
from service.processes.requests import EXITED
from service.processes.supervision import (
    Program,
    SupervisedProcess,
    bare_environment,
    signal_name,
)

_PROGRESS_INTERVAL_S: Final = 1.0
#: Thread pools, and memory that is kept for later, would count against the limit; a process with
#: threads cannot fork safely.
_FRUGAL: Final = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}
_OUT_OF_MEMORY: Final = (
    "memory allocation of",
    "MemoryError",
    "Cannot allocate memory",
    "realloc of size",
    "malloc of size",
)

#: Share of the memory limit above which a segmentation fault is taken for a lack of memory; the
#: resident memory of a child is well below what it has allocated.
_LARGE_SHARE: Final = 0.5

#: ``{"manifest": ...}`` of a dataset, ``{"inspection": ...}`` of a file that is only looked at, or
#: ``{"issues": [...]}`` of a rejected upload.
IngestResult = dict[str, Any]
#: Called with the share of the upload that has been parsed, 0 to 1.
OnProgress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class IngestTask:
    """One upload for the child process to read, or datasets to combine.

    Parameters
    ----------
    folder
        Contains the file ``upload``, or the files of the sources; the child writes ``content``,
        the tasks.
    n_threads
        Number of threads that parse the file.
    inspects
        Whether the file is only looked at: the child writes nothing.
    """

    folder: Path
    media_type: str
    options: dict[str, Any]
    limits: Limits
    memory_bytes: int
    timeout_s: float
    sources: Sequence[dict[str, Any]] = ()
    n_threads: int = 1
    inspects: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the task for the child."""
        return {
            "media_type": self.media_type,
            "options": self.options,
            "sources": [
                {**source, "content": str(self.folder / source["content"])}
                for source in self.sources
            ],
            "limits": self.limits.model_dump(),
            "memory_bytes": self.memory_bytes,
            "n_threads": self.n_threads,
            "inspects": self.inspects,
            "upload": str(self.folder / "upload"),
            "content": str(self.folder / "content"),
        }


class ReaderProcess(SupervisedProcess):
    """A process that reads uploads one at a time, each in a child of its own.

    It starts with the first upload and stays, since its imports take longer than reading a small
    file.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, task: IngestTask, on_progress: OnProgress | None = None) -> IngestResult:
        """Return the result of the child, or an issue that says how it failed.

        Raises
        ------
        OSError
            A shortage of disk space or file handles ended it.
        """

        def on_beat(progress: Any, _: int) -> None:
            if on_progress is not None and is_share(progress):
                on_progress(progress)

        program = Program("service.datasets.ingestion.child", bare_environment() | _FRUGAL)
        cpu_s = task.n_threads * (int(task.timeout_s) + 1)
        limits = supervision.ProcessLimits(
            task.timeout_s, memory_bytes=task.memory_bytes, cpu_s=cpu_s
        )
        beat_s = _PROGRESS_INTERVAL_S
        end = self.run(program, task.to_json(), limits, beat_s=beat_s, on_beat=on_beat)
        if end.stopped is not None:
            return rejection(_timeout(task))
        # without an answer, the process itself has died
        answer = end.answer or {"type": EXITED, "code": end.exit_code, "peak_bytes": 0}
        if answer["type"] == "postponed":
            raise OSError(answer["number"], os.strerror(answer["number"]))
        if answer["type"] != EXITED:
            result: IngestResult = answer["result"]
            return result
        log.error("ingest.crashed", code=answer["code"], output=end.output)
        return rejection(_issue_of_exit(answer["code"], answer["peak_bytes"], end.output, task))


def is_share(progress: Any) -> bool:
    """Return whether the progress of a child is a share; the child reads untrusted bytes."""
    return isinstance(progress, float) and 0 <= progress <= 1


def rejection(issue: ValidationIssue) -> IngestResult:
    """Return the result of an upload that is rejected with one issue."""
    return {"issues": [issue.to_json()]}


def _issue_of_exit(code: int, peak_bytes: int, output: str, task: IngestTask) -> ValidationIssue:
    """Return the issue that matches the child's exit code, peak memory and last output."""
    if code == -signal.SIGXCPU:
        return _timeout(task)
    # only the kernel's out-of-memory killer sends SIGKILL; native code aborts where Python raises
    if code in (-signal.SIGKILL, errno.ENOMEM) or any(words in output for words in _OUT_OF_MEMORY):
        return out_of_memory(task.memory_bytes)
    # some native code, such as orjson, uses memory that it failed to allocate
    if code == -signal.SIGSEGV and peak_bytes > _LARGE_SHARE * task.memory_bytes:
        return out_of_memory(task.memory_bytes)
    ended = f"by {signal_name(-code)}" if code < 0 else f"with status {code}"
    return ValidationIssue(
        "parser-crashed",
        f"the process that reads the upload ended {ended}; the file is corrupt, or the parser has "
        "a bug: see the service's log",
    )


def _timeout(task: IngestTask) -> ValidationIssue:
    return ValidationIssue(
        "ingest-timeout",
        f"reading the upload took longer than the limit of {task.timeout_s:g} s; upload .npz "
        "instead of CSV, upload fewer rows, or ask the operator to raise SIBLING_INGEST_TIMEOUT_S",
    )
