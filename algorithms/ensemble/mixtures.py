"""Mixtures of the contenders of each side of a verdict, and the learning curve of both sides."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final, Self

import numpy as np

from algorithms.ensemble.contenders import Contender
from algorithms.ensemble.outcome import NAME
from algorithms.ensemble.race import Race
from algorithms.ensemble.scores import Scorer
from algorithms.ensemble.stack import Stack, stack_of
from algorithms.evaluation.choice.automatic import AutomaticOptions
from algorithms.evaluation.choice.entries import TRIVIAL_KIND, Side, Sides, kind_of
from algorithms.evaluation.choice.learning_curve import PartScores, report_curve
from algorithms.evaluation.comparison.no_verdict import APART, TOGETHER, no_curve, why_no_verdict
from algorithms.evaluation.scores.metrics import Metric
from algorithms.numerics.arrays import Array
from algorithms.splits.subsamples import N_PARTS

#: Label of a mixture in a report.
MIXTURE: Final = {"algorithm": NAME, "role": "multi_task", "variant": ""}
#: Time of the fits to parts of the training rows, relative to those to all.
_CURVE_COST: Final = sum(range(1, N_PARTS)) / N_PARTS


@dataclass(frozen=True, eq=False)
class Mixtures:
    """Contenders with their outputs for held-out rows, by models of equally many training rows.

    Parameters
    ----------
    is_single
        Whether a mixture is the best of its contenders.
    """

    race: Race
    stack: Stack
    contenders: list[Contender]
    scorer: Scorer
    is_single: bool
    seed: int

    @classmethod
    def of(
        cls,
        race: Race,
        outputs: Mapping[str, Array],
        scorer: Scorer,
        *,
        is_single: bool,
        seed: int,
    ) -> Self:
        """Return the mixtures of the contenders with outputs, by their labels."""
        contenders = [one for one in race.contenders if one.label in outputs]
        labels = [one.label for one in contenders]
        if outputs is race.outputs:
            stack = race.stack(labels)
        else:
            stack = stack_of(race.rows, [outputs[label] for label in labels])
        return cls(race, stack, contenders, scorer, is_single, seed)

    def sides(self, model: Side) -> Sides:
        """Return the mixture of each side, given that of the model."""
        return Sides(
            model=model,
            together=self.together(),
            apart=self.side(APART),
            multi_task=self.side(("multi_task",)),
            pooled=self.side(("pooled",)),
            trivial=self.side((TRIVIAL_KIND,), kind_of),
        )

    def together(self) -> Side | None:
        """Return the mixture of all, if some learn tasks together or pooled."""
        shares = any(one.role in TOGETHER for one in self.contenders)
        return self.side((*TOGETHER, *APART)) if shares else None

    def side(
        self,
        roles: Collection[str],
        role_of: Callable[[Mapping[str, Any]], str] = itemgetter("role"),
    ) -> Side | None:
        """Return the mixture of the contenders of some roles; None if there are none."""
        chosen = [a for a, one in enumerate(self.contenders) if role_of(one.names()) in roles]
        if not chosen:
            return None
        part, trace = self.stack.take(chosen), self.race.trace.nested()
        weights = part.fold_weights(is_single=self.is_single, trace=trace, seed=self.seed)
        role = next(iter(roles)) if len(roles) == 1 else MIXTURE["role"]
        label = {**MIXTURE, "role": role}
        if len(chosen) == 1:
            label = self.contenders[chosen[0]].names()
        return Side(label=label, scores=self.scorer.scores(part.cross_fit(weights)))


def learning_curve(
    whole: Mixtures, options: AutomaticOptions, metric: Metric, *, ratio: float
) -> dict[str, Any]:
    """Return the learning curve of the contenders that the budget allows, as JSON.

    Parameters
    ----------
    whole
        Of all training rows.
    """
    race, scorer = whole.race, whole.scorer
    names = [
        [one.algorithm.name for one in whole.contenders if one.role in roles]
        for roles in (TOGETHER, APART)
    ]
    reason = why_no_verdict(*names, n_tasks=len(race.rows.tasks))
    if reason is not None:
        return {**no_curve(reason), "left_out": []}
    admitted, omitted = _admitted(whole)
    if not admitted:
        reason = "the budget has no time left for a method of each side"
        return {**no_curve(reason), "left_out": omitted}
    failed = race.run_parts(admitted)
    labels = {one.label for one in admitted}
    outputs = {**race.of_parts, N_PARTS: race.outputs}
    of_parts = {}
    for k, found in outputs.items():
        own = {label: values for label, values in found.items() if label in labels}
        part = Mixtures.of(race, own, scorer, is_single=whole.is_single, seed=whole.seed)
        of_parts[k] = PartScores(_mean_rows(race, k), part.together(), part.side(APART))
    curve = report_curve(
        of_parts,
        metric,
        options.average,
        min_effect=options.min_effect,
        ratio=ratio,
        methods=[one.names() for one in admitted],
    )
    return {
        **curve,
        "left_out": omitted
        + [{**o.names(), "reason": failed[o.label]} for o in admitted if o.label in failed],
    }


def _admitted(whole: Mixtures) -> tuple[list[Contender], list[dict[str, str]]]:
    """Return the contenders that the rest of the budget allows, and the others with the reason.

    The cheapest are admitted first, in turn from both sides, since a curve needs both; none if it
    cannot have both.
    """
    race = whole.race
    needed = {one.label: _CURVE_COST * race.seconds[one.label] for one in whole.contenders}
    cheapest = sorted(whole.contenders, key=lambda one: needed[one.label])
    sides = [[o for o in cheapest if (o.role in APART) == is_apart] for is_apart in (True, False)]
    places = {one.label: i for side in sides for i, one in enumerate(side)}
    spent, admitted, omitted = race.clock.spent(), [], []
    for one in sorted(cheapest, key=lambda one: places[one.label]):
        if spent + needed[one.label] <= race.clock.share(1.0):
            admitted.append(one)
            spent += needed[one.label]
        else:
            why = f"learning curve: about {needed[one.label]:.3g} s more would exceed budget_s"
            omitted.append({**one.names(), "reason": why})
    has_both = len({one.role in APART for one in admitted}) == 2
    return (admitted if has_both else []), omitted


def _mean_rows(race: Race, n_parts: int) -> float:
    """Return the mean number of training rows of a task over the folds."""
    trains = [race.rows.raw_train(fold, n_parts, seed=race.seed) for fold in race.rows.folds]
    return float(np.mean([task.n_samples for train in trains for task in train]))
