"""Servers that are killed while they record calls and take feedback."""

import os
import signal
import threading

import httpx
import pytest
import sqlalchemy as sa

from service.jobs.queue.lease import LEASE_NAME
from service.processes.lifetime import ProcessIdentity
from service.storage.tables import LeaseRow, MonitoredRow, MonitoredTarget
from sibling import Client

pytestmark = [pytest.mark.slow, pytest.mark.sql, pytest.mark.timeout(900)]  # servers of their own

MONITOR = "/v1/models/m/aliases/production/monitor"
N_KILLS, N_CALLS = 4, 60


class Caller:
    """A program that calls a model and sends the truth, and tries again if there is no answer."""

    def __init__(self, url, name, is_done):
        self.url, self.name, self.is_done = url, name, is_done
        self.outputs, self.n_new, self.n_retries = {}, 0, 0
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self):
        i = 0
        while not self.is_done.is_set() or i < N_CALLS:
            row_id = f"{self.name}-{i}"
            body = {"task": "a", "inputs": [[i % 7, 1.0]]}
            answer = self._post("/v1/models/m/predict", body, {"Sibling-Row-Ids": row_id})
            self.outputs[row_id] = answer["outputs"][0]
            truth = [{"row_id": row_id, "target": float(i)}]
            self.n_new += self._post(f"{MONITOR}/feedback", truth)["n_new"]
            i += 1

    def _post(self, path, body, headers=None):
        while True:
            try:
                response = httpx.post(self.url + path, json=body, headers=headers, timeout=60)
            except httpx.TransportError:
                self.n_retries += 1
                continue
            assert response.status_code == 200, response.text
            return response.json()


def stored(database):
    with database.read() as session:
        rows = session.execute(sa.select(MonitoredRow.row_id, MonitoredRow.prediction)).all()
        targets = session.execute(sa.select(MonitoredTarget.row_id, MonitoredTarget.target)).all()
    assert len(dict(rows)) == len(rows)
    return dict(rows), dict(targets)


def train(url):
    with Client(url) as client:
        rows = {name: [[float(i), 1.0] for i in range(12)] for name in "ab"}
        targets = {name: [2.0 * i for i in range(12)] for name in "ab"}
        client.train(client.upload(rows, targets), "ridge", model="m").wait().set_alias(
            "production"
        )
        client.set_monitor("m@production")


def test_kills_lose_no_call_and_count_no_row_or_target_twice(start_service, wait_until):
    service = start_service(SIBLING_WORKERS=3, SIBLING_LEASE_TIMEOUT_S=2)
    train(service.url)
    killed = set()
    with service.open_database() as database:

        def new_holder():
            """Return the process of the server that dispatches jobs, unless it was killed."""
            with database.read() as session:
                row = session.get(LeaseRow, LEASE_NAME)
            pid = None if row is None else ProcessIdentity.from_text(row.holder).pid
            return None if pid in killed else pid

        is_done = threading.Event()
        callers = [Caller(service.url, name, is_done) for name in ("x", "y", "z")]
        while len(killed) < N_KILLS:
            n_before = len(stored(database)[1])
            wait_until(lambda n=n_before: len(stored(database)[1]) > n + 20)
            pid = wait_until(new_holder)
            os.kill(pid, signal.SIGKILL)
            killed.add(pid)
        is_done.set()
        callers.append(Caller(service.url, "l", is_done))  # all of these calls are kept
        for caller in callers:
            caller.thread.join()
        outputs = {row_id: y for caller in callers for row_id, y in caller.outputs.items()}
        assert len(outputs) >= 4 * N_CALLS
        assert len(set(outputs.values())) == 7
        wait_until(lambda: callers[-1].outputs.items() <= stored(database)[0].items())
        rows, targets = stored(database)
        assert rows.items() <= outputs.items()  # what waited in a killed process is lost
        assert targets == {row_id: float(row_id[2:]) for row_id in outputs}
        # a target whose answer was lost on its way was not new when it came again
        n_new = sum(caller.n_new for caller in callers)
        assert 0 <= len(targets) - n_new <= sum(caller.n_retries for caller in callers)
        report = httpx.get(f"{service.url}{MONITOR}/report", timeout=240).json()
        assert report["overall"]["n_targets"] == report["overall"]["n_rows"] == len(rows)
