"""Weighted ensemble of the methods that win a race.

How a fit runs: the contenders (:mod:`.contenders`) that suit the tasks are fitted to all rows, and
to the rows outside of each fold (:mod:`.race`); their outputs for held-out rows say what they are
worth, alone and mixed (:mod:`.stack`), which gives their weights (:mod:`.weights`). The models of
all rows of the few contenders with a weight are the ensemble. Classes are mixed on the scale of the
logarithms of probabilities, which Platt's maps give.

The expected score is cross-fitted: weights are learned again without each fold, whose rows are then
scored. Cost: that of K + 1 fits of each contender, which all run in one thread.

References: Breiman, *Stacked regressions*, Machine Learning 1996, doi:10.1007/BF00117832; van der
Laan, Polley, Hubbard, *Super learner*, 2007, doi:10.2202/1544-6115.1309; Rubin, *The Bayesian
bootstrap*, 1981, doi:10.1214/aos/1176345338
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from algorithms.ensemble.contenders import ALGORITHMS, Contender, contenders_for
from algorithms.ensemble.held_out import HeldOutRows, spread_rows
from algorithms.ensemble.model import EnsembleModel
from algorithms.ensemble.outcome import NAME, class_labels_of, run_race
from algorithms.ensemble.params import EnsembleParams
from algorithms.ensemble.race import FIT_SHARE, MAX_OVERRUN
from algorithms.interface.algorithm import Algorithm, Baseline
from algorithms.interface.errors import AlgorithmError, Cancelled, InvalidData
from algorithms.interface.model import Model
from algorithms.interface.needs import Needs
from algorithms.interface.tasks import Task, TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.trace import LoopState, Trace
from algorithms.interface.work import MemoryEstimate, WorkEstimate, without_fold
from algorithms.wrappers.by_parts.model import PartsModel
from algorithms.wrappers.calibration.conformal import lowest_target
from algorithms.wrappers.dense import DenseModel


class Ensemble(Algorithm[EnsembleParams, EnsembleModel]):
    """A weighted mean of the models of several methods."""

    name = NAME
    title = "Weighted ensemble"
    summary = (
        "Fits constants, linear methods, Gaussian processes, trees and mixed models, compares them "
        "on held-out rows of the same folds, and predicts by a weighted mean of the best. For "
        "numbers or classes, if predictions matter more than one explanation."
    )
    reference = "van der Laan, Polley and Hubbard (2007), https://doi.org/10.2202/1544-6115.1309"
    needs = Needs(same_features=False, target="any", sparse=True, weights=True)
    baselines = (
        Baseline("ridge", "single_task", values={"form": "task"}),
        Baseline("ridge", "pooled", values={"form": "pooled"}),
        Baseline("mean-regularised", "multi_task"),
    )
    is_combined = True
    Params = EnsembleParams
    Model = EnsembleModel

    def memory(self, summaries: Sequence[TaskSummary], params: EnsembleParams) -> MemoryEstimate:
        """Return the memory of the contender that needs the most, twice: for its model, too."""
        largest = max(
            (one.algorithm.memory(summaries, one.params) for one in _tried(summaries, params)),
            key=lambda needed: needed.n_bytes,
        )
        return replace(largest, n_bytes=2.0 * largest.n_bytes)

    def work(self, summaries: Sequence[TaskSummary], params: EnsembleParams) -> WorkEstimate:
        """Return the work of the fits of all contenders with all rows, and without each fold.

        That is at most the budget, or the work of the first contender, which has no limit.
        """
        fold = without_fold(summaries, params.n_folds)
        works = [
            one.algorithm.work(summaries, one.params)
            + one.algorithm.work(fold, one.params).times(params.n_folds)
            for one in _tried(summaries, params)
        ]
        total = sum(works[1:], works[0])
        limit_s = max(params.budget_s, works[0].seconds)
        return total.times(min(1.0, limit_s / total.seconds))

    def fit(
        self, tasks: TaskSet, params: EnsembleParams, *, trace: Trace, rng: np.random.Generator
    ) -> EnsembleModel:
        """Return the ensemble of the contenders with the smallest error on held-out rows."""
        self.check(tasks.summaries(), params)
        check_magnitudes(tasks)
        seed = int(rng.integers(2**31))
        ordered = tasks.by_name()
        rows = HeldOutRows.of(ordered, spread_rows(ordered, n_folds=params.n_folds, seed=seed))
        contenders, unsuitable = _suitable(ordered.summaries())
        found = run_race(contenders, rows, params, trace=trace, seed=seed)
        return found.model(tasks, params, left_out=unsuitable)

    def adapt_task(self, model: EnsembleModel, task: Task, *, trace: Trace) -> EnsembleModel:
        """Return the model with a new task, which the members learn that can; weights stay.

        A warning names the others. Intervals and sets of the task are those of rows of other tasks.
        """
        labels = class_labels_of(TaskSet((task,)))
        if labels and not set(labels[0]) <= set(model.every_label):
            raise InvalidData(
                f"task '{task.name}' has classes that the model does not know; train a new model "
                "with all tasks",
                task=task.name,
            )
        members = _adapted(model.members, task, trace)
        held_out = model.conformal
        if held_out is not None:
            lowest = held_out.lowest if labels else min(held_out.lowest, lowest_target([task]))
            held_out = replace(held_out, n_tasks=len(model.tasks) + 1, lowest=lowest)
        return replace(
            model,
            tasks=(*model.tasks, task.name),
            labels=(*model.labels, *labels),
            members=members,
            conformal=held_out,
            warnings=(*model.warnings, *_describe_missing(model, members, task.name)),
        )

    def has_common_part(self, params: EnsembleParams) -> bool:
        """Return True: members without a common part are left out for tasks without rows."""
        del params
        return True


class ChosenEnsemble(Ensemble):
    """The ensemble with the members and weights of a race, fitted again, as to a part of the rows.

    A member that cannot be fitted to a part is left out there.

    Parameters
    ----------
    model
        The model of the race.
    members
        Its members.
    """

    def __init__(self, model: EnsembleModel, members: Sequence[Contender]) -> None:
        self._model = model
        self._members = members

    def check(self, summaries: Sequence[TaskSummary], params: EnsembleParams) -> None:
        """Raise InvalidData if the first member cannot be fitted."""
        del params
        self._members[0].algorithm.check(summaries, self._members[0].params)

    def fit(
        self, tasks: TaskSet, params: EnsembleParams, *, trace: Trace, rng: np.random.Generator
    ) -> EnsembleModel:
        """Return the ensemble of the members with their weights."""
        del params
        ordered, seed = tasks.by_name(), int(rng.integers(2**31))
        fitted, failed = {}, None
        for i in trace.parts(range(len(self._members))):
            try:
                fitted[i] = self._members[i].fit(ordered, trace=trace.nested(), seed=seed)
            except Cancelled:
                raise
            except AlgorithmError as error:
                failed = error
        weights = self._model.weights[list(fitted)]
        if not weights.any():
            raise failed or InvalidData("no member of the ensemble can be fitted")
        labels = class_labels_of(tasks)
        every = np.array(self._model.every_label)
        is_left = np.isin(every, np.concatenate(labels)) if labels else np.zeros(0, dtype=bool)
        return replace(
            self._model,
            tasks=tasks.names,
            labels=labels,
            members=tuple(fitted.values()),
            weights=weights / weights.sum(),
            maps=self._model.maps[list(fitted)][:, is_left],
            conformal=None,
        )


def _describe_missing(model: EnsembleModel, members: Sequence[Model], task: str) -> tuple[str, ...]:
    """Return a warning that names the members that could not learn a task."""
    missing = [i for i, member in enumerate(members) if not member.has_task(task)]
    if not missing:
        return ()
    names = ", ".join(dict.fromkeys(members[i].algorithm for i in missing))
    share = float(model.weights[missing].sum())
    warning = (
        f"task '{task}' is predicted without {names} ({share:.0%} of the weight), which cannot "
        "learn a task that is added; a new model of all tasks can have it"
    )
    return (warning,)


def _adapting(member: Model) -> Algorithm[Any, Any] | None:
    """Return the algorithm of a member that can learn a further task; None if it cannot."""
    algorithm = ALGORITHMS.get(member.algorithm)
    is_whole = not isinstance(member, PartsModel | DenseModel)
    can_adapt = algorithm is not None and is_whole and algorithm.supports_adaptation()
    return algorithm if can_adapt else None


def _adapted(members: Sequence[Model], task: Task, trace: Trace) -> tuple[Model, ...]:
    """Return the members, with a new task those that can learn it.

    Raises
    ------
    InvalidData
        No member can be adapted.
    """
    adapted: dict[int, Model] = {}
    algorithms = [_adapting(member) for member in members]
    if all(algorithm is None for algorithm in algorithms):
        raise InvalidData(
            f"{members[0].algorithm}, a member of the ensemble, cannot be adapted to a new task "
            f"such as '{task.name}', nor can another; train a new model with all tasks",
            task=task.name,
        )

    def adapt(i: int) -> Model:
        algorithm = algorithms[i]
        if algorithm is None:
            return members[i]
        model: Model = algorithm.adapt(members[i], task, trace=trace.nested())
        return model

    def step(state: LoopState) -> LoopState:
        i = len(members) - round(state.residual)
        adapted[i] = adapt(i)
        return replace(state, residual=state.residual - 1.0)

    n = len(members)
    start = LoopState(objective=0.0, residual=float(n))
    trace.run(f"members, task '{task.name}'", step, start, max_iter=n, tolerance=0.0)
    # an earlier attempt had the first ones
    return tuple(adapted[i] if i in adapted else adapt(i) for i in range(n))


def _tried(summaries: Sequence[TaskSummary], params: EnsembleParams) -> list[Contender]:
    """Return the contenders that a race tries: the first, and those with time for a fit."""
    suitable, _ = _suitable(summaries)
    limit_s = MAX_OVERRUN * FIT_SHARE * params.budget_s
    return suitable[:1] + [
        one for one in suitable[1:] if one.algorithm.work(summaries, one.params).seconds <= limit_s
    ]


def _suitable(summaries: Sequence[TaskSummary]) -> tuple[list[Contender], dict[str, str]]:
    """Return the contenders that suit tasks, and why others do not, by label."""
    suitable, left_out = [], {}
    for contender in contenders_for(summaries):
        try:
            contender.algorithm.check(summaries, contender.params)
        except AlgorithmError as error:
            left_out[contender.label] = error.message
        else:
            suitable.append(contender)
    return suitable, left_out
