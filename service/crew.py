"""Several processes that serve on one socket, kept up by one that only looks after them.

Each is a replica of the service, as one on another machine would be: the database says which of
them dispatches jobs. What they count they count together, in files that all of them map.
"""

import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final

from prometheus_client.multiprocess import mark_process_dead

from service.logs import log
from service.processes import set_parent_death_signal

#: Where the processes count together; prometheus_client reads it when it is imported.
_COUNTS: Final = "PROMETHEUS_MULTIPROC_DIR"
_LOOK_EVERY_S: Final = 0.2
#: One that ends at once is not started again at once.
_AGAIN_AFTER_S: Final = 1.0

#: Serves on a socket until a signal comes, and tells when it has begun.
Serve = Callable[[socket.socket, Callable[[], None]], None]


def counts_folder() -> Path | None:
    """Give where this process counts together with others; None: it is alone."""
    folder = os.environ.get(_COUNTS)
    return None if folder is None else Path(folder)


class Crew:
    """Processes that serve on one socket.

    Parameters
    ----------
    serve
        What each of them does; it can be pickled.
    """

    def __init__(self, n_processes: int, listener: socket.socket, serve: Serve) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._n_processes = n_processes
        self._listener = listener
        self._serve = serve
        self._members: dict[SpawnProcess, Event] = {}
        self._is_stopping = False

    def run(self, on_start: Callable[[], None]) -> int:
        """Serve until a signal comes, and give the exit code; ``on_start`` once all have begun."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        with tempfile.TemporaryDirectory(prefix="sibling-counts-") as folder:
            os.environ[_COUNTS] = folder
            for _ in range(self._n_processes):
                self._add()
            has_begun = self._wait_for_all()
            if has_begun:
                on_start()
                self._keep_up()
            self._stop()
        return 0 if has_begun else 1

    def _on_signal(self, _number: int, _frame: object) -> None:
        self._is_stopping = True

    def _add(self) -> None:
        has_begun = self._context.Event()
        arguments = (os.getpid(), self._listener, self._serve, has_begun)
        member = self._context.Process(target=_work, args=arguments)
        member.start()
        self._members[member] = has_begun

    def _wait_for_all(self) -> bool:
        """Give whether all have begun; not where one has ended instead, or is told to stop."""
        for member, has_begun in self._members.items():
            while not has_begun.wait(_LOOK_EVERY_S):
                if self._is_stopping or not member.is_alive():
                    return False
        return True

    def _keep_up(self) -> None:
        """Start anew whatever ends, until a signal comes."""
        while not self._is_stopping:
            wait([member.sentinel for member in self._members], _LOOK_EVERY_S)
            for member in [m for m in self._members if not m.is_alive()]:
                log.error("server.process_ended", pid=member.pid, exit_code=member.exitcode)
                mark_process_dead(member.pid)  # type: ignore[no-untyped-call]
                del self._members[member]
                time.sleep(_AGAIN_AFTER_S)
                self._add()

    def _stop(self) -> None:
        for member in self._members:
            member.terminate()
        for member in self._members:
            member.join()


def _work(parent: int, listener: socket.socket, serve: Serve, has_begun: Event) -> None:
    os.setpgid(0, 0)  # a Ctrl-C is for the parent, which tells all of them
    set_parent_death_signal(parent, signal.SIGTERM)
    serve(listener, has_begun.set)
