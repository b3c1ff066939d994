"""The choice of C by cross-validation: what is tried, and what is to be small."""

from typing import TypeVar

import numpy as np

from algorithms.evaluation import mean_error_rate
from algorithms.interface.model import Model
from algorithms.interface.tasks import TaskSet
from algorithms.kernel_machines.params import MachineParams

P = TypeVar("P", bound=MachineParams)


def candidates(params: P) -> list[P]:
    """Give the parameters with each C of the grid, from the weakest to the strongest."""
    return [params.model_copy(update={"C": C, "selection": "given"}) for C in sorted(params.grid)]


def held_out_loss(model: Model, tasks: TaskSet) -> float:
    """Give the mean share of wrong labels, or the mean squared error, over tasks."""
    if tasks.tasks[0].target == "classes":
        return mean_error_rate(model, tasks)
    predict = model.predict  # type: ignore[attr-defined]  # models of numbers have it
    errors = [np.mean((predict(task.X, task=task.name) - task.y) ** 2) for task in tasks]
    return float(np.mean(errors))
