"""Clustered multi-task learning, beside generic solvers and mean-regularised learning."""

import numpy as np
import pytest
from scipy.optimize import minimize

from algorithms.baselines.cmtl import CMTL
from algorithms.baselines.cmtl.penalty import ClusterPenalty
from algorithms.baselines.linear import MeanRegularised
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace

#: Relative difference of the optimum from that of a generic solver.
OBJECTIVE_RTOL = 1e-6
PENALTY = ClusterPenalty(within=3.0, between=0.5, common=0.2, n_clusters=3)


def made(*, n_tasks=6, n=10, d=3, seed=0) -> TaskSet:
    rng = np.random.default_rng(seed)
    centres = 3 * rng.normal(size=(2, d))
    tasks = []
    for t in range(n_tasks):
        X = rng.normal(size=(n, d))
        y = X @ (centres[t % 2] + 0.2 * rng.normal(size=d)) + 0.5 * rng.normal(size=n) + t
        tasks.append(Task.from_rows(f"t{t}", X, y=y))
    return TaskSet(tuple(tasks))


def fit(tasks, **values):
    plain = {"selection": "given", "standardise": "none", "scale_targets": "none"}
    params = CMTL.Params(**{**plain, "tolerance": 1e-9, "max_iter": 100_000, **values})
    return CMTL().fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


def spectral_value(sigma, penalty, n_tasks):
    """Return the minimum over λ by a generic solver with constraints."""
    low, high = penalty.bounds
    sigma, unit = np.pad(sigma, (0, n_tasks - len(sigma))) / sigma[0], sigma[0] ** 2
    total = (n_tasks - penalty.n_clusters + 1) * low + (penalty.n_clusters - 1) * high
    found = minimize(
        lambda x: np.sum(sigma**2 / x),
        np.full(n_tasks, total / n_tasks),
        jac=lambda x: -(sigma**2) / x**2,
        bounds=[(low, high)] * n_tasks,
        constraints={"type": "eq", "fun": lambda x: x.sum() - total},
        method="SLSQP",
        options={"ftol": 1e-10, "maxiter": 1000},
    )
    assert found.success
    return unit * found.fun


@pytest.mark.parametrize("shape", [(5, 3), (4, 6), (7, 7)])
@pytest.mark.parametrize("n_clusters", [1, 2, 3, 4])
def test_the_penalty_is_the_minimum_over_covariances(shape, n_clusters) -> None:
    W = np.random.default_rng(0).normal(size=shape) * np.arange(1, shape[1] + 1)
    penalty = ClusterPenalty(within=3.0, between=0.5, common=0.2, n_clusters=n_clusters)
    mean = W.mean(axis=0)
    sigma = np.linalg.svd(W - mean, compute_uv=False)
    expected = 0.2 * shape[0] * mean @ mean + spectral_value(sigma, penalty, shape[0])
    assert penalty.value(W) == pytest.approx(expected, rel=1e-6)


def test_the_penalty_of_clusters_is_at_most_that_of_the_discrete_problem() -> None:
    # r clusters are feasible in the relaxation, with equality for functions without noise
    rng = np.random.default_rng(1)
    which = np.array([0, 0, 1, 1, 1, 2])
    for noise in (0.1, 0.5):
        W = rng.normal(size=(3, 4))[which] + noise * rng.normal(size=(6, 4))
        mean, centres = W.mean(axis=0), np.stack([W[which == c].mean(axis=0) for c in which])
        discrete = (
            PENALTY.common * 6 * mean @ mean
            + PENALTY.between * np.sum((centres - mean) ** 2)
            + PENALTY.within * np.sum((W - centres) ** 2)
        )
        assert PENALTY.value(W) <= discrete * (1 + 1e-12)
    exact = rng.normal(size=(3, 4))[which]
    mean = exact.mean(axis=0)
    expected = PENALTY.common * 6 * mean @ mean + PENALTY.between * np.sum((exact - mean) ** 2)
    assert PENALTY.value(exact) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("step", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("n_clusters", [1, 2, 3, 5])
def test_the_proximal_operator_minimises(step, n_clusters) -> None:
    rng = np.random.default_rng(2)
    penalty = ClusterPenalty(within=3.0, between=0.5, common=0.2, n_clusters=n_clusters)
    V = rng.normal(size=(5, 4))
    W = penalty.shrink(V, step)

    def value(W):
        return 0.5 * np.sum((W - V) ** 2) + step * penalty.value(W)

    for scale in (1e-3, 0.1, 1.0):
        for _ in range(30):
            assert value(W + scale * rng.normal(size=W.shape)) > value(W)
    # the optimality condition: (V − W)/step is a gradient, where Fenchel's inequality is equal
    Z = (V - W) / step
    assert np.vdot(Z, W) == pytest.approx(penalty.value(W) + penalty.conjugate(Z), rel=1e-9)


def test_the_conjugate_bounds_products() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        W, Z = rng.normal(size=(2, 6, 4)) * rng.uniform(0.1, 5, size=(2, 1, 1))
        assert np.vdot(Z, W) <= PENALTY.value(W) + PENALTY.conjugate(Z)


@pytest.mark.parametrize("n_clusters", [1, 2, 4])
@pytest.mark.parametrize("has_intercept", [True, False])
def test_the_optimum_is_that_of_a_generic_solver(n_clusters, has_intercept) -> None:
    tasks = made()
    model = fit(tasks, n_clusters=n_clusters, gamma=5.0, fit_intercept=has_intercept)
    within = model.fit_info["epsilon_within"]
    penalty = ClusterPenalty(within, 0.1 * within, 0.1 * within, n_clusters)
    X, y = (np.stack([getattr(task, name) for task in tasks]) for name in "Xy")
    if has_intercept:
        X, y = X - X.mean(axis=1, keepdims=True), y - y.mean(axis=1, keepdims=True)

    def objective(w):
        W = w.reshape(6, 3)
        return np.sum((np.einsum("tnd,td->tn", X, W) - y) ** 2) + penalty.value(W)

    found = minimize(objective, np.zeros(18), method="BFGS", options={"gtol": 1e-6})
    assert model.fit_info["objective"] == pytest.approx(found.fun, rel=OBJECTIVE_RTOL)
    np.testing.assert_allclose(model.learned()["coef"].ravel(), found.x, atol=1e-3)
    assert model.fit_info["relative_gap"] <= 1e-9


@pytest.mark.parametrize("values", [{"n_clusters": 1}, {"n_clusters": 4, "between_share": 1.0}])
def test_without_clusters_it_is_mean_regularised_learning(values) -> None:
    # min over w_0 of gamma Σ‖w_t − w_0‖² + mu‖w_0‖² has the mean's weight gamma mu / (T gamma + mu)
    tasks = made()
    gamma, share = 4.0, 0.05
    mu = share * 6 * gamma / (1 - share)
    plain = {"selection": "given", "standardise": "none", "scale_targets": "none"}
    params = MeanRegularised.Params(**plain, gamma=gamma, common_share=mu / gamma)
    other = MeanRegularised().fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
    model = fit(tasks, gamma=gamma, common_share=share, **values)
    rows = np.random.default_rng(0).normal(size=(5, 3))
    for name in tasks.names:
        np.testing.assert_allclose(
            model.predict(rows, task=name), other.predict(rows, task=name), rtol=1e-4
        )


def test_clusters_are_found_and_help() -> None:
    tasks = made(n_tasks=8, n=6, d=5)
    model = fit(tasks, n_clusters=2, gamma=20.0, between_share=0.01)
    clusters = model.fit_info["clusters"]
    assert [clusters[f"t{t}"] for t in range(8)] == [0, 1] * 4
    assert fit(made(n_tasks=1), n_clusters=2).fit_info["clusters"] == {"t0": 0}


def test_a_fit_that_ends_early_warns_with_its_gap() -> None:
    model = fit(made(), max_iter=1)
    assert "stopped with a relative duality gap" in model.warnings[0]
