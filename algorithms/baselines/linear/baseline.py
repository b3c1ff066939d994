"""The base class of the linear baselines."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from algorithms.evaluation import grid_candidates, held_out_loss, select_params
from algorithms.families.linear.design import Design, check_targets, estimate_design
from algorithms.families.linear.functions import functions_of
from algorithms.families.linear.model import LinearModel
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.needs import Needs, check_known_labels
from algorithms.interface.params import GridLosses, Params, losses_by_value
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.work import MemoryEstimate
from algorithms.numerics.arrays import Array

P = TypeVar("P", bound=Params)


class LinearBaseline(Algorithm[P, LinearModel]):
    """Base class: a linear function for each task."""

    needs = Needs(same_features=True, target="any", weights=True)
    Model = LinearModel

    def check(self, summaries: Sequence[TaskSummary], params: P) -> None:
        """Raise InvalidData if the tasks do not meet the requirements."""
        super().check(summaries, params)
        check_targets(summaries, algorithm=self.name)
        if getattr(params, "form", "task") == "pooled":
            check_known_labels(summaries)

    def memory(self, summaries: Sequence[TaskSummary], params: P) -> MemoryEstimate:
        """Return the memory of the design: rows, basis values and their coordinates."""
        return estimate_design(summaries, kernel=getattr(params, "kernel", "linear"))

    def model_of(
        self,
        tasks: TaskSet,
        design: Design,
        W: Array,
        *,
        params: P,
        fit_info: Mapping[str, Any],
        warnings: tuple[str, ...] = (),
    ) -> LinearModel:
        """Return the model for W (T, q), with the intercepts that minimise the squared loss."""
        has_intercept = getattr(params, "fit_intercept", True)
        b = design.intercepts(W) if has_intercept else np.zeros(len(W))
        return LinearModel(
            functions_of(
                tasks, design, W, b, algorithm=self.name, fit_info=fit_info, warnings=warnings
            )
        )

    def choose(
        self,
        tasks: TaskSet,
        params: P,
        *,
        n_folds: int,
        scales: Mapping[str, float],
        trace: Trace,
        rng: np.random.Generator,
    ) -> tuple[P, dict[str, Any]]:
        """Return the parameters selected by cross-validation, and its results as JSON.

        Among equally good parameters, the strongest regularisation is selected.

        Parameters
        ----------
        scales
            Divisors of the errors of each task; 1 by default.
        """
        selection = select_params(
            self,
            tasks.by_name(),
            grid_candidates(params, prefer_large=params.GRIDS),
            n_folds=n_folds,
            trace=trace,
            rng=rng,
            loss=held_out_loss(scales),
        )
        return selection.params, {"cv_errors": list(selection.losses), **selection.fit_info}


def losses_of(params: Params, fit_info: Mapping[str, Any]) -> GridLosses:
    """Return the losses along the grids, given the results of :meth:`LinearBaseline.choose`."""
    candidates = grid_candidates(params, prefer_large=params.GRIDS)
    return losses_by_value(candidates, fit_info["cv_errors"], params.GRIDS)


def solve_at_once(
    solve: Callable[[], tuple[Array, Array, float]], trace: Trace
) -> tuple[Array, Array]:
    """Return W and b, computed in one step of the trace, which handles cancellation.

    Parameters
    ----------
    solve
        Returns W (T, q), b (T,) and the objective.
    """

    def stacked() -> tuple[Array, float]:
        W, b, objective = solve()
        return np.column_stack([W, b]), objective

    solution = trace.run_once("solution", stacked)
    return np.ascontiguousarray(solution[:, :-1]), solution[:, -1].copy()
