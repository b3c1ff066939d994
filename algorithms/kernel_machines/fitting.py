"""One fit of any kernel machine: choose C, prepare, solve, build."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from algorithms.evaluation import select_params
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.kernel_machines.building import Solution, build_machine
from algorithms.kernel_machines.model import KernelMachine
from algorithms.kernel_machines.params import MachineParams
from algorithms.kernel_machines.preparation import Prepared, mean_rows, prepare
from algorithms.kernel_machines.selection import candidates, held_out_loss

P = TypeVar("P", bound=MachineParams)

#: Gives the solver's name and what it found, for a seed.
Solver = Callable[[Prepared, P, int, Trace], tuple[str, Solution]]


def fit_machine(
    algorithm: Algorithm[P, KernelMachine],
    tasks: TaskSet,
    params: P,
    *,
    solve: Solver[P],
    trace: Trace,
    rng: np.random.Generator,
) -> KernelMachine:
    """Give the model for C as given, or as chosen by cross-validation of these rows."""
    algorithm.check(tasks.summaries(), params)
    trace.expect(2 if params.selection == "cv" else 1)
    facts: dict[str, Any] = {}
    if params.selection == "cv":
        ordered = TaskSet(tuple(sorted(tasks, key=lambda task: task.name)))
        chosen = select_params(
            algorithm, ordered, candidates(params), n_folds=params.n_folds, trace=trace, rng=rng,
            loss=held_out_loss,
        )  # fmt: skip
        params = chosen.params
        facts["cv_loss"] = list(chosen.losses)
    prepared = prepare(tasks, params, rng=rng)
    solver, solution = solve(prepared, params, int(rng.integers(2**32)), trace)
    facts |= {
        "params": params.model_dump(mode="json"),
        "solver": solver,
        "mean_rows": mean_rows(prepared.examples),
    }
    return build_machine(
        prepared, solution, tasks, algorithm=algorithm.name, C=params.C, facts=facts,
        tolerance=params.tolerance,
    )  # fmt: skip
