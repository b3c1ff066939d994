"""The side of a child process: it runs the requests of its supervisor one after another.

It is started as ``python -m MODULE FD PARENT``: FD is its end of a socket pair, PARENT the pid of
its supervisor. The kernel kills it when that process ends.
"""

import json
import os
import resource
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import IO, Any, Final, NoReturn

from service.processes.lifetime import adopt_orphans, kill_with_parent
from service.processes.wire import Wire

#: Runs a request and returns its answer, a message; may send progress and receive others.
Run = Callable[[dict[str, Any], Wire], dict[str, Any]]

#: Type of the answer about a fork that died without one of its own.
EXITED: Final = "exited"
#: Member of an answer: whether the request has left no process behind.
IS_ALONE: Final = "is_alone"


def connect() -> Wire:
    """Return the connection to the supervisor.

    Called before slow imports, in which the process could outlive its supervisor.
    """
    connection, parent = map(int, sys.argv[1:])
    kill_with_parent(parent)
    adopt_orphans()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the supervisor
    return Wire(socket.socket(fileno=connection))


def serve(wire: Wire, run: Run, *, max_idle_s: float | None = None) -> None:
    """Run requests until the supervisor closes the connection, or after a time without any."""
    wire.send({"type": "ready"})
    while (message := wire.receive(max_idle_s)) is not None:
        if message["type"] == "run":  # a late cancel is ignored
            answer = run(message["request"], wire)
            wire.send({**answer, IS_ALONE: not _has_children()})


def _has_children() -> bool:
    """Return whether there are processes that this one or its descendants have started."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def in_fork(run: Run) -> Run:
    """Return a function that runs each request in a fork of this process.

    Effects of a request on its process, such as a crash, then end with the request, and modules are
    imported once. The fork has the limits of this process, and cannot raise them.
    """

    def run_in_fork(request: dict[str, Any], wire: Wire) -> dict[str, Any]:
        parent = os.getpid()
        with open(os.memfd_create("answer"), "r+") as file:  # noqa: PTH123 - a descriptor
            child = os.fork()
            if child == 0:
                _run_and_exit(lambda: json.dump(run(request, wire), file), file, parent)
            _, status, usage = os.wait4(child, 0)
            code = os.waitstatus_to_exitcode(status)
            if code != 0:
                return {"type": EXITED, "code": code, "peak_bytes": 1024 * usage.ru_maxrss}
            file.seek(0)
            answer: dict[str, Any] = json.load(file)
        return answer

    return run_in_fork


def _run_and_exit(step: Callable[[], None], file: IO[str], parent: int) -> NoReturn:
    """Run a step in a fork, which cannot raise its limits, and end the fork."""
    code = 1
    try:
        kill_with_parent(parent)
        for limit, margin in ((resource.RLIMIT_DATA, 0), (resource.RLIMIT_CPU, 1)):
            soft, _ = resource.getrlimit(limit)
            if soft != resource.RLIM_INFINITY:
                resource.setrlimit(limit, (soft, soft + margin))
        step()
        file.flush()
        code = 0
    except BaseException:  # noqa: BLE001 - the interpreter of the parent must not go on
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)
