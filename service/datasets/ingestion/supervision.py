"""Supervision of the child process that reads an upload."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from service.datasets.formats.options import Limits
from service.datasets.issues import ValidationIssue, out_of_memory
from service.observability.logs import log

_MAX_LOGGED_BYTES: Final = 2000
#: Environment variables that the child gets: search paths and locale. It gets no settings, so a
#: process that reads untrusted bytes has no database password.
_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "HOME")
#: Thread pools, and memory that is kept for later, would count against the limit.
_FRUGAL: Final = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}
_OUT_OF_MEMORY: Final = (
    "memory allocation of",
    "MemoryError",
    "Cannot allocate memory",
    "realloc of size",
    "malloc of size",
)

#: ``{"manifest": ...}`` of a dataset, or ``{"issues": [...]}`` of a rejected upload.
IngestResult = dict[str, Any]


@dataclass(frozen=True, slots=True)
class IngestTask:
    """One upload for the child process to read, or datasets to combine.

    Parameters
    ----------
    folder
        Contains the file ``upload``, or those of the sources; the child writes ``content`` (the
        tasks) and ``result.json``.
    """

    folder: Path
    media_type: str
    options: dict[str, Any]
    limits: Limits
    memory_bytes: int
    timeout_s: float
    sources: Sequence[dict[str, Any]] = ()

    def write(self) -> Path:
        """Write the task as JSON for the child, and return the path of the file."""
        path = self.folder / "task.json"
        task = {
            "parent": os.getpid(),
            "media_type": self.media_type,
            "options": self.options,
            "sources": [
                {**source, "content": str(self.folder / source["content"])}
                for source in self.sources
            ],
            "limits": self.limits.model_dump(),
            "memory_bytes": self.memory_bytes,
            "cpu_s": int(self.timeout_s) + 1,
            "upload": str(self.folder / "upload"),
            "content": str(self.folder / "content"),
            "result": str(self.folder / "result.json"),
        }
        path.write_text(json.dumps(task))
        return path


def read_upload(task: IngestTask) -> IngestResult:
    """Run the child process and return its result, or an issue that says how it failed.

    Blocks until the child exits: the kernel kills the child when the *thread* that started it ends.
    """
    log_file = task.folder / "output.log"
    with log_file.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-P", "-m", "service.datasets.ingestion.child", str(task.write())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={k: os.environ[k] for k in _ENVIRONMENT if k in os.environ} | _FRUGAL,
        )
    try:
        code = process.wait(task.timeout_s)
    except subprocess.TimeoutExpired:
        return rejection(_timeout(task))
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code == 0:
        result: IngestResult = json.loads((task.folder / "result.json").read_bytes())
        return result
    output_text = log_file.read_bytes()[-_MAX_LOGGED_BYTES:].decode(errors="replace")
    log.error("ingest.crashed", code=code, output=output_text)
    return rejection(_issue_of_exit(code, output_text, task))


def rejection(issue: ValidationIssue) -> IngestResult:
    """Return the result of an upload that is rejected with one issue."""
    return {"issues": [issue.to_json()]}


def _issue_of_exit(code: int, output: str, task: IngestTask) -> ValidationIssue:
    """Return the issue that matches the child's exit code and its last output."""
    if code == -signal.SIGXCPU:
        return _timeout(task)
    # only the kernel's out-of-memory killer sends SIGKILL; native code aborts where Python raises
    if code == -signal.SIGKILL or any(words in output for words in _OUT_OF_MEMORY):
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
