"""The objective of RMT-PCA with compiled kernels, for dense covariance matrices."""

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.coupled_traces import Evaluation, TrialStep, denominators
from algorithms.numerics.covariances import Covariances
from algorithms.numerics.kernels import rmtpca as kernels
from algorithms.numerics.kernels.rmtpca_lanes import LANES

Array = NDArray[np.float64]

#: Largest number of features for which loops over tasks are faster than matrix products.
MAX_LANES_FEATURES = 12


@dataclass(frozen=True, slots=True, eq=False)
class CompiledCoupledTraces:
    """The objective for one λ; create it with :func:`compile_for`.

    Parameters
    ----------
    lam
        λ >= 0.
    k
        Dimension of the subspaces.
    lanes
        Points are (d, k, padded T) if true, for few features, and (T, k, d) otherwise.
    packed
        The covariance matrices in the same layout.
    traces, scales : (T,)
        tr C_t, and the scale of each task's gradient.
    """

    lam: float
    k: int
    lanes: bool
    packed: Array
    traces: Array
    scales: Array

    @property
    def noise(self) -> float:
        """Rounding error of a change of J, without the part that is proportional to J."""
        return 1e-15 * self.lam * self.traces.size * self.k

    def with_weight(self, C: Covariances, lam: float) -> Self:
        """Return the objective for the same matrices and another λ."""
        scales = denominators(C, lam=lam, k=self.k)
        return replace(self, lam=float(lam), scales=scales)

    def pack(self, U: Array) -> Array:
        """Return the point with the bases (T, k, d)."""
        return pack(U) if self.lanes else np.ascontiguousarray(U)

    def unpack(self, point: Array) -> Array:
        """Return the bases (T, k, d) of a point."""
        if not self.lanes:
            return point
        return np.ascontiguousarray(point[..., : self.traces.size].transpose(2, 1, 0))

    def evaluate(self, point: Array) -> Evaluation:
        """Return value, residual and F."""
        values = kernels.evaluate(
            self.lanes, self.packed, self.scales, self.lam, self.traces.size, point
        )
        return Evaluation(*values)

    def ascend(self, point: Array, *, n_steps: int) -> Array:
        """Return the point after parallel ascent steps."""
        return kernels.ascend(self.lanes, self.packed, self.lam, point, n_steps)

    def trial_step(self, point: Array, F: Array, *, radius: float, forcing: float) -> TrialStep:
        """Return the step to an approximate maximiser of the quadratic model."""
        Q, J, residual, F_next, predicted, length, is_clipped = kernels.trial_step(
            self.lanes,
            self.packed,
            self.traces,
            self.scales,
            self.lam,
            point,
            F,
            radius,
            forcing,
        )
        return TrialStep(Q, Evaluation(J, residual, F_next), predicted, length, is_clipped)


def compile_for(C: Covariances, *, lam: float, k: int) -> CompiledCoupledTraces:
    """Return the objective for dense matrices, in the faster layout for their size."""
    assert C.dense is not None
    lanes = C.n_features <= MAX_LANES_FEATURES
    packed = pack(C.dense) if lanes else np.ascontiguousarray(C.dense)
    scales = denominators(C, lam=lam, k=k)
    return CompiledCoupledTraces(float(lam), k, lanes, packed, C.traces, scales)


def pack(stack: Array) -> Array:
    """Return a stack (T, a, b) as (b, a, padded T), padded with zeros to whole SIMD vectors."""
    T, a, b = stack.shape
    padded = np.zeros((b, a, -(-T // LANES) * LANES))
    padded[..., :T] = stack.transpose(2, 1, 0)
    return padded
