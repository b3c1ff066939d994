"""Threads in the background: which process acts, and what ends them."""

import json
import subprocess
import sys
import threading

import pytest
from sqlalchemy.exc import OperationalError

from service.observability.logs import configure_logs
from service.storage.background import BackgroundThread

#: Prints the threads at each search for BLAS libraries while the parts of a server start.
SEARCHES = """
import sys, threading
from pathlib import Path
from starlette.datastructures import State
from threadpoolctl import ThreadpoolController
from service.observability.metrics import Metrics
from service.server.parts import opened_parts
from service.settings import Settings

search = ThreadpoolController.__init__

def observed(self):
    print("searched by", *(thread.name for thread in threading.enumerate()))
    search(self)

if __name__ == "__main__":
    ThreadpoolController.__init__ = observed
    with opened_parts(State(), Settings(data_dir=Path(sys.argv[1])), Metrics()):
        pass
"""


class Counter(BackgroundThread):
    """Counts its turns, the first of which fail."""

    def __init__(self, errors=(), **options):
        super().__init__("counter", **options)
        self.n_turns, self.are_done = 0, []
        self._errors = [*errors]

    def _run(self):
        for _ in self._turns(0.001):
            self.are_done.append(self._run_step("count", self._turn, number="one"))

    def _turn(self):
        self.n_turns += 1
        if self._errors:
            raise self._errors.pop(0)


def test_a_thread_survives_and_logs_errors_of_its_steps(wait_until, capsys):
    configure_logs()
    unavailable = OperationalError("SELECT 1", {}, Exception("locked"))
    with Counter([unavailable, ValueError("a bug")]) as counter:
        wait_until(lambda: len(counter.are_done) > 2)
    assert counter.are_done[:3] == [True, False, True]
    first, second = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (first["event"], first["level"]) == ("count.database_unavailable", "warning")
    assert (second["event"], second["level"]) == ("count.error", "error")
    assert first["number"] == second["number"] == "one"


def test_it_ends_with_its_block(wait_until):
    with Counter() as counter:
        wait_until(lambda: counter.n_turns)
        assert "counter" in [thread.name for thread in threading.enumerate()]
    assert "counter" not in [thread.name for thread in threading.enumerate()]


def test_only_the_leader_acts(wait_until):
    answers = [False, True, False]
    with Counter(is_leader=lambda: bool(answers) and answers.pop()) as counter:
        wait_until(lambda: not answers)
    assert counter.n_turns == 1


@pytest.mark.slow  # starts a pool of workers
def test_libraries_are_searched_before_a_thread_could_load_one(tmp_path):
    """The search holds the lock of the loader, and waits for the interpreter: both would wait."""
    program = tmp_path / "searches.py"
    program.write_text(SEARCHES)
    command = [sys.executable, program, tmp_path / "data"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    searches = [line for line in done.stdout.splitlines() if line.startswith("searched")]
    assert searches == ["searched by MainThread"], done
