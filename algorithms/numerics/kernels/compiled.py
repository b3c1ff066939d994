"""Decorators that compile functions by numba: without the GIL, cached on disk, typed for mypy.

Importing numba takes longer than most fits of an estimator. So the modules with kernels, and those
that cannot do without them, are imported inside the functions that call them.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

#: Sums may be reordered and fused; NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}


#: The error model "numpy" returns infinity on division by zero, which allows vectorisation.
_compile = numba.njit(nogil=True, cache=True, fastmath=_FAST, error_model="numpy")


def kernel(function: Function) -> Function:
    """Compile a function at its first call, or load it from the cache on disk.

    ``python -m service.operations.warm`` fills the cache in advance.
    """
    return cast("Function", _compile(function))


#: ``fastmath`` is set, because otherwise a function inherits that of the kernel that calls it.
_compile_exact = numba.njit(nogil=True, cache=True, fastmath=False, error_model="numpy")


def exact_kernel(function: Function) -> Function:
    """Compile a function like :func:`kernel`, but without reordering of operations."""
    return cast("Function", _compile_exact(function))
