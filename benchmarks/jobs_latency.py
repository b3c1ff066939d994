"""What a job costs beside its training: start of the service, memory, latency, jobs a second.

Starts a service of its own on SQLite and on PostgreSQL.
"""

import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks import servers
from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Table
from sibling import Client, Dataset

N_SLOTS = 2

#: Children of the workers are up after so long.
_WARM_S = 10


def run(context: Context) -> list[Block]:
    """Return the table with a column for each database."""
    databases = ("sqlite",) if context.is_quick else ("sqlite", "postgres")
    n_submits, n_jobs = (10, 10) if context.is_quick else (50, 200)
    found = [measure(name, n_submits=n_submits, n_jobs=n_jobs) for name in databases]
    rows = [(label, *(column[label] for column in found)) for label in found[0]]
    return [Table(columns=("quantity", *databases), rows=tuple(rows))]


def measure(name: str, *, n_submits: int, n_jobs: int) -> dict[str, float]:
    """Return quantities of a service on a database."""
    with tempfile.TemporaryDirectory() as folder, servers.database(name, Path(folder)) as url:
        servers.migrate(url)
        programs = servers.Programs(
            Path(folder), SIBLING_DATABASE_URL=url, SIBLING_DATA_DIR=Path(folder) / "data"
        )
        port = servers.free_port()
        programs.start("api", "serve", "--port", str(port), SIBLING_WORKER_SLOTS=N_SLOTS)
        try:
            address = f"http://127.0.0.1:{port}"
            ready_s = servers.wait_ready(address)
            time.sleep(_WARM_S)
            found = {"start until ready, s": ready_s} | memory(programs)
            with Client(address) as client:
                rng = np.random.default_rng(0)
                rows = {f"t{t}": rng.normal(size=(12, 5)) for t in range(3)}
                dataset = client.upload(rows, name="tiny")
                for _ in range(2 * N_SLOTS):
                    client.train(dataset, "pca", k=2).wait()  # every worker has read the rows
                found |= latency(client, dataset, n_submits)
                found |= throughput(client, dataset, n_jobs)
        finally:
            programs.stop()
        return found


def memory(programs: servers.Programs) -> dict[str, float]:
    """Return the memory of all processes; PSS counts what they share once."""
    used = [process.memory_full_info() for process in programs.all()]
    return {
        "processes": len(used),
        "memory, sum of RSS, MiB": round(sum(m.rss for m in used) / 2**20),
        "memory, PSS, MiB": round(sum(m.pss for m in used) / 2**20),
        "idle: share of a core, %": _idle_load(programs),
    }


def _idle_load(programs: servers.Programs, seconds: float = 5) -> float:
    def used() -> float:
        times = [process.cpu_times() for process in programs.all()]
        return sum(t.user + t.system for t in times)

    before = used()
    time.sleep(seconds)
    return 100 * (used() - before) / seconds


def latency(client: Client, dataset: Dataset, n: int) -> dict[str, float]:
    """Return the time from sending a job to its start, and to the news of its end."""
    starts, ends = [], []
    for _ in range(n):
        sent_at, sent = datetime.now(UTC), time.perf_counter()
        job = client.train(dataset, "pca", k=2)
        job.wait()
        ends.append(time.perf_counter() - sent)
        started_at = datetime.fromisoformat(job.info["started_at"])
        starts.append((started_at - sent_at).total_seconds())
    return {
        "submit to start, median, ms": 1000 * (statistics.median(starts)),
        "submit to start, p95, ms": 1000 * (statistics.quantiles(starts, n=20)[-1]),
        "submit to answered end, median, ms": 1000 * (statistics.median(ends)),
        "submit to answered end, p95, ms": 1000 * (statistics.quantiles(ends, n=20)[-1]),
    }


def throughput(client: Client, dataset: Dataset, n: int) -> dict[str, float]:
    began = time.perf_counter()
    jobs = [client.train(dataset, "pca", k=2) for _ in range(n)]
    submitted_s = time.perf_counter() - began
    for job in jobs:
        job.wait()
    times = [
        (datetime.fromisoformat(job.info["created_at"]), datetime.fromisoformat(end))
        for job in jobs
        if (end := job.info["finished_at"]) is not None
    ]
    whole_s = (max(end for _, end in times) - min(start for start, _ in times)).total_seconds()
    return {
        "submits a second": n / submitted_s,
        "jobs a second, submits included": n / whole_s,
    }
