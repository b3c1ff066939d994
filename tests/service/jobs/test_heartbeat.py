"""Heartbeats of many attempts load the database little, and no attempt is lost for that."""

import math

import pytest

from service.jobs.worker.heartbeat import (
    MAX_HEARTBEATS_PER_S,
    HeartbeatThread,
    heartbeat_interval_s,
)
from service.storage.job_states import AttemptCommand


@pytest.mark.parametrize("n_running", [0, 1, 12, 13, 100, 500, 5000])
def test_the_interval_grows_with_the_attempts_but_stays_below_the_timeout(n_running):
    interval_s = heartbeat_interval_s(n_running, shortest_s=0.25, timeout_s=60)
    assert 0.25 <= interval_s <= 60 / 6
    if n_running <= 500:  # beyond, the timeout decides
        assert n_running / interval_s <= max(MAX_HEARTBEATS_PER_S, 0.25)


def test_an_operator_may_set_a_longer_interval():
    assert heartbeat_interval_s(1, shortest_s=20, timeout_s=60) == 20


def test_a_heartbeat_may_change_the_interval_of_the_next(wait_until):
    sent = []

    def send(progress):
        sent.append(progress)
        heartbeats.interval_s = math.inf if len(sent) == 2 else 0.001
        return AttemptCommand.CONTINUE if len(sent) < 2 else None

    heartbeats = HeartbeatThread(send, interval_s=0.001)
    with heartbeats:
        wait_until(lambda: heartbeats.command is None)
    assert len(sent) == 2
