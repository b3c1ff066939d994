"""Compile every numba kernel into the cache: ``python -m service.operations.warm``.

Set-up and the container image run it once, as compilation takes tens of seconds of each core.
"""

import os
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from algorithms.numerics import warm
from service.inference.formats.decimals import TO_END, count_byte, parse_lists
from service.processes.kernels import set_compiled
from service.processes.lifetime import kill_with_parent


def warm_decimals() -> None:
    """Compile the kernels that parse lists of numbers."""
    text = np.frombuffer(b"[1.5]}", np.uint8)
    values, unparsed, counts = np.empty(2), np.empty((1, 3), np.uint64), np.empty(4, np.uint64)
    parse_lists(text, np.uint64(1), values, unparsed, counts, TO_END)
    count_byte(text, 0)


def _run(step: Callable[[], None]) -> None:
    step()


def main() -> None:
    """Compile all kernels, in a process per core; end with the parent whose pid is given."""
    for parent in sys.argv[1:]:
        kill_with_parent(int(parent))
    with ProcessPoolExecutor(
        mp_context=get_context("fork"), initializer=kill_with_parent, initargs=(os.getpid(),)
    ) as pool:
        list(pool.map(_run, (*warm.STEPS, warm_decimals)))  # raises the error of a step
    set_compiled()


if __name__ == "__main__":
    main()
