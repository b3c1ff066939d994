"""Searches for parameters by the service, against the same work in plain processes.

A service with its default workers (one for each core) searches the width of the kernel of FMTL on
20 related tasks: each of the 40 candidates is a child job, which fits and scores five folds. The
same child jobs are then computed by as many plain processes as there are cores, with one thread
each, and the best candidate is fitted ("plain"). "Short" parts have few rows.

Other programs on the machine stretch every wall time, so that the efficiency is a product of two
shares that they hardly change: plain / (plain + other CPU), and the share of the time in which a
worker has a job. "Other CPU" is what all processes of the service used beyond the plain ones, with
the importance of columns of the final model; "busy" is counted from the start of the first child
job to the end of the last one, from the times of the jobs. "Gap" is the median time between two
jobs of a worker.
"""

import multiprocessing
import statistics
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import psutil
from threadpoolctl import threadpool_limits

from algorithms.evaluation.selection.search import SearchOptions
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from benchmarks import servers
from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Claim, Table
from service.jobs.studies.plans import run_child_job
from service.jobs.studies.searches import child_jobs_of_round, plan_search
from sibling import Client

MIN_EFFICIENCY = 0.8
N_CORES = psutil.cpu_count() or 1
ALGORITHM = "fmtl"
N_TASKS, N_COLUMNS = 20, 10
#: Rows of each task, so that a part takes one to three seconds, and hardly any time.
LONG_ROWS, SHORT_ROWS = 200, 10


@dataclass(frozen=True)
class Timeline:
    """Times of child jobs in seconds, and the share of the time in which a worker has one."""

    n: int
    part_s: float
    gap_s: float
    busy: float


def run(context: Context) -> Iterator[Block]:
    """Yield the table, and whether long parts use the cores."""
    n = 8 if context.is_quick else 40
    with servers.service() as client:
        _warm_up(client)
        long = _search(client, "long parts", LONG_ROWS, n)
        short = _search(client, "short parts", SHORT_ROWS, n)
    yield Table(
        columns=(
            "search",
            "parts",
            "part, s",
            "gap, s",
            "wall, s",
            "plain, CPU s",
            "other CPU, s",
            "busy",
            "efficiency",
        ),
        rows=(long, short),
        higher_is_better=("efficiency",),
        lower_is_better=("gap, s", "other CPU, s"),
    )
    yield Claim(
        text=f"Searches with parts of a second use at least {MIN_EFFICIENCY:.0%} of the cores.",
        is_confirmed=long[-1] >= MIN_EFFICIENCY,
    )


def _warm_up(client: Client) -> None:
    """Let every worker run some jobs, so that all have loaded the algorithms."""
    rows = {task.name: task.X for task in make_tasks(SHORT_ROWS)}
    dataset = client.upload(rows, name="warm")
    for job in [client.train(dataset, "pca", k=2) for _ in range(4 * N_CORES)]:
        job.wait()


def _search(client: Client, label: str, n_rows: int, n: int) -> tuple[Any, ...]:
    tasks = make_tasks(n_rows)
    data = {task.name: task.X for task in tasks}
    targets = {task.name: task.y for task in tasks if task.y is not None}
    dataset = client.upload(data, targets, name=label)
    search = _options(n)
    server = _server()
    before = _cpu_s(server)
    started = time.monotonic()
    job = client.train(dataset, ALGORITHM, search=search.model_dump(exclude_none=True))
    job.wait()
    wall_s = time.monotonic() - started
    used_s = _cpu_s(server) - before
    line = timeline(list(client.jobs(parent_id=job.id)))
    plain_s = plain_cpu_s(tasks, search)
    other_s = used_s - plain_s
    efficiency = plain_s / (plain_s + max(0.0, other_s)) * line.busy
    return (label, line.n, line.part_s, line.gap_s, wall_s, plain_s, other_s, line.busy,
            efficiency)  # fmt: skip


def _options(n: int) -> SearchOptions:
    space = {"gamma": {"low": 0.01, "high": 1.0, "scale": "log"}}
    return SearchOptions.model_validate(
        {"space": space, "method": "random", "n_candidates": n, "n_folds": 5}
    )


def make_tasks(n_rows: int) -> TaskSet:
    """Return related regressions."""
    rng = np.random.default_rng(0)
    common, tasks = rng.standard_normal(N_COLUMNS), []
    for t in range(N_TASKS):
        X = rng.standard_normal((n_rows, N_COLUMNS))
        w = common + 0.3 * rng.standard_normal(N_COLUMNS)
        y = np.sin(X @ w / 3) + 0.3 * rng.standard_normal(n_rows)
        tasks.append(Task.from_rows(f"t{t:02}", X, y=y))
    return TaskSet(tuple(tasks))


def plain_cpu_s(tasks: TaskSet, search: SearchOptions) -> float:
    """Return the CPU time of the same search in one process for each core, in seconds."""
    algorithm = ALGORITHMS[ALGORITHM]
    plan = plan_search(algorithm, {}, tasks.summaries(), search, seed=0)
    children = child_jobs_of_round(algorithm, plan, [])
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(N_CORES, context) as pool:
        list(pool.map(_part_cpu_s, [tasks] * 4, [children[0].plan] * 4))  # compile and load
        used_s = list(pool.map(_part_cpu_s, [tasks] * len(children), [c.plan for c in children]))
        fitted_s = pool.submit(_fit_cpu_s, tasks, children[0].params).result()
    return sum(used_s) + fitted_s


@threadpool_limits.wrap(limits=1)
def _part_cpu_s(tasks: TaskSet, plan: dict[str, Any]) -> float:
    started = time.process_time()
    run_child_job(plan, ALGORITHMS[ALGORITHM], tasks, seed=0, trace=Trace())
    return time.process_time() - started


@threadpool_limits.wrap(limits=1)
def _fit_cpu_s(tasks: TaskSet, values: dict[str, Any]) -> float:
    algorithm, started = ALGORITHMS[ALGORITHM], time.process_time()
    algorithm.fit(tasks, algorithm.parse(values), trace=Trace(), rng=np.random.default_rng(0))
    return time.process_time() - started


def timeline(jobs: list[dict[str, Any]]) -> Timeline:
    """Return the times of child jobs, by the workers that ran them."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for job in jobs:
        (attempt,) = job["attempts"]
        span = (_seconds(attempt["started_at"]), _seconds(attempt["finished_at"]))
        spans.setdefault(attempt["worker"], []).append(span)
    first = min(start for found in spans.values() for start, _ in found)
    last = max(end for found in spans.values() for _, end in found)
    lengths = [end - start for found in spans.values() for start, end in found]
    gaps = [
        following[0] - one[1]
        for found in spans.values()
        for one, following in zip(sorted(found), sorted(found)[1:], strict=False)
    ]
    whole_s = last - first
    busy = sum(lengths) / (N_CORES * whole_s)
    return Timeline(len(jobs), statistics.median(lengths), statistics.median(gaps), busy)


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()


def _server() -> psutil.Process:
    """Return the process of the service, the only child of this one."""
    return next(child for child in psutil.Process().children() if "serve" in child.cmdline())


def _cpu_s(server: psutil.Process) -> float:
    """Return the CPU time of the service and all that it has started, in seconds."""
    total = 0.0
    for process in (server, *server.children(recursive=True)):
        times = process.cpu_times()
        total += times.user + times.system
    return total
