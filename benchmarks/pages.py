"""Bytes and time of every page of a service with many jobs and models.

Copies a real job and its model many times, and prints for each page the size of its HTML, the
median time of a request and the CPU time of the server for it. Where Chromium is found, also for a
first visit: all bytes that the browser received, and the time until the page can be used (its
content and scripts are loaded). Says on standard error how long each step took.
Run: python -m benchmarks.pages [--databases sqlite postgres]
"""

import argparse
import contextlib
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import httpx
import numpy as np
import psutil
import sqlalchemy as sa

from benchmarks import servers
from service.storage.database import Database
from service.storage.job_states import JobState
from service.storage.tables import EventRow, JobRow, ModelRow, VersionRow, new_id
from sibling import Client

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--jobs", type=int, default=10_000)
parser.add_argument("--models", type=int, default=1_000)
parser.add_argument("--repeats", type=int, default=9)
parser.add_argument("--databases", nargs="+", default=["sqlite"])

_ROWS_PER_INSERT = 1_000
_CHROMIUMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
_CHROMIUM = os.environ.get("SIBLING_CHROMIUM") or next(
    filter(None, map(shutil.which, _CHROMIUMS)), None
)


class Times(NamedTuple):
    """Size of a page in bytes, and median time and CPU time of a request in milliseconds."""

    html_bytes: int
    median_ms: float
    cpu_ms: float


class Visit(NamedTuple):
    """Bytes that a browser received, and the time until a page could be used."""

    n_bytes: int
    interactive_ms: float


def main() -> None:
    options = parser.parse_args()
    for name in options.databases:
        with tempfile.TemporaryDirectory() as folder, servers.database(name, Path(folder)) as url:
            print_table(name, *measure_all(url, options))


def measure_all(
    database_url: str, options: argparse.Namespace
) -> tuple[dict[str, Times], dict[str, Visit]]:
    """Fill a database, and measure every page of a service that uses it."""
    servers.migrate(database_url)
    with servers.service(SIBLING_DATABASE_URL=database_url) as client:
        process = server_process()
        url = url_of(process)
        with step("a model is trained"):
            paths = make(client)
        with step(f"{options.jobs} jobs and {options.models} models are stored"):
            fill(Database(database_url), options)
        with step("pages are requested"), httpx.Client(base_url=url, timeout=120) as http:
            paths["jobs, page 101"] = page_of(http, "/v1/jobs", "/jobs", 101)
            times = {name: measure(http, path, process, options) for name, path in paths.items()}
        with step("pages are visited"):
            visits = dict(visit(url, paths)) if _CHROMIUM else {}
    return times, visits


@contextlib.contextmanager
def step(what: str) -> Iterator[None]:
    """Print how long the block took."""
    began = time.perf_counter()
    yield
    print(f"{what}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)


def print_table(name: str, times: dict[str, Times], visits: dict[str, Visit]) -> None:
    print(f"| {name} | HTML | request | CPU | first visit | usable after |")
    print("|---|---|---|---|---|---|")
    for page, found in times.items():
        browser = visits.get(page)
        seen = ("-", "-")
        if browser is not None:
            seen = (f"{browser.n_bytes / 1024:.0f} KiB", f"{browser.interactive_ms:.0f} ms")
        size = f"{found.html_bytes / 1024:.0f} KiB"
        row = (page, size, f"{found.median_ms:.0f} ms", f"{found.cpu_ms:.0f} ms", *seen)
        print(f"| {' | '.join(row)} |")


def page_of(http: httpx.Client, api_path: str, path: str, n: int) -> str:
    """Return the path of the n-th page of a list."""
    token = None
    for _ in range(n - 1):
        token = http.get(api_path, params={"page_token": token} if token else {}).json()[
            "next_page_token"
        ]
        if token is None:
            return path
    return f"{path}?{urlencode({'page_token': token})}"


def make(client: Client) -> dict[str, str]:
    """Train a model, and return a path of each kind of page."""
    rng = np.random.default_rng(0)
    rows = {f"task {i}": rng.standard_normal((40, 8)) for i in range(12)}
    targets = {name: x @ np.ones(8) + rng.standard_normal(40) for name, x in rows.items()}
    dataset = client.upload(rows, targets, name="twelve tasks")
    job = client.train(dataset, "mtfl", model="real", compare=True)
    job.wait()
    return {
        "overview": "/",
        "jobs": "/jobs",
        "jobs, failed": "/jobs?state=failed",
        "jobs, by text": "/jobs?text=model-0012",
        "jobs, by text of none": "/jobs?text=nothing",
        "job": f"/jobs/{job.id}",
        "models": "/models",
        "models, by text": "/models?text=0012",
        "model": "/models/real",
        "version": "/models/real/1",
        "datasets": "/datasets",
        "dataset": f"/datasets/{dataset.id}",
        "rows": f"/datasets/{dataset.id}/rows",
        "new job": f"/jobs/new?dataset={dataset.id}&algorithm=mtfl",
        "upload": "/datasets/new",
        "algorithms": "/algorithms",
        "algorithm": "/algorithms/mtfl",
        "compare": "/compare?models=real/1,model-0012/1",
        "audit": "/audit",
        "help": "/help/",
    }


def fill(database: Database, options: argparse.Namespace) -> None:
    """Copy the job and the model."""
    with database.read() as session:
        job, version = (
            session.scalars(sa.select(JobRow)).all()[-1],
            session.scalar(sa.select(VersionRow)),
        )
        model = session.scalar(sa.select(ModelRow))
        rows = [values_of(row) for row in (job, version, model)]
    jobs, versions, models = copies(options, *rows)
    events = [
        {"job_id": job["id"], "attempt": 1, "kind": "state", "data": {"state": job["state"]}}
        for job in jobs
        for _ in range(3)
    ]
    for row, values in (
        (JobRow, jobs),
        (ModelRow, models),
        (VersionRow, versions),
        (EventRow, events),
    ):
        for first in range(0, len(values), _ROWS_PER_INSERT):
            with database.write() as session:
                session.execute(sa.insert(row), values[first : first + _ROWS_PER_INSERT])
    database.close()


def values_of(row: Any) -> dict[str, Any]:
    return {column.name: getattr(row, column.name) for column in row.__table__.columns}


def copies(
    options: argparse.Namespace,
    job: dict[str, Any],
    version: dict[str, Any],
    model: dict[str, Any],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[dict[str, Any]]]:
    """Return jobs of 30 days, of which every tenth failed, and models of the first ones."""
    step = timedelta(days=30) / options.jobs
    jobs, versions, models = [], [], []
    failed = {"code": "out-of-memory", "detail": "the job needed more than its limit", "attempt": 1}
    for i in range(options.jobs):
        has_failed = i >= options.models and i % 10 == 0
        ended = job["finished_at"] - step * (options.jobs - i)
        ident = new_id("job")
        jobs.append(
            job
            | {"id": ident, "root_id": ident, "parent_id": None, "model_name": f"model-{i:04}"}
            | {"state": JobState.FAILED if has_failed else JobState.SUCCEEDED}
            | {"plan": None, "error": failed if has_failed else None}
            | {"created_at": ended, "started_at": ended, "finished_at": ended}
        )
        if i < options.models:
            of_model = new_id("mod")
            models.append(model | {"id": of_model, "name": f"model-{i:04}", "latest_version": 1})
            identity = {"id": new_id("mdl"), "model_id": of_model, "job_id": ident}
            versions.append(version | identity)
    return jobs, versions, models


def measure(
    http: httpx.Client, path: str, process: psutil.Process, options: argparse.Namespace
) -> Times:
    """Request a page several times, after a first time that fills caches."""
    http.get(path).raise_for_status()
    times, cpu_s = [], cpu_of(process)
    for _ in range(options.repeats):
        began = time.perf_counter()
        page = http.get(path)
        times.append(1000 * (time.perf_counter() - began))
    spent_ms = 1000 * (cpu_of(process) - cpu_s) / options.repeats
    return Times(len(page.content), statistics.median(times), spent_ms)


def visit(url: str, paths: dict[str, str]) -> Iterator[tuple[str, Visit]]:
    """Open each page in a browser without a cache, and yield what that took."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - only needed with a browser

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=_CHROMIUM, args=["--no-sandbox"])
        for name, path in paths.items():
            found = []
            for _ in range(3):
                with browser.new_context(base_url=url) as context:
                    page = context.new_page()
                    page.goto(path, wait_until="load")
                    found.append(page.evaluate(_MEASURE))
            yield name, Visit(found[0][0], statistics.median(ms for _, ms in found))
        browser.close()


_MEASURE = """() => {
  const [page] = performance.getEntriesByType("navigation");
  const parts = performance.getEntriesByType("resource");
  const size = [page, ...parts].reduce((sum, part) => sum + part.transferSize, 0);
  return [size, page.domContentLoadedEventEnd];
}"""


def server_process() -> psutil.Process:
    """Return the server, which is a child of this process."""
    (found,) = (p for p in psutil.Process().children() if "serve" in p.cmdline())
    return found


def url_of(process: psutil.Process) -> str:
    (port,) = {c.laddr.port for c in process.net_connections() if c.status == psutil.CONN_LISTEN}
    return f"http://127.0.0.1:{port}"


def cpu_of(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


if __name__ == "__main__":
    main()
