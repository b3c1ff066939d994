import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from threadpoolctl import threadpool_limits

from algorithms.baselines.gplvm import GPLVMParams
from algorithms.families.latent import gp as gp_module
from algorithms.families.latent.gp import (
    fit_latent_gp,
    principal_latents,
    project,
    project_rows_traced,
)
from algorithms.families.latent.objective import LatentObjective, pack
from algorithms.interface.trace import Trace
from algorithms.numerics.gaussian_divergences import DIVERGENCES, spectral_divergence
from algorithms.numerics.gp_covariances import COVARIANCES
from algorithms.numerics.gp_terms import (
    compress_rows,
    conditional_negative_log_likelihood,
    negative_log_likelihood,
)
from algorithms.numerics.informative_rows import informative_rows
from algorithms.numerics.kernels.latent import evaluate
from algorithms.numerics.latent_projection import (
    ROBUST_TOLERANCE,
    initial_latents,
    predictor,
    refine_latents,
)
from algorithms.solvers.lbfgs import WINDOW, initial_state, lbfgs_step, minimise

#: Central differences of fourth order, h = 1e-3 to 1e-5: a dozen digits less what F loses.
DIFFERENCE_RTOL = 1e-7
#: What a public optimiser may still gain, of the objective, from where a descent ends.
LEFT = 1e-3
#: The same number by two routes of linear algebra.
ROUNDING = 1e-9

over_kernels = pytest.mark.parametrize("kernel", sorted(COVARIANCES))
over_divergences = pytest.mark.parametrize("name", sorted(DIVERGENCES))


def differences(f, z, h=1e-5):
    """Return the gradient of f by central differences of fourth order."""
    steps = h * np.eye(len(z))
    return np.array(
        [(8 * (f(z + e) - f(z - e)) - (f(z + 2 * e) - f(z - 2 * e))) / (12 * h) for e in steps]
    )


def random_covariance(rng, n=5):
    A = rng.standard_normal((n, n + 2))
    return A @ A.T / n + 0.1 * np.eye(n)


# --- terms ---------------------------------------------------------------------------------------


@over_kernels
@pytest.mark.parametrize("term", ["likelihood", "conditional"])
def test_gradients_of_likelihoods_agree_with_differences(kernel, term) -> None:
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((9, 4))
    terms = {
        "likelihood": partial(negative_log_likelihood, Y=Y, n_columns=4),
        "conditional": partial(conditional_negative_log_likelihood, Y=Y[:5], Yt=Y[5:], n_columns=4),
    }[term]
    objective = LatentObjective(COVARIANCES[kernel], terms, 3, 1e-2)
    z = pack(np.array([0.2, -0.3, -0.5]), rng.standard_normal((9, 3)))
    value, gradient = objective(z)
    assert np.isfinite(value)
    error = np.abs(differences(lambda z: objective(z)[0], z) - gradient).max()
    assert error <= DIFFERENCE_RTOL * np.abs(gradient).max()


def test_likelihood_is_that_of_independent_columns() -> None:
    rng = np.random.default_rng(1)
    K, Y = random_covariance(rng), rng.standard_normal((5, 3))
    value, _ = negative_log_likelihood(K, Y, n_columns=3)
    expected = -sum(multivariate_normal(np.zeros(5), K).logpdf(column) for column in Y.T)
    assert value == pytest.approx(expected, rel=ROUNDING)


def test_compressed_rows_give_the_same_likelihood() -> None:
    rng = np.random.default_rng(2)
    K, Y = random_covariance(rng), rng.standard_normal((5, 40))
    assert compress_rows(Y).shape == (5, 5)
    here, there = (negative_log_likelihood(K, rows, n_columns=40) for rows in (Y, compress_rows(Y)))
    assert here[0] == pytest.approx(there[0], rel=ROUNDING)
    np.testing.assert_allclose(here[1], there[1], rtol=1e-8, atol=1e-10)


def test_conditional_of_one_row_is_the_quotient_of_two_likelihoods() -> None:
    rng = np.random.default_rng(3)
    K, Y = random_covariance(rng, 6), rng.standard_normal((6, 3))
    value, _ = conditional_negative_log_likelihood(K, Y[:5], Y[5:], n_columns=3)
    both, _ = negative_log_likelihood(K, Y, n_columns=3)
    one, _ = negative_log_likelihood(K[:5, :5], Y[:5], n_columns=3)
    assert value == pytest.approx(both - one, rel=ROUNDING)


def test_likelihood_and_predictions_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(4)
    X, Y, new = rng.standard_normal((12, 2)), rng.standard_normal((12, 3)), rng.random((5, 2))
    theta, floor = np.log([1.7, 0.6, 0.2]), 0.05
    width = 1 / np.sqrt(0.6)
    public = GaussianProcessRegressor(
        ConstantKernel(1.7) * RBF(width) + WhiteKernel(0.25), optimizer=None, alpha=0.0
    ).fit(X, Y)
    K = COVARIANCES["rbf"].matrix(X, X, theta) + 0.25 * np.eye(12)
    value, _ = negative_log_likelihood(K, Y, n_columns=3)
    assert value == pytest.approx(-public.log_marginal_likelihood_value_, rel=ROUNDING)
    process = predictor("rbf", theta, X, Y, floor=floor)
    mean, deviation = public.predict(new, return_std=True)
    np.testing.assert_allclose(process.mean(new), mean, rtol=1e-8)
    np.testing.assert_allclose(process.variance(new), deviation[:, 0] ** 2, rtol=1e-8)


# --- divergences ---------------------------------------------------------------------------------


def by_integration(name, s, st_):
    """Return the divergence of N(0, s) and N(0, st_) from its definition, over numbers."""
    p, q = norm(scale=np.sqrt(s)).pdf, norm(scale=np.sqrt(st_)).pdf

    def integral(f):
        return quad(f, -30, 30, epsabs=1e-13, epsrel=1e-12, limit=400)[0]

    def kl(a, b):
        a, b = norm(scale=np.sqrt(a)), norm(scale=np.sqrt(b))
        return integral(lambda y: a.pdf(y) * (a.logpdf(y) - b.logpdf(y)))

    return {
        "kl": lambda: kl(s, st_),
        "reverse-kl": lambda: kl(st_, s),
        "jeffreys": lambda: kl(s, st_) + kl(st_, s),
        "squared-l2": lambda: (
            integral(lambda y: (p(y) - q(y)) ** 2) / integral(lambda y: p(y) ** 2 + q(y) ** 2)
        ),
        "bhattacharyya": lambda: -np.log(integral(lambda y: np.sqrt(p(y) * q(y)))),
    }[name]()


@over_divergences
def test_divergences_equal_their_integrals(name) -> None:
    value, _, _ = DIVERGENCES[name](np.array([[1.3]]), np.array([[0.6]]))
    assert value == pytest.approx(by_integration(name, 1.3, 0.6), rel=1e-8)


def test_reverse_kl_is_itakura_saito_under_q() -> None:
    p, q = norm(scale=np.sqrt(1.3)).pdf, norm(scale=np.sqrt(0.6)).pdf
    distortion, _ = quad(
        lambda y: (np.log(q(y) / p(y)) + p(y) / q(y) - 1) * q(y), -12, 12, epsabs=1e-12
    )
    value, _, _ = DIVERGENCES["reverse-kl"](np.array([[1.3]]), np.array([[0.6]]))
    assert value == pytest.approx(distortion, rel=1e-8)


@over_divergences
@pytest.mark.parametrize("is_spectral", [False, True])
def test_gradients_of_divergences_agree_with_differences(name, is_spectral) -> None:
    rng = np.random.default_rng(5)
    K, Kt, E = (random_covariance(rng) for _ in range(3))
    divergence = DIVERGENCES[name]
    if is_spectral:
        divergence = partial(spectral_divergence, divergence)
    _, by_K, by_Kt = divergence(K, Kt)
    along = differences(lambda t: divergence(K + t[0] * E, Kt + t[1] * E)[0], np.zeros(2), h=1e-4)
    np.testing.assert_allclose([np.vdot(by_K, E), np.vdot(by_Kt, E)], along, rtol=DIFFERENCE_RTOL)


@over_divergences
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_the_spectral_divergence_is_the_minimum_over_rotations(name, seed) -> None:
    rng = np.random.default_rng(seed)
    K, Kt = random_covariance(rng, 4), random_covariance(rng, 4)
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    least, _, _ = spectral_divergence(DIVERGENCES[name], K, Kt)
    assert 0 <= least <= DIVERGENCES[name](K, Q @ Kt @ Q.T)[0] + ROUNDING
    assert DIVERGENCES[name](K, K)[0] == pytest.approx(0.0, abs=1e-8)


def test_normalised_l2_does_not_overflow_where_plain_l2_does() -> None:
    K = 1e-8 * np.eye(300)
    value, by_K, _ = DIVERGENCES["squared-l2"](K, 2 * K)
    assert 0 < value <= 1
    assert np.isfinite(by_K).all()


# --- which rows ----------------------------------------------------------------------------------


@over_kernels
def test_informative_rows_have_the_largest_posterior_variance(kernel) -> None:
    rng = np.random.default_rng(6)
    X, theta, noise = rng.standard_normal((25, 2)), np.array([0.3, 0.4, 0.0]), 0.2
    chosen = informative_rows(COVARIANCES[kernel], X, theta, noise=noise, r=7)
    K = COVARIANCES[kernel].matrix(X, X, theta)
    assert chosen[0] == np.argmin(np.sum((X - X.mean(axis=0)) ** 2, axis=1))
    for i in range(1, 7):
        I = chosen[:i]
        left = np.linalg.solve(K[np.ix_(I, I)] + noise * np.eye(i), K[I])
        posterior = np.diag(K) - np.sum(K[I] * left, axis=0)
        posterior[I] = -np.inf
        assert chosen[i] == np.argmax(posterior)


def test_informative_rows_do_not_depend_on_the_order_of_rows() -> None:
    rng = np.random.default_rng(7)
    X, order = rng.standard_normal((30, 2)), rng.permutation(30)
    here = informative_rows(COVARIANCES["rbf"], X, np.zeros(3), noise=1.0, r=9)
    there = informative_rows(COVARIANCES["rbf"], X[order], np.zeros(3), noise=1.0, r=9)
    np.testing.assert_array_equal(here, order[there])


def test_all_rows_are_chosen_once_even_if_some_are_equal() -> None:
    X = np.ones((6, 2))
    chosen = informative_rows(COVARIANCES["rbf"], X, np.zeros(3), noise=0.01, r=40)
    assert sorted(chosen) == list(range(6))


# --- descent -------------------------------------------------------------------------------------


def test_descent_finds_the_minimum_of_rosenbrock() -> None:
    def rosenbrock(z):
        a, b = z[:-1], z[1:]
        gradient = np.zeros_like(z)
        gradient[:-1] += -400 * a * (b - a**2) - 2 * (1 - a)
        gradient[1:] += 200 * (b - a**2)
        return float(np.sum(100 * (b - a**2) ** 2 + (1 - a) ** 2)), gradient

    trace = Trace()
    start = np.full(10, -0.7)
    end = minimise(rosenbrock, start, trace=trace, loop="r", max_iter=500, tolerance=1e-9)
    np.testing.assert_allclose(end.z, 1.0, atol=1e-8)
    public = minimize(rosenbrock, start, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    assert end.n_evaluations < 2 * public.nfev
    values = [step.objective for step in trace.history]
    assert values == sorted(values, reverse=True)


def test_descent_turns_back_from_where_there_is_no_value() -> None:
    def barrier(z):
        if z[0] <= 0:
            return np.inf, np.zeros(1)
        return float(z[0] - np.log(z[0])), np.array([1 - 1 / z[0]])

    end = minimise(barrier, np.array([3.0]), trace=Trace(), loop="b", max_iter=99, tolerance=1e-9)
    assert end.z[0] == pytest.approx(1.0, abs=1e-8)


def test_descent_that_starts_at_the_minimum_stops_there() -> None:
    end = minimise(
        lambda z: (float(z @ z), 2 * z), np.zeros(3), trace=Trace(), loop="q", max_iter=9,
        tolerance=0.0,
    )  # fmt: skip
    assert end.objective == 0.0


def test_linear_kernel_reaches_dual_probabilistic_pca() -> None:
    rng = np.random.default_rng(8)
    Y = rng.standard_normal((20, 3)) @ rng.standard_normal((3, 60)) * 0.4
    Y += 0.5 * rng.standard_normal(Y.shape)
    Y -= Y.mean(axis=0)
    params = GPLVMParams(
        kernel="linear", L=3, r=20, floor=1e-8, tolerance=1e-10, max_iter=5000
    )  # fmt: skip
    gp = fit_latent_gp(Y, params, trace=Trace(), loop="l", rng=rng)
    N, D = Y.shape
    values, V = np.linalg.eigh(Y @ Y.T / D)
    values, V = values[::-1], V[:, ::-1]
    noise = values[3:].sum() / (N - 3)
    expected = 0.5 * D * (
        N * np.log(2 * np.pi) + np.log(values[:3]).sum() + (N - 3) * np.log(noise) + N
    )  # fmt: skip
    assert gp.value == pytest.approx(expected, rel=1e-6)
    # the covariance too, in the order in which the rows were chosen
    place = [int(np.argmin(np.sum((Y - row) ** 2, axis=1))) for row in gp.Y]
    closed = (V[:, :3] * (values[:3] - noise)) @ V[:, :3].T + noise * np.eye(N)
    K = COVARIANCES["linear"].matrix(gp.X, gp.X, gp.theta) + np.exp(gp.theta[2]) * np.eye(N)
    np.testing.assert_allclose(K, closed[np.ix_(place, place)], atol=1e-4 * values[0])


@pytest.mark.parametrize(("L", "seed"), [(2, 0), (2, 1), (5, 1)])
@threadpool_limits.wrap(limits=1)  # as a fit has it: threads slow small matrices down
@pytest.mark.quick(1)
def test_a_descent_with_a_low_noise_floor_converges(L, seed) -> None:
    rng = np.random.default_rng(seed)
    Z, mix, phase = (
        rng.standard_normal((100, 2)),
        rng.standard_normal((2, 12)),
        rng.uniform(0, 6, 12),
    )
    Y = np.sin(Z @ mix + phase) + 0.02 * rng.standard_normal((100, 12))
    Y -= Y.mean(axis=0)
    Y /= np.sqrt(np.mean(Y**2))
    trace = Trace()
    gp = fit_latent_gp(Y, GPLVMParams(L=L, floor=1e-8), trace=trace, loop="f", rng=rng)
    assert trace.stop_reason == "converged"
    terms = partial(negative_log_likelihood, Y=gp.Y, n_columns=12)
    objective = LatentObjective(COVARIANCES["rbf"], terms, L, 1e-8)
    public = minimize(
        objective, pack(gp.theta, gp.X), jac=True, method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 6000, "ftol": 1e-12, "gtol": 1e-3},
    )  # fmt: skip
    assert gp.value - public.fun <= LEFT * abs(public.fun)


@pytest.mark.parametrize("n_before", [0, WINDOW - 2, WINDOW - 1, WINDOW, 2 * WINDOW])
def test_the_residual_is_the_expected_gain_once_progress_is_slow(n_before) -> None:
    def narrow(z):
        return float(0.5 * (1e6 * z[0] ** 2 + z[1] ** 2)), np.array([1e6 * z[0], z[1]])

    start = initial_state(narrow, np.array([1e-6, 1.0]), scale=7.0)
    assert start.residual == pytest.approx(1 / 7)
    values = start.objective + np.linspace(1e-4, 0.0, n_before)
    after = lbfgs_step(narrow, replace(start, values=values), scale=7.0)
    assert np.abs(after.gradient).max() == pytest.approx(1.0, rel=1e-3)
    outlook = np.inf
    if n_before >= WINDOW - 1:  # with the value of the start there are enough
        outlook = 10 * ([*values, start.objective][-WINDOW] - after.objective)
        assert outlook < 0.01
        assert len(after.values) == WINDOW
    assert after.residual == pytest.approx(min(outlook, 1.0) / 7, rel=1e-3)


@threadpool_limits.wrap(limits=1)
def test_more_starts_are_never_worse() -> None:
    rng = np.random.default_rng(9)
    Y = np.sin(rng.standard_normal((30, 2)) @ rng.standard_normal((2, 8)) * 2)
    Y -= Y.mean(axis=0)
    one, many = (
        fit_latent_gp(
            Y, GPLVMParams(L=2, n_init=n), trace=Trace(), loop="g", rng=np.random.default_rng(0)
        )
        for n in (1, 4)
    )
    assert many.value <= one.value


def test_the_best_of_different_starts_is_kept() -> None:
    rng = np.random.default_rng(9)
    Y = np.sin(rng.standard_normal((30, 2)) @ rng.standard_normal((2, 8)) * 2)
    Y -= Y.mean(axis=0)
    trace = Trace()
    params = GPLVMParams(L=2, n_init=4, max_iter=30)
    gp = fit_latent_gp(Y, params, trace=trace, loop="g", rng=np.random.default_rng(0))
    first = [step.objective for step in trace.history if step.iteration == 0]
    last = {step.loop: step.objective for step in trace.history}
    assert len(set(np.round(first, 6))) == 4
    assert len(set(np.round(list(last.values()), 6))) == 4
    assert gp.value == min(last.values())
    assert list(last) == ["g", "g, start 2", "g, start 3", "g, start 4"]


def test_the_residual_is_the_largest_gradient_per_value() -> None:
    rng = np.random.default_rng(9)
    Y = rng.standard_normal((30, 8))
    Y -= Y.mean(axis=0)
    trace = Trace()
    fit_latent_gp(Y, GPLVMParams(L=2, r=11), trace=trace, loop="g", rng=rng)
    X, theta = principal_latents(Y, L=2), np.zeros(3)
    active = informative_rows(COVARIANCES["rbf"], X, theta, noise=1.01, r=11)
    terms = partial(negative_log_likelihood, Y=Y[active], n_columns=8)
    f = LatentObjective(COVARIANCES["rbf"], terms, 2, 0.01)
    steepest = np.abs(differences(lambda z: f(z)[0], pack(theta, X[active]))).max()
    assert trace.history[0].residual == pytest.approx(steepest / (11 * 8), rel=1e-6)


def test_principal_latents_are_as_many_as_the_rank() -> None:
    rng = np.random.default_rng(10)
    Y = rng.standard_normal((15, 2)) @ rng.standard_normal((2, 6))
    Y -= Y.mean(axis=0)
    X = principal_latents(Y, L=5)
    assert X.shape == (15, 2)
    assert np.mean(np.sum(X**2, axis=1)) == pytest.approx(1.0)


# --- projection ----------------------------------------------------------------------------------


@pytest.fixture(params=["rbf", "linear"])
def process(request):
    rng = np.random.default_rng(11)
    X = rng.standard_normal((10, 2))
    Y = np.sin(X @ rng.standard_normal((2, 7))) + 0.05 * rng.standard_normal((10, 7))
    return predictor(request.param, np.log([1.5, 0.7, 0.02]), X, Y, floor=0.01)


@pytest.mark.parametrize("is_robust", [False, True])
def test_kernel_agrees_with_its_numpy_version_and_with_differences(process, is_robust) -> None:
    rng = np.random.default_rng(12)
    Y, points = rng.standard_normal((6, 7)), rng.standard_normal((6, 2))
    products, turned = np.stack([process.P, process.C]), np.ascontiguousarray(process.active.T)
    twin = process.values(points, Y, is_robust=is_robust)
    for y, x, expected in zip(Y, points, twin, strict=True):
        numbers = np.array([*np.exp(process.theta[:2]), process.noise, y @ y, 7.0])
        kind, gradient = (process.kernel == "rbf", is_robust), np.empty(2)

        def f(x, y=y, numbers=numbers, kind=kind, gradient=gradient):
            b, work = process.A @ y, np.empty((3, 10))
            return evaluate(x, turned, products, b, numbers, kind, work, gradient)

        approximate = differences(f, x, h=1e-3)  # the value loses digits: 1e-11 of it
        assert f(x) == pytest.approx(expected, rel=ROUNDING)
        assert np.abs(gradient - approximate).max() <= DIFFERENCE_RTOL * np.abs(gradient).max()


@pytest.mark.slow
@pytest.mark.parametrize("is_robust", [False, True])
def test_projection_reaches_the_minimum_of_a_public_optimiser(process, is_robust) -> None:
    rng = np.random.default_rng(13)
    Y = process.mean(rng.standard_normal((40, 2))) + 0.1 * rng.standard_normal((40, 7))
    start, first = initial_latents(process, Y, is_robust=is_robust)
    np.testing.assert_allclose(first, process.values(start, Y, is_robust=is_robust), rtol=1e-8)
    X, values = refine_latents(process, Y, start, is_robust=is_robust)
    np.testing.assert_allclose(values, process.values(X, Y, is_robust=is_robust), rtol=1e-7)
    assert (values <= first).all()
    public = []
    for i in range(40):
        found = minimize(
            lambda x, y=Y[i : i + 1]: process.values(x[np.newaxis], y, is_robust=is_robust)[0],
            start[i],
            method="BFGS",
            options={"gtol": 1e-7},
        )
        public.append(found.fun)
    # each search may fall into a valley of its own; no worse on the whole, and mostly the same
    assert np.mean(values <= np.array(public) + 1e-5) >= 0.9
    assert values.sum() <= np.sum(public) + 0.5


def test_projection_by_robust_noise_loses_no_precision(process) -> None:
    rng = np.random.default_rng(13)
    Y = process.mean(rng.standard_normal((40, 2))) + 0.1 * rng.standard_normal((40, 7))
    start, _ = initial_latents(process, Y, is_robust=False)
    middle, _ = refine_latents(process, Y, start, is_robust=True, tolerance=1e-10)
    _, expected = refine_latents(process, Y, middle, is_robust=False)
    found = process.values(project(process, Y, is_robust=False), Y, is_robust=False)
    assert np.mean(found <= expected + 1e-7) >= 0.95


def steep_problem(seed, *, noise, spread):
    """Return a process of little noise, and rows away from its mean."""
    rng = np.random.default_rng(seed)
    X, mix = rng.standard_normal((10, 2)), rng.standard_normal((2, 7))
    rows = np.sin(X @ mix) + 0.05 * rng.standard_normal((10, 7))
    steep = predictor("rbf", np.log([1.5, 0.7, noise]), X, rows, floor=1e-4)
    return steep, steep.mean(rng.standard_normal((60, 2))) + spread * rng.standard_normal((60, 7))


@pytest.mark.parametrize("seed", [0, 2, 4])
def test_rows_converge_from_the_robust_minimum(seed) -> None:
    steep, Y = steep_problem(seed, noise=1e-3, spread=0.1)
    start, first = initial_latents(steep, Y, is_robust=False)
    middle, _ = refine_latents(steep, Y, start, is_robust=True, tolerance=1e-10)
    _, expected = refine_latents(steep, Y, middle, is_robust=False)
    _, direct = refine_latents(steep, Y, start, is_robust=False)
    expected = np.minimum(expected, first)
    found = steep.values(project(steep, Y, is_robust=False), Y, is_robust=False)
    assert np.mean(np.abs(found - expected) < 1e-2) >= 0.98
    # without the detour they would be trapped at an active latent, and be worse on the whole
    assert np.mean(np.abs(direct - expected) < 1e-2) < 0.98
    assert found.sum() < direct.sum() - 2


def test_no_row_is_projected_worse_than_the_best_active_latent() -> None:
    steep, Y = steep_problem(2, noise=0.01, spread=0.3)
    start, first = initial_latents(steep, Y, is_robust=False)
    middle, _ = refine_latents(steep, Y, start, is_robust=True, tolerance=ROBUST_TOLERANCE)
    assert (
        refine_latents(steep, Y, middle, is_robust=False)[1] > first + 1e-3
    ).any()  # else no check
    at_active = np.stack(
        [steep.values(np.tile(x, (60, 1)), Y, is_robust=False) for x in steep.active], axis=1
    )
    np.testing.assert_allclose(first, at_active.min(axis=1), rtol=1e-8)
    trace = Trace()
    for found in (
        project(steep, Y, is_robust=False),
        project_rows_traced(steep, Y, is_robust=False, trace=trace, loop="p"),
    ):
        values = steep.values(found, Y, is_robust=False)
        assert (values <= at_active.min(axis=1) + 1e-9).all()
    assert trace.history[-1].objective == pytest.approx(values.sum())


@pytest.mark.parametrize("n", [1, 4, 5, 6, 10, 13])
def test_every_row_of_every_block_is_projected(process, n, monkeypatch) -> None:
    monkeypatch.setattr(gp_module, "BLOCK", 5)
    rng = np.random.default_rng(18)
    Y = process.mean(rng.standard_normal((n, 2))) + 0.1 * rng.standard_normal((n, 7))
    start, _ = initial_latents(process, Y, is_robust=True)
    alone, _ = refine_latents(process, Y, start, is_robust=True)
    np.testing.assert_allclose(project(process, Y, is_robust=True), alone, atol=1e-6)
    trace = Trace()
    found = project_rows_traced(process, Y, is_robust=True, trace=trace, loop="p")
    np.testing.assert_allclose(found, alone, atol=1e-6)
    assert (trace.stop_reason, len(trace.history)) == ("converged", 1 + -(-n // 5))


def test_robust_noise_is_optimal(process) -> None:
    rng = np.random.default_rng(14)
    Y, X = rng.standard_normal((5, 7)), rng.standard_normal((5, 2))
    s, e = process.variance(X), np.sum((Y - process.mean(X)) ** 2, axis=1)
    for i, value in enumerate(process.values(X, Y, is_robust=True)):
        best = minimize_scalar(
            lambda t, i=i: 3.5 * np.log(s[i] + np.exp(t)) + e[i] / (2 * (s[i] + np.exp(t))),
            bounds=(-30, 10), method="bounded", options={"xatol": 1e-10},
        )  # fmt: skip
        assert value == pytest.approx(min(best.fun, 3.5 * np.log(s[i]) + e[i] / (2 * s[i])))


@pytest.mark.parametrize("is_robust", [False, True])
def test_missing_values_are_equivalent_to_missing_columns(process, is_robust) -> None:
    rng = np.random.default_rng(15)
    Y = process.mean(rng.standard_normal((6, 2)))
    holes = Y.copy()
    holes[:, [1, 4]] = np.nan
    seen = [0, 2, 3, 5, 6]
    K = np.linalg.inv(process.P)
    floor = process.noise - np.exp(process.theta[2])
    narrow = predictor(
        process.kernel, process.theta, process.active, (K @ process.A)[:, seen], floor=floor
    )
    np.testing.assert_allclose(
        project(process, holes, is_robust=is_robust),
        project(narrow, Y[:, seen], is_robust=is_robust),
        atol=1e-5,
    )


def test_each_row_is_projected_independently(process) -> None:
    rng = np.random.default_rng(16)
    Y = process.mean(rng.standard_normal((8, 2)))
    Y[rng.random(Y.shape) < 0.2] = np.nan
    together = project(process, Y, is_robust=True)
    alone = [project(process, row[np.newaxis], is_robust=True)[0] for row in Y]
    np.testing.assert_allclose(together, alone, atol=1e-6)


def test_the_hyper_parameters_stay_in_the_range_of_exponentials() -> None:
    rng = np.random.default_rng(17)
    Y = rng.standard_normal((6, 3))
    terms = partial(negative_log_likelihood, Y=Y, n_columns=3)
    for kernel, sign in itertools.product(COVARIANCES, (-1.0, 1.0)):
        objective = LatentObjective(COVARIANCES[kernel], terms, 2, 1e-2)
        value, gradient = objective(pack(np.full(3, sign * 500), rng.standard_normal((6, 2))))
        assert np.isfinite(value)
        assert np.isfinite(gradient).all()
        np.testing.assert_array_equal(gradient[:3], 0.0)
