"""Maximisation of the coupled objective: starting points, one or many runs, a path over λ."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from algorithms.interface.trace import StoppingRule, StopReason, Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.coupled_traces import BlasCoupledTraces, CoupledTraces
from algorithms.numerics.covariances import Covariances
from algorithms.numerics.grassmann import projector_distance, random_points
from algorithms.rmtpca.newton import TrustRegionState, start_at, trust_region_newton

#: Projection distance (about 15 degrees) within which a start is taken to converge to an optimum.
NEAR_DISTANCE = 0.4
#: Parallel ascent steps from C-PCA that produce a starting point; each costs one product with C.
N_ASCENT_STEPS = 6
#: Steps that lead from C-PCA towards I-PCA, and the weight of the coupling in them, relative to λ,
#: without which tasks with few rows have no steps.
N_SEPARATION_STEPS = 8
SEPARATION_WEIGHT = 1e-3
#: I-PCA is not a start if these steps keep less than this share of the gain of the ascent steps.
#: It was the best start in 550 of 1500 random problems, with a share of at least 0.83.
MIN_SEPARATE_SHARE = 0.75
#: Sweeps of block-wise ascent that produce a starting point.
N_SWEEPS = 5
N_RANDOM_STARTS = 5
#: Starting points of :func:`maximise_from_many`: three informed, two from sweeps, the rest random.
N_MANY_STARTS = 5 + N_RANDOM_STARTS
#: Objectives within this relative difference count as the same optimum.
SAME_OPTIMUM = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class Optimum:
    """Result of one optimiser run.

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
    """Return the fastest implementation of the objective for matrices of this size."""
    if C.dense is not None:
        from algorithms.numerics.compiled_traces import compile_for

        return compile_for(C, lam=lam, k=k)
    return BlasCoupledTraces(C, lam, k)


def informed_starts(C: Covariances, objective: CoupledTraces, *, k: int) -> list[Array]:
    """Return I-PCA, C-PCA, and parallel ascent steps from C-PCA, each (T, k, d)."""
    separate = C.leading(k)
    if objective.lam == 0 or C.n_tasks == 1:
        return [separate]
    common = np.broadcast_to(C.leading_of_sum(k), separate.shape).copy()
    return [separate, common, objective.ascend(common, n_steps=N_ASCENT_STEPS)]


def best_start(C: Covariances, objective: CoupledTraces, *, k: int) -> TrustRegionState:
    """Return the best of the informed starting points.

    I-PCA needs as many eigendecompositions as there are tasks, longer than the rest of a fit. So
    it is left out where it cannot be the best, because J falls on the way to it.
    """
    if objective.lam == 0 or C.n_tasks == 1:
        return start_at(objective, C.leading(k))
    common = np.broadcast_to(C.leading_of_sum(k), (C.n_tasks, k, C.n_features)).copy()
    risen = start_at(objective, objective.ascend(common, n_steps=N_ASCENT_STEPS))
    uncoupled = objective.with_weight(C, SEPARATION_WEIGHT * objective.lam)
    apart = objective.evaluate(uncoupled.ascend(common, n_steps=N_SEPARATION_STEPS)).J
    base = objective.evaluate(common).J
    if apart - base < MIN_SEPARATE_SHARE * (risen.objective - base):
        return risen
    return max(risen, start_at(objective, C.leading(k)), key=lambda state: state.objective)


def maximise(
    C: Covariances,
    *,
    lam: float,
    k: int,
    stopping: StoppingRule,
    trace: Trace,
) -> Optimum:
    """Return the critical point reached from the best of the informed starting points.

    Parameters
    ----------
    lam
        λ of eq. 4.
    k
        Dimension of the subspaces.
    """
    objective = coupled_traces(C, lam=lam, k=k)
    start = best_start(C, objective, k=k)
    return _maximise_from(objective, start, loop="newton", stopping=stopping, trace=trace)


def maximise_from_many(
    C: Covariances,
    *,
    lam: float,
    k: int,
    stopping: StoppingRule,
    trace: Trace,
    rng: np.random.Generator,
) -> Optimum:
    """Return the best critical point reached from ten starting points.

    Parameters
    ----------
    lam
        λ of eq. 4.
    k
        Dimension of the subspaces.
    """
    objective = coupled_traces(C, lam=lam, k=k)
    informed = informed_starts(C, objective, k=k)
    if len(informed) == 1:
        return maximise(C, lam=lam, k=k, stopping=stopping, trace=trace)
    swept = [sweep_blocks(C, U, lam=lam) for U in informed[:2]]
    random = [
        random_points(rng, n_points=C.n_tasks, k=k, d=C.n_features) for _ in range(N_RANDOM_STARTS)
    ]
    optima = [
        _maximise_from(
            objective, start_at(objective, U), loop=f"start {i}", stopping=stopping, trace=trace
        )
        for i, U in enumerate([*informed, *swept, *random], start=1)
    ]
    return best_of(optima)


def common_optimum(C: Covariances, *, k: int, trace: Trace) -> Optimum:
    """Return the limit for λ → ∞: one basis (1, k, d) of top-k eigenvectors of Σ_t C_t.

    The objective is the finite part of eq. 4, ½ Σ_t tr(U_tᵀ C_t U_t).
    """
    U = np.broadcast_to(C.leading_of_sum(k), (C.n_tasks, k, C.n_features)).copy()
    uncoupled = BlasCoupledTraces(C, 0.0, k)
    J, _, F = uncoupled.evaluate(U)
    state = TrustRegionState(objective=J, residual=0.0, U=U, F=F, radius=0.0)
    end = trace.run("common", lambda s: s, state, max_iter=1, tolerance=0.0)
    return Optimum(end.U[:1], end.objective, 0.0, "converged")


def sweep_blocks(C: Covariances, U: Array, *, lam: float, n_sweeps: int = N_SWEEPS) -> Array:
    """Return the bases after block-wise sweeps, which never lower J.

    A sweep replaces the basis of each task in turn by its exact maximiser, the top-k eigenvectors
    of C_t + λ Σ_{s≠t} P_s.

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
    """Return an optimum for each λ of an increasing sequence, with warm starts.

    One pass goes up from I-PCA and one goes down from C-PCA; the better optimum is kept for each λ.
    The upward pass alone is not enough: the tasks stay near their separate subspaces before λ is
    large. Where the downward pass gets near the optimum of the upward pass, it starts from that
    optimum.

    Parameters
    ----------
    lams
        The increasing λ of eq. 4.
    k
        Dimension of the subspaces.
    loop
        Beginning of the names of the loops in the trace.
    """
    first = coupled_traces(C, lam=lams[0], k=k) if lams else None
    objectives = [first.with_weight(C, lam) for lam in lams] if first is not None else []
    U = C.leading(k)
    rising: list[Optimum] = []
    for i, objective in enumerate(objectives):
        start = start_at(objective, U)
        name = f"{loop} up {i + 1}"
        rising.append(_maximise_from(objective, start, loop=name, stopping=stopping, trace=trace))
        U = rising[-1].U
    U = np.broadcast_to(C.leading_of_sum(k), U.shape).copy()
    best: list[Optimum] = []
    for i, objective in reversed(list(enumerate(objectives))):
        is_near = projector_distance(U, rising[i].U).max() < NEAR_DISTANCE
        start = start_at(objective, rising[i].U if is_near else U)
        name = f"{loop} down {i + 1}"
        falling = _maximise_from(objective, start, loop=name, stopping=stopping, trace=trace)
        best.append(best_of([rising[i], falling]))
        U = falling.U
    return best[::-1]


def best_of(optima: Sequence[Optimum]) -> Optimum:
    """Return the first optimum whose objective is the maximum up to rounding."""
    best = max(optimum.objective for optimum in optima)
    threshold = best - SAME_OPTIMUM * abs(best)
    return next(optimum for optimum in optima if optimum.objective >= threshold)


def _maximise_from(
    objective: CoupledTraces,
    start: TrustRegionState,
    *,
    loop: str,
    stopping: StoppingRule,
    trace: Trace,
) -> Optimum:
    end = trust_region_newton(objective, start, stopping=stopping, trace=trace, loop=loop)
    reason = trace.stop_reasons[loop]
    return Optimum(end.U, end.objective, end.residual, reason)
