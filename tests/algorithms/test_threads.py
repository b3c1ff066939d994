from threadpoolctl import threadpool_info, threadpool_limits

from algorithms.numerics.threads import SMALL_ORDER, threads_for


def blas_threads():
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


def test_small_work_has_one_thread_and_gives_the_others_back() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with threads_for(SMALL_ORDER):
            assert blas_threads() == {1}
            with threads_for(1):
                assert blas_threads() == {1}
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_large_work_keeps_its_threads() -> None:
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with threads_for(SMALL_ORDER + 1):
            assert blas_threads() == before
