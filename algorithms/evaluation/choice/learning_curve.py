"""The number of rows per task from which learning together no longer helps.

The methods are fitted anew to a part of the training rows of every split, and scored on its
held-out rows: a mixture of all, and a mixture of those that learn each task alone. The gain of the
first over the second, as a mean over splits, is fitted by c + b n^(-a), with c <= 0: with any
number of rows of its own, a task does not need the others.
Points are weighted by their variances. Sharing helps at n rows per task if the gain there exceeds
the smallest relevant one; the number sought is the largest such n, up to :data:`MAX_GROWTH` times
the present number.

Its interval is the interval of the same number over random gains, from the t distribution with the
covariance of the gains over splits, times 1/J + n_test/n_train as in
:mod:`algorithms.evaluation.scores.gains`: a plain bootstrap of J splits that share rows is too
narrow.

Both mixtures have curves of their own for plots, with residuals relative to the scores (least
squares on the log scale to first order).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.evaluation.choice.entries import Side
from algorithms.evaluation.choice.power_curves import PowerCurves, fit_power_curves
from algorithms.evaluation.comparison.no_verdict import no_curve
from algorithms.evaluation.scores.gains import LEVEL, Gain, gain_of
from algorithms.evaluation.scores.metrics import Average, Metric
from algorithms.evaluation.selection.validation import score_per_split
from algorithms.numerics.arrays import Array
from algorithms.splits.subsamples import N_PARTS

#: Scores in every split, by the number of parts of the training rows.
SideScores = Mapping[int, Sequence[float | None]]

#: Largest number of rows per task to extrapolate to, relative to the present number.
MAX_GROWTH: Final = 10.0
#: Smallest number of points that determine a curve.
_MIN_POINTS: Final = 3
_N_DRAWS: Final = 1000
_N_STEPS: Final = 200


@dataclass(frozen=True, slots=True)
class PartScores:
    """Scores of both sides with a part of the training rows.

    Parameters
    ----------
    n_rows
        Mean number of training rows per task over splits.
    together, apart
        None where a side has no contender.
    """

    n_rows: float
    together: Side | None
    apart: Side | None


def report_curve(
    of_parts: Mapping[int, PartScores],
    metric: Metric,
    average: Average,
    *,
    min_effect: float,
    ratio: float,
    methods: Sequence[Mapping[str, str]],
) -> dict[str, Any]:
    """Return the learning curve as JSON, or why there is none (``reason``).

    Parameters
    ----------
    of_parts
        The scores by the number of parts (:mod:`algorithms.splits.subsamples`) of the training
        rows. All numbers have the same splits.
    ratio
        Held-out rows per training row in the splits.
    methods
        Labels of the methods of the curve.
    """
    sides: list[dict[int, Sequence[float | None]]] = [
        {
            k: score_per_split(side.scores, metric.name, average)
            for k, part in of_parts.items()
            if (side := getattr(part, name)) is not None
        }
        for name in ("together", "apart")
    ]
    parts = [k for k in sorted(of_parts) if all(k in side for side in sides)]
    if len(parts) < _MIN_POINTS or parts[-1] != N_PARTS:
        return no_curve("a side has no method that can be trained with so few rows")
    rows = np.array([of_parts[k].n_rows for k in parts])
    losses = _losses(sides, parts, metric)
    if losses.shape[1] < 2 or np.any(np.diff(rows) <= 0):
        return no_curve("there are too few splits or rows")
    fits = [_fit_losses(rows, side.mean(axis=0), metric) for side in losses]
    grid = np.geomspace(rows[0], MAX_GROWTH * rows[-1], _N_STEPS)
    margin = min_effect * np.abs(_loss(fits[1].at(grid)[0], metric))
    gains = losses[1] - losses[0]
    means = np.vstack([gains.mean(axis=0), _random_means(gains, ratio)])
    curves = fit_power_curves(rows, means, _precision(gains), high=0.0)
    stops = _largest(grid, curves.at(grid) > margin)
    low, high = np.quantile(stops[1:], [LEVEL / 2, 1 - LEVEL / 2], method="inverted_cdf")
    tests = [gain_of(sides[0][k], sides[1][k], metric, ratio=ratio) for k in parts]
    more = grid > rows[-1]
    expected = np.where(curves.at(grid)[0] > margin, curves.at(grid)[0], 0.0)
    return {
        "reason": None,
        "points": [
            _point(k, n, test, [side[k] for side in sides])
            for k, n, test in zip(parts, rows.tolist(), tests, strict=True)
        ],
        "together": _fit_json(fits[0], metric),
        "apart": _fit_json(fits[1], metric),
        "max_rows": float(grid[-1]),
        "stops_at": _finite(stops[0]),
        "low": _finite(low),
        "high": _finite(high),
        **_needed(tests[-1], grid[more], expected[more], min_effect, rows=float(rows[-1])),
        "methods": [dict(label) for label in methods],
    }


def _losses(sides: Sequence[SideScores], parts: Sequence[int], metric: Metric) -> Array:
    """Return the losses (2, n_splits, n_points) in the splits in which all are known."""
    scores = np.array([[side[k] for k in parts] for side in sides], dtype=np.float64)
    losses = _loss(scores.transpose(0, 2, 1), metric)
    return losses[:, np.isfinite(losses).all(axis=(0, 2))]


def _fit_losses(rows: Array, losses: Array, metric: Metric) -> PowerCurves:
    size = np.abs(losses)
    weights = 1.0 / np.where(size > 0, size, 1.0) ** 2
    return fit_power_curves(rows, losses[np.newaxis], weights, low=_smallest_loss(metric))


def _precision(gains: Array) -> Array:
    """Return the weights of the points: inverse variances of gains (n_splits, n_points).

    Variances of few splits are uncertain, so each is averaged with the mean of all.
    """
    variance = gains.var(axis=0, ddof=1)
    moderated = (variance + variance.mean()) / 2
    return 1.0 / moderated if moderated.all() else np.ones(len(variance))


def _random_means(gains: Array, ratio: float) -> Array:
    """Return random means (n_draws, n_points) of gains (n_splits, n_points)."""
    rng = np.random.default_rng(0)
    n, mean = len(gains), gains.mean(axis=0)
    normal = rng.standard_normal((_N_DRAWS, n)) @ (gains - mean) / np.sqrt(n - 1)
    spread = np.sqrt(rng.chisquare(n - 1, size=(_N_DRAWS, 1)) / (n - 1))
    random: Array = mean + np.sqrt(1 / n + ratio) * normal / spread
    return random


def _largest(grid: Array, helps: NDArray[np.bool_]) -> Array:
    """Return the largest number of rows at which sharing helps, for each row of ``helps``.

    0: at none; infinite: at the largest of the grid.
    """
    last = len(grid) - 1 - helps[:, ::-1].argmax(axis=1)
    sizes = np.where(last == len(grid) - 1, np.inf, grid[last])
    return np.where(helps.any(axis=1), sizes, 0.0)


def _needed(
    test: Gain | None, more: Array, expected: Array, min_effect: float, *, rows: float
) -> dict[str, float | None]:
    """Return how many rows per task, or how many times as many tasks, would show the gain.

    The uncertainty of the gain falls with the root of the number of rows, while the gain follows
    its curve. With more tasks of the kind, the gain stays the same. None: no number does, or the
    gain is shown already.

    Parameters
    ----------
    more
        Numbers of rows larger than the present number.
    expected
        The relevant gain at these; 0 if it is not relevant.
    """
    unknown: dict[str, float | None] = {"rows_needed": None, "tasks_factor": None}
    if test is None or test.p_value < LEVEL or test.mean <= min_effect * abs(test.value):
        return unknown
    low, high = test.interval()
    reach = (high - low) / 2
    is_shown = expected * np.sqrt(more / rows) > reach
    return {
        "rows_needed": float(more[is_shown.argmax()]) if is_shown.any() else None,
        "tasks_factor": (reach / test.mean) ** 2,
    }


def _point(
    k: int, n: float, test: Gain | None, scores: Sequence[Sequence[float | None]]
) -> dict[str, Any]:
    together, apart = (float(np.mean([s for s in side if s is not None])) for side in scores)
    low, high = (None, None) if test is None else test.interval()
    return {
        "share": k / N_PARTS,
        "rows": n,
        "together": together,
        "apart": apart,
        "gain": None if test is None else test.mean,
        "low": low,
        "high": high,
    }


def _fit_json(fit: PowerCurves, metric: Metric) -> dict[str, float]:
    """Return a curve of scores: limit + factor n^(-exponent)."""
    sign = -1.0 if metric.larger_is_better else 1.0
    return {
        "limit": float(_loss(fit.limit, metric)[0]),
        "factor": sign * float(fit.factor[0]),
        "exponent": float(fit.exponent[0]),
    }


def _loss(values: Array, metric: Metric) -> Array:
    """Return the distances of scores from the best possible one; its own inverse."""
    return metric.bounds[1] - values if metric.larger_is_better else values


def _smallest_loss(metric: Metric) -> float:
    return 0.0 if metric.larger_is_better else metric.bounds[0]


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
