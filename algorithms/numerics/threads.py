"""Threads of BLAS, for work on matrices so small that they would only wait for each other."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

#: Up to this order one thread. On a machine whose cores are all busy, choosing parameters for
#: faces (order 160) took 0.7 s with one thread and 34 s with two.
SMALL_ORDER = 512


@contextmanager
def limit_blas_threads(order: int) -> Iterator[None]:
    """Let BLAS use one thread in the block where matrices of this order are small.

    It also makes the result the same on every number of cores.
    """
    if order > SMALL_ORDER:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


def blas_threads() -> int:
    """Return the number of threads that BLAS may use now.

    Where it is another, sums round differently: the last bits of a fit with matrices beyond
    :data:`SMALL_ORDER` depend on it.
    """
    libraries = _controller().info()
    used = [int(one["num_threads"]) for one in libraries if one["user_api"] == "blas"]
    return max(used, default=1)


@cache
def _controller() -> ThreadpoolController:
    """Return what has found the libraries, which takes milliseconds."""
    return ThreadpoolController()
