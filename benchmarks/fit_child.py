"""One fit of made tasks in a process of its own, with its time and its peak memory.

``scale.py`` and ``memory_estimates.py`` start it:

    python -m benchmarks.fit_child '{"algorithm": "pca", "T": 9, "n": 50, "d": 20, "params": {}}' 60
"""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.numerics import warm
from algorithms.registry import ALGORITHMS

#: Environment variables for the threads of BLAS.
THREADS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
MIB = 2**20


@dataclass(frozen=True)
class Case:
    """A fit: T tasks of n rows and d columns, with targets as the algorithm needs them.

    Parameters
    ----------
    target
        Kind of the targets, for an algorithm that takes numbers and classes. Default: numbers.
    """

    algorithm: str
    T: int
    n: int
    d: int
    params: dict[str, Any] = field(default_factory=dict)
    target: str = "numbers"

    @property
    def shape(self) -> str:
        """Numbers of tasks, rows of each, and columns."""
        return f"{self.T:,} x {self.n:,} x {self.d:,}"


@dataclass(frozen=True)
class Measured:
    """CPU time in seconds, and memory in MiB: before the tasks are made, and at the peak."""

    cpu_s: float
    before_mb: float
    peak_mb: float

    @property
    def added_mb(self) -> float:
        """Memory of the tasks and the fit."""
        return self.peak_mb - self.before_mb


def run_case(case: Case, *, limit_s: int) -> Measured | str:
    """Return what a child process measured, or why it has not.

    Parameters
    ----------
    limit_s
        CPU time that the fit may take, which other programs on the machine do not use up.
    """
    command = [sys.executable, "-m", "benchmarks.fit_child", json.dumps(asdict(case)), str(limit_s)]
    environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGXCPU:
        return f"more than {limit_s} s"
    if done.returncode:
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
    return Measured(**json.loads(done.stdout))


def make_tasks(case: Case) -> TaskSet:
    """Return related tasks: common and own directions, with noise; on the same rows if needed."""
    rng = np.random.default_rng(0)
    needs = ALGORITHMS[case.algorithm].needs
    kind = needs.target if needs.target != "none" else needs.optional_target
    kind = case.target if kind == "any" else kind
    common = rng.standard_normal(case.d)
    tasks: list[Task] = []
    for t in range(case.T):
        X = rng.standard_normal((case.n, case.d)) * np.linspace(2.0, 0.5, case.d)
        if needs.shared_rows and tasks:
            X = tasks[0].X
        scores = X @ (common + 0.3 * rng.standard_normal(case.d)) / np.sqrt(case.d)
        y: np.ndarray[Any, Any] | None = None
        if kind == "numbers":
            y = scores + 0.5 * rng.standard_normal(case.n)
        elif kind == "classes":
            y = np.where(scores > np.median(scores), "yes", "no")
        tasks.append(Task.from_rows(f"task-{t:05d}", X, y=y))
    return TaskSet(tuple(tasks))


def memory_mb(entry: str) -> float:
    """Return an entry of the memory statistics of this process, such as VmHWM."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    line = next(line for line in lines if line.startswith(f"{entry}:"))
    return int(line.split()[1]) * 1024 / MIB


def main() -> None:
    """Fit, and print the measurements as JSON."""
    case = Case(**json.loads(sys.argv[1]))
    algorithm = ALGORITHMS[case.algorithm]
    warm.main()
    before = memory_mb("VmHWM")
    tasks, params = make_tasks(case), algorithm.parse(case.params)
    started = time.process_time()
    soft = int(started) + int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
    algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
    measured = Measured(time.process_time() - started, before, memory_mb("VmHWM"))
    print(json.dumps(asdict(measured)))


if __name__ == "__main__":
    main()
