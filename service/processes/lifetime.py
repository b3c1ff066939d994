"""Identity and lifetime of processes, also across reboots and hosts."""

import ctypes
import json
import os
import resource
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_HARDWARE_UUID: Final = "/sys/class/dmi/id/product_uuid"
_MACHINE_ID: Final = "/etc/machine-id"
#: Files that container engines create, and types of their root file systems.
_CONTAINER_MARKS: Final = ("/.dockerenv", "/run/.containerenv")
_CONTAINER_ROOTS: Final = ("overlay", "fuse-overlayfs")
#: Longest wait for the kernel to replace the program of a process, also on a busy machine.
_EXEC_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Identity of a process that stays unique when its pid is reused."""

    host: str
    boot_id: str
    #: Pids are only comparable within one namespace (a container has its own).
    pid_namespace: str
    pid: int
    #: Start in clock ticks since boot, which, unlike wall-clock time, never changes.
    started: int
    #: Identity of the machine over reboots; empty if it has none that other machines lack.
    machine_id: str = ""

    def to_text(self) -> str:
        """Return the identity as JSON text."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> "ProcessIdentity":
        """Parse the text of :meth:`to_text`."""
        return cls(**json.loads(text))

    def name(self) -> str:
        """Return the host and pid, for log messages."""
        return f"{self.host}:{self.pid}"

    def is_certainly_dead(self) -> bool:
        """Return whether the process is known to have ended; false if that cannot be determined."""
        here = this_process()
        if self.host != here.host:
            return False
        if self.boot_id != here.boot_id:
            # a reboot of this machine, or another machine with the same host name
            return self.machine_id == here.machine_id != ""
        if self.pid_namespace != here.pid_namespace:
            return False
        return _started(self.pid) != self.started


def this_process() -> ProcessIdentity:
    """Return the identity of the calling process."""
    return identity_of(os.getpid())


def identity_of(pid: int) -> ProcessIdentity:
    """Return the identity of a running process in this pid namespace.

    Raises
    ------
    ProcessLookupError
        There is no such process.
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
        machine_id=_machine_id(),
    )


@cache
def _machine_id() -> str:
    """Return an identity that this machine keeps over reboots and shares with no other.

    Empty if there is none: a container may have its ``/etc/machine-id`` from its image, and the
    UUID of the hardware is readable by root only.
    """
    uuid = _read(_HARDWARE_UUID)
    if uuid or any(Path(path).exists() for path in _CONTAINER_MARKS) or _is_in_container():
        return uuid
    return _read(_MACHINE_ID)


def _is_in_container() -> bool:
    """Return whether the root file system is one of a container."""
    mounts = (line.split() for line in _read("/proc/self/mounts").splitlines())
    return any(mount[1] == "/" and mount[2] in _CONTAINER_ROOTS for mount in mounts)


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _started(pid: int) -> int | None:
    """Return the start of a process in clock ticks since boot, or None if it has ended."""
    try:
        fields = _stat(Path(f"/proc/{pid}"))
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])  # start (field 22)


def _stat(process: Path) -> list[str]:
    """Return the fields of ``/proc/PID/stat`` from the state, which is field 3, on."""
    # the name before it, in parentheses, may contain any byte
    return (process / "stat").read_bytes().rpartition(b")")[2].decode().split()


def set_parent_death_signal(parent: int, number: signal.Signals) -> None:
    """Ask the kernel to send this process a signal when its parent ends, however it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit(1)


def adopt_orphans() -> None:
    """Ask the kernel to make this process the parent of descendants whose own parent ends."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def kill_marked(mark: str) -> None:
    """Kill all processes that have a text in their environment, such as one family of processes."""
    killed: set[int] = set()
    deadline = time.monotonic() + _EXEC_S
    while pids := _marked(mark.encode(), deadline) - killed:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= pids


def _marked(mark: bytes, deadline: float) -> set[int]:
    pids = set()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is of another user
            if mark in _environment(path, deadline):
                pids.add(int(path.name))
    return pids


def _environment(process: Path, deadline: float) -> bytes:
    """Return the environment of a process, whose folder in ``/proc`` is given.

    While the kernel replaces the program of a process, the new one has none yet: it is waited for.
    """
    before = None
    while not (environment := (process / "environ").read_bytes()):
        fields = _stat(process)
        place = fields[47:49]  # of the environment (fields 50 and 51); zeros while there is none
        is_settled = place == before and place != ["0", "0"]
        # vsize (field 23) is zero where there is no program
        if is_settled or fields[20] == "0" or time.monotonic() > deadline:
            break
        before = place
        time.sleep(0.001)
    return environment


def kill_with_parent(parent: int) -> None:
    """Ask the kernel to kill this process when its parent ends, even inside native code.

    The process also leaves no core dump, and the kernel ends it before its parent if memory runs
    out.
    """
    set_parent_death_signal(parent, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    Path("/proc/self/oom_score_adj").write_text("1000")
