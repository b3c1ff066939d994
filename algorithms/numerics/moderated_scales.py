"""Standard deviations of many groups, each moderated by what all of them tell (empirical Bayes).

The variance s² of a group with d degrees of freedom is taken as σ² χ²_d/d, and 1/σ² over groups as
χ²_{d₀}/(d₀ s₀²). The best estimate of σ² is then (d₀ s₀² + d s²)/(d₀ + d). s₀ and d₀ follow from
mean and variance of log s², whose chance parts are the digamma and trigamma functions of d/2: where
the variances differ no more than chance, d₀ is infinite and every group has s₀.

Reference: Smyth, *Linear models and empirical Bayes methods for assessing differential expression
in microarray experiments*, Stat. Appl. Genet. Mol. Biol. 2004, doi:10.2202/1544-6115.1027
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

#: Logarithms of d₀/2 between which it is sought; beyond the last it is infinite.
LOG_RANGE = (-25.0, 30.0)


@dataclass(frozen=True, slots=True)
class ScalePrior:
    """What is known of a scale before its own numbers: s₀, and the d₀ numbers it is worth."""

    scale: float
    weight: float

    def moderate(self, scale: float, freedom: int) -> float:
        """Return the scale of a group with a deviation of its own; s₀ where that is 0."""
        if math.isinf(self.weight) or scale == 0.0:
            return self.scale
        whole = self.weight + freedom
        parts = math.sqrt(self.weight / whole) * self.scale, math.sqrt(freedom / whole) * scale
        return math.hypot(*parts)


def estimate_prior(scales: Sequence[float], freedoms: Sequence[int]) -> ScalePrior:
    """Return s₀ and d₀ of groups with standard deviations and their degrees of freedom.

    Groups whose deviation is 0 tell nothing. One group alone keeps its own.
    """
    s, d = np.array([(a, b) for a, b in zip(scales, freedoms, strict=True) if a > 0]).T
    half = d / 2
    logs = 2 * np.log(s) - digamma(half) + np.log(half)
    if len(s) == 1:
        return ScalePrior(float(s[0]), 0.0)
    excess = float(logs.var(ddof=1) - polygamma(1, half).mean())
    low, high = LOG_RANGE
    if excess <= polygamma(1, math.exp(high)):
        peak = float(s.max())
        return ScalePrior(peak * float(np.sqrt(np.average((s / peak) ** 2, weights=d))), math.inf)
    root = brentq(lambda u: math.log(polygamma(1, math.exp(u)) / excess), low, high)
    half_prior = math.exp(root)
    log_scale = float(logs.mean()) + float(digamma(half_prior)) - root
    return ScalePrior(math.exp(log_scale / 2), 2 * half_prior)
