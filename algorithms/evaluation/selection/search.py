"""Search for the parameters that score best on held-out rows.

*Grid* tries every combination, *random* draws from the space, *halving* scores all candidates on
few splits and only the better ones on more. The budget of this successive halving is splits, not
rows: parameters that are best for a part of the rows regularise too much for all of them.

References: Bergstra, Bengio, *Random search for hyper-parameter optimization*, JMLR 13 (2012),
https://jmlr.org/papers/v13/bergstra12a.html; Jamieson, Talwalkar, *Non-stochastic best arm
identification and hyperparameter optimization*, AISTATS 2016,
https://proceedings.mlr.press/v51/jamieson16.html
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
from pydantic import ConfigDict, Field

from algorithms.evaluation.scores.metrics import Average, Metric, MetricChoice
from algorithms.evaluation.selection.failures import all_failed
from algorithms.evaluation.selection.validation import Scores, concatenate_scores, mean_score
from algorithms.interface.errors import InvalidParams
from algorithms.interface.params import StrictModel
from algorithms.splits.splits import Splits

MAX_CANDIDATES: Final = 1000
#: Number of random candidates.
DEFAULT_CANDIDATES: Final = 30


class Range(StrictModel):
    """A range of numbers to draw from; of whole numbers if both ends are."""

    model_config = ConfigDict(frozen=True)

    low: int | float = Field(description="Smallest value.")
    high: int | float = Field(description="Largest value.")
    scale: Literal["linear", "log"] = Field(
        "linear", description="Uniform distribution: of the number ('linear') or its log ('log')."
    )

    def draw(self, rng: np.random.Generator) -> float | int:
        """Return a random number of the range."""
        if isinstance(self.low, int) and isinstance(self.high, int):
            if self.scale == "linear":
                return int(rng.integers(self.low, self.high, endpoint=True))
            # a whole number represents the half unit on both sides of it
            ends = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return min(max(round(math.exp(rng.uniform(*ends))), self.low), self.high)
        if self.scale == "linear":
            return float(rng.uniform(self.low, self.high))
        return math.exp(rng.uniform(math.log(self.low), math.log(self.high)))


class SearchOptions(MetricChoice):
    """Which parameter values a search tries, and how it scores them."""

    space: dict[str, list[Any] | Range] = Field(
        min_length=1,
        max_length=20,
        description="For each parameter, a list of values to try. 'random' and 'halving' also take "
        "a range to draw from, `{low, high, scale}`.",
    )
    method: Literal["grid", "random", "halving"] = Field(
        "grid",
        description="'grid': every combination. 'random': random combinations. "
        "'halving': all candidates are scored on few splits, the better ones on more.",
    )
    n_candidates: int | None = Field(
        None,
        ge=2,
        le=MAX_CANDIDATES,
        description="Number of combinations to draw. Default: 30, or every combination if "
        "'halving' has lists alone.",
    )
    factor: int = Field(
        3, ge=2, le=10, description="'halving' keeps one of this many candidates per round."
    )
    n_folds: int = Field(5, ge=2, le=100, description="Number of folds.")
    repeats: int = Field(1, ge=1, le=100, description="Repeats of the folds, each shuffled anew.")

    def splits(self) -> Splits:
        """Return the splits that candidates are scored on."""
        return Splits(n_folds=self.n_folds, repeats=self.repeats)


@dataclass(frozen=True, slots=True)
class Round:
    """A round of a search: how many candidates are scored, and on how many of the splits."""

    n_candidates: int
    n_splits: int


def list_candidates(
    values: Mapping[str, Any], search: SearchOptions, *, seed: int
) -> list[dict[str, Any]]:
    """Return the parameter values of every candidate.

    Parameters
    ----------
    values
        Parameters of the job; the search overrides the parameters in its space.

    Raises
    ------
    InvalidParams
        There are too many candidates, or a parameter has no value to try.
    """
    _check(search)
    lists = {name: tried for name, tried in search.space.items() if isinstance(tried, list)}
    is_finite = len(lists) == len(search.space)
    n_combinations = math.prod(len(tried) for tried in lists.values())
    tries_all = search.method == "grid" or (
        search.method == "halving" and search.n_candidates is None and is_finite
    )
    if tries_all:
        if n_combinations > MAX_CANDIDATES:
            raise InvalidParams(
                f"the search has {n_combinations} combinations of values, at most {MAX_CANDIDATES} "
                "are allowed; list fewer values, or use the method 'random'"
            )
        chosen = [dict(zip(lists, c, strict=True)) for c in itertools.product(*lists.values())]
    else:
        rng = np.random.default_rng(seed)
        n = search.n_candidates or DEFAULT_CANDIDATES
        if is_finite:
            drawn = rng.choice(n_combinations, min(n, n_combinations), replace=False)
            chosen = [_combination(lists, int(index)) for index in drawn]
        else:
            chosen = [
                {name: _draw(tried, rng) for name, tried in search.space.items()} for _ in range(n)
            ]
    # the same combination may be drawn, or listed, more than once
    unique = {repr(combination): combination for combination in chosen}
    return [{**values, **combination} for combination in unique.values()]


def plan_rounds(search: SearchOptions, n_candidates: int) -> list[Round]:
    """Return the rounds in order; candidates of the last round are scored on all splits."""
    n_splits, factor = search.splits().count(), search.factor
    n_rounds = 1
    if search.method == "halving":
        while n_candidates // factor**n_rounds > 1 and n_splits // factor**n_rounds >= 1:
            n_rounds += 1
    return [
        Round(math.ceil(n_candidates / factor**i), math.ceil(n_splits / factor**left))
        for i, left in enumerate(reversed(range(n_rounds)))
    ]


def rank_candidates(results: Mapping[int, Scores], metric: Metric, average: Average) -> list[int]:
    """Return the candidates that did not fail from the best to the worst.

    Equal candidates keep their order; candidates without a value come last.
    """
    sign = -1.0 if metric.larger_is_better else 1.0
    means = {
        which: mean_score(scores, metric.name, average)
        for which, scores in results.items()
        if "failed" not in scores
    }
    losses = {which: math.inf if mean is None else sign * mean for which, mean in means.items()}
    return sorted(losses, key=lambda which: (losses[which], which))


#: Returns the scores of candidates on splits, given the indices of both.
ScoreFunction = Callable[[Sequence[int], Sequence[int]], Sequence[Scores]]


def select_best(
    search: SearchOptions, n_candidates: int, score: ScoreFunction, metric: Metric
) -> int:
    """Run all rounds of a search and return the position of the best candidate.

    Parameters
    ----------
    score
        Returns the scores of the candidates at some positions on the splits at some positions.
    metric
        Orders the candidates.

    Raises
    ------
    Diverged
        All candidates failed.
    """
    results: dict[int, Scores] = {}
    left, n_done = list(range(n_candidates)), 0
    for step in plan_rounds(search, n_candidates):
        left = left[: step.n_candidates]
        scored = score(left, range(n_done, step.n_splits))
        for which, scores in zip(left, scored, strict=True):
            results[which] = concatenate_scores([*([results[which]] if n_done else []), scores])
        of_round = {which: results[which] for which in left}
        left, n_done = rank_candidates(of_round, metric, search.average), step.n_splits
        if not left:
            break
    left = left or rank_candidates(results, metric, search.average)
    if not left:
        raise all_failed(
            [{"params": {}, "reason": result["failed"]} for result in results.values()]
        )
    return left[0]


def _check(search: SearchOptions) -> None:
    for name, tried in search.space.items():
        if isinstance(tried, list):
            if not tried:
                raise InvalidParams(
                    f"'{name}' has an empty list of values to try; give at least one",
                    field=f"space/{name}",
                )
        elif search.method == "grid":
            detail = "is a range, but 'grid' needs a list; list values, or use the method 'random'"
            raise InvalidParams(f"'{name}' {detail}", field=f"space/{name}")
        elif not tried.low < tried.high or (tried.scale == "log" and tried.low <= 0):
            positive = "0 < " if tried.scale == "log" else ""
            detail = f"expected {positive}low < high, got {tried.low} and {tried.high}"
            raise InvalidParams(f"the range of '{name}': {detail}", field=f"space/{name}")
    if search.method == "grid" and search.n_candidates is not None:
        raise InvalidParams("'n_candidates' needs the method 'random' or 'halving', got 'grid'")


def _combination(lists: Mapping[str, Sequence[Any]], index: int) -> dict[str, Any]:
    """Return the combination at a position of the product of some lists."""
    chosen = {}
    for name, tried in lists.items():
        index, which = divmod(index, len(tried))
        chosen[name] = tried[which]
    return chosen


def _draw(tried: Sequence[Any] | Range, rng: np.random.Generator) -> Any:
    return tried.draw(rng) if isinstance(tried, Range) else tried[int(rng.integers(len(tried)))]
