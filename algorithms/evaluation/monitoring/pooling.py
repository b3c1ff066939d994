"""One task or all: changes of tasks that are partly common, as random effects of a mixed model.

The change of task t is x_t = μ + u_t + ε_t, with u_t ~ N(0, τ²) and known variances of ε_t; τ² has
the largest restricted likelihood, as in :mod:`algorithms.baselines.mixed_model`, and u_t is the
best linear unbiased predictor.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from algorithms.numerics.arrays import Array

_N_STEPS: Final = 80
#: A change of more standard errors than this is reported.
Z_95: Final = 1.959964


@dataclass(frozen=True, slots=True, eq=False)
class PooledChange:
    """The common change of tasks, and what each has of its own.

    Attributes
    ----------
    mean, mean_se
        μ and its standard error.
    spread
        τ.
    own, own_se : (n_tasks,)
        u_t and its standard error.
    """

    mean: float
    mean_se: float
    spread: float
    own: Array
    own_se: Array

    def is_common(self) -> bool:
        """Return whether the median task increases by more than the half of the 95 % interval of μ.

        A few tasks that change much increase μ, but not the median.
        """
        return float(np.median(self.mean + self.own)) > Z_95 * self.mean_se

    def with_own_increase(self) -> list[int]:
        """Return the places of the tasks that increase more than all, beyond 95 % intervals."""
        return [int(t) for t in np.flatnonzero(self.own > Z_95 * np.maximum(self.own_se, 1e-12))]


def pool_changes(x: Array, variances: Array) -> PooledChange:
    """Return the common change and the tasks' own ones.

    Parameters
    ----------
    x : (n_tasks,)
        Changes.
    variances : (n_tasks,)
        Variances of their errors, above 0.
    """
    scale = max(float(np.var(x)), float(variances.min()))
    candidates = np.concatenate([[0.0], scale * np.geomspace(1e-4, 10, _N_STEPS)])
    if len(x) == 1:
        candidates = candidates[:1]
    total = variances + candidates[:, None]
    means = (x / total).sum(axis=1) / (1 / total).sum(axis=1)
    squares = ((x - means[:, None]) ** 2 / total).sum(axis=1)
    losses = np.log(total).sum(axis=1) + squares + np.log((1 / total).sum(axis=1))
    best = int(losses.argmin())
    tau2, mean = float(candidates[best]), float(means[best])
    weight = tau2 / (tau2 + variances)
    return PooledChange(
        mean,
        float((1 / (variances + tau2)).sum() ** -0.5),
        tau2**0.5,
        weight * (x - mean),
        np.sqrt(weight * variances),
    )
