"""Dinkelbach's method for the global maximum of a trace ratio."""

from collections.abc import Sequence
from dataclasses import dataclass

from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.trace_ratio import Pencil, best_ratio

#: Newton's method needs four to seven steps; more than this many indicates an error.
MAX_ITER = 100
#: Change of α at which the loop stops. Convergence is quadratic, so the error is far smaller.
ALPHA_ATOL = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioState(LoopState):
    """The ratio α, from which the directions follow: leading eigenvectors of S_b - αS_t."""

    alpha: float


def dinkelbach(
    pencils: Sequence[Pencil],
    *,
    trace: Trace,
    loop: str,
    max_iter: int = MAX_ITER,
    tolerance: float = ALPHA_ATOL,
) -> float:
    """Return the largest ratio Σ tr(UᵢᵀS_bⁱUᵢ) / Σ tr(UᵢᵀS_tⁱUᵢ), starting from α = 0."""

    def step(state: RatioState) -> RatioState:
        alpha = best_ratio(pencils, state.alpha)
        return RatioState(objective=alpha, residual=abs(alpha - state.alpha), alpha=alpha)

    start = RatioState(objective=0.0, residual=1.0, alpha=0.0)
    return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance).alpha
