import gc
import subprocess
import sys
from itertools import chain, product
from pathlib import Path

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from algorithms.numerics import warm


def signatures() -> set[tuple[str, str]]:
    """Return what is compiled, by kernel: the types that it takes."""
    kernels = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
    return {
        (f"{kernel.__module__}.{kernel.__name__}", str(types))
        for kernel in kernels
        for types in kernel.signatures
        if kernel.__module__.startswith("algorithms.")
    }


def compiled_in_use() -> set[tuple[str, str]]:
    """Return what fits and answers compile though the set-up has compiled all it knows."""
    from test_contract import CASES, answers, fit

    warm.main()
    before = signatures()
    assert before
    choices = product(("sdca", "sweeps"), ("linear", "rbf"), ("power", "cosh"))
    values = [dict(zip(("solver", "kernel", "penalty"), choice, strict=True)) for choice in choices]
    for algorithm, tasks, chosen in chain(
        ((*case.values, {}) for case in CASES),
        (
            (*case.values, chosen)
            for case in CASES
            if case.values[0].name == "fmtl"
            for chosen in values
        ),
    ):
        model = fit(algorithm, tasks, **chosen)
        for task in tasks:
            answers(model, task, np.ones((2, task.n_features)))
    return signatures() - before


@pytest.mark.slow
def test_warming_compiles_every_specialisation_that_is_used() -> None:
    """Else a first job waits for the compiler, and may round otherwise than the next."""
    # a process of its own: other tests call kernels with types that no algorithm uses
    done = subprocess.run(
        [sys.executable, __file__], capture_output=True, text=True, check=True, timeout=240
    )
    assert done.stdout == "set()\n"


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    sys.stdout.write(f"{compiled_in_use()}\n")
