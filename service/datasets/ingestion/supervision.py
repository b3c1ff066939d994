"""The process that reads an upload, from outside: started, watched, ended."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from service.datasets.formats.options import Limits
from service.datasets.issues import ValidationIssue, out_of_memory
from service.logs import log

_NOISE_SHOWN: Final = 2000
#: What the child may know of our environment: where programs and packages are. No settings, and
#: so no passwords of databases, reach a process that reads what strangers send.
_ENVIRONMENT: Final = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "HOME")
#: Threads of its own would take memory that counts against the limit.
_ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_OUT_OF_MEMORY: Final = ("memory allocation of", "MemoryError", "Cannot allocate memory")


@dataclass(frozen=True, slots=True)
class Order:
    """What the child is to do.

    Parameters
    ----------
    folder
        Holds the file ``upload``; takes ``content`` (the tasks) and ``answer.json``.
    """

    folder: Path
    media_type: str
    options: dict[str, Any]
    limits: Limits
    memory_bytes: int
    timeout_s: float

    def write(self) -> Path:
        """Write the order as the child reads it; give the file."""
        path = self.folder / "order.json"
        order = {
            "parent": os.getpid(),
            "media_type": self.media_type,
            "options": self.options,
            "limits": self.limits.model_dump(),
            "memory_bytes": self.memory_bytes,
            "cpu_s": int(self.timeout_s) + 1,
            "upload": str(self.folder / "upload"),
            "content": str(self.folder / "content"),
            "answer": str(self.folder / "answer.json"),
        }
        path.write_text(json.dumps(order))
        return path


def read_upload(order: Order) -> dict[str, Any] | ValidationIssue:
    """Return the child's answer, or the issue of a child that did not end well.

    The kernel ends the child when the *thread* that started it ends, so this waits.
    """
    noise = order.folder / "noise"
    with noise.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-P", "-m", "service.datasets.ingestion.child", str(order.write())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={k: os.environ[k] for k in _ENVIRONMENT if k in os.environ} | _ONE_THREAD,
        )
    try:
        code = process.wait(order.timeout_s)
    except subprocess.TimeoutExpired:
        return _too_slow(order)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code == 0:
        answer: dict[str, Any] = json.loads((order.folder / "answer.json").read_bytes())
        return answer
    tail = noise.read_bytes()[-_NOISE_SHOWN:].decode(errors="replace")
    log.error("ingest.died", code=code, output=tail)
    return _post_mortem(code, tail, order)


def _post_mortem(code: int, noise: str, order: Order) -> ValidationIssue:
    """Return the issue that fits how the child ended, and what it said last."""
    if code == -signal.SIGXCPU:
        return _too_slow(order)
    # nobody kills it but the kernel, short of memory; compiled parts abort where Python raises
    if code == -signal.SIGKILL or any(words in noise for words in _OUT_OF_MEMORY):
        return out_of_memory(order.memory_bytes)
    ended = f"by {signal.Signals(-code).name}" if code < 0 else f"with status {code}"
    return ValidationIssue(
        "parser-crashed",
        f"the process that reads the upload ended {ended}; the file is damaged, or hits a "
        "defect of the reader, which the service's log describes",
    )


def _too_slow(order: Order) -> ValidationIssue:
    return ValidationIssue(
        "ingest-timeout",
        f"reading the upload took longer than {order.timeout_s:g} s, the limit here; send it as "
        ".npz, or fewer rows at a time, or have the operator raise ingest_timeout_s",
    )
