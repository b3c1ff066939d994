"""Jobs of several owners while processes are killed or frozen and the database is away; the count.

Nothing may be lost or doubled, equal specifications must give equal bytes, and no blob may be left
without an owner. At the end each specification is trained once more, undisturbed. Starts a service
of its own: API, scheduler and workers.
Run: python -m benchmarks.jobs_under_chaos
"""

import argparse
import contextlib
import random
import signal
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import psutil
from sqlalchemy.exc import SQLAlchemyError

from benchmarks import chaos_report, servers
from benchmarks.chaos_load import Load, make_owners
from service.jobs.worker.scratch import make_scratch
from service.processes.lifetime import ProcessIdentity
from service.storage.database import Database
from service.storage.tables import JobRow

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--database", default="sqlite", help="sqlite, postgres, or an address")
parser.add_argument("--minutes", type=float, default=10)
parser.add_argument("--jobs", type=int, default=2000)
parser.add_argument("--workers", type=int, default=3)
parser.add_argument("--every", type=float, default=4, help="mean seconds between two kills")

#: How often each layer is hit.
WEIGHTS = {"child": 8, "worker": 4, "freeze": 3, "nanny": 2, "api": 2, "scheduler": 1, "outage": 2}
#: A worker is lost after so long without a heartbeat; some of the frozen ones are.
STALE_S = 5
FREEZE_S = (0.5, 9.0)
#: Jobs are stuck if none ends for so long.
PATIENCE_S = 300
#: The database is away for so long: PostgreSQL is frozen, SQLite locked.
OUTAGE_S = (0.5, 9.0)
SETTINGS = {
    "SIBLING_REQUIRE_KEYS": "true",
    "SIBLING_HEARTBEAT_TIMEOUT_S": STALE_S,
    "SIBLING_CHECKPOINT_INTERVAL_S": 0.2,
    "SIBLING_LOG_LEVEL": "warning",
    "OMP_NUM_THREADS": 1,
    "OPENBLAS_NUM_THREADS": 1,
}


@dataclass(frozen=True, slots=True)
class Kill:
    """One blow: when, at which layer, and the attempts that ran in what was hit."""

    layer: str
    at: datetime
    hit: list[tuple[str, int]]


@dataclass
class Chaos:
    """Kills, one after another, until it is stopped."""

    programs: servers.Programs
    database: Database
    every_s: float
    random: random.Random
    kills: list[Kill] = field(default_factory=list)
    _end: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Kill until stopped."""
        while not self._end.wait(self.random.expovariate(1 / self.every_s)):
            (layer,) = self.random.choices(list(WEIGHTS), list(WEIGHTS.values()))
            with contextlib.suppress(psutil.Error, IndexError):
                self._strike(layer)

    def stop(self) -> None:
        """Kill no more."""
        self._end.set()

    def _strike(self, layer: str) -> None:
        if layer == "outage":
            self.kills.append(Kill(layer, datetime.now(UTC), []))
            self._outage(self.random.uniform(*OUTAGE_S))
            return
        victim = self.random.choice(self._processes(layer))
        family = {victim.pid, victim.ppid() if layer == "child" else victim.pid}
        family |= {p.pid for p in victim.children(recursive=True)}
        kill = Kill(layer, datetime.now(UTC), self._running_in(family))
        if layer == "freeze":
            threading.Thread(target=_freeze, args=(victim, self.random.uniform(*FREEZE_S))).start()
        else:
            victim.kill()
        self.kills.append(kill)

    def _outage(self, seconds: float) -> None:
        """Let the database not respond for a while."""
        if self.database.engine.dialect.name == "sqlite":
            with self.database.write():
                time.sleep(seconds)
            return
        server = [p for p in psutil.process_iter() if "postgres" in p.name()]
        for process in server:
            process.suspend()
        time.sleep(seconds)
        for process in server:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()

    def _processes(self, layer: str) -> list[psutil.Process]:
        """Return what a layer consists of just now; some of it may be starting."""
        if layer in ("api", "scheduler"):
            roots = [self.programs.root(layer)]
            return [root for root in roots if root is not None]
        found = []
        for process in self.programs.all():
            with contextlib.suppress(psutil.Error):
                command = " ".join(process.cmdline())
                is_worker = "spawn_main" in command and "service" not in command
                if (
                    (layer in ("worker", "freeze") and is_worker)
                    or (layer == "child" and "service.jobs.worker.child" in command)
                    or (layer == "nanny" and "dask worker" in command)
                ):
                    found.append(process)
        return found

    def _running_in(self, pids: set[int]) -> list[tuple[str, int]]:
        try:
            with self.database.read() as session:
                rows = session.query(JobRow.id, JobRow.attempt, JobRow.worker).filter(
                    JobRow.state == "running"
                )
                return [(i, a) for i, a, w in rows if ProcessIdentity.from_text(w).pid in pids]
        except SQLAlchemyError:
            return []


def _freeze(process: psutil.Process, seconds: float) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.send_signal(signal.SIGCONT)


def main() -> None:
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with servers.database(options.database, folder) as url:
            servers.migrate(url)
            is_fine = trial(options, folder, url)
    sys.exit(0 if is_fine else 1)


def trial(options: argparse.Namespace, folder: Path, database_url: str) -> bool:
    port = servers.free_port()
    programs = servers.Programs(
        folder, SIBLING_DATABASE_URL=database_url, SIBLING_DATA_DIR=folder / "data", **SETTINGS
    )
    database = Database(database_url)
    owners = make_owners(database, ["ada", "ben", "cleo", "dan"])
    engine = _start_cluster(programs, options.workers)
    programs.start(
        "api", "serve", "--port", str(port), SIBLING_WORKER_SLOTS=options.workers, **engine
    )
    url = f"http://127.0.0.1:{port}"
    servers.wait_ready(url)
    load = Load(url, owners, options.jobs, options.minutes * 60, random.Random(0))
    load.upload()
    chaos = Chaos(programs, database, options.every, random.Random(1))
    threads = [threading.Thread(target=run, daemon=True) for run in (load.run, chaos.run)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    time.sleep(options.minutes * 60)
    chaos.stop()
    for thread in threads:
        thread.join()
    time.sleep(FREEZE_S[1])  # the last frozen worker thaws
    stormed_s = time.monotonic() - began
    chaos_report.await_ends(database, PATIENCE_S)
    ended_s = time.monotonic() - began - stormed_s
    print(f"pool of {options.workers} on {database.engine.dialect.name}: ", end="")
    print(f"{stormed_s:.0f} s of chaos, {ended_s:.0f} s to end the rest")
    load.train_each_once_more()
    chaos_report.await_ends(database, PATIENCE_S)
    orphans = programs.stop()
    make_scratch(folder / "data" / "work")  # as the next worker does
    left_files = [p for p in (folder / "data" / "work").rglob("*") if p.is_file()]
    is_fine = chaos_report.show(database, load, chaos.kills, orphans, left_files)
    if not is_fine:
        for log in sorted(folder.glob("*.log")):
            print(f"--- {log.name}\n{log.read_text(errors='replace')[-3000:]}")
    return is_fine


def _start_cluster(programs: servers.Programs, n_workers: int) -> dict[str, str]:
    port = servers.free_port()
    engine = {"SIBLING_SCHEDULER_URL": f"tcp://127.0.0.1:{port}"}
    programs.start("scheduler", "scheduler", "--port", str(port))
    for number in range(n_workers):
        programs.start(f"worker-{number}", "worker", SIBLING_WORKER_SLOTS=1, **engine)
    return engine


if __name__ == "__main__":
    main()
