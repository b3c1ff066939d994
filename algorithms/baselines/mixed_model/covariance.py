"""The covariance Ψ of random effects as a function of parameters without constraints.

The parameters are logarithms of standard deviations, or for a full matrix the entries of its
Cholesky factor, with the logarithms of its diagonal. All are relative to the deviation of the
noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from algorithms.numerics.arrays import Array, Indices

Form = Literal["shared", "diagonal", "full"]

#: Standard deviation of the random effects at the start.
START_DEVIATION = 0.3


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """The form of a covariance of q effects.

    Parameters
    ----------
    group : (q,)
        Parameter of the variance of each effect.
    is_full
        Whether effects are correlated.
    """

    group: Indices
    is_full: bool

    @classmethod
    def of(cls, form: Form, q: int, sources: Sequence[int] | None = None) -> "Structure":
        """Return the structure of a form; the first effect is the intercept.

        Parameters
        ----------
        sources : (q − 1,)
            Column of the table of each column: in the form 'diagonal', the levels of a category
            have one variance.
        """
        if form == "shared":
            return cls(np.minimum(np.arange(q), 1), is_full=False)
        if form == "full" or sources is None or q == 1:
            return cls(np.arange(q), is_full=form == "full")
        group = np.unique(np.array(sources), return_inverse=True)[1] + 1
        return cls(np.append(0, group).astype(np.intp), is_full=False)

    @property
    def n_variances(self) -> int:
        """Number of the first parameters, which are logarithms of standard deviations."""
        return int(self.group.max()) + 1

    def start(self) -> Array:
        """Return the parameters of independent effects."""
        logs = np.full(self.n_variances, np.log(START_DEVIATION))
        q = len(self.group)
        return np.concatenate([logs, np.zeros(q * (q - 1) // 2)]) if self.is_full else logs

    def matrix(self, z: Array) -> Array:
        """Return Ψ (q, q) for parameters z."""
        if not self.is_full:
            return np.diag(np.exp(2 * z[self.group]))
        L = self._factor(z)
        return np.asarray(L @ L.T)

    def pull_back(self, z: Array, D: Array) -> Array:
        """Return the gradient by z of a function with the symmetric gradient D by Ψ."""
        if not self.is_full:
            slopes = 2 * np.exp(2 * z[self.group]) * np.diag(D)
            return np.asarray(np.bincount(self.group, weights=slopes), dtype=np.float64)
        L = self._factor(z)
        slope = 2 * D @ L
        return np.concatenate([np.diag(slope) * np.diag(L), slope[np.tril_indices(len(L), -1)]])

    def _factor(self, z: Array) -> Array:
        q = len(self.group)
        L = np.diag(np.exp(z[:q]))
        L[np.tril_indices(q, -1)] = z[q:]
        return L
