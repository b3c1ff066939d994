"""Maximise the coupled objective for given covariances: starts, one climb, many climbs, a path."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.stopping import StoppingRule
from algorithms.interface.trace import StopReason, Trace
from algorithms.numerics.compiled_traces import compile_for
from algorithms.numerics.coupled_traces import BlasCoupledTraces, CoupledTraces
from algorithms.numerics.covariances import Covariances
from algorithms.numerics.grassmann import projector_distance, random_points
from algorithms.rmtpca.newton import NewtonState, climb, start_at

Array = NDArray[np.float64]

#: Projection distance within which a climb would find an optimum that is known: some 15 degrees.
NEAR = 0.4
#: Sweeps of the block-wise ascent that lead to a start.
N_SWEEPS = 5
N_RANDOM_STARTS = 5
#: Loops of :func:`maximise_from_many`: three good starts, two by sweeps, the rest random.
N_MANY_STARTS = 5 + N_RANDOM_STARTS
#: Relative difference of objectives that counts as one optimum.
SAME_OPTIMUM = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """Where a climb ended.

    Parameters
    ----------
    U : (T, k, d)
        Orthonormal rows.
    """

    U: Array
    objective: float
    residual: float
    reason: StopReason


def coupled_traces(C: Covariances, *, lam: float, k: int) -> CoupledTraces:
    """Return the objective in the form that is fastest for matrices of this size."""
    if C.dense is not None:
        return compile_for(C, lam=lam, k=k)
    return BlasCoupledTraces(C, lam, k)


def good_starts(C: Covariances, *, lam: float, k: int) -> list[Array]:
    """Return I-PCA, C-PCA, and one parallel step of ascent from C-PCA, each (T, k, d).

    The parallel step U_t = top-k(C_t + λG), with G = T·P at C-PCA including the task's own
    projector, cannot lower J: without coupling terms of its own J is convex in the projectors.
    """
    own = C.leading(k)
    if lam == 0 or C.n_tasks == 1:
        return [own]
    common = C.leading_of_sum(k)
    stepped = C.leading_with(np.sqrt(lam * C.n_tasks) * common, k)
    return [own, np.broadcast_to(common, own.shape).copy(), stepped]


def maximise(
    C: Covariances,
    *,
    lam: float,
    k: int,
    stopping: StoppingRule,
    trace: Trace,
    loop: str = "newton",
) -> Optimum:
    """Return the critical point above the best of the good starts."""
    objective = coupled_traces(C, lam=lam, k=k)
    states = [start_at(objective, U) for U in good_starts(C, lam=lam, k=k)]
    start = max(states, key=lambda state: state.objective)
    return _climbed(objective, start, loop=loop, stopping=stopping, trace=trace)


def maximise_from_many(
    C: Covariances,
    *,
    lam: float,
    k: int,
    stopping: StoppingRule,
    trace: Trace,
    rng: np.random.Generator,
) -> Optimum:
    """Return the best critical point above ten starts."""
    objective = coupled_traces(C, lam=lam, k=k)
    good = good_starts(C, lam=lam, k=k)
    if len(good) == 1:
        return maximise(C, lam=lam, k=k, stopping=stopping, trace=trace)
    swept = [sweep_blocks(C, U, lam=lam) for U in good[:2]]
    drawn = [
        random_points(rng, n_points=C.n_tasks, k=k, d=C.n_features) for _ in range(N_RANDOM_STARTS)
    ]
    optima = [
        _climbed(
            objective, start_at(objective, U), loop=f"start {i}", stopping=stopping, trace=trace
        )
        for i, U in enumerate([*good, *swept, *drawn], start=1)
    ]
    return best_of(optima)


def common_optimum(C: Covariances, *, k: int, trace: Trace) -> Optimum:
    """Return the limit for λ → ∞: one basis (1, k, d), the top-k of the sum of the matrices.

    The objective is the finite part of eq. 4, ½ Σ_t tr(U_tᵀ C_t U_t).
    """
    U = np.broadcast_to(C.leading_of_sum(k), (C.n_tasks, k, C.n_features)).copy()
    own = BlasCoupledTraces(C, 0.0, k)
    J, _, F = own.evaluate(U)
    state = NewtonState(objective=J, residual=0.0, U=U, F=F, radius=0.0)
    end = trace.run("common", lambda s: s, state, max_iter=1, tolerance=0.0)
    return Optimum(end.U[:1], end.objective, 0.0, "converged")


def sweep_blocks(C: Covariances, U: Array, *, lam: float, n_sweeps: int = N_SWEEPS) -> Array:
    """Return the bases after sweeps in which each task in turn takes its exact maximiser.

    That is the top-k of C_t + λ Σ_{s≠t} P_s, which never lowers J.

    Parameters
    ----------
    U : (T, k, d)
    """
    U = U.copy()
    for _ in range(n_sweeps):
        for t in range(C.n_tasks):
            others = np.delete(U, t, axis=0).reshape(-1, U.shape[2])
            U[t] = C.leading_of_block(t, np.sqrt(lam) * others, U.shape[1])
    return U


def follow_path(
    C: Covariances,
    *,
    lams: Sequence[float],
    k: int,
    stopping: StoppingRule,
    trace: Trace,
    loop: str,
) -> list[Optimum]:
    """Return an optimum for each λ of a rising sequence.

    Once upwards from I-PCA and once downwards from C-PCA, each climb from the last one's end, and
    the better kept: upwards alone, blocks lock into their own starts before λ is large. On its
    way down a climb that would begin near the optimum of the way up begins, and so ends, there.
    """
    first = coupled_traces(C, lam=lams[0], k=k) if lams else None
    objectives = [first.with_weight(C, lam) for lam in lams] if first is not None else []
    U = C.leading(k)
    rising: list[Optimum] = []
    for i, objective in enumerate(objectives):
        start = start_at(objective, U)
        name = f"{loop} up {i + 1}"
        rising.append(_climbed(objective, start, loop=name, stopping=stopping, trace=trace))
        U = rising[-1].U
    U = np.broadcast_to(C.leading_of_sum(k), U.shape).copy()
    best: list[Optimum] = []
    for i, objective in reversed(list(enumerate(objectives))):
        is_near = projector_distance(U, rising[i].U).max() < NEAR
        start = start_at(objective, rising[i].U if is_near else U)
        name = f"{loop} down {i + 1}"
        falling = _climbed(objective, start, loop=name, stopping=stopping, trace=trace)
        best.append(best_of([rising[i], falling]))
        U = falling.U
    return best[::-1]


def best_of(optima: Sequence[Optimum]) -> Optimum:
    """Return the optimum of largest objective, the first of those that differ by rounding only."""
    highest = max(optimum.objective for optimum in optima)
    least = highest - SAME_OPTIMUM * abs(highest)
    return next(optimum for optimum in optima if optimum.objective >= least)


def _climbed(
    objective: CoupledTraces, start: NewtonState, *, loop: str, stopping: StoppingRule, trace: Trace
) -> Optimum:
    end = climb(
        objective,
        start,
        loop=loop,
        max_iter=stopping.max_iter,
        rtol=stopping.tolerance,
        trace=trace,
    )
    reason = trace.stop_reasons[loop]
    return Optimum(objective.unpack(end.U), end.objective, end.residual, reason)
