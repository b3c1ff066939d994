"""Ratios of a task, such as R² and AUC, over the held-out rows of all splits.

A split holds out two or three rows of a small task, and a ratio of so few rows means nothing. So
numerators and denominators of a task are added over all splits before the ratio is taken,

    ρ = Σ_f a_f / Σ_f b_f

Tests need a value for each split f of J: ρ + J (a_f - ρ b_f) / Σ b, the linearisation of the ratio,
has the mean ρ and the variance over splits that determines its error.

What is added, in the order of the entries: the number of rows, their weight, mean and sum of
squared deviations of the true values, and the same of the errors. For AUC the weight is the number
of pairs of rows of different classes, and the mean of the errors is the area: only rows of the same
task and split are compared, since models of different splits have scores on different scales.

Reference: Cochran, *Sampling Techniques*, 3rd edition, 1977, section 6.4
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from algorithms.interface.lists import list_names
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import is_flat, weighted_mean
from algorithms.numerics.scores import auc

#: Least number of held-out rows of a task, over all splits, for which a ratio of it counts.
MIN_RATIO_ROWS: Final = 10
#: Maximum number of tasks that a sentence names.
_MAX_NAMES: Final = 10
#: Number of entries of what is added.
N_SUMS: Final = 6


@dataclass(frozen=True, slots=True)
class Ratio:
    """A metric that is a ratio.

    Parameters
    ----------
    observe
        Returns weight, means and deviations for true values, predictions and weights.
    terms
        Returns numerators and denominators of splits (n_splits, 6), given their total (6,).
    is_explained
        Whether the metric is 1 minus the ratio.
    """

    observe: Callable[[Any, Any, Array | None], tuple[float, ...]]
    terms: Callable[[Array, Array], tuple[Array, Array]]
    is_explained: bool = True

    def sums(self, n_rows: int, truth: Any, prediction: Any, weights: Array | None) -> Array:
        """Return what is added over splits, (6,)."""
        return np.array([n_rows, *self.observe(truth, prediction, weights)], dtype=np.float64)

    def per_split(self, sums: Array) -> Array:
        """Return the value of each split, whose mean is the pooled ratio; NaN if undefined.

        Parameters
        ----------
        sums : (n_splits, 6)
            NaN where a split holds out no row.
        """
        values = np.full(len(sums), np.nan)
        is_known = sums[:, 1] > 0
        if not is_known.any():
            return values
        known = sums[is_known]
        numerators, denominators = self.terms(known, add_sums(known))
        total = denominators.sum()
        if is_flat(total / known[:, 1].sum(), np.abs(known[:, 2]).max()):
            return values
        ratio = numerators.sum() / total
        pooled = ratio + len(known) * (numerators - ratio * denominators) / total
        values[is_known] = 1.0 - pooled if self.is_explained else pooled
        return values


def describe_few_rows(names: Sequence[str], title: str) -> list[str]:
    """Return a sentence on tasks with too few held-out rows; none if there is no such task."""
    if not names:
        return []
    few = f"fewer than {MIN_RATIO_ROWS} held-out rows, too few for {title}"
    listed = list_names(names, _MAX_NAMES, has_quotes=False)
    return [f"Left out of the mean over tasks, as they have {few}: {listed}."]


def add_sums(sums: Array) -> Array:
    """Return the sums (6,) of the rows of several splits or tasks, given those of each (n, 6)."""
    sums = sums[sums[:, 1] > 0]
    weights = sums[:, 1]
    if not len(sums):
        return np.full(N_SUMS, np.nan)
    total = weights.sum()
    joined = [sums[:, 0].sum(), total]
    for mean, spread in ((2, 3), (4, 5)):
        centre = weights @ sums[:, mean] / total
        between = weights @ (sums[:, mean] - centre) ** 2
        joined += [centre, sums[:, spread].sum() + between]
    return np.array(joined)


def _moments(truth: Any, prediction: Any, weights: Array | None) -> tuple[float, ...]:
    weight = float(len(truth) if weights is None else weights.sum())
    entries = []
    for values in (truth, truth - prediction):
        mean = weighted_mean(values, weights)
        entries += [mean, weight * weighted_mean((values - mean) ** 2, weights)]
    return weight, *entries


def _pairs(is_class: Any, scores: Any, weights: Array | None) -> tuple[float, ...]:
    """Return the number of pairs of rows of different classes, and the area of these rows."""
    area = auc(is_class, scores, weights)
    if np.isnan(area):
        return 0.0, 0.0, 0.0, 0.0, 0.0
    each = np.ones(len(is_class)) if weights is None else weights
    n_pairs = (each @ is_class) * (each @ ~is_class)
    return float(n_pairs.sum()), 0.0, 0.0, area, 0.0


def _squares(sums: Array, mean: int, centre: float = 0.0) -> Array:
    """Return the sums of squared distances from a centre."""
    squares: Array = sums[:, mean + 1] + sums[:, 1] * (sums[:, mean] - centre) ** 2
    return squares


R2: Final = Ratio(_moments, lambda sums, total: (_squares(sums, 4), _squares(sums, 2, total[2])))
EXPLAINED_VARIANCE: Final = Ratio(
    _moments, lambda sums, total: (_squares(sums, 4, total[4]), _squares(sums, 2, total[2]))
)
RETAINED_VARIANCE: Final = Ratio(_moments, lambda sums, _: (_squares(sums, 4), _squares(sums, 2)))
AREA: Final = Ratio(
    _pairs, lambda sums, _: (sums[:, 1] * sums[:, 4], sums[:, 1]), is_explained=False
)
