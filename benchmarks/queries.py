"""Time of every list, look-up and admission on a database with a long history.

Fills a database of SQLite and one of PostgreSQL with jobs, models and events, and prints for each
query the median and the best time, and the median CPU time, which other programs on the machine
disturb least; it includes that of the server. Fails if a CPU time is longer than --limit-ms. Run:
python -m benchmarks.queries
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session

from benchmarks import servers
from service.access import quotas
from service.datasets import store as dataset_store
from service.jobs.queue import admission, child_store, queries, store
from service.jobs.queue.lease import Lease
from service.models import store as model_store
from service.storage.database import Database
from service.storage.job_states import JobState
from service.storage.migration import migrate
from service.storage.tables import (
    AttemptRow,
    BlobRow,
    DatasetRow,
    IdempotencyRow,
    JobRow,
    ModelRow,
    VersionRow,
)

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--databases", nargs="+", default=["sqlite", "postgres"])
parser.add_argument("--jobs", type=int, default=100_000)
parser.add_argument("--models", type=int, default=10_000)
parser.add_argument("--events", type=int, default=1_000_000)
parser.add_argument("--repeats", type=int, default=15)
parser.add_argument("--limit-ms", type=float, default=20.0)

_OWNERS = 20
_ROWS_PER_INSERT = 5_000
_N_CHILDREN = 50
_FIRST_DAY = datetime(2026, 1, 1, tzinfo=UTC)

Query = Callable[[Session], Any]


class Times(NamedTuple):
    """Times of a query in milliseconds."""

    median: float
    best: float
    cpu: float


def main() -> None:
    options = parser.parse_args()
    columns = [measure(name, options) for name in options.databases]
    heading = "ms: median, best, CPU"
    print(f"{heading:<44}" + "".join(f"{name:>27}" for name in options.databases))
    for label in columns[0]:
        times = (time_ms for column in columns for time_ms in column[label])
        print(f"{label:<44}" + "".join(f"{time_ms:>9.2f}" for time_ms in times))
    slowest = max(column[label].cpu for column in columns for label in column)
    print(f"most CPU time: {slowest:.2f} ms; limit: {options.limit_ms:g} ms")
    sys.exit(slowest > options.limit_ms)


def measure(name: str, options: argparse.Namespace) -> dict[str, Times]:
    with tempfile.TemporaryDirectory() as folder, servers.database(name, Path(folder)) as url:
        database = Database(url, statement_timeout_s=0)
        migrate(database)
        fill(database, options)
        found = {}
        for label, query in lookups(options).items():
            found[label] = repeated_ms(database, query, options.repeats)
        lease = Lease(database, "benchmark", timeout_s=1e-9)  # renewed by every call
        times = [timed_ms(lease.acquire) for _ in range(options.repeats)]
        found["renew the lease"] = summary(times)
        database.close()
    return found


def repeated_ms(database: Database, query: Query, repeats: int) -> Times:
    """Return the times of a query; what it writes is rolled back."""
    times = []
    for _ in range(repeats + 1):
        with database.write() as session:
            driver = session.connection().connection.driver_connection
            server = None if database.is_sqlite else driver.info.backend_pid
            times.append(timed_ms(query, session, server=server))
            session.rollback()
    return summary(times[1:])  # the first one compiles the query


def summary(times: list[tuple[float, float]]) -> Times:
    wall, cpu = zip(*times, strict=True)
    return Times(statistics.median(wall), min(wall), statistics.median(cpu))


def timed_ms(
    call: Callable[..., Any], *arguments: Any, server: int | None = None
) -> tuple[float, float]:
    """Return the time of a call, and its CPU time with that of the server process."""
    cpu_ms = -time.process_time() * 1000 - server_cpu_ms(server)
    started = time.perf_counter()
    call(*arguments)
    elapsed_ms = 1000 * (time.perf_counter() - started)
    return elapsed_ms, cpu_ms + time.process_time() * 1000 + server_cpu_ms(server)


def server_cpu_ms(pid: int | None) -> float:
    if pid is None:
        return 0.0
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e6


def lookups(options: argparse.Namespace) -> dict[str, Query]:
    """Return the queries of routes, dispatcher and workers by label."""
    owner, rare = owner_of(0), owner_of(_OWNERS - 1)
    last, parent = job_id(options.jobs - 1), job_id(0)
    running = job_id(_N_CHILDREN + 1)
    middle, version = job_id(options.jobs // 2), model_id(options.models // 2)
    model = f"model {options.models // 2:06}"
    model_owner = owner_of(options.models // 2)

    def page(after: str | None = None, **where: Any) -> Query:
        chosen = queries.JobFilter(**where)
        return lambda session: queries.list_page(session, owner, chosen, after=after, limit=51)

    def admit(n_slots: int, **how: Any) -> Query:
        return lambda session: admission.admit(session, n_slots, **how)

    return {
        "jobs: first page": page(),
        "jobs: page in the middle": page(after=middle),
        "jobs: first page, succeeded": page(state="succeeded"),
        "jobs: first page, a state without jobs": page(state="timed_out"),
        "jobs: child jobs of a job": page(parent_id=parent),
        "jobs: one": lambda session: store.get(session, last, owner=owner),
        "jobs: attempts of a page": lambda session: queries.attempts_of(
            session, [job_id(number) for number in range(50)]
        ),
        "jobs: child jobs by state, of a page": lambda session: child_store.count_child_jobs(
            session, [job_id(number) for number in range(50)]
        ),
        "jobs: versions of a page": lambda session: model_store.versions_of_jobs(
            session, [job_id(number) for number in range(50)]
        ),
        "jobs: count before a submission": lambda session: queries.count_waiting(session, owner),
        "jobs: count of a small owner": lambda session: queries.count_waiting(session, rare),
        "events: first page": lambda session: queries.events_after(session, middle, 0, 200),
        "events: none after the last": lambda session: queries.events_after(
            session, middle, 10**9, 200
        ),
        "admission: any queued": queries.has_queued,
        "admission: 1 job": admit(1),
        "admission: 8 jobs": admit(8),
        "admission: 100 jobs": admit(100),
        "admission: 8 jobs, priority across owners": admit(8, priority_across_owners=True),
        "dispatcher: active jobs": queries.active,
        "dispatcher: progress of child jobs": child_store.child_progress,
        "dispatcher: child jobs of a job": lambda session: child_store.child_jobs_of(
            session, parent
        ),
        "worker: heartbeat": lambda session: store.record_heartbeat(
            session, running, 1, "worker", {"iteration": 1}
        ),
        "worker: end of a job": lambda session: store.move(
            session, running, 1, JobState.RUNNING, JobState.SUCCEEDED
        ),
        "worker: checkpoint": lambda session: store.set_checkpoint(session, running, "blob_1"),
        "metrics: jobs by state": queries.count_by_state,
        "metrics: oldest queued job": queries.oldest_queued,
        "models: first page": lambda session: model_store.list_models(
            session, owner, after=None, limit=51
        ),
        "models: versions": lambda session: model_store.list_versions(
            session, model_owner, model, below=None, limit=51
        ),
        "models: latest": lambda session: model_store.get_version(
            session, model_owner, model, None
        ),
        "models: for inference": lambda session: model_store.find_served(
            session, model_owner, model, None
        ),
        "models: what needs a version": lambda session: model_store.needed_by(
            session, session.get_one(VersionRow, version)
        ),
        "models: delete a version": lambda session: model_store.delete_version(
            session,
            model_store.NamedVersion(model, session.get_one(VersionRow, version), ()),
        ),
        "datasets: first page": lambda session: dataset_store.list_page(
            session, owner, after=None, limit=51
        ),
        "datasets: what needs a dataset": lambda session: dataset_store.needed_by(session, "ds_1"),
        "datasets: interrupted uploads": dataset_store.take_orphans,
        "quotas: number of datasets": lambda session: quotas.count_datasets(session, owner),
        "quotas: number of models": lambda session: quotas.count_models(session, owner),
        "quotas: unfinished trainings": lambda session: quotas.count_unfinished_trainings(
            session, owner
        ),
        "quotas: stored bytes": lambda session: quotas.stored_bytes(session, owner),
        "idempotency: one key": lambda session: session.get(IdempotencyRow, (owner, "key 1")),
    }


def fill(database: Database, options: argparse.Namespace) -> None:
    insert(database, BlobRow, ({"id": f"blob_{n}", "sha256": f"{n:064}"} for n in range(2)))
    insert(database, DatasetRow, [dataset()])
    insert(database, JobRow, (job(number, options.jobs) for number in range(options.jobs)))
    attempts = range(_N_CHILDREN + 1, options.jobs)
    insert(database, AttemptRow, (attempt(number) for number in attempts))
    insert(
        database,
        IdempotencyRow,
        (
            {
                "owner": owner_of(n),
                "key": f"key {n}",
                "fingerprint": "f",
                "resource_id": job_id(n),
            }
            for n in range(options.jobs // 2)
        ),
    )
    models = range(options.models)
    insert(database, ModelRow, (model_row(number) for number in models))
    insert(database, VersionRow, (version_row(number, options.jobs) for number in models))
    each = options.events // options.jobs
    numbers = " UNION ALL ".join(f"SELECT {n}" for n in range(each))
    with database.write() as session:
        session.execute(
            sa.text(
                "INSERT INTO events (job_id, attempt, kind, data, created_at) "
                f"SELECT id, 1, 'progress', '{{}}', created_at FROM jobs, ({numbers}) AS numbers"
            )
        )
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.exec_driver_sql("ANALYZE")


def insert(database: Database, row: Any, values: Any) -> None:
    values = list(values)
    for first in range(0, len(values), _ROWS_PER_INSERT):
        with database.write() as session:
            session.execute(sa.insert(row), values[first : first + _ROWS_PER_INSERT])


def owner_of(number: int) -> str:
    """Return the owner of a job or model: the first one has most."""
    return f"owner {number % _OWNERS if number % 4 == 0 else 0:02}"


def job_id(number: int) -> str:
    return f"job_{number:026}"


def model_id(number: int) -> str:
    return f"mdl_{number:026}"


def dataset() -> dict[str, Any]:
    texts = {"id": "ds_1", "owner": owner_of(0), "name": "d", "state": "ready", "fingerprint": "f"}
    return texts | {
        "media_type": "text/csv",
        "options": {},
        "upload_sha256": "0" * 64,
        "content_sha256": "0" * 64,
        "size_bytes": 1,
        "manifest": {"tasks": []},
    }


def job(number: int, n_jobs: int) -> dict[str, Any]:
    """Return a job: first a study and its child jobs, at the end the queue, between them the rest.

    Nine jobs of ten have ended. Of the others, most are queued, and eight run.
    """
    first_queued = n_jobs - n_jobs // 10
    parent = None
    if number == 0:
        state = JobState.WAITING
    elif number <= _N_CHILDREN:
        state, parent = JobState.QUEUED, job_id(0)
    elif number <= _N_CHILDREN + 8:
        state = JobState.RUNNING
    else:
        state = JobState.QUEUED if number >= first_queued else JobState.SUCCEEDED
    has_ended = state == JobState.SUCCEEDED
    created_at = _FIRST_DAY + timedelta(minutes=number)
    return {
        "id": job_id(number),
        "owner": owner_of(0) if number <= _N_CHILDREN else owner_of(number),
        "dataset_id": "ds_1",
        "algorithm": "pca",
        "params": {"k": 5, "selection": "cv"},
        "seed": 0,
        "model_name": "m",
        "priority": number % 3,
        "timeout_s": 60.0,
        "memory_mb": 1024,
        "max_attempts": 3,
        "parent_id": parent,
        "root_id": parent or job_id(number),
        "plan": None if parent is None else {"kind": "score", "position": number},
        "state": state,
        "attempt": int(state != JobState.QUEUED),
        "worker": "worker" if state == JobState.RUNNING else None,
        "progress": {"iteration": 10, "fraction": 1.0},
        "created_at": created_at,
        "finished_at": created_at + timedelta(minutes=1) if has_ended else None,
    }


def attempt(number: int) -> dict[str, Any]:
    return {"job_id": job_id(number), "attempt": 1, "worker": "worker", "outcome": "succeeded"}


def model_row(number: int) -> dict[str, Any]:
    texts = {"id": f"mod_{number:026}", "owner": owner_of(number), "name": f"model {number:06}"}
    return {**texts, "latest_version": 1}


def version_row(number: int, n_jobs: int) -> dict[str, Any]:
    empty: dict[str, Any] = {"params": {}, "software": {}, "classes": {}, "metrics": {}}
    return empty | {
        "id": model_id(number),
        "model_id": f"mod_{number:026}",
        "version": 1,
        "job_id": job_id(n_jobs // 10 + number),
        "dataset_id": "ds_1",
        "dataset_sha256": "0" * 64,
        "algorithm": "pca",
        "seed": 0,
        "methods": ["transform"],
        "tasks": ["a"],
        "history": {},
        "warnings": [],
        "artifact_blob_id": "blob_0",
        "artifact_sha256": "0" * 64,
        "artifact_bytes": 1,
    }


if __name__ == "__main__":
    main()
