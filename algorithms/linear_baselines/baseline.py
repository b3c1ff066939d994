"""What the linear baselines have in common around their mathematics."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation import candidates_of, held_out_loss, select_params
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.needs import Needs
from algorithms.interface.params import Params
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.linear.design import check_targets, new_rows
from algorithms.linear.model import LinearModel
from algorithms.linear.targets import Targets
from algorithms.linear_baselines.shared import check_same_classes

Array = NDArray[np.float64]
P = TypeVar("P", bound=Params)


class LinearBaseline(Algorithm[P, LinearModel]):
    """A linear function for each task."""

    needs = Needs(same_features=True, target="any")
    Model = LinearModel

    def check(self, summaries: Sequence[TaskSummary], params: P) -> None:
        """Raise InvalidData where these tasks do not fit."""
        super().check(summaries, params)
        check_targets(summaries, algorithm=self.name)

    def choose(
        self, tasks: TaskSet, params: P, *, n_folds: int, trace: Trace, rng: np.random.Generator
    ) -> tuple[P, dict[str, Any]]:
        """Give the parameters that cross-validation of these rows chooses, and facts of it.

        Of equal ones, the strongest regularisation.
        """
        selection = select_params(
            self,
            tasks.by_name(),
            candidates_of(params, falling=params.GRIDS),
            n_folds=n_folds,
            trace=trace,
            rng=rng,
            loss=held_out_loss,
        )
        return selection.params, {"cv_errors": list(selection.losses)}


def join_task(
    model: LinearModel,
    task: Task,
    *,
    is_pooled: bool,
    learn: Callable[[Array, Targets], tuple[Array, Array]],
) -> LinearModel:
    """Give the model with one more task: from its own rows, or with the common function.

    Parameters
    ----------
    is_pooled
        The model has one function for all tasks.
    learn
        Gives W (p, m) and b (m,) of rows (n, p) and targets.
    """
    functions = model.functions
    A, targets = new_rows(functions.basis, task)
    if is_pooled:
        check_same_classes([model.tasks[0], task.name], [functions.classes[0], targets.classes])
        first = functions.columns(0)
        W, b = functions.W[:, first], functions.intercept[first]
    else:
        W, b = learn(A, targets)
    return LinearModel(functions.extended(task.name, targets, W, intercept=b, fitted=A @ W + b))
