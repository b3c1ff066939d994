"""The base class of MTDA and its baselines."""

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from algorithms.evaluation import grid_candidates, select_params
from algorithms.families.projections.model import ProjectionClassifier
from algorithms.families.projections.params import ProjectionParams
from algorithms.families.projections.parts import TaskProjection, build_part
from algorithms.families.projections.scatters import Scatters, estimate_scatters
from algorithms.families.projections.work import estimate_projection
from algorithms.interface.algorithm import Algorithm, PreparedFold
from algorithms.interface.needs import Needs, check_classes
from algorithms.interface.params import end_warnings, losses_by_value
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.work import (
    VALUE_BYTES,
    MemoryEstimate,
    WorkEstimate,
    rows_bytes,
    task_bytes,
)
from algorithms.numerics.arrays import Array
from algorithms.numerics.threads import limit_blas_threads

P = TypeVar("P", bound=ProjectionParams)
#: Return the directions (r, k) of each task for a candidate, in coordinates of its span.
Directions = Callable[[P], Sequence[Array]]

#: Copies of the rows of one task at the peak of their decomposition.
SVD_COPIES = 4


class ProjectionAlgorithm(Algorithm[P, ProjectionClassifier]):
    """Base class: a discriminant projection of each task, with a classifier."""

    needs = Needs(same_features=False, target="classes", weights=True)
    monotone = "up"
    Model = ProjectionClassifier
    #: Eigendecompositions of each task in a fit, as counted in benchmarks.
    n_eigen: ClassVar[float] = 1.0

    @abstractmethod
    def candidate_directions(
        self, tasks: Sequence[Task], scatters: Sequence[Scatters]
    ) -> Directions[P]:
        """Return a function for the directions of candidates, which computes common parts once."""

    def check(self, summaries: Sequence[TaskSummary], params: P) -> None:
        """Raise InvalidData if the tasks do not meet the requirements."""
        super().check(summaries, params)
        check_classes(summaries, algorithm=self.name)

    def memory(self, summaries: Sequence[TaskSummary], params: P) -> MemoryEstimate:
        """Return the memory of rows, standardised rows, and bases of their spans."""
        del params
        bases = sum(
            min(summary.n_samples, summary.n_features) * summary.n_features for summary in summaries
        )
        largest = max(task_bytes(summary) for summary in summaries)
        return MemoryEstimate(
            2 * rows_bytes(summaries) + VALUE_BYTES * bases + SVD_COPIES * largest,
            f"the rows of {len(summaries):,} tasks, and bases of their spans",
            "use fewer rows, columns or tasks",
        )

    def work(self, summaries: Sequence[TaskSummary], params: P) -> WorkEstimate:
        """Return the work of the decompositions of all tasks, and of the selection."""
        return estimate_projection(summaries, params, n_eigen=self.n_eigen)

    @contextmanager
    def checked(self, tasks: TaskSet, params: P) -> Iterator[None]:
        """Check the tasks, then compute small problems in one thread."""
        self.check(tasks.summaries(), params)
        # no matrix is larger than the rank of a task's rows
        with limit_blas_threads(max(min(task.X.shape) for task in tasks)):
            yield

    def prepare_fold(
        self, train: TaskSet, test: TaskSet, params: P, *, rng: np.random.Generator
    ) -> PreparedFold[P, ProjectionClassifier]:
        """Return a fold in coordinates of the spans of the training rows.

        There are fewer coordinates than rows, and distances are the same up to a part outside the
        span that is common to all references.
        """
        del rng
        self.check(train.summaries(), params)
        order = max(min(task.X.shape) for task in train)
        with limit_blas_threads(order):
            full = {
                task.name: estimate_scatters(task, standardise=params.standardise) for task in train
            }
            inside = [scatters.in_span() for scatters in full.values()]
            held_out = [
                replace(task, X=full[task.name].coordinates(task.X), feature_names=None)
                for task in test
            ]
            solve = self.candidate_directions(train.tasks, list(full.values()))

        def fit(candidate: P, trace: Trace) -> ProjectionClassifier:
            del trace
            with limit_blas_threads(order):
                parts = tuple(
                    _part_in_span(task, Y, candidate)
                    for task, Y in zip(inside, solve(candidate), strict=True)
                )
            return ProjectionClassifier(self.name, train.names, parts, None, {})

        return PreparedFold(fit, TaskSet(tuple(held_out)))

    def choose(
        self,
        tasks: TaskSet,
        params: P,
        *,
        trace: Trace,
        rng: np.random.Generator,
        loop: str = "selection",
    ) -> tuple[P, dict[str, Any]]:
        """Return the given or the selected parameters, and the results of the selection."""
        if params.selection == "given":
            return params, {"selection": "given"}
        # prefer few dimensions and strong shrinkage
        candidates = grid_candidates(params, prefer_large=("gamma",))
        selection = select_params(
            self, tasks, candidates, n_folds=params.n_folds, trace=trace, rng=rng, loop=loop
        )
        fit_info = {"cv_error": list(selection.losses), **selection.fit_info}
        return selection.params, {"selection": "cv", **fit_info}

    def end_warnings(
        self,
        requested: P,
        chosen: P,
        limits: Mapping[str, float],
        fit_info: Mapping[str, Any],
    ) -> tuple[str, ...]:
        """Return a warning for each parameter that was selected at an end of its grid.

        Parameters
        ----------
        limits
            Largest effective value of each parameter for which it is below the parameter's bound:
            for example the rank of the rows, for a dimension.
        fit_info
            Results of the selection.
        """
        if requested.selection == "given":
            return ()
        values = {name: getattr(chosen, name) for name in requested.GRIDS}
        candidates = grid_candidates(requested, prefer_large=("gamma",))
        losses = losses_by_value(candidates, fit_info["cv_error"], requested.GRIDS)
        return end_warnings(requested, values, limits=limits, losses=losses)

    def params_for(self, model: ProjectionClassifier, task: Task) -> P:
        """Return the parameters of a model, after checking a new task against them."""
        params = self.Params.model_validate_json(json.dumps(model.fit_info["params"]))
        self.check([task.summary()], params)
        return params


def _part_in_span(task: Scatters, Y: Array, params: ProjectionParams) -> TaskProjection:
    """Return the part of a task; without directions (r, 0) all rows are projected to 0."""
    U = Y if Y.size else np.zeros((task.V.shape[0], 1))
    return build_part(task, U, classifier=params.classifier)
