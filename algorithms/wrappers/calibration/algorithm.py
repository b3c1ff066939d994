"""Any algorithm, trained with calibrated outputs."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.model import Model, apply
from algorithms.interface.needs import check_classes
from algorithms.interface.params import Params
from algorithms.interface.tasks import TargetKind, Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.weights import scaled_positive
from algorithms.interface.work import WorkEstimate, without_fold
from algorithms.numerics.arrays import Array, Indices
from algorithms.wrappers.calibration.conformal import (
    ConformalScores,
    adaptive_scores,
    lowest_target,
)
from algorithms.wrappers.calibration.cross_fitting import CrossFit, cross_fit
from algorithms.wrappers.calibration.left_out_tasks import fold_tasks, leave_tasks_out
from algorithms.wrappers.calibration.model import METHODS_FOR, CalibratedModel
from algorithms.wrappers.calibration.options import Calibration
from algorithms.wrappers.calibration.probabilities import ProbabilityMap, Scored, learn_maps
from algorithms.wrappers.calibration.quality import report_quality
from algorithms.wrappers.calibration.scores import class_scores
from algorithms.wrappers.calibration.thresholds import check_threshold, costs_of
from algorithms.wrappers.wrapped_algorithm import WrappedAlgorithm


class CalibratedAlgorithm(WrappedAlgorithm):
    """An algorithm whose fit also calibrates its outputs with held-out rows.

    The model equals the model of the algorithm alone, bit for bit, and has further methods.
    """

    def __init__(self, inner: Algorithm[Any, Any], options: Calibration) -> None:
        super().__init__(inner)
        self._options = options

    def methods_for(self, target: TargetKind) -> tuple[str, ...]:
        """Return the names of the methods of models for a task with the given kind of targets."""
        own = METHODS_FOR.get(target, ())
        return tuple(dict.fromkeys((*self._inner.methods_for(target), *own)))

    def check(self, summaries: Sequence[TaskSummary], params: Params) -> None:
        """Raise InvalidData or InvalidParams if the algorithm cannot be fitted and calibrated."""
        super().check(summaries, params)
        for task in summaries:
            if "predict" not in self._inner.methods_for(task.target):
                raise InvalidData(
                    f"models of {self.name} do not predict the targets of task '{task.name}', so "
                    "they cannot be calibrated; train without calibration",
                    task=task.name,
                )
        check_calibration(summaries, self._options)
        if self._options.leave_tasks_out:
            fold_tasks([task.name for task in summaries], n_folds=self._options.n_folds, seed=0)
            if not self.has_common_part(params):
                raise InvalidParams(
                    f"'leave_tasks_out' is true, but models of {self.name} with these parameters "
                    f"have no part in common to answer for tasks that are left out; leave it out"
                )

    def work(self, summaries: Sequence[TaskSummary], params: Params) -> WorkEstimate:
        """Return the expected work of the fits with all rows, and without each of the folds."""
        n_folds = self._options.n_folds
        fold_work = super().work(without_fold(summaries, n_folds), params)
        n_fits = n_folds
        if self._options.leave_tasks_out:
            n_fits += min(n_folds, len(summaries))
        return super().work(summaries, params) + fold_work.times(n_fits)

    def fit(
        self, tasks: TaskSet, params: Params, *, trace: Trace, rng: np.random.Generator
    ) -> CalibratedModel:
        """Return the model trained on the tasks, with its calibration."""
        n_folds = self._options.n_folds
        seed = int(deepcopy(rng).integers(2**31))
        fits = cross_fit(self._inner, tasks, params, n_folds=n_folds, trace=trace, rng=rng)
        if tasks.tasks[0].target == "numbers":
            model = CalibratedModel(fits.whole, fits.models, (), _residuals(fits, tasks), {})
        else:
            model = self._calibrate_classes(fits, tasks, seed=int(rng.integers(2**31)))
        if not self._options.leave_tasks_out:
            return model
        left_out = leave_tasks_out(
            self._inner, tasks, params, n_folds=n_folds, trace=trace, seed=seed
        )
        return replace(model, left_out=left_out)

    def _calibrate_classes(self, fits: CrossFit, tasks: TaskSet, *, seed: int) -> CalibratedModel:
        scored = _score(fits, tasks)
        has_fold = {name: fits.fold_of[name] >= 0 for name in scored}
        held_out = {name: scores.take(has_fold[name]) for name, scores in scored.items()}
        folds = {name: fits.fold_of[name][has_fold[name]] for name in scored}
        maps = learn_maps(held_out)
        order = fits.whole.tasks
        costs = costs_of(self._options, tasks)
        return CalibratedModel(
            fits.whole,
            fits.models,
            tuple(maps[task] for task in order),
            _adaptive_scores(held_out, folds, maps, order, seed=seed),
            report_quality(held_out, folds, costs),
            [costs[task].tolist() for task in order] if costs else (),
        )

    def fit_path(
        self, tasks: TaskSet, params: Sequence[Params], *, trace: Trace, rng: np.random.Generator
    ) -> list[CalibratedModel]:
        """Return one model for each of ``params``."""
        return [self.fit(tasks, candidate, trace=trace, rng=rng) for candidate in params]

    def adapt(self, model: Model, task: Task, *, trace: Trace | None = None) -> CalibratedModel:
        """Raise InvalidData: the rows of a new task would need a calibration of their own."""
        del model, trace
        raise cannot_adapt(task.name)


def check_calibration(summaries: Sequence[TaskSummary], options: Calibration) -> None:
    """Raise InvalidData or InvalidParams if no model of the tasks can be calibrated like this."""
    for task in summaries:
        if task.target == "none":
            raise InvalidData(
                f"task '{task.name}' has no targets, so its predictions cannot be calibrated; "
                "train without calibration",
                task=task.name,
            )
    if any(task.target == "classes" for task in summaries):
        check_classes(summaries, algorithm="calibration")
    check_threshold(options, summaries)


def cannot_adapt(task: str) -> InvalidData:
    """Return the error that a calibrated model cannot be adapted."""
    return InvalidData(
        f"task '{task}' cannot be added to a model with calibration, which would need rows of the "
        "task that the model was not fitted to; train a new model with all tasks, or adapt one "
        "without calibration",
        task=task,
    )


def _score(fits: CrossFit, tasks: TaskSet) -> dict[str, Scored]:
    """Return the scores of all rows by the model without their fold; NaN if all models have it."""
    scored = {}
    for task in tasks:
        classes = fits.whole.classes(task.name)
        assert task.y is not None  # checked
        codes = np.searchsorted(np.asarray(classes), task.y)
        n_columns = 1 if len(classes) == 2 else len(classes)
        scores = np.full((task.n_samples, n_columns), np.nan)
        for i, model in enumerate(fits.models):
            rows = np.flatnonzero(fits.fold_of[task.name] == i)
            if rows.size:
                scores[rows] = class_scores(model, task.take(rows).X, task=task.name)
        scored[task.name] = Scored(classes, scores, codes, scaled_positive(task.weights))
    return scored


def _residuals(fits: CrossFit, tasks: TaskSet) -> ConformalScores:
    """Return |y - prediction| of all rows that were held out."""
    parts: list[tuple[Array, Indices]] = []
    by_name = {task.name: task for task in tasks}
    for name in fits.whole.tasks:
        task, fold = by_name[name], fits.fold_of[name]
        assert task.y is not None  # checked
        residuals = np.full(task.n_samples, np.nan)
        for i, model in enumerate(fits.models):
            rows = np.flatnonzero(fold == i)
            if rows.size:
                predicted = apply(model, "predict", task.take(rows).X, task=name)
                residuals[rows] = np.abs(task.y[rows] - predicted)
        parts.append((residuals[fold >= 0], fold[fold >= 0]))
    return replace(_joined(parts, has_scale=True), lowest=lowest_target(tasks))


def _adaptive_scores(
    scored: Mapping[str, Scored],
    folds: Mapping[str, Indices],
    maps: Mapping[str, ProbabilityMap],
    order: Sequence[str],
    *,
    seed: int,
) -> ConformalScores:
    """Return the adaptive scores of the classes of all rows that were held out."""
    rng = np.random.default_rng(seed)
    parts = []
    for name in order:
        codes = scored[name].codes
        scores = adaptive_scores(maps[name].apply(scored[name].scores), rng.random(len(codes)))
        parts.append((scores[np.arange(len(codes)), codes], folds[name]))
    return _joined(parts, has_scale=False)


def _joined(parts: Sequence[tuple[Array, Indices]], *, has_scale: bool) -> ConformalScores:
    """Return the scores and folds of each task, in their order, as one."""
    owner = np.repeat(np.arange(len(parts)), [len(scores) for scores, _ in parts])
    scores, folds = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return ConformalScores(scores, folds, owner, len(parts), has_scale)


def calibrated(
    algorithm: Algorithm[Any, Any], options: Calibration | Mapping[str, Any] | None
) -> Algorithm[Any, Any]:
    """Return the algorithm with a calibration; the algorithm itself without options."""
    if options is None:
        return algorithm
    if not isinstance(options, Calibration):
        options = Calibration.model_validate(options, strict=False)
    return CalibratedAlgorithm(algorithm, options)
