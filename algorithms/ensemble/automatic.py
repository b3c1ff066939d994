"""The automatic choice: a race, the model of its winners, and the report of what it found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from algorithms.ensemble.algorithm import ChosenEnsemble
from algorithms.ensemble.contenders import Algo, Contender
from algorithms.ensemble.held_out import HeldOutRows, PreparedRows, RowOptions, held_out_by
from algorithms.ensemble.mixtures import MIXTURE, Mixtures, learning_curve
from algorithms.ensemble.model import EnsembleModel
from algorithms.ensemble.outcome import Outcome, run_race
from algorithms.ensemble.params import EnsembleParams
from algorithms.ensemble.race import Race
from algorithms.ensemble.report import metric_of, scores_by_task
from algorithms.ensemble.scores import Scorer
from algorithms.evaluation.choice.alignment import Alignment
from algorithms.evaluation.choice.automatic import AutomaticOptions, report_choice
from algorithms.evaluation.choice.entries import Entry, Side, kind_of
from algorithms.evaluation.scores.metrics import Metric
from algorithms.evaluation.scores.predictions import Predictions
from algorithms.evaluation.selection.left_out_tasks import score_left_out_tasks
from algorithms.evaluation.selection.validation import (
    Scores,
    mean_known,
    mean_score,
    score_per_split,
)
from algorithms.gp.alone import alignment_of
from algorithms.interface.errors import AlgorithmError, Cancelled
from algorithms.interface.model import Model
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.interface.units import units_of
from algorithms.splits.requirements import min_train_rows
from algorithms.splits.tied_rows import describe_rows
from algorithms.wrappers.by_parts.algorithm import groups_of_columns


@dataclass(frozen=True, eq=False)
class Choice:
    """An automatic choice.

    Parameters
    ----------
    model
        The model, for raw rows.
    algorithm
        Its algorithm, with the weights of the race.
    values
        The parameters of the algorithm.
    report
        The report, as JSON, without the options of the job.
    dropped
        Methods that failed, or that the budget did not allow.
    predictions
        A sample of the predictions for held-out rows.
    """

    model: Model
    algorithm: Algo
    values: dict[str, Any]
    report: dict[str, Any]
    dropped: list[dict[str, str]]
    predictions: Predictions


@dataclass(frozen=True, eq=False)
class AutomaticChoice:
    """How a model is chosen.

    Parameters
    ----------
    contenders
        Those that suit the tasks.
    rows
        How training rows are prepared.
    wrap
        Returns an algorithm that takes rows as they are.
    leaves_tasks_out
        Whether methods are also scored on tasks that are left out, and one that is the model must
        answer for such tasks.
    """

    contenders: Sequence[Contender]
    options: AutomaticOptions
    metric: Metric
    rows: RowOptions
    wrap: Callable[[Algo], Algo]
    leaves_tasks_out: bool = False

    def fit(self, tasks: TaskSet, whole: PreparedRows, *, seed: int, trace: Trace) -> Choice:
        """Return the choice for some tasks.

        Parameters
        ----------
        whole
            Their rows, sorted by task and prepared.

        Raises
        ------
        InvalidData
            Every method failed, or no row can be held out.
        """
        rows = self._held_out(tasks.by_name(), whole, seed)
        params = EnsembleParams(single=self.options.single, budget_s=self.options.budget_s)
        scored = BestSoFar(Scorer(rows, self.options.splits, self.metric), self)
        outcome = run_race(
            self.contenders,
            rows,
            params,
            trace=trace,
            seed=seed,
            may_be_chosen=lambda one: not self.leaves_tasks_out or one.has_common_part,
            on_scored=scored,
        )
        return _Report(self, outcome, scored, tasks, params, seed, trace).choice()

    def _held_out(self, tasks: TaskSet, whole: PreparedRows, seed: int) -> HeldOutRows:
        """Return the rows that are held out, such that training parts suit as many as possible.

        Where no row could be held out if they had to suit all methods, those that need the most
        rows fail, and are left out.
        """
        summaries = whole.train.summaries()
        needed = {min_train_rows(one.algorithm, [one.params], summaries) for one in self.contenders}
        for min_rows in sorted(needed, reverse=True):
            held_out = held_out_by(self.options.splits, tasks, seed=seed, min_rows=min_rows)
            rows = HeldOutRows.of(tasks, held_out, self.rows, whole)
            if rows.folds:
                break
        return rows


@dataclass(eq=False)
class BestSoFar:
    """The best contender of each kind while a race runs, which its trace reports.

    It has estimates only: a verdict needs all contenders.

    Parameters
    ----------
    scores
        Of each contender, by its label.
    """

    scorer: Scorer
    how: AutomaticChoice
    scores: dict[str, Scores] = field(default_factory=dict)
    best: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __call__(self, race: Race, contender: Contender) -> None:
        """Score a contender on the held-out rows."""
        metric, average = self.how.metric, self.how.options.average
        predictions = race.stack([contender.label]).predictions(0)
        scores = self.scores[contender.label] = self.scorer.scores(predictions)
        value = mean_known(score_per_split(scores, metric.name, average))
        sign = -1.0 if metric.larger_is_better else 1.0
        kind = kind_of(contender.names())
        before = self.best.get(kind)
        if value is not None and (before is None or sign * value < sign * before["value"]):
            self.best[kind] = {**contender.names(), "kind": kind, "value": value}
        race.trace.found = {
            "race": {
                "metric": metric.name,
                "title": metric.title,
                "larger_is_better": metric.larger_is_better,
                "average": average,
                "n_methods": len(race.contenders),
                "n_scored": len(race.outputs),
                "n_left_out": len(race.left_out),
                "best": sorted(self.best.values(), key=lambda one: sign * float(one["value"])),
            }
        }


@dataclass(frozen=True, eq=False)
class _Report:
    """What a race has found, in the metric of the user."""

    how: AutomaticChoice
    outcome: Outcome
    scored: BestSoFar
    tasks: TaskSet
    params: EnsembleParams
    seed: int
    trace: Trace

    def choice(self) -> Choice:
        """Return the model and the report."""
        outcome, options, race = self.outcome, self.how.options, self.outcome.race
        scorer = self.scored.scorer
        ensemble = outcome.model(self.tasks, self.params, left_out={})
        members = [outcome.finished[a] for a in outcome.chosen()]
        model, algorithm, values = self._model(ensemble, members)
        label = members[0].names() if self.params.single else MIXTURE
        whole = Mixtures.of(
            race, race.outputs, scorer, is_single=self.params.single, seed=self.seed
        )
        entries, ratio = self._entries(whole), options.splits.ratio(self.tasks)
        report = report_choice(
            entries,
            whole.sides(Side(label=label, scores=scorer.scores(outcome.predictions))),
            self.how.metric,
            options,
            ratio=ratio,
            spans_tasks=units_of(self.tasks).spans_tasks,
            alignment=self._alignment(),
            n_rows={task.name: task.n_samples for task in self.tasks},
        )
        # of the model's loss too, by which it is watched
        report["estimate"]["by_task"].setdefault(
            metric_of(outcome.stack), scores_by_task(outcome.stack, outcome.predictions)
        )
        curve = None
        if options.curve:
            curve = learning_curve(whole, options, self.how.metric, ratio=ratio)
        report |= {
            "curve": curve,
            "budget_s": options.budget_s,
            "rows": describe_rows(self.tasks, options.splits),
            "few_rows": entries[0].scores.get("few_rows", []),
            "new_tasks": self._new_tasks(members),
        }
        sample = scorer.sample(outcome.predictions)
        return Choice(
            race.rows.whole().wrap(model), algorithm, values, report, _dropped(race), sample
        )

    def _alignment(self) -> Alignment | None:
        """Return the test whether functions point the same way, of the most tasks of columns."""
        tasks = max(groups_of_columns(self.outcome.race.rows.whole().train.tasks), key=len)
        rng, trace = np.random.default_rng(0), self.trace.nested()
        return alignment_of(TaskSet(tuple(tasks)), rng, trace=trace)

    def _model(
        self, ensemble: EnsembleModel, members: Sequence[Contender]
    ) -> tuple[Model, Algo, dict[str, Any]]:
        """Return the model, its algorithm and its parameters: those of one method if single."""
        if not self.params.single:
            values = self.params.model_dump(mode="json")
            return ensemble, ChosenEnsemble(ensemble, members), values
        only = members[0]
        return ensemble.members[0], only.algorithm, dict(only.values)

    def _new_tasks(self, members: Sequence[Contender]) -> dict[str, Any] | None:
        """Return the members that answer for tasks without rows, and their weight, if asked for."""
        if not self.how.leaves_tasks_out:
            return None
        weights = dict(zip(self.outcome.finished, self.outcome.weights.tolist(), strict=True))
        able = [one for one in members if one.has_common_part]
        weight = sum(weights[one] for one in able)
        return {"members": [one.names() for one in able], "weight": weight}

    def _entries(self, whole: Mixtures) -> list[Entry]:
        """Return all contenders that finished, with their scores."""
        race, stack = self.outcome.race, whole.stack
        losses = stack.task_losses(stack.scored).mean(axis=0)
        members = {one.label: a for a, one in enumerate(self.outcome.finished)}
        entries = []
        for a, one in enumerate(whole.contenders):
            i = members.get(one.label)
            entry = Entry(
                algorithm=one.algorithm.name,
                role=one.role,
                variant=one.variant,
                scores=self.scored.scores[one.label],
                params=one.params.model_dump(mode="json"),
                weight=0.0 if i is None else float(self.outcome.weights[i]),
                loss=float(losses[a]),
                n_chosen=0 if i is None else int((self.outcome.fold_weights[:, i] > 0).sum()),
                fit_s=race.fit_seconds[one.label],
                predict_s=race.predict_seconds.get(one.label, 0.0),  # of an earlier attempt
                total_s=race.seconds[one.label],
                left_out_tasks=self._left_out_tasks(one),
            )
            entries.append(entry)
        return entries

    def _left_out_tasks(self, contender: Contender) -> float | None:
        """Return the mean score of a contender on left-out tasks, if it is asked for and known.

        That takes about as long as its folds, and time must be left.
        """
        race, metric = self.outcome.race, self.how.metric
        needed = race.clock.spent() + race.seconds[contender.label]
        is_asked = self.how.leaves_tasks_out and contender.has_common_part
        if not is_asked or needed > race.clock.share(1.0):
            return None
        algorithm = self.how.wrap(contender.algorithm)

        def fit(train: TaskSet, rng: np.random.Generator) -> list[Model]:
            return [algorithm.fit(train, contender.params, trace=self.trace.nested(), rng=rng)]

        try:
            scores = score_left_out_tasks(
                fit, self.tasks, [metric], seed=self.seed, trace=self.trace.nested()
            )
        except Cancelled:
            raise
        except AlgorithmError:
            return None
        return mean_score(scores, metric.name, self.how.options.average)


def _dropped(race: Race) -> list[dict[str, str]]:
    """Return the contenders that failed, or took too long, with the reason."""
    by_label = {one.label: one for one in race.contenders}
    return [{**by_label[name].names(), "reason": why} for name, why in race.left_out.items()]
