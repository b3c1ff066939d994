"""What a job costs beside its training: start of the service, memory, latency, jobs a second.

Starts a service of its own on SQLite and on PostgreSQL. Run: python -m benchmarks.jobs_latency
"""

import argparse
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from benchmarks import servers
from sibling import Client, Dataset

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--databases", nargs="+", default=["sqlite", "postgres"])
parser.add_argument("--slots", type=int, default=2)
parser.add_argument("--submits", type=int, default=50)
parser.add_argument("--jobs", type=int, default=200)

#: Children of the workers are up after so long.
_WARM_S = 10


def main() -> None:
    options = parser.parse_args()
    columns = [measure(name, options) for name in options.databases]
    print(f"{'':<34}" + "".join(f"{name:>12}" for name in options.databases))
    for label in columns[0]:
        print(f"{label:<34}" + "".join(f"{column[label]:>12}" for column in columns))


def measure(name: str, options: argparse.Namespace) -> dict[str, str]:
    with tempfile.TemporaryDirectory() as folder, servers.database(name, Path(folder)) as url:
        servers.migrate(url)
        programs = servers.Programs(
            Path(folder), SIBLING_DATABASE_URL=url, SIBLING_DATA_DIR=Path(folder) / "data"
        )
        port = servers.free_port()
        programs.start("api", "serve", "--port", str(port), SIBLING_WORKER_SLOTS=options.slots)
        try:
            address = f"http://127.0.0.1:{port}"
            ready_s = servers.wait_ready(address)
            time.sleep(_WARM_S)
            found = {"start until ready": f"{ready_s:.2f} s"} | memory(programs)
            with Client(address) as client:
                rng = np.random.default_rng(0)
                rows = {f"t{t}": rng.normal(size=(12, 5)) for t in range(3)}
                dataset = client.upload(rows, name="tiny")
                for _ in range(2 * options.slots):
                    client.train(dataset, "pca", k=2).wait()  # every worker has read the rows
                found |= latency(client, dataset, options.submits)
                found |= throughput(client, dataset, options.jobs)
        finally:
            programs.stop()
        return found


def memory(programs: servers.Programs) -> dict[str, str]:
    """Return the memory of all processes; PSS counts what they share once."""
    used = [process.memory_full_info() for process in programs.all()]
    return {
        "processes": str(len(used)),
        "memory, sum of RSS": f"{sum(m.rss for m in used) / 2**20:.0f} MiB",
        "memory, PSS": f"{sum(m.pss for m in used) / 2**20:.0f} MiB",
        "processor, idle": f"{_idle_load(programs):.1f} %",
    }


def _idle_load(programs: servers.Programs, seconds: float = 5) -> float:
    def used() -> float:
        times = [process.cpu_times() for process in programs.all()]
        return sum(t.user + t.system for t in times)

    before = used()
    time.sleep(seconds)
    return 100 * (used() - before) / seconds


def latency(client: Client, dataset: Dataset, n: int) -> dict[str, str]:
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
        "submit to start, median": _ms(statistics.median(starts)),
        "submit to start, p95": _ms(statistics.quantiles(starts, n=20)[-1]),
        "submit to answered end, median": _ms(statistics.median(ends)),
        "submit to answered end, p95": _ms(statistics.quantiles(ends, n=20)[-1]),
    }


def throughput(client: Client, dataset: Dataset, n: int) -> dict[str, str]:
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
        "submits a second": f"{n / submitted_s:.1f}",
        "jobs a second, submits included": f"{n / whole_s:.1f}",
    }


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.0f} ms"


if __name__ == "__main__":
    main()
