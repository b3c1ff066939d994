import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.numerics import threads
from algorithms.numerics.threads import SMALL_ORDER, limit_blas_threads
from algorithms.registry import ALGORITHMS


def blas_threads():
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


def bits(name, tasks, n_threads, **values):
    algorithm = ALGORITHMS[name]
    with threadpool_limits(n_threads, user_api="blas"):
        model = algorithm.fit(
            tasks, algorithm.Params(**values), trace=Trace(), rng=np.random.default_rng(0)
        )
    return {key: array.tobytes() for key, array in model.to_arrays().items()}


def rows(n, d, n_tasks=3):
    rng = np.random.default_rng(1)
    return TaskSet(
        tuple(
            Task.from_rows(f"t{i}", rng.standard_normal((n, d)), y=rng.integers(3, size=n))
            for i in range(n_tasks)
        )
    )


def shared_rows(n, d, n_tasks=3):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n, d))
    return TaskSet(
        tuple(
            Task.from_rows(f"t{i}", X, y=X[:, i] + rng.standard_normal(n)) for i in range(n_tasks)
        )
    )


#: Shapes beyond SMALL_ORDER, whose bits depend on the number of threads on some machines.
LARGE = {
    "rmt-pca": (rows(18, 600, n_tasks=30), {"k": 2, "max_iter": 1}),
    "mtda": (rows(600, 640, n_tasks=1), {"gamma": 0.1}),
    "fmtl": (shared_rows(600, 4), {"max_iter": 2}),
}


@pytest.mark.slow  # BLAS threads wait for each other on a machine whose cores are busy
@pytest.mark.parametrize("name", LARGE)
def test_the_same_number_of_threads_gives_the_same_bits(name) -> None:
    tasks, values = LARGE[name]
    assert bits(name, tasks, 2, **values) == bits(name, tasks, 2, **values)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["rmt-pca", "pca", "common-pca", "mtda"])
@pytest.mark.parametrize(("n", "d"), [(10, 400), (60, 300), (130, 2000)])
def test_small_work_gives_the_same_bits_on_any_number_of_threads(name, n, d) -> None:
    values = {"selection": "cv"} if name == "rmt-pca" else {}
    tasks = rows(n, d)
    assert bits(name, tasks, 1, **values) == bits(name, tasks, 2, **values)


def test_the_number_of_threads_is_recorded() -> None:
    for n in (1, 2):
        with threadpool_limits(n, user_api="blas"):
            assert {threads.blas_threads()} == blas_threads()


def test_small_work_has_one_thread_and_restores_the_limit_afterwards() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with limit_blas_threads(SMALL_ORDER):
            assert blas_threads() == {1}
            with limit_blas_threads(1):
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_large_work_keeps_its_threads() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with limit_blas_threads(SMALL_ORDER + 1):
            assert blas_threads() == before
