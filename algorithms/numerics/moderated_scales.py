"""Standard deviations of many groups, shrunk towards a common value by empirical Bayes.

The model: the variance s² of a group with d degrees of freedom is distributed as σ² χ²_d/d, and
1/σ² over groups as χ²_{d₀}/(d₀ s₀²). The posterior estimate of σ² is (d₀ s₀² + d s²)/(d₀ + d). s₀
and d₀ follow from the mean and variance of log s², of which sampling contributes the digamma and
trigamma functions of d/2. If the variances differ no more than by sampling, d₀ is infinite and
every group gets s₀.

Reference: Smyth, *Linear models and empirical Bayes methods for assessing differential expression
in microarray experiments*, Stat. Appl. Genet. Mol. Biol. 2004, doi:10.2202/1544-6115.1027
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import digamma, polygamma

#: Search interval for log(d₀/2); above it d₀ is infinite.
LOG_RANGE = (-25.0, 30.0)


@dataclass(frozen=True, slots=True)
class ScalePrior:
    """Prior of a standard deviation: its scale s₀, and its weight d₀ in degrees of freedom."""

    scale: float
    weight: float

    def moderate(self, scale: float, degrees: int) -> float:
        """Return the posterior scale of a group; s₀ if the group's own deviation is 0.

        Parameters
        ----------
        scale
            Standard deviation of the group.
        degrees
            Its degrees of freedom.
        """
        if math.isinf(self.weight) or scale == 0.0:
            return self.scale
        total = self.weight + degrees
        parts = math.sqrt(self.weight / total) * self.scale, math.sqrt(degrees / total) * scale
        return math.hypot(*parts)


def estimate_prior(scales: Sequence[float], degrees: Sequence[int]) -> ScalePrior:
    """Return s₀ and d₀, estimated from the standard deviations of groups.

    Groups with deviation 0 are ignored. A single group keeps its own deviation.

    Parameters
    ----------
    scales
        Standard deviation of each group.
    degrees
        Degrees of freedom of each group.
    """
    s, d = np.array([(a, b) for a, b in zip(scales, degrees, strict=True) if a > 0]).T
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
