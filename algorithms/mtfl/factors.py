"""Solver of MTFL for losses of margins: L-BFGS on the factors of W = V Uᵀ.

Since ‖W‖ = min ½(‖U‖² + ‖V‖²) over W = VUᵀ, for both norms,

    min Σ φ(y (⟨v_t, Uᵀx⟩ + b_t)) + γ/4 (‖U‖² + ‖V‖²)²  over U (d, r), V (T, r), b (T,)

has the optimum of the convex problem for r >= min(d, T), which the duality gap certifies. The hinge
loss is replaced by :class:`algorithms.numerics.losses.ProximalHinge`. After each inner iteration
its centre c moves to the current multipliers and its μ decreases, until the duality gap of the
hinge loss is small.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from algorithms.interface.trace import LoopState, Trace
from algorithms.mtfl.margins import (
    MarginProblem,
    correlation,
    lower_bound,
    margins,
    objective,
    slopes,
    total,
)
from algorithms.mtfl.square import relative_gap
from algorithms.numerics import lbfgs
from algorithms.numerics.arrays import Array
from algorithms.numerics.losses import Hinge, MarginLoss, ProximalHinge

#: Maximum number of quasi-Newton steps per iteration, for smooth losses and for the hinge loss.
INNER_STEPS = {False: 5, True: 60}
#: The inner steps end once the gradient has decreased by this factor.
INNER_RTOL = 0.01
#: μ of the proximal hinge: initial value, factor per iteration, and lower bound.
MU = 1.0
MU_FACTOR = 0.5
MIN_MU = 1e-2
#: Smallest length of a direction of the start, relative to the largest; zero would be a saddle.
MIN_START_RATIO = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorState(LoopState):
    """State of the iteration, with the best W and b.

    Parameters
    ----------
    x : (p,)
        U (d, r) or (d,), V (T, r) and b (T,) as one vector.
    S, Y : (k, p)
        Pairs of :mod:`algorithms.numerics.lbfgs`.
    c : (n,)
        Centres of the proximal hinge for all stacks; empty for a smooth loss.
    W : (T, d)
    b : (T,)
        Best coefficients and intercepts.
    bound
        Largest lower bound.
    """

    x: Array
    S: Array
    Y: Array
    c: Array
    mu: float
    W: Array
    b: Array
    bound: float

    def final(self) -> Self:
        """Return the state without the data of the quasi-Newton steps."""
        return replace(self, x=self.x[:0], S=self.S[:0], Y=self.Y[:0], c=self.c[:0])


def minimise_factors(
    problem: MarginProblem,
    start: tuple[Array, Array],
    *,
    trace: Trace,
    loop: str,
    max_iter: int,
    tolerance: float,
) -> FactorState:
    """Iterate from W and b until the relative duality gap is below the tolerance.

    Parameters
    ----------
    start : (T, d), (T,)
        W and b.
    loop
        Name of the loop in the trace.
    """
    is_hinge = isinstance(problem.loss, Hinge)
    n_steps = INNER_STEPS[is_hinge]

    def step(state: FactorState) -> FactorState:
        losses = _losses(problem, state)
        x, S, Y, is_stalled = _inner_steps(problem, losses, state, n_steps=n_steps)
        U, V, b = _unpack(problem, x)
        W = problem.norm.lift(V, U)
        M = margins(problem, W, b)
        P = [loss.multiplier(m) for loss, m in zip(losses, M, strict=True)]
        value, bound = objective(problem, M, W), max(lower_bound(problem, P), state.bound)
        is_better = value <= state.objective
        return FactorState(
            objective=value if is_better else state.objective,
            residual=relative_gap(value if is_better else state.objective, bound),
            is_stalled=is_stalled and (not is_hinge or np.array_equal(_flat(P), state.c)),
            x=x,
            S=S,
            Y=Y,
            c=_flat(P) if is_hinge else state.c,
            mu=max(state.mu * MU_FACTOR, MIN_MU),
            W=W if is_better else state.W,
            b=b if is_better else state.b,
            bound=bound,
        )

    return trace.run(loop, step, _start(problem, *start), max_iter=max_iter, tolerance=tolerance)


def _inner_steps(
    problem: MarginProblem, losses: Sequence[MarginLoss], state: FactorState, *, n_steps: int
) -> tuple[Array, Array, Array, bool]:
    """Return x, S and Y after up to ``n_steps`` quasi-Newton steps, and whether none succeeded."""

    def evaluate(x: Array) -> lbfgs.Point:
        return _evaluate(problem, losses, x)

    point, S, Y = evaluate(state.x), state.S, state.Y
    target = INNER_RTOL * float(np.linalg.norm(point.gradient))
    for done in range(n_steps):
        along = lbfgs.direction(point.gradient, S, Y)
        first = lbfgs.initial_step_length(point, along, S)
        trial = lbfgs.line_search(evaluate, point, along, initial_step=first)
        if trial is None:
            return point.x, S[:0], Y[:0], done == 0 and len(S) == 0
        S, Y = lbfgs.add_pair(S, Y, trial.x - point.x, trial.gradient - point.gradient)
        point = trial
        if lbfgs.norm(point.gradient) <= target:
            break
    return point.x, S, Y, False


def _evaluate(problem: MarginProblem, losses: Sequence[MarginLoss], x: Array) -> lbfgs.Point:
    """Return the factored objective and its gradient."""
    norm = problem.norm
    U, V, b = _unpack(problem, x)
    M = margins(problem, norm.lift(V, U), b)
    P = [loss.multiplier(m) for loss, m in zip(losses, M, strict=True)]
    Z = correlation(problem, P)
    size = float(np.sum(U**2) + np.sum(V**2))
    loss = total(problem, [loss.value(m) for loss, m in zip(losses, M, strict=True)])
    gradient = (
        problem.gamma * size * U - norm.correlate(Z, V),
        problem.gamma * size * V - norm.project(Z, U),
        -problem.stacks.sums(slopes(problem, P)) if problem.has_intercept else np.zeros_like(b),
    )
    return lbfgs.Point(x, loss + problem.gamma / 4 * size**2, _pack(*gradient))


class _Shapes(NamedTuple):
    U: tuple[int, ...]
    V: tuple[int, int]


def _shapes(problem: MarginProblem) -> _Shapes:
    T, d = problem.stacks.n_columns, problem.stacks.n_features
    r = min(T, d)
    return _Shapes((d, r), (T, r)) if problem.norm.is_full else _Shapes((d,), (T, d))


def _pack(U: Array, V: Array, b: Array) -> Array:
    return np.concatenate([U.ravel(), V.ravel(), b])


def _unpack(problem: MarginProblem, x: Array) -> tuple[Array, Array, Array]:
    shapes = _shapes(problem)
    ends = np.cumsum([np.prod(shapes.U), np.prod(shapes.V)])
    U, V, b = np.split(x, ends)
    return U.reshape(shapes.U), V.reshape(shapes.V), b


def _start(problem: MarginProblem, W: Array, b: Array) -> FactorState:
    """Return the state at W; if W is zero, the factors are from a short gradient step."""
    is_hinge = isinstance(problem.loss, Hinge)
    M = margins(problem, W, b)
    P = [problem.loss.multiplier(m) for m in M]
    bound = lower_bound(problem, P)
    guess = W
    if not W.any():
        Z = correlation(problem, P)
        largest = max(float(np.sum(part.X**2, axis=(1, 2)).max()) for part in problem.stacks.parts)
        guess = Z / max(largest, np.finfo(float).tiny)
    x = _pack(*problem.norm.factor(guess, min_ratio=MIN_START_RATIO), b)
    value = objective(problem, M, W)
    return FactorState(
        objective=value,
        residual=relative_gap(value, bound),
        x=x,
        S=np.zeros((0, x.size)),
        Y=np.zeros((0, x.size)),
        c=_flat(P) if is_hinge else np.zeros(0),
        mu=MU,
        W=W,
        b=b,
        bound=bound,
    )


def _losses(problem: MarginProblem, state: FactorState) -> list[MarginLoss]:
    """Return the smooth loss for each stack."""
    parts = problem.stacks.parts
    if not isinstance(problem.loss, Hinge):
        return [problem.loss for _ in parts]
    ends = np.cumsum([part.Y.size for part in parts])[:-1]
    centres = np.split(state.c, ends)
    return [
        ProximalHinge(c.reshape(part.Y.shape), state.mu)
        for c, part in zip(centres, parts, strict=True)
    ]


def _flat(P: Sequence[Array]) -> Array:
    return np.concatenate([p.ravel() for p in P])
