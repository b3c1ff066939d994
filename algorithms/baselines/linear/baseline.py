"""The base class of the linear baselines."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, TypeVar

import numpy as np

from algorithms.evaluation import grid_candidates, held_out_loss, select_params
from algorithms.families.linear.design import (
    Design,
    Form,
    check_targets,
    estimate_design,
    prepare,
)
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
        b: Array | None = None,
        *,
        params: P | None = None,
        warnings: tuple[str, ...] = (),
        **described: Any,
    ) -> LinearModel:
        """Return the model for W (T, q).

        Parameters
        ----------
        b : (T,)
            Default: the intercepts that minimise the squared loss.
        described
            ``fit_info`` and ``common``, as for
            :func:`~algorithms.families.linear.functions.functions_of`.
        """
        if b is None:
            has_intercept = getattr(params, "fit_intercept", True)
            b = design.intercepts(W) if has_intercept else np.zeros(len(W))
        return LinearModel(
            functions_of(tasks, design, W, b, algorithm=self.name, warnings=warnings, **described)
        )

    def choose(
        self,
        tasks: TaskSet,
        params: P,
        *,
        n_folds: int,
        scales: Mapping[str, float],
        prefer_large: Collection[str] | None = None,
        trace: Trace,
        rng: np.random.Generator,
    ) -> tuple[P, dict[str, Any]]:
        """Return the parameters selected by cross-validation, and its results as JSON.

        Parameters
        ----------
        scales
            Divisors of the errors of each task; 1 by default.
        prefer_large
            Parameters of which the largest of equally good values are selected. Default: all.
        """
        selection = select_params(
            self,
            tasks.by_name(),
            grid_candidates(params, prefer_large=prefer_large or params.GRIDS),
            n_folds=n_folds,
            trace=trace,
            rng=rng,
            loss=held_out_loss(scales),
        )
        return selection.params, {"cv_errors": list(selection.losses), **selection.fit_info}


def prepare_design(
    tasks: TaskSet, params: Any, *, coordinates: Literal["rotated", "own"] = "rotated"
) -> Design:
    """Return the design of some tasks."""
    return prepare(
        tasks,
        Form(params.standardise),
        scale_targets=params.scale_targets,
        has_intercept=params.fit_intercept,
        coordinates=coordinates,
    )


def losses_of(
    params: Params, fit_info: Mapping[str, Any], *, prefer_large: Collection[str] | None = None
) -> GridLosses:
    """Return the losses along the grids, given the results of :meth:`LinearBaseline.choose`."""
    candidates = grid_candidates(params, prefer_large=prefer_large or params.GRIDS)
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
