"""The verdict on learning together of an automatic choice: its level, its size, and both by task.

The *level* is the p value p of the alignment of the tasks' functions
(:mod:`algorithms.evaluation.choice.alignment`). The *size* is the gain g in held-out scores of the
mixture of all methods over the mixture of methods that learn each task alone, relative to the score
of the latter, with the smallest relevant gain m:

    very likely helps   p < .01 and g > m
    probably helps      p < .025 and g > m, or p < .05, g > m and p_g < .05
    equal               the 90 % interval of g is within ±m
    unclear             else

with p_g the one-sided p value of the gain. With fewer than 7 tasks, whose signs are too few, p is
not exact (p < .01 in up to 4 % of unrelated sets of 4 tasks): then p < .01 makes it probable, no
more. The uncertainty of the gain is that over splits (corrected) or over tasks, whichever is
larger. "Hurts" is not said: whoever may share may also learn alone, and tests of small samples that
say so are often wrong.

Gains of single tasks are hardly known with few rows. With L_t the logarithm of the ratio of losses,

    L̄ + ¼(L_t − L̄) ± t(.95) sd(L) √(1 + 1/T)

is nearer to the truth than L_t, and covers it in nine of ten tasks.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from scipy.special import stdtrit

from algorithms.evaluation.choice.alignment import Alignment
from algorithms.evaluation.comparison.families import GainTest, Verdict, verdict_of
from algorithms.evaluation.scores.gains import LEVEL, Gain, benjamini_hochberg, gain_of
from algorithms.evaluation.scores.metrics import Average, Metric
from algorithms.evaluation.selection.validation import Scores, mean_known, score_per_split

Certainty = Literal["very likely", "probably"]

#: p values of the alignment below these allow the words, given a relevant gain.
VERY_LIKELY: Final = 0.01
PROBABLY: Final = 0.025
#: 1 - confidence of the intervals that decide on equality, and of those of tasks.
TASK_LEVEL: Final = 0.1
#: How far the gain of a task is drawn to the mean of all.
SHRINKAGE: Final = 0.75
#: Logarithms of ratios of losses beyond this count as this much.
MAX_LOG_RATIO: Final = 2.0
#: A task with fewer rows is not said to lose.
MIN_ROWS_OF_LOSS: Final = 40


@dataclass(frozen=True, slots=True)
class SharingVerdict:
    """A verdict on learning together.

    Parameters
    ----------
    certainty
        How sure 'helps' is; None for other verdicts.
    """

    verdict: Verdict
    certainty: Certainty | None = None


def sharing_verdict(
    gain: Gain | None, alignment: Alignment | None, *, min_effect: float
) -> SharingVerdict:
    """Return the verdict on a gain.

    Parameters
    ----------
    alignment
        The test of the alignment; None if there is none: then the gain alone decides, which makes
        'helps' at most probable.
    """
    if gain is None:
        return SharingVerdict("none")
    margin = min_effect * abs(gain.value)
    low, high = gain.interval(TASK_LEVEL)
    if max(-low, high) <= margin:
        return SharingVerdict("equal")
    certainty = _certainty(gain, alignment) if gain.mean > margin else None
    return SharingVerdict("unclear" if certainty is None else "helps", certainty)


def _certainty(gain: Gain, alignment: Alignment | None) -> Certainty | None:
    """Return how sure a relevant gain is; None if it cannot be told."""
    if alignment is None:
        return "probably" if gain.p_value < LEVEL else None
    p_value, is_exact = alignment.p_value, alignment.null == "signs"
    if p_value < VERY_LIKELY:
        return "very likely" if is_exact else "probably"
    is_probable = (is_exact and p_value < PROBABLY) or max(p_value, gain.p_greater) < LEVEL
    return "probably" if is_probable else None


def gain_test(gain: Gain | None, *, min_effect: float) -> GainTest | None:
    """Return the test of a gain; None if the gain is unknown."""
    if gain is None:
        return None
    low, high = gain.interval()
    return GainTest(gain.mean, low, high, gain.p_value, min_effect * abs(gain.value))


def test_json(test: GainTest | None) -> dict[str, float | None]:
    """Return the members of a test as JSON, without values if there is none."""
    names = ("gain", "low", "high", "p_value", "margin")
    return {name: None if test is None else getattr(test, name) for name in names}


def gain_of_sharing(
    together: Scores, apart: Scores, metric: Metric, average: Average, *, ratio: float
) -> Gain | None:
    """Return the gain of one mixture over another; None if fewer than two splits have scores.

    Parameters
    ----------
    ratio
        Held-out rows per training row in the outer splits.
    """
    ours, theirs = (score_per_split(one, metric.name, average) for one in (together, apart))
    by_split = gain_of(ours, theirs, metric, ratio=ratio)
    if by_split is None or average == "rows":
        return by_split
    pairs = _known_pairs(together, apart, metric)
    if len(pairs) < 2:
        return by_split
    a, b = np.array(list(pairs.values())).T
    differences = a - b if metric.larger_is_better else b - a
    error = float(differences.std(ddof=1) / math.sqrt(len(differences)))
    by_task = Gain(by_split.mean, error, len(differences) - 1, by_split.value)
    return max(by_split, by_task, key=lambda gain: gain.interval()[1])


def _known_pairs(together: Scores, apart: Scores, metric: Metric) -> dict[str, tuple[float, float]]:
    """Return the mean scores of each task by both mixtures, where both are known."""
    ours, theirs = (one["by_task"][metric.name] for one in (together, apart))
    means = {task: (mean_known(ours[task]), mean_known(theirs[task])) for task in ours}
    return {task: (a, b) for task, (a, b) in means.items() if a is not None and b is not None}


def gains_of_tasks(
    common: Scores,
    together: Scores | None,
    apart: Scores | None,
    metric: Metric,
    *,
    min_effect: float,
    ratio: float,
    n_rows: Mapping[str, int],
) -> dict[str, dict[str, float | str | None]]:
    """Return the gain of each task as JSON, drawn to the mean, with a verdict.

    The verdict needs both the interval and the test of the task's own gain, corrected for the
    number of tasks.

    Parameters
    ----------
    common
        Scores of all tasks.
    """
    unknown = {"verdict": "none", **test_json(None), "p_adjusted": None}
    if together is None or apart is None:
        return dict.fromkeys(common["by_task"][metric.name], unknown)
    ours, theirs = (one["by_task"][metric.name] for one in (together, apart))
    own = {task: gain_of(ours[task], theirs[task], metric, ratio=ratio) for task in ours}
    p_values = {task: gain.p_value for task, gain in own.items() if gain is not None}
    adjusted = dict(zip(p_values, benjamini_hochberg(list(p_values.values())), strict=True))
    shrunken = _shrunken(_known_pairs(together, apart, metric), metric)
    found: dict[str, dict[str, float | str | None]] = {}
    for task, gain in own.items():
        if gain is None or task not in shrunken:
            found[task] = unknown
            continue
        test = GainTest(*shrunken[task], gain.p_value, min_effect * abs(gain.value))
        verdict = verdict_of(test, p_value=adjusted[task])
        is_sure = test.low * test.high > 0 and test.gain * gain.mean > 0
        is_named = verdict != "hurts" or n_rows.get(task, 0) >= MIN_ROWS_OF_LOSS
        if verdict in ("helps", "hurts") and not (is_sure and is_named):
            verdict = "unclear"
        found[task] = {"verdict": verdict, **test_json(test), "p_adjusted": adjusted[task]}
    return found


def _shrunken(
    pairs: Mapping[str, tuple[float, float]], metric: Metric
) -> dict[str, tuple[float, float, float]]:
    """Return gains of tasks and their intervals in units of the metric; none for one task."""
    if len(pairs) < 2:
        return {}
    scores = np.array(list(pairs.values()))
    losses = metric.bounds[1] - scores if metric.larger_is_better else scores
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.log(losses[:, 1]) - np.log(losses[:, 0])
    ratios = np.where(losses[:, 0] == losses[:, 1], 0.0, ratios)
    L = np.clip(ratios, -MAX_LOG_RATIO, MAX_LOG_RATIO)
    T = len(L)
    centre = L.mean() + (1 - SHRINKAGE) * (L - L.mean())
    reach = float(stdtrit(T - 1, 1 - TASK_LEVEL / 2)) * L.std(ddof=1) * math.sqrt(1 + 1 / T)
    ends = np.stack([centre, centre - reach, centre + reach], axis=1)
    gains = losses[:, 1, np.newaxis] * -np.expm1(-ends)
    return {task: (g[0], g[1], g[2]) for task, g in zip(pairs, gains.tolist(), strict=True)}
