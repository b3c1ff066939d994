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

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.ensemble.contenders import CONTENDERS, Contender
from algorithms.ensemble.held_out import HeldOutRows
from algorithms.ensemble.model import EnsembleModel
from algorithms.ensemble.params import EnsembleParams
from algorithms.ensemble.race import TOO_SLOW, Clock, Race
from algorithms.ensemble.report import describe_contenders, describe_expected
from algorithms.ensemble.stack import ClassStack, Stack, stack_of
from algorithms.interface.algorithm import Algorithm, Baseline
from algorithms.interface.errors import AlgorithmError, InvalidData
from algorithms.interface.needs import Needs
from algorithms.interface.tasks import TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.trace import Trace
from algorithms.interface.work import MemoryEstimate, WorkEstimate, without_fold
from algorithms.numerics.threads import limit_blas_threads
from algorithms.splits.splits import explain_nothing_held_out
from algorithms.wrappers.calibration.conformal import ConformalScores, adaptive_scores

Array = NDArray[np.float64]


class Ensemble(Algorithm[EnsembleParams, EnsembleModel]):
    """A weighted mean of the models of several methods."""

    name = "ensemble"
    title = "Weighted ensemble"
    summary = (
        "Fits constants, linear methods, Gaussian processes, trees and mixed models, compares them "
        "on held-out rows of the same folds, and predicts by a weighted mean of the best. For "
        "numbers or classes, if predictions matter more than one explanation."
    )
    reference = "van der Laan, Polley and Hubbard (2007), https://doi.org/10.2202/1544-6115.1309"
    needs = Needs(same_features=True, target="any", weights=True)
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
        del params
        largest = max(
            (one.algorithm.memory(summaries, one.params) for one in _suitable(summaries)[0]),
            key=lambda needed: needed.n_bytes,
        )
        return replace(largest, n_bytes=2.0 * largest.n_bytes)

    def work(self, summaries: Sequence[TaskSummary], params: EnsembleParams) -> WorkEstimate:
        """Return the work of the fits of all contenders with all rows, and without each fold."""
        fold = without_fold(summaries, params.n_folds)
        works = [
            one.algorithm.work(summaries, one.params)
            + one.algorithm.work(fold, one.params).times(params.n_folds)
            for one in _suitable(summaries)[0]
        ]
        return sum(works[1:], works[0])

    def fit(
        self, tasks: TaskSet, params: EnsembleParams, *, trace: Trace, rng: np.random.Generator
    ) -> EnsembleModel:
        """Return the ensemble of the contenders with the smallest error on held-out rows."""
        self.check(tasks.summaries(), params)
        check_magnitudes(tasks)
        clock, seed = Clock(params.budget_s), int(rng.integers(2**31))
        ordered = tasks.by_name()
        with limit_blas_threads(0):
            rows = HeldOutRows.of(ordered, n_folds=params.n_folds, seed=seed)
            if not rows.folds:
                detail = f"{explain_nothing_held_out(tasks)}; use one of the methods instead"
                raise InvalidData(detail, task=tasks.names[0])
            contenders, unsuitable = _suitable(ordered.summaries())
            race = Race(contenders, rows, clock, trace, seed)
            race.run()
            stack = stack_of(rows, race.outputs)
            w = stack.learn_weights(stack.scored, is_single=params.single, trace=trace, seed=seed)
            predictions = stack.cross_fit(is_single=params.single, trace=trace, seed=seed)
            left_out = {**unsuitable, **race.left_out}
            return self._model(
                tasks, params, race, stack, w=w, predictions=predictions, left_out=left_out
            )

    def _model(
        self,
        tasks: TaskSet,
        params: EnsembleParams,
        race: Race,
        stack: Stack,
        *,
        w: Array,
        predictions: Array,
        left_out: Mapping[str, str],
    ) -> EnsembleModel:
        """Return the model of the members with a weight, its tasks in the order of ``tasks``."""
        names = list(race.outputs)
        by_label = {one.label: one for one in race.contenders}
        losses = stack.task_losses(stack.scored).mean(axis=0)
        chosen = [a for a in np.argsort(-w, kind="stable").tolist() if w[a] > 0]
        shared = [a for a in range(len(names)) if _has_common_part(by_label[names[a]])]
        if shared and not set(shared) & set(chosen):
            chosen.append(min(shared, key=lambda a: float(losses[a])))
        members = tuple(race.model(by_label[names[a]]) for a in chosen)
        maps = np.zeros((len(chosen), 0, 2))
        labels: tuple[Any, ...] = ()
        if isinstance(stack, ClassStack):
            maps = stack.maps(stack.scored)[chosen]
            labels = tuple(tuple(task.class_labels().tolist()) for task in tasks)
        weights = dict(zip(names, w.tolist(), strict=True))
        every = CONTENDERS["classes" if labels else "numbers"]
        return EnsembleModel(
            self.name,
            tasks.names,
            labels,
            members,
            w[chosen],
            maps,
            _conformal(stack, predictions, tasks),
            fit_info={
                "params": params.model_dump(mode="json"),
                "expected": describe_expected(stack, predictions),
                "contenders": describe_contenders(every, stack, names, weights, left_out),
            },
            warnings=_budget_warnings(race),
            seconds=race.seconds,
        )

    def has_common_part(self, params: EnsembleParams) -> bool:
        """Return True: members without a common part are left out for tasks without rows."""
        del params
        return True


def _suitable(summaries: Sequence[TaskSummary]) -> tuple[list[Contender], dict[str, str]]:
    """Return the contenders that suit tasks, and why others do not, by label."""
    suitable, left_out = [], {}
    for contender in CONTENDERS["classes" if summaries[0].target == "classes" else "numbers"]:
        try:
            contender.algorithm.check(summaries, contender.params)
        except AlgorithmError as error:
            left_out[contender.label] = error.message
        else:
            suitable.append(contender)
    return suitable, left_out


def _has_common_part(contender: Contender) -> bool:
    return bool(contender.algorithm.has_common_part(contender.params))


def _conformal(stack: Stack, predictions: Array, tasks: TaskSet) -> ConformalScores:
    """Return residuals, or adaptive scores of the classes, of the rows that were held out."""
    rows, chosen = stack.rows, stack.scored
    position = np.array([tasks.names.index(name) for name in rows.tasks.names])
    owner = position[rows.owner[chosen]]
    y, found = rows.y[chosen], predictions[chosen]
    if rows.labels:
        scores = adaptive_scores(found, np.zeros(len(y)))[np.arange(len(y)), y]
    else:
        scores = np.abs(found[:, 0] - y)
    return ConformalScores(scores, np.zeros_like(owner), owner, len(tasks), not rows.labels)


def _budget_warnings(race: Race) -> tuple[str, ...]:
    """Return a warning that names the contenders for which the budget was too small."""
    names = [label for label, reason in race.left_out.items() if reason.startswith(TOO_SLOW)]
    if not names:
        return ()
    listed = ", ".join(names)
    return (f"the time budget left no room for {listed}; a larger budget_s may improve the model",)
