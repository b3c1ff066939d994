"""Solver for the function of a new task (or class) of a trained model, with all others fixed.

    max  Σ gain(κ_i) - H(κ),   H = 2 Σ_s h(⟨κ, b_s⟩) + h(⟨κ, Kκ⟩)

over the dual variables κ of the new function, called the new *output*. The T outputs of the model
are fixed; b_s are the products of the new rows with output s. H is convex and F = ∇H are the
predictions, so the terms of the examples sum to the duality gap here as well. A step is a Newton
step in the variables strictly inside their bounds, if it increases the dual, followed by sweeps of
coordinate ascent, which find these variables. Sweeps alone need thousands of passes for a large C.
Cost: O(n²), and O(f³) for f variables inside their bounds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.families.kernel_machines.losses import Loss
from algorithms.families.kernel_machines.output_kernels import OutputKernel
from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.gaps import relative_gap
from algorithms.numerics.threads import limit_blas_threads

#: Maximum number of sweeps of coordinate ascent after a Newton step.
MAX_SWEEPS = 20
#: Maximum number of halvings of a Newton step; then it is omitted.
MAX_HALVINGS = 10
#: Largest share of the distance to a bound of one step for the logistic loss.
MAX_STEP_TO_BOUND = 0.9
#: Ridge of the Newton system relative to its mean diagonal; equal rows make the system singular.
RIDGE = 1e-11


@dataclass(frozen=True, slots=True, eq=False)
class NewOutput:
    """The optimisation problem for a new output.

    Parameters
    ----------
    y, w : (n,)
        Targets and weights of the new rows.
    b : (n, T)
        Products with the fixed outputs.
    K : (n, n)
        Kernel matrix of the new rows.
    g : (T, T)
        κᵀKκ of the fixed outputs.
    """

    y: Array
    w: Array
    b: Array
    K: Array
    g: Array
    loss: Loss
    kernel: OutputKernel

    def extended_gram(self, kappa: Array) -> Array:
        """Return g (T + 1, T + 1) of all outputs."""
        cross = kappa @ self.b
        corner = kappa @ self.K @ kappa
        return np.block([[self.g, cross[:, np.newaxis]], [cross[np.newaxis], corner]])

    def dual(self, kappa: Array) -> float:
        """Return the dual value divided by C."""
        bound = self.kernel.bound(self.extended_gram(kappa)[-1])
        gain = float(self.loss.gains(self.y, kappa, self.w).sum())
        return gain - float(2.0 * bound[:-1].sum() + bound[-1])

    def predictions(self, kappa: Array) -> Array:
        """Return the predictions F (n,) of the new output for its rows."""
        theta = self.kernel.theta(self.extended_gram(kappa))[-1]
        return np.asarray(np.column_stack([self.b, self.K @ kappa]) @ theta)

    def initial_kappa(self) -> Array:
        """Return the initial κ (n,), scaled such that Θ is of moderate size."""
        kappa = self.loss.initial_kappa(self.y, self.w)
        # products with the fixed outputs shrink by c, the product with itself by c²
        return kappa * self.kernel.shrinkage(self.extended_gram(kappa)[-1]) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class NewOutputState(LoopState):
    """Dual variables κ (n,) of the new output, g (T + 1, T + 1), primal value / C and gap / C."""

    kappa: Array
    g: Array
    primal: float
    gap: float


def solve_new_output(
    problem: NewOutput, *, max_iter: int, tolerance: float, trace: Trace, loop: str
) -> NewOutputState:
    """Maximise the dual over the κ of the new output and return the last state."""
    from algorithms.numerics.kernels.fmtl_tasks import task_dense

    loss, y, w = problem.loss, problem.y, problem.w
    T, n, pieces = len(problem.g), len(problem.y), problem.loss.pieces(problem.y, problem.w)

    def state(kappa: Array) -> NewOutputState:
        F = problem.predictions(kappa)
        terms = loss.values(y, F, w) - loss.gains(y, kappa, w) + kappa * F
        dual, gap = problem.dual(kappa), float(terms.sum())
        return NewOutputState(
            objective=dual, residual=relative_gap(dual + gap, gap), kappa=kappa,
            g=problem.extended_gram(kappa), primal=dual + gap, gap=gap,
        )  # fmt: skip

    def step(before: NewOutputState) -> NewOutputState:
        kappa = _newton_step(problem, before.kappa, before.objective, pieces)
        B = np.column_stack([problem.b, problem.K @ kappa])
        task_dense(
            problem.K, np.arange(n), MAX_SWEEPS, T, pieces, loss.epsilon, loss.is_logistic,
            problem.kernel.rule, problem.kernel.Theta, kappa, B, problem.extended_gram(kappa),
        )  # fmt: skip
        return state(kappa)

    with limit_blas_threads(n):
        start = state(problem.initial_kappa())
        return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance)


def _newton_step(problem: NewOutput, kappa: Array, dual: float, pieces: Array) -> Array:
    """Return κ (n,) after a Newton step in the variables inside their bounds.

    The result is κ itself if no step increases the dual.
    """
    loss, (q, lo, hi) = problem.loss, pieces[:, 1:4].T
    is_inside = (lo < kappa) & (kappa < hi) & ((kappa != 0.0) | (loss.epsilon == 0.0))
    inside = np.flatnonzero(is_inside)
    if not inside.size:
        return kappa.copy()
    if loss.is_logistic:
        u = problem.y * kappa / problem.w
        slope, q = problem.y * (np.log1p(-u) - np.log(u)), 1.0 / (problem.w * u * (1.0 - u))
        lo, hi = kappa + MAX_STEP_TO_BOUND * (lo - kappa), kappa + MAX_STEP_TO_BOUND * (hi - kappa)
    else:
        slope = problem.y - q * kappa - loss.epsilon * np.sign(kappa)
        if loss.epsilon > 0.0:  # the gain has a kink at 0
            lo, hi = np.where(kappa > 0, 0.0, lo), np.where(kappa < 0, 0.0, hi)
    slope = slope - problem.predictions(kappa)
    H = _curvature(problem, kappa, inside)
    H[np.diag_indices_from(H)] += q[inside]
    H[np.diag_indices_from(H)] += RIDGE * float(np.trace(H)) / len(H)
    along = np.zeros_like(kappa)
    along[inside] = np.linalg.solve(H, slope[inside])
    for i in range(MAX_HALVINGS):
        trial = np.clip(kappa + 0.5**i * along, lo, hi)
        if problem.dual(trial) > dual:
            return trial
    return kappa.copy()


def _curvature(problem: NewOutput, kappa: Array, inside: NDArray[np.intp]) -> Array:
    """Return the Hessian of H in the variables inside their bounds, (f, f)."""
    g = problem.extended_gram(kappa)[-1]
    theta, slope = (
        problem.kernel.theta(problem.extended_gram(kappa))[-1, -1],
        problem.kernel.slope(g),
    )
    B = np.column_stack([problem.b, np.sqrt(2.0) * (problem.K @ kappa)])[inside]
    return np.asarray(theta * problem.K[np.ix_(inside, inside)] + (B * slope) @ B.T)
