"""The one way kernels are compiled: without the interpreter's lock, cached, typed for mypy."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

#: Sums may be reordered and fused; NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


#: Division by zero gives infinity, as in numpy, and does not hinder vector code.
_compile = numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")


def kernel(function: Function) -> Function:
    """Return the function compiled at its first call, or read from the cache on disk.

    ``python -m service.warm`` fills the cache, so that no user waits for it.
    """
    return cast("Function", _compile(function))


_compile_exact = numba.njit(nogil=True, cache=True, error_model="numpy")


def exact_kernel(function: Function) -> Function:
    """Return the function compiled as by :func:`kernel`, with every operation as it is written."""
    return cast("Function", _compile_exact(function))
