"""Supervision of the processes that read uploads."""

import errno
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from service.datasets.formats.options import Limits
from service.datasets.issues import ValidationIssue, out_of_memory
from service.observability.logs import log
from service.storage.shortages import NUMBERS

_MAX_LOGGED_BYTES: Final = 2000
_PROGRESS_INTERVAL_S: Final = 1.0
_MAX_SHARE_BYTES: Final = 20
#: Environment variables that the child gets: search paths and locale. It gets no settings, so a
#: process that reads untrusted bytes has no database password.
_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "HOME")
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

#: ``{"manifest": ...}`` of a dataset, or ``{"issues": [...]}`` of a rejected upload.
IngestResult = dict[str, Any]
#: Called with the share of the upload that has been parsed, 0 to 1.
OnProgress = Callable[[float], None]


@dataclass(frozen=True, slots=True)
class IngestTask:
    """One upload for the child process to read, or datasets to combine.

    Parameters
    ----------
    folder
        Contains the file ``upload``, or those of the sources; the child writes ``content`` (the
        tasks), ``result.json`` and ``output.log``.
    n_threads
        Number of threads that parse the file.
    """

    folder: Path
    media_type: str
    options: dict[str, Any]
    limits: Limits
    memory_bytes: int
    timeout_s: float
    sources: Sequence[dict[str, Any]] = ()
    n_threads: int = 1

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
            "cpu_s": self.n_threads * (int(self.timeout_s) + 1),
            "n_threads": self.n_threads,
            "upload": str(self.folder / "upload"),
            "content": str(self.folder / "content"),
            "result": str(self.folder / "result.json"),
            "log": str(self.folder / "output.log"),
            "progress": str(self.folder / "progress"),
        }


class ReaderProcess:
    """A process that reads uploads one at a time, each in a child of its own.

    It starts with the first upload and stays, since its imports take longer than reading a small
    file. The kernel kills it when the *thread* that started it ends.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

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
        process = self._process = self._process or _start()
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # its exit code says why
            process.stdin.write(json.dumps(task.to_json()).encode() + b"\n")
            process.stdin.flush()
        ended = self._wait(process, task, on_progress)
        if ended is None:
            return rejection(_timeout(task))
        code, peak_bytes = ended
        if code in NUMBERS - {errno.ENOMEM}:  # of memory, it has a limit of its own
            raise OSError(code, os.strerror(code))
        if code == 0:
            result: IngestResult = json.loads((task.folder / "result.json").read_bytes())
            return result
        output = _last_output(task.folder / "output.log")
        log.error("ingest.crashed", code=code, output=output)
        return rejection(_issue_of_exit(code, peak_bytes, output, task))

    def close(self) -> None:
        """Kill the process, with a child that still reads."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError, BrokenPipeError), process:  # it may be dead already
                os.killpg(process.pid, signal.SIGKILL)

    def _wait(
        self, process: "subprocess.Popen[bytes]", task: IngestTask, on_progress: OnProgress | None
    ) -> tuple[int, int] | None:
        """Return the exit code and peak memory of the child; None after the timeout.

        If this process dies itself, they are its exit code and 0.
        """
        assert process.stdout is not None
        poll = select.poll()  # unlike select(), it takes any number of open files
        poll.register(process.stdout, select.POLLIN)
        deadline_s = time.monotonic() + task.timeout_s
        while not poll.poll(1000 * min(_PROGRESS_INTERVAL_S, task.timeout_s)):
            if time.monotonic() > deadline_s:
                self.close()
                return None
            share = _share_parsed(task.folder / "progress")
            if share is not None and on_progress is not None:
                on_progress(share)
        line = process.stdout.readline()
        if line:
            code, peak_bytes = map(int, line.split())
            return code, peak_bytes
        code = process.wait()
        self.close()
        return code, 0


def _start() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-P", "-m", "service.datasets.ingestion.child", str(os.getpid())],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        env={k: os.environ[k] for k in _ENVIRONMENT if k in os.environ} | _FRUGAL,
    )


def _share_parsed(path: Path) -> float | None:
    """Return the share of the upload that a child has parsed; None if it has not said so."""
    # written by a process that reads untrusted bytes, and maybe at this moment
    with suppress(FileNotFoundError, ValueError):
        share = float(path.read_bytes()[:_MAX_SHARE_BYTES])
        return share if 0 <= share <= 1 else None
    return None


def _last_output(path: Path) -> str:
    """Return the end of what a child printed, or an empty string if it printed nothing."""
    with suppress(FileNotFoundError):
        return path.read_bytes()[-_MAX_LOGGED_BYTES:].decode(errors="replace")
    return ""


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
    # some native code uses what it could not allocate, such as that of orjson
    if code == -signal.SIGSEGV and peak_bytes > _LARGE_SHARE * task.memory_bytes:
        return out_of_memory(task.memory_bytes)
    ended = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
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
