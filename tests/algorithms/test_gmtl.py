"""Grouped multi-task feature learning, beside a generic solver and all possible groups."""

import numpy as np
import pytest
from scipy.optimize import minimize

from algorithms.baselines.gmtl import GMTL
from algorithms.baselines.gmtl.grouping import improved
from algorithms.baselines.gmtl.penalty import GroupedTraceNorm
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace

#: Relative difference of objectives from those of a generic solver.
OBJECTIVE_RTOL = 1e-6
#: Made problems that are solved for all groups, and those that must have the best groups.
N_PROBLEMS, N_BEST = 100, 95


def made(rng, *, n_tasks=6, n=12, d=4, noise=0.5) -> TaskSet:
    """Return tasks of two groups; the functions of a group are multiples of one direction."""
    directions = np.linalg.qr(rng.normal(size=(d, 2)))[0].T
    tasks = []
    for t in range(n_tasks):
        X = rng.normal(size=(n, d))
        w = directions[t % 2] * rng.choice([-2.0, 1.0, 3.0])
        tasks.append(Task.from_rows(f"t{t}", X, y=X @ w + noise * rng.normal(size=n)))
    return TaskSet(tuple(tasks))


PLAIN = {"standardise": "none", "scale_targets": "none", "fit_intercept": False}


def fit(tasks, *, seed=0, **values):
    given = {**PLAIN, "tolerance": 1e-9, "max_iter": 50_000, **values}
    return GMTL().fit(tasks, GMTL.Params(**given), trace=Trace(), rng=np.random.default_rng(seed))


def weight_of(tasks, gamma) -> float:
    """Return the weight of the penalty, gamma in units of the mean variance of a column."""
    return gamma * float(np.concatenate([task.X for task in tasks]).var(axis=0).mean())


def objective(tasks, W, penalty) -> float:
    losses = (np.sum((task.y - task.X @ w) ** 2) for task, w in zip(tasks, W, strict=True))
    return float(sum(losses)) + penalty.value(W)


def by_factors(tasks, weight, groups, *, seed=0) -> float:
    """Return the optimum by L-BFGS over factors: ‖W‖_* is the least (‖A‖² + ‖B‖²)/2, W = AB."""
    T, d = len(tasks), tasks.tasks[0].n_features
    r = min(T, d)
    used = np.unique(groups)
    X, y = [task.X for task in tasks], [task.y for task in tasks]

    def value(theta):
        A, B = theta[: T * r].reshape(T, r), theta[T * r :].reshape(len(used), r, d)
        dA, dB, total = np.zeros_like(A), np.zeros_like(B), 0.0
        for i, g in enumerate(used):
            rows = np.flatnonzero(groups == g)
            size = (np.sum(A[rows] ** 2) + np.sum(B[i] ** 2)) / 2
            total += weight * size**2
            dA[rows] += 2 * weight * size * A[rows]
            dB[i] += 2 * weight * size * B[i]
            for t in rows:
                residual = X[t] @ (A[t] @ B[i]) - y[t]
                total += residual @ residual
                slope = 2 * X[t].T @ residual
                dA[t] += B[i] @ slope
                dB[i] += np.outer(A[t], slope)
        return total, np.concatenate([dA.ravel(), dB.ravel()])

    rng = np.random.default_rng(seed)
    start = rng.normal(size=T * r + len(used) * r * d)
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-9}
    return min(
        float(minimize(value, s * start, jac=True, method="L-BFGS-B", options=options).fun)
        for s in (0.3, 1.0)
    )


@pytest.mark.parametrize("n_groups", [1, 2])
def test_the_objective_is_that_of_a_generic_solver(n_groups) -> None:
    for seed in range(3):
        tasks = made(np.random.default_rng(seed))
        model = fit(tasks, n_groups=n_groups, gamma=3.0)
        groups = np.array(list(model.functions.fit_info["groups"].values()))
        assert len(set(groups.tolist())) == n_groups
        expected = by_factors(tasks, weight_of(tasks, 3.0), groups)
        found = model.functions.fit_info["objective"]
        assert found == pytest.approx(expected, rel=OBJECTIVE_RTOL)


@pytest.mark.slow
def test_no_grouping_of_few_tasks_is_better() -> None:
    """Each of the 16 groupings of five tasks into at most two groups has a convex problem."""
    groupings = np.array([[0, *(code >> np.arange(4)) & 1] for code in range(16)])
    n_best = 0
    for seed in range(N_PROBLEMS):
        tasks = made(np.random.default_rng([seed, 7]), n_tasks=5, d=3, noise=1.0)
        found = fit(tasks, n_groups=2, gamma=3.0, tolerance=1e-7).functions.fit_info["objective"]
        best = _convex(tasks, weight_of(tasks, 3.0), groupings).min()
        assert found >= best * (1 - OBJECTIVE_RTOL)
        n_best += found <= best * (1 + OBJECTIVE_RTOL)
    assert n_best >= N_BEST


def _convex(tasks, weight, groupings) -> np.ndarray:
    """Return the optimum of each grouping by proximal gradient without acceleration.

    All are solved at once. The singular values τ of a group become max(τ - cS, 0), where the sum S
    of the result is the largest of (τ_1 + ... + τ_k)/(1 + ck), and c is 2·weight/L.
    """
    is_member = groupings[:, np.newaxis] == np.arange(2)[:, np.newaxis]  # (16, 2, T)
    L = 2 * max(np.linalg.norm(task.X, 2) ** 2 for task in tasks)
    c = 2 * weight / L
    G = np.array([task.X.T @ task.X for task in tasks])
    b = np.array([task.X.T @ task.y for task in tasks])
    constant = sum(float(task.y @ task.y) for task in tasks)
    W = np.zeros((len(groupings), *b.shape))
    GW, before = W, np.inf
    for _ in range(5000):
        moved = W - 2 * (GW - b) / L
        U, tau, V = np.linalg.svd(
            moved[:, np.newaxis] * is_member[..., np.newaxis], full_matrices=False
        )
        sums = np.cumsum(tau, axis=-1) / (1 + c * np.arange(1, tau.shape[-1] + 1))
        sigma = np.maximum(tau - c * sums.max(axis=-1, keepdims=True), 0)
        W = ((U * sigma[..., np.newaxis, :]) @ V).sum(axis=1)
        GW = np.einsum("tde,gte->gtd", G, W)
        losses = np.sum(W * (GW - 2 * b), axis=(1, 2)) + constant
        value = losses + weight * np.sum(sigma.sum(axis=-1) ** 2, axis=-1)
        if np.all(before - value < 1e-10 * value):
            break
        before = value
    return value


def test_the_proximal_operator_and_the_conjugate_are_optimal() -> None:
    rng = np.random.default_rng(1)
    penalty = GroupedTraceNorm(0.7, np.array([0, 1, 0, 1, 1]))
    V = rng.normal(size=(5, 3))
    step = 0.4
    W = penalty.shrink(V, step)

    def value(A) -> float:
        return 0.5 * np.sum((A - V) ** 2) + step * penalty.value(A)

    for _ in range(200):
        assert value(W) <= value(W + 0.01 * rng.normal(size=W.shape)) + 1e-12
    # Fenchel and Young: equality for the subgradient (V - W)/step at W, which is not 0
    assert np.abs(W).max() > 0.1
    Z = (V - W) / step
    assert penalty.value(W) + penalty.conjugate(Z) == pytest.approx(np.vdot(Z, W), rel=1e-10)


def test_known_groups_are_found_and_help() -> None:
    rng = np.random.default_rng(3)
    whole = made(rng, n_tasks=16, n=220, d=10, noise=1.0)
    tasks = TaskSet(tuple(task.take(np.arange(20)) for task in whole))
    model = fit(tasks, n_groups=2, gamma=3.0, n_starts=10)
    groups = list(model.functions.fit_info["groups"].values())
    assert groups == [t % 2 for t in range(16)]

    def error(other) -> float:
        return float(
            np.mean(
                [np.mean((other.predict(t.X[20:], task=t.name) - t.y[20:]) ** 2) for t in whole]
            )
        )

    assert error(model) < error(fit(tasks, n_groups=1, gamma=3.0))


def test_moves_never_raise_the_penalty() -> None:
    rng = np.random.default_rng(5)
    for _ in range(10):
        W = rng.normal(size=(8, 2)) @ rng.normal(size=(2, 5))
        groups = rng.integers(3, size=8)
        moved = improved(W, groups, n_groups=3)
        values = [GroupedTraceNorm(1.0, g).value(W) for g in (groups, moved)]
        assert values[1] <= values[0] * (1 + 1e-12)
        assert np.array_equal(improved(W, moved, n_groups=3), moved)
