"""Limits on the threads of BLAS, which slow down work on small matrices."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

#: Largest order of matrices for which BLAS is limited to one thread. On a machine with busy cores,
#: parameter selection for faces (order 160) took 0.7 s with one thread and 34 s with two.
SMALL_ORDER = 512


@contextmanager
def limit_blas_threads(order: int) -> Iterator[None]:
    """Limit BLAS to one thread within the context if matrices (order, order) are small.

    Several threads would take longer. Also, results then do not depend on the number of cores.
    """
    if order > SMALL_ORDER:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


def blas_threads() -> int:
    """Return the number of threads that BLAS may use now.

    Rounding errors depend on it for matrices larger than :data:`SMALL_ORDER`.
    """
    libraries = _controller().info()
    used = [int(library["num_threads"]) for library in libraries if library["user_api"] == "blas"]
    return max(used, default=1)


@cache
def _controller() -> ThreadpoolController:
    """Return the cached controller; finding the BLAS libraries takes milliseconds."""
    return ThreadpoolController()
