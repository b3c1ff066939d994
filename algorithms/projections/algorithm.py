"""The base class of MTDA and its baselines."""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from algorithms.evaluation import grid_candidates, select_params
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.grid_ends import end_warnings
from algorithms.interface.needs import Needs, check_classes
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.numerics.threads import limit_blas_threads
from algorithms.projections.model import ProjectionClassifier
from algorithms.projections.params import ProjectionParams

P = TypeVar("P", bound=ProjectionParams)


class ProjectionAlgorithm(Algorithm[P, ProjectionClassifier]):
    """Base class: a discriminant projection of each task, with a classifier."""

    needs = Needs(same_features=False, target="classes")
    monotone = "up"
    Model = ProjectionClassifier

    @abstractmethod
    def _fit(
        self, tasks: TaskSet, params: P, *, trace: Trace, rng: np.random.Generator
    ) -> ProjectionClassifier:
        """Return the model; called with tasks that passed all checks."""

    def check(self, summaries: Sequence[TaskSummary], params: P) -> None:
        """Raise InvalidData if the tasks do not meet the requirements."""
        super().check(summaries, params)
        check_classes(summaries, algorithm=self.name)

    def fit(
        self, tasks: TaskSet, params: P, *, trace: Trace, rng: np.random.Generator
    ) -> ProjectionClassifier:
        """Return the projection of each task, for the given or selected parameters."""
        self.check(tasks.summaries(), params)
        # no matrix is larger than the rank of a task's rows
        with limit_blas_threads(max(min(task.X.shape) for task in tasks)):
            return self._fit(tasks, params, trace=trace, rng=rng)

    def choose(
        self,
        tasks: TaskSet,
        params: P,
        *,
        trace: Trace,
        rng: np.random.Generator,
        loop: str = "selection",
    ) -> tuple[P, dict[str, Any]]:
        """Return the given parameters, or those selected by cross-validation with its results."""
        if params.selection == "given":
            return params, {"selection": "given"}
        # prefer few dimensions and strong shrinkage
        candidates = grid_candidates(params, prefer_large=("gamma",))
        selection = select_params(
            self, tasks, candidates, n_folds=params.n_folds, trace=trace, rng=rng, loop=loop
        )
        fit_info = {"cv_error": list(selection.losses), **selection.fit_info}
        return selection.params, {"selection": "cv", **fit_info}

    def end_warnings(self, requested: P, chosen: P, limits: Mapping[str, float]) -> tuple[str, ...]:
        """Return a warning for each parameter that was selected at an end of its grid.

        Parameters
        ----------
        limits
            Largest effective value of each parameter for which it is below the parameter's bound:
            for example the rank of the rows, for a dimension.
        """
        if requested.selection == "given":
            return ()
        values = {name: getattr(chosen, name) for name in requested.GRIDS}
        return end_warnings(requested, values, limits=limits)

    def params_for(self, model: ProjectionClassifier, task: Task) -> P:
        """Return the parameters of a model, after checking a new task against them."""
        params = self.Params.model_validate_json(json.dumps(model.fit_info["params"]))
        self.check([task.summary()], params)
        return params
