"""Dinkelbach's method for the global maximum of a trace ratio."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.trace_ratio import Pencil, Spectrum, decompose, first_ratio, ratio_of

#: Newton's method needs two to six steps; more than this many indicates an error.
MAX_ITER = 100
#: Change of α at which the loop stops. Convergence is quadratic, so the error is far smaller.
ALPHA_ATOL = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class TraceRatio:
    """The largest ratio α, and eigenvectors of S_b - αS_t for each task.

    Both are from the last step, in which α changed by less than the tolerance.
    """

    alpha: float
    spectra: Sequence[Spectrum]


@dataclass(frozen=True, slots=True, kw_only=True)
class RatioState(LoopState):
    """The ratio α, and the previous ratio, from whose eigenvectors it follows."""

    alpha: float
    before: float


def dinkelbach(
    pencils: Sequence[Pencil],
    *,
    trace: Trace,
    loop: str,
    max_iter: int = MAX_ITER,
    tolerance: float = ALPHA_ATOL,
) -> TraceRatio:
    """Return the largest ratio Σ tr(UᵢᵀS_bⁱUᵢ) / Σ tr(UᵢᵀS_tⁱUᵢ)."""

    @lru_cache(maxsize=1)
    def spectra_at(alpha: float) -> list[Spectrum]:
        return [decompose(pencil, alpha) for pencil in pencils]

    def step(state: RatioState) -> RatioState:
        before = state.alpha
        alpha = ratio_of(pencils, spectra_at(before), before)
        return RatioState(objective=alpha, residual=abs(alpha - before), alpha=alpha, before=before)

    first = first_ratio(pencils)
    start = RatioState(objective=first, residual=1.0, alpha=first, before=first)
    end = trace.run(loop, step, start, max_iter=max_iter, tolerance=tolerance)
    return TraceRatio(end.alpha, spectra_at(end.before))
