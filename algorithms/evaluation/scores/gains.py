"""Differences of a metric between two methods on the same splits, and their uncertainty.

Splits of one dataset share rows, so the plain t test underestimates the variance. It is corrected
by the share of held-out rows (Nadeau and Bengio),

    s² (1/J + n_test/n_train)   over J splits, J - 1 degrees of freedom

If the difference is the same in every split, as can happen with error rates of few rows, s² would
be 0. One additional split without a difference is then assumed when s² is estimated.

References: Nadeau, Bengio, *Inference for the generalization error*, Machine Learning 52 (2003),
doi:10.1023/A:1024068626366; Holm, *A simple sequentially rejective multiple test procedure*,
Scandinavian Journal of Statistics 6 (1979); Benjamini, Hochberg, *Controlling the false discovery
rate*, JRSS B 57 (1995), doi:10.1111/j.2517-6161.1995.tb02031.x
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import stdtr, stdtrit

from algorithms.evaluation.scores.metrics import IN_TARGET_UNITS, Metric

#: Significance level of all tests.
LEVEL: Final = 0.05
#: Differences below this are treated as rounding errors, relative to the values, or to 1 if the
#: metric has no unit. Root mean squared errors at this level of the targets are 0 already.
ROUNDING: Final = 1e-12


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of one method over another: a mean difference with its uncertainty.

    Parameters
    ----------
    mean
        Mean over splits in units of the metric, positive where the first method is better.
    error
        Corrected standard error of the mean.
    df
        Degrees of freedom of the t distribution.
    value
        Mean value of the second method in the same splits.
    """

    mean: float
    error: float
    df: int
    value: float

    @property
    def p_greater(self) -> float:
        """One-sided p value of the hypothesis that the first method is not better."""
        if self.error == 0:
            return 0.5
        return float(stdtr(self.df, -self.mean / self.error))

    @property
    def p_value(self) -> float:
        """Two-sided p value of the hypothesis that there is no difference."""
        return min(1.0, 2 * min(self.p_greater, (-self).p_greater))

    def __neg__(self) -> "Gain":
        return replace(self, mean=-self.mean)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the confidence interval of confidence 1 - ``level``."""
        reach = float(stdtrit(self.df, 1 - level / 2)) * self.error
        return self.mean - reach, self.mean + reach


def gain_of(
    ours: Sequence[float | None], theirs: Sequence[float | None], metric: Metric, *, ratio: float
) -> Gain | None:
    """Return the gain over the splits in which both have a finite value; None if fewer than two.

    Parameters
    ----------
    ratio
        Held-out rows per training row, n_test/n_train.
    """
    a, b = np.array([ours, theirs], dtype=np.float64)
    is_known = np.isfinite(a) & np.isfinite(b)
    if is_known.sum() < 2:
        return None
    a, b = a[is_known], b[is_known]
    differences = (a - b) if metric.larger_is_better else (b - a)
    sizes = np.maximum(np.abs(a), np.abs(b))
    if metric.name not in IN_TARGET_UNITS and metric.target != "none":
        sizes = np.maximum(sizes, 1.0)
    differences[np.abs(differences) <= ROUNDING * sizes] = 0.0
    mean = float(differences.mean())
    if mean != 0 and np.ptp(differences) <= ROUNDING * abs(mean):
        differences = np.append(differences, 0.0)
    n = len(differences)
    error = float(np.sqrt(differences.var(ddof=1) * (1 / n + ratio)))
    return Gain(mean, error, n - 1, float(b.mean()))


def holm(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted by Holm's method (family-wise error rate)."""
    order = np.argsort(p_values)
    n = len(order)
    steps = np.array(p_values)[order] * np.arange(n, 0, -1)
    corrected = np.empty(n)
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return [float(p) for p in corrected]


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Return the p values adjusted by Benjamini and Hochberg's method (false discovery rate)."""
    order = np.argsort(p_values)[::-1]
    n = len(order)
    steps = np.array(p_values)[order] * (n / np.arange(n, 0, -1))
    corrected = np.empty(n)
    corrected[order] = np.minimum(np.minimum.accumulate(steps), 1.0)
    return [float(p) for p in corrected]
