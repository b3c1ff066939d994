"""Threads in the background: which process acts, and what ends them."""

import json
import threading

from sqlalchemy.exc import OperationalError

from service.observability.logs import configure_logs
from service.storage.background import BackgroundThread


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
