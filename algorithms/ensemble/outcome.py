"""The outcome of a race: the weights of its contenders, and the model of the members."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from algorithms.ensemble.contenders import Contender, contenders_for
from algorithms.ensemble.held_out import HeldOutRows
from algorithms.ensemble.model import EnsembleModel
from algorithms.ensemble.params import EnsembleParams
from algorithms.ensemble.race import TOO_SLOW, Clock, Race
from algorithms.ensemble.report import describe_contenders, describe_expected
from algorithms.ensemble.stack import ClassStack, Stack
from algorithms.evaluation.comparison.no_verdict import ENDED
from algorithms.interface.errors import InvalidData
from algorithms.interface.races import RACE
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.threads import limit_blas_threads
from algorithms.splits.splits import explain_nothing_held_out
from algorithms.wrappers.calibration.conformal import (
    ConformalScores,
    adaptive_scores,
    lowest_target,
)

#: Name of the algorithm.
NAME: Final = RACE


@dataclass(frozen=True, eq=False)
class Outcome:
    """A race that has ended.

    Parameters
    ----------
    stack
        Outputs of the contenders that finished.
    finished
        These contenders.
    weights, fold_weights : (A,) and (K, A)
        Learned from all held-out rows, and without those of each fold.
    predictions : (n, C)
        For held-out rows, by the weights without their fold.
    """

    race: Race
    stack: Stack
    finished: Sequence[Contender]
    weights: Array
    fold_weights: Array
    predictions: Array

    def chosen(self) -> list[int]:
        """Return the positions of the members, the heaviest first.

        One with weight 0 answers for tasks that were not trained where no other can.
        """
        w, losses = self.weights, self.stack.task_losses(self.stack.scored).mean(axis=0)
        chosen = [a for a in np.argsort(-w, kind="stable").tolist() if w[a] > 0]
        shared = [a for a, one in enumerate(self.finished) if one.has_common_part]
        if shared and not set(shared) & set(chosen):
            chosen.append(min(shared, key=lambda a: float(losses[a])))
        return chosen

    def maps(self) -> Array:
        """Return the maps (M, C, 2) of the members, (M, 0, 2) for numbers."""
        chosen = self.chosen()
        if isinstance(self.stack, ClassStack):
            return self.stack.maps(self.stack.scored)[chosen]
        return np.zeros((len(chosen), 0, 2))

    def model(
        self, tasks: TaskSet, params: EnsembleParams, *, left_out: Mapping[str, str]
    ) -> EnsembleModel:
        """Return the model of the members, its tasks in the order of ``tasks``.

        Parameters
        ----------
        left_out
            Why methods did not take part, by label.
        """
        chosen, race = self.chosen(), self.race
        names = [one.label for one in self.finished]
        reasons = {**left_out, **race.left_out}
        every = [*race.contenders, *contenders_for(tasks.summaries())]
        weights = dict(zip(names, self.weights.tolist(), strict=True))
        return EnsembleModel(
            NAME,
            tasks.names,
            class_labels_of(tasks),
            tuple(race.model(self.finished[a]) for a in chosen),
            self.weights[chosen],
            self.maps(),
            _conformal(self.stack, self.predictions, tasks),
            fit_info={
                "params": params.model_dump(mode="json"),
                "expected": describe_expected(self.stack, self.predictions),
                "contenders": describe_contenders(every, self.stack, names, weights, reasons),
            },
            warnings=_left_out_warnings(race),
            seconds=race.seconds,
        )


def run_race(
    contenders: Sequence[Contender],
    rows: HeldOutRows,
    params: EnsembleParams,
    *,
    trace: Trace,
    seed: int,
    may_be_chosen: Callable[[Contender], bool] = lambda _: True,
    on_scored: Callable[[Race, Contender], None] | None = None,
) -> Outcome:
    """Return the outcome of a race of contenders.

    Parameters
    ----------
    may_be_chosen
        Whether one method can be the model, if the model is one method.
    on_scored
        Called with each contender that has been fitted without every fold.

    Raises
    ------
    InvalidData
        No row is held out, or no contender can be fitted.
    """
    if not rows.folds:
        detail = f"{explain_nothing_held_out(rows.tasks)}; use one of the methods instead"
        raise InvalidData(detail, task=rows.tasks.names[0])
    with limit_blas_threads(0):
        clock = Clock(params.budget_s, trace.is_ending)
        race = Race(contenders, rows, clock, trace, seed, on_scored)
        race.run()
        finished = [one for one in contenders if one.label in race.outputs]
        if params.single:
            finished = [one for one in finished if may_be_chosen(one)] or finished
        stack = race.stack([one.label for one in finished])
        w = stack.learn_weights(stack.scored, is_single=params.single, trace=trace, seed=seed)
        fold_weights = stack.fold_weights(is_single=params.single, trace=trace, seed=seed)
        return Outcome(race, stack, finished, w, fold_weights, stack.cross_fit(fold_weights))


def class_labels_of(tasks: TaskSet) -> tuple[Any, ...]:
    """Return the labels of each task; none for numbers."""
    if tasks.tasks[0].target != "classes":
        return ()
    return tuple(tuple(task.class_labels().tolist()) for task in tasks)


def _conformal(stack: Stack, predictions: Array, tasks: TaskSet) -> ConformalScores:
    """Return residuals, or adaptive scores of the classes, of the rows that were held out."""
    rows, chosen = stack.rows, stack.scored
    position = np.array([tasks.names.index(name) for name in rows.tasks.names])
    owner = position[rows.owner[chosen]]
    y, found = rows.y[chosen], predictions[chosen]
    folds, n_tasks = np.zeros_like(owner), len(tasks)
    if rows.labels:
        scores = adaptive_scores(found, np.zeros(len(y)))[np.arange(len(y)), y]
        return ConformalScores(scores, folds, owner, n_tasks, has_scale=False)
    scores, lowest = np.abs(found[:, 0] - y), lowest_target(tasks)
    return ConformalScores(scores, folds, owner, n_tasks, has_scale=True, lowest=lowest)


def _left_out_warnings(race: Race) -> tuple[str, ...]:
    """Return a warning that names the contenders for which there was no time, if any."""
    warnings = {
        TOO_SLOW: "the time budget left no room for {}; a larger budget_s may improve the model",
        ENDED: "the race was ended before {} could be scored; a race to its end may improve the "
        "model",
    }
    names = {
        why: [label for label, reason in race.left_out.items() if reason == why] for why in warnings
    }
    return tuple(text.format(", ".join(names[why])) for why, text in warnings.items() if names[why])
