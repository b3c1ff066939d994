"""Which process is which, on one machine and across restarts."""

import ctypes
import json
import os
import resource
import signal
import socket
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that cannot be mistaken for another, even when its pid is used again."""

    host: str
    boot_id: str
    #: Pids are only comparable within one namespace (a container has its own).
    pid_namespace: str
    pid: int
    #: Clock ticks between boot and its start: a time of day would move when the clock is set.
    started: int

    def to_text(self) -> str:
        """Return the identity as text that :meth:`from_text` reads."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> "ProcessIdentity":
        """Return the identity that :meth:`to_text` wrote."""
        return cls(**json.loads(text))

    def name(self) -> str:
        """Return a short text for people."""
        return f"{self.host}:{self.pid}"

    def is_certainly_dead(self) -> bool:
        """Return whether the process is known to be gone; false where that cannot be seen."""
        here = this_process()
        if self.host != here.host:
            return False
        if self.boot_id != here.boot_id:
            return True
        if self.pid_namespace != here.pid_namespace:
            return False
        return _started(self.pid) != self.started


def this_process() -> ProcessIdentity:
    """Return the identity of the calling process."""
    return identity_of(os.getpid())


def identity_of(pid: int) -> ProcessIdentity:
    """Return the identity of a living process that this one can see.

    Raises
    ------
    ProcessLookupError
        There is none.
    """
    started = _started(pid)
    if started is None:
        raise ProcessLookupError(f"there is no process {pid}")
    return ProcessIdentity(
        host=socket.gethostname(),
        boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        pid_namespace=str(Path("/proc/self/ns/pid").readlink()),
        pid=pid,
        started=started,
    )


def _started(pid: int) -> int | None:
    """Return when a process began, in clock ticks since boot; None where it is no more."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # the name, in brackets, may hold anything; then state (field 3) ... start (field 22)
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def stop_with(parent: int) -> None:
    """Have the kernel tell this process to stop when its parent ends, however that comes about."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit(1)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however that comes about.

    Whatever it computes then, and even if it holds the interpreter in native code: no orphan goes
    on. It leaves no core dump, and where memory runs short it is ended before its parent.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    Path("/proc/self/oom_score_adj").write_text("1000")
