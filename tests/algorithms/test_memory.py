"""Expected memory of fits. ``benchmarks/memory_estimates.py`` compares it with what they take."""

import math
import subprocess
import sys

import numpy as np
import pytest

from algorithms.interface.tasks import Task, TaskSummary
from algorithms.interface.work import describe_size, rows_bytes
from algorithms.registry import ALGORITHMS

#: Parameters without a default.
PARAMS = {"k": 2}


def summaries(T=3, n=100, d=20, **values):
    return tuple(TaskSummary(f"t{t}", n, d, target="numbers", **values) for t in range(T))


def params_of(algorithm, **values):
    names = {k: v for k, v in PARAMS.items() if k in algorithm.Params.model_fields}
    return algorithm.parse({**names, **values})


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_every_algorithm_expects_at_least_its_rows_and_more_with_more_rows(name) -> None:
    algorithm = ALGORITHMS[name]
    params = params_of(algorithm)
    small, large = (algorithm.memory(summaries(n=n), params) for n in (100, 10_000))
    assert rows_bytes(summaries()) <= small.n_bytes < large.n_bytes < math.inf
    assert small.largest
    assert small.remedy


def test_a_kernel_matrix_too_large_names_its_rows_and_what_to_use_instead() -> None:
    algorithm, tasks = ALGORITHMS["fmtl"], summaries(T=10, n=7_000)
    needed = algorithm.memory(tasks, params_of(algorithm))
    assert needed.n_bytes == pytest.approx(2 * 8 * 70_000**2, rel=0.01)
    assert needed.describe() == "about 78.4 GB for the kernel matrix of 70,000 rows"
    assert "nystrom=2000" in needed.remedy
    fewer = algorithm.memory(tasks, params_of(algorithm, nystrom=2000))
    assert fewer.n_bytes < needed.n_bytes / 30
    linear = algorithm.memory(tasks, params_of(algorithm, kernel="linear"))
    assert linear.n_bytes < needed.n_bytes / 1000


def test_the_relations_of_many_outputs_count_by_their_square() -> None:
    algorithm = ALGORITHMS["fmtl"]
    tasks = summaries(T=10_000, n=10, d=10)
    needed = algorithm.memory(tasks, params_of(algorithm, kernel="linear"))
    assert needed.n_bytes > 10_000**2 * 8
    assert "relations of 10,000 tasks" in needed.largest
    classes = tuple(TaskSummary(f"t{t}", 10, 10, target="classes", n_classes=5) for t in range(99))
    assert "495" in algorithm.memory(classes, params_of(algorithm, kernel="linear")).largest


def test_covariance_matrices_count_by_the_square_of_their_columns() -> None:
    algorithm = ALGORITHMS["rmt-pca"]
    rows = algorithm.memory(summaries(T=50, n=1000, d=500), params_of(algorithm))
    matrices = summaries(T=50, n=1, d=500, input="covariances")
    assert rows.n_bytes > 50 * 500**2 * 8
    assert algorithm.memory(matrices, params_of(algorithm)).n_bytes >= 50 * 500**2 * 8
    # with few rows, thin factors are stored instead
    wide = algorithm.memory(summaries(T=50, n=10, d=100_000), params_of(algorithm))
    assert wide.n_bytes < 10 * rows_bytes(summaries(T=50, n=10, d=100_000))


def test_sparse_rows_count_by_their_stored_values() -> None:
    dense, sparse = summaries(n=1000), summaries(n=1000, n_stored=10)
    assert rows_bytes(sparse) < rows_bytes(dense) / 100


@pytest.mark.parametrize(
    ("size", "text"), [(999, "999 bytes"), (2_410_000_000, "2.41 GB"), (4e21, "4000000 PB")]
)
def test_sizes_have_three_digits_and_a_unit(size, text) -> None:
    assert describe_size(size) == text


#: A fit in a process of its own, which prints the memory that it has added, in bytes.
PROGRAM = """
import sys
from pathlib import Path
import numpy as np
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])

def fit(n, d):
    rng = np.random.default_rng(0)
    tasks = [Task.from_rows(f"t{t}", rng.standard_normal((n, d))) for t in range(20)]
    algorithm = ALGORITHMS["rmt-pca"]
    algorithm.fit(TaskSet(tuple(tasks)), algorithm.parse({}), trace=Trace(), rng=rng)

fit(50, 40)  # imports everything
before = peak()
fit(1000, 200)
print(peak() - before)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_the_memory_of_a_fit_is_as_expected() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=240
    )
    algorithm = ALGORITHMS["rmt-pca"]
    tasks = tuple(Task.from_rows(f"t{t}", np.zeros((1000, 200))).summary() for t in range(20))
    expected = algorithm.memory(tasks, params_of(algorithm)).n_bytes
    assert 0.5 <= expected / float(done.stdout) <= 2.0
