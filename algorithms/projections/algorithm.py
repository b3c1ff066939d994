"""What MTDA and the algorithms it is compared with have in common around their mathematics."""

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
    """A discriminant projection of each task, and a classifier behind it."""

    needs = Needs(same_features=False, target="classes")
    monotone = "up"
    Model = ProjectionClassifier

    @abstractmethod
    def _fit(
        self, tasks: TaskSet, params: P, *, trace: Trace, rng: np.random.Generator
    ) -> ProjectionClassifier:
        """Return the model of tasks that fit."""

    def check(self, summaries: Sequence[TaskSummary], params: P) -> None:
        """Raise InvalidData where these tasks do not fit."""
        super().check(summaries, params)
        check_classes(summaries, algorithm=self.name)

    def fit(
        self, tasks: TaskSet, params: P, *, trace: Trace, rng: np.random.Generator
    ) -> ProjectionClassifier:
        """Return the projection of each task, the parameters as given or chosen on these rows."""
        self.check(tasks.summaries(), params)
        # no matrix is larger than the span of a task's rows
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
        """Return the parameters, given or chosen by cross-validation, and its results."""
        if params.selection == "given":
            return params, {"selection": "given"}
        # fewer dimensions before more, and stronger shrinkage before weaker
        tried = grid_candidates(params, prefer_large=("gamma",))
        selection = select_params(
            self, tasks, tried, n_folds=params.n_folds, trace=trace, rng=rng, loop=loop
        )
        fit_info = {"cv_error": list(selection.losses), **selection.fit_info}
        return selection.params, {"selection": "cv", **fit_info}

    def end_warnings(self, asked: P, chosen: P, limits: Mapping[str, float]) -> tuple[str, ...]:
        """Return a warning for each parameter that was chosen at an end of its grid.

        Parameters
        ----------
        limits
            Largest values that make a difference.
        """
        if asked.selection == "given":
            return ()
        values = {name: getattr(chosen, name) for name in asked.GRIDS}
        return end_warnings(asked, values, limits=limits)

    def params_for(self, model: ProjectionClassifier, task: Task) -> P:
        """Return the parameters a model was learned with, for a new task that can join it."""
        params = self.Params.model_validate_json(json.dumps(model.fit_info["params"]))
        self.check([task.summary()], params)
        return params
