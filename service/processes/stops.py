"""Signals to stop that arrive while a server or worker only starts: a log line, and 0.

The module imports nothing but the standard library, since it is there before all others.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from multiprocessing import resource_tracker
from types import FrameType
from typing import Final, NoReturn

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
#: More than a person or a service manager sends.
_MAX_SIGNALS: Final = 4096


def end_at_signals() -> None:
    """Let a signal to stop end this process, until other handlers take over.

    Not by an exception: in a callback of the garbage collector, Python prints and forgets it.
    """

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        log_stop(number)
        os._exit(0)

    for number in STOP_SIGNALS:
        signal.signal(number, end)


def keep_interrupts_from_children() -> None:
    """Block Ctrl-C in this thread, and in all threads and processes that it starts from now on.

    A terminal sends it to all processes. Those that their parent stops would print tracebacks, and
    end before their parent has told them how. The parent gets it by another thread.
    """
    resource_tracker.ensure_running()  # it would unblock the signal when it starts
    if threading.current_thread() is threading.main_thread():
        threading.Thread(target=threading.Event().wait, daemon=True).start()  # receives it
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


@contextmanager
def noted_signals() -> Iterator[list[int]]:
    """Yield a list that has the signals to stop afterwards, whatever handled them."""
    noted: list[int] = []
    read, write = os.pipe()
    os.set_blocking(write, False)
    previous = signal.set_wakeup_fd(write)  # gets the number of each signal
    try:
        yield noted
    finally:
        signal.set_wakeup_fd(previous)
        os.close(write)
        noted += [number for number in os.read(read, _MAX_SIGNALS) if number in STOP_SIGNALS]
        os.close(read)


def log_stop(number: int) -> None:
    """Log that a signal has ended a process before it was ready, at any level."""
    event = {"signal": signal.Signals(number).name, "event": "start.stopped", "level": "info"}
    now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
    line = json.dumps({**event, "timestamp": now})
    os.write(sys.stderr.fileno(), f"{line}\n".encode())
