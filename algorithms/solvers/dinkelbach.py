"""The loop that climbs a trace ratio to its global maximum, under the trace."""

from collections.abc import Sequence
from dataclasses import dataclass

from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.trace_ratio import Pencil, best_ratio

#: Newton's method needs four to seven steps; this many means that something is wrong.
MAX_ITER = 100
#: Change of α at which the loop ends. The steps are quadratic: the error is far below.
ALPHA_ATOL = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioState(LoopState):
    """α is all there is: the directions are the leading eigenvectors of S_b - αS_t."""

    alpha: float


def climb(
    pencils: Sequence[Pencil],
    *,
    trace: Trace,
    loop: str,
    max_iter: int = MAX_ITER,
    tolerance: float = ALPHA_ATOL,
) -> float:
    """Return the largest ratio Σ tr(UᵢᵀS_bⁱUᵢ) / Σ tr(UᵢᵀS_tⁱUᵢ), from α = 0 upwards."""

    def step(state: RatioState) -> RatioState:
        alpha = best_ratio(pencils, state.alpha)
        return RatioState(objective=alpha, residual=abs(alpha - state.alpha), alpha=alpha)

    start = RatioState(objective=0.0, residual=1.0, alpha=0.0)
    return trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance).alpha
