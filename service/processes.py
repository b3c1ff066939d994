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

import psutil

_PR_SET_PDEATHSIG: Final = 1


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """A process that cannot be mistaken for another, even when its pid is used again."""

    host: str
    boot_id: str
    #: Pids are only comparable within one namespace (a container has its own).
    pid_namespace: str
    pid: int
    started: float

    def to_text(self) -> str:
        """Give the identity as text that :meth:`from_text` reads."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> "ProcessIdentity":
        """Give the identity that :meth:`to_text` wrote."""
        return cls(**json.loads(text))

    def name(self) -> str:
        """Give a short text for people."""
        return f"{self.host}:{self.pid}"

    def is_certainly_dead(self) -> bool:
        """Tell whether the process is known to be gone; false where that cannot be seen."""
        here = this_process()
        if self.host != here.host:
            return False
        if self.boot_id != here.boot_id:
            return True
        if self.pid_namespace != here.pid_namespace:
            return False
        try:
            process = psutil.Process(self.pid)
            return process.create_time() != self.started or (
                process.status() == psutil.STATUS_ZOMBIE
            )
        except psutil.NoSuchProcess:
            return True


def this_process() -> ProcessIdentity:
    """Give the identity of the calling process."""
    return ProcessIdentity(
        host=socket.gethostname(),
        boot_id=Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
        pid_namespace=str(Path("/proc/self/ns/pid").readlink()),
        pid=os.getpid(),
        started=psutil.Process().create_time(),
    )


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
