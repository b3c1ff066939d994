from functools import lru_cache

import numpy as np
import pytest
from scipy.optimize import Bounds, brentq, minimize
from scipy.special import expit, huber, xlogy
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC, LinearSVR

from algorithms.families.kernel_machines.ascent import AscentState, coordinate_ascent
from algorithms.families.kernel_machines.building import solution_of
from algorithms.families.kernel_machines.examples import examples_of
from algorithms.families.kernel_machines.input_kernels import InputKernel
from algorithms.families.kernel_machines.losses import Loss
from algorithms.families.kernel_machines.output_kernels import (
    fixed_kernel,
    learned_kernel,
    relative_lam,
)
from algorithms.families.kernel_machines.problem import Problem
from algorithms.fmtl import FMTL, FMTLParams
from algorithms.fmtl.alternating import Preconditioner, solve_alternating
from algorithms.fmtl.newton import solve_newton
from algorithms.fmtl.spectral import solve_spectral
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.target_scales import scale_prior
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.numerics.kernels import fmtl_step as kernels_fmtl_step
from algorithms.numerics.theta_rules import COSH, EXP, FIXED, MAX_ARGUMENT, POWER, thetas

#: Two solvers of one convex problem, each at a relative gap of 1e-8 or better.
OBJECTIVE_RTOL = 1e-6
#: Rounding of a term of the certificate.
TERM_ATOL = 1e-12
#: Root finders of one monotone equation.
STEP_ATOL = 1e-8
#: Predictions of two solvers whose objectives agree to 1e-12 or so.
PREDICTION_ATOL = 1e-5

LOSSES = {
    "numbers": ("squared", "huber", "epsilon-insensitive"),
    "classes": ("squared", "hinge", "squared-hinge", "logistic"),
}
ALL_LOSSES = [(kind, loss) for kind, losses in LOSSES.items() for loss in losses]
PENALTIES = [("power", 1), ("power", 2), ("power", 4), ("exp", 1), ("cosh", 1)]
over_losses = pytest.mark.parametrize(("kind", "loss"), ALL_LOSSES)
over_penalties = pytest.mark.parametrize(("penalty", "k"), PENALTIES)


def related(kind, *, T=4, n=20, d=4, is_shared=False, noise=0.3, seed=0):
    """Return tasks of two groups: linear functions near one weight vector or its negative."""
    rng = np.random.default_rng(seed)
    common, shared = rng.standard_normal(d), rng.standard_normal((n, d))
    made = []
    for t in range(T):
        X = shared if is_shared else rng.standard_normal((n + t, d))
        f = X @ ((-1) ** t * common + 0.3 * rng.standard_normal(d))
        f += noise * rng.standard_normal(len(X))
        y = f if kind == "numbers" else np.where(f > 0, "yes", "no")
        made.append(Task.from_rows(f"task-{t}", X, y=y))
    return TaskSet(tuple(made))


#: Part of the errors in the tests are beyond it.
DELTA = 0.3


def examples_in_one_unit(tasks):
    prior = scale_prior(tasks.tasks, "all", is_centered=True)
    return examples_of(tasks, center="task", weights="none", prior=prior)


def problem_of(tasks, loss, kernel, *, features=False, epsilon=0.1):
    e = examples_in_one_unit(tasks)
    K = None if features else InputKernel("rbf", gamma=0.15).gram(e.X)
    epsilon = epsilon if loss == "epsilon-insensitive" else 0.0
    return Problem(e, K, Loss(loss, epsilon, DELTA), kernel)


def solved(problem, method="tasks", *, tolerance=1e-8, max_iter=5000, trace=None):
    end = coordinate_ascent(
        problem, method, seed=0, max_iter=max_iter, tolerance=tolerance, trace=trace or Trace()
    )
    return solution_of(problem, end.kappa, reason=None)


def fit(tasks, *, seed=0, trace=None, **values):
    return FMTL().fit(
        tasks,
        FMTLParams(**{"selection": "given", **values}),
        trace=trace or Trace(),
        rng=np.random.default_rng(seed),
    )


@lru_cache(maxsize=1)
def indicator(problem):
    """Return the task of each example as 0 and 1, (n, T)."""
    _, output = problem.examples.row_and_output
    return np.eye(problem.examples.n_outputs)[output]


@lru_cache(maxsize=1)
def full_kernel(problem):
    """Return K of all examples (n, n)."""
    row, _ = problem.examples.row_and_output
    return problem.K[np.ix_(row, row)]


# -- one coordinate ---------------------------------------------------------------------------


def predicted_after(delta, rule, Theta, k_ii, b, g, r):
    """Return F(δ), the prediction for the example after a step δ of task r."""
    moved = b.copy()
    moved[r] += k_ii * delta
    if rule[0] == FIXED:
        return float(Theta[r] @ moved)
    g_r = g[r] + b * delta
    g_r[r] += moved[r] * delta
    if rule[0] != POWER:
        g_r = np.clip(g_r, -MAX_ARGUMENT / rule[2], MAX_ARGUMENT / rule[2])
    return float(thetas(rule, g_r) @ moved)


def best_kappa(kappa, piece, eps, is_logistic, *settings):
    """Return the κ_i that maximises the dual, by a root finder for its derivative."""
    y, q, lo, hi, w = piece

    def predicted(new):
        return predicted_after(new - kappa, *settings)

    def slope(v):
        return -v - y * predicted(y * w * expit(v))

    def derivative(new):
        return float(y - q * new - predicted(new))

    if is_logistic:
        if slope(-700.0) <= 0:  # then κ is 0 to working precision
            return 0.0
        return y * w * expit(brentq(slope, -700.0, 700.0, xtol=1e-14, maxiter=1000))
    if eps > 0:
        if abs(y - predicted(0.0)) <= eps:
            return 0.0
        y -= np.copysign(eps, y - predicted(0.0))
    max_step = abs(derivative(kappa)) / q if q > 0 else np.inf
    lo, hi = max(lo, kappa - max_step), min(hi, kappa + max_step)
    if derivative(lo) <= 0:
        return lo
    if derivative(hi) >= 0:
        return hi
    return brentq(derivative, lo, hi, xtol=1e-15, rtol=1e-14, maxiter=1000)


@pytest.mark.parametrize("kind", [FIXED, POWER, EXP, COSH])
@pytest.mark.parametrize("power", [1, 3, 7])
def test_the_compiled_step_is_that_of_plain_numpy(kind, power) -> None:
    rng = np.random.default_rng(power)
    if kind != POWER and power != 1:
        return
    for trial in range(60):
        T, r = 3, trial % 3
        A = rng.standard_normal((6, 6))
        K = A @ A.T / 6
        kappa = rng.uniform(0, 1, 6) * rng.choice([0.0, 1.0], 6)
        task = np.array([r, 0, 1, 2, r, 1])
        Z = np.eye(T)[task]
        b, g = (K[0] * kappa) @ Z, Z.T @ (np.outer(kappa, kappa) * K) @ Z
        rule = (kind, power, float(10 ** rng.uniform(-1, 1)), float(10 ** rng.uniform(-1, 1)))
        Theta = g + np.eye(T)
        eps = 0.2 * (trial % 2)
        for name in LOSSES["classes"] + LOSSES["numbers"][1:]:
            loss = Loss(name, eps if name == "epsilon-insensitive" else 0.0)
            w = np.array([rng.uniform(0.5, 2.0)])
            piece = loss.pieces(np.array([1.0]), w)[0]
            own = float(np.clip(kappa[0], piece[2], min(piece[3], 0.9)))
            old = kappa.copy()
            old[0] = own
            b, g = (K[0] * old) @ Z, Z.T @ (np.outer(old, old) * K) @ Z
            settings = (loss.epsilon, loss.is_logistic, rule, Theta, K[0, 0], b, g, r)
            slow = best_kappa(own, piece, *settings)
            fast = kernels_fmtl_step.best_kappa(own, piece, *settings)
            assert fast == pytest.approx(slow, abs=STEP_ATOL)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1.0, 1e6])
def test_the_closed_form_solves_every_rising_cubic(scale) -> None:
    rng = np.random.default_rng(1)
    for _ in range(200):
        a_3 = rng.uniform(0.1, 2) * scale
        a_2 = rng.standard_normal() * scale
        a_1 = a_2**2 / (3 * a_3) * rng.uniform(1.0, 1.5) + 1e-6
        R = rng.standard_normal() * 10 ** rng.uniform(-6, 6)
        x = kernels_fmtl_step.cubic_root(R, a_1, a_2, a_3)
        size = abs(a_1 * x) + abs(a_2 * x**2) + abs(a_3 * x**3) + abs(R)
        assert abs(a_1 * x + a_2 * x**2 + a_3 * x**3 - R) <= 1e-12 * size


# -- losses and penalties ---------------------------------------------------------------------


@over_losses
def test_gain_is_minus_the_conjugate_found_by_search(kind, loss) -> None:
    del kind
    one = Loss(loss, 0.3 if loss == "epsilon-insensitive" else 0.0)
    F = np.linspace(-30, 30, 120_001)
    for y in (-1.0, 1.0):
        for w in (1.0, 2.5):
            ys, ws = np.full_like(F, y), np.full_like(F, w)
            for u in (0.1, 0.5, 0.9):
                kappa = y * u * w
                # -L*(-κ) = min over F of L(y, F) + κF
                found = np.min(one.values(ys, F, ws) + kappa * F)
                gain = one.gains(np.array([y]), np.array([kappa]), np.array([w]))[0]
                assert gain == pytest.approx(found, abs=1e-6)


def test_three_scales_of_the_penalty_differ_only_by_lambda() -> None:
    for k in (1, 2, 4):
        p, C, lam = 2 * k / (2 * k - 1), 3.0, 0.7
        rho = np.random.default_rng(0).uniform(0.1, 2.0, (3, 3))
        weights = {"half": 0.5, "table": 1 / p, "full": 1.0}
        for v_scale, weight in weights.items():
            kernel = learned_kernel("power", k=k, C=C, lam=lam, v_scale=v_scale)
            Theta = kernel.theta(rho * 2 * lam / C**2) / C
            # Θ maximises ρΘ - V(Θ): the derivative of V = weight Σ|Θ|^p there is ρ
            np.testing.assert_allclose(weight * p * Theta ** (p - 1), rho, rtol=1e-12)


@over_penalties
def test_theta_is_the_slope_of_the_bound(penalty, k) -> None:
    kernel = learned_kernel(penalty, k=k, C=2.0, lam=1.5)
    g = np.random.default_rng(0).uniform(0.05, 1.0, (3, 3))
    h = 1e-6
    slope = (kernel.bound(g + h) - kernel.bound(g - h)) / (2 * h)
    np.testing.assert_allclose(kernel.theta(g), 2 * slope, rtol=1e-7)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_only_the_parameter_of_the_penalty_has_an_effect(k) -> None:
    tasks = related("numbers")
    found = []
    for C in (0.5, 5.0):
        lam = 0.3 * C ** ((4 * k - 1) / (2 * k - 1))
        problem = problem_of(tasks, "squared", learned_kernel("power", k=k, C=C, lam=lam))
        found.append(solved(problem).F)
    np.testing.assert_allclose(found[0], found[1], atol=PREDICTION_ATOL)


def test_extreme_strengths_neither_overflow_nor_fail() -> None:
    tasks = related("numbers", n=8)
    for k in (1, 4):
        for C in (1e-6, 1e6):
            for lam in (1e-6, 1e6):
                kernel = learned_kernel("power", k=k, C=C, lam=lam)
                found = solved(problem_of(tasks, "squared", kernel), max_iter=20)
                assert np.isfinite(found.F).all()
                assert found.certificate.primal >= 0


# -- the objective, by other solvers ----------------------------------------------------------


def paper_dual(alpha, problem, *, C, lam, penalty, k, loss):
    """Return minus (11) and its gradient, in the paper's variables."""
    e, Z, K = problem.examples, indicator(problem), full_kernel(problem)
    B = K @ (alpha[:, np.newaxis] * Z)
    rho = Z.T @ (alpha[:, np.newaxis] * B) / (2 * lam)
    if penalty == "power":
        Theta = ((2 * k - 1) / k * rho) ** (2 * k - 1)
        V = ((2 * k - 1) / k) ** (2 * k) / (4 * k - 2) * rho ** (2 * k)
    elif penalty == "exp":
        Theta, V = np.exp(rho), np.expm1(rho)
    else:
        Theta, V = np.sinh(rho), np.cosh(rho) - 1
    u = e.y * alpha / C
    if loss == "squared":
        conjugate, slope = -e.y * alpha / C + 0.5 * (alpha / C) ** 2, -e.y + alpha / C
    elif loss == "squared-hinge":
        conjugate, slope = -u + 0.5 * u**2, (-1 + u) * e.y
    elif loss == "hinge":
        conjugate, slope = -u, -e.y
    elif loss == "logistic":
        conjugate, slope = xlogy(u, u) + xlogy(1 - u, 1 - u), e.y * np.log(u / (1 - u))
    F = ((Z @ Theta) * B).sum(axis=1)
    return C * conjugate.sum() + lam * V.sum(), slope + F


@pytest.mark.slow
@over_penalties
@pytest.mark.parametrize("loss", ["squared", "hinge", "squared-hinge", "logistic"])
@pytest.mark.parametrize("is_shared", [False, True])
def test_the_objective_is_that_of_another_solver(penalty, k, loss, is_shared) -> None:
    # labels of shared rows must differ between tasks: equal ones leave a flat direction of the dual
    tasks = related("classes", n=9, T=3, is_shared=is_shared, seed=3)
    C = 3.0
    lam = relative_lam(penalty, k=k, C=C, n_rows=10.0)
    problem = problem_of(tasks, loss, learned_kernel(penalty, k=k, C=C, lam=lam))
    y = problem.examples.y
    low, high = {
        "squared": (np.full_like(y, -np.inf), np.full_like(y, np.inf)),
        "squared-hinge": (np.where(y > 0, 0, -np.inf), np.where(y > 0, np.inf, 0)),
        "hinge": (np.minimum(0, C * y), np.maximum(0, C * y)),
        "logistic": (np.minimum(1e-9 * y, C * y * (1 - 1e-9)),
                     np.maximum(1e-9 * y, C * y * (1 - 1e-9))),
    }[loss]  # fmt: skip
    slow = minimize(
        lambda a: paper_dual(a, problem, C=C, lam=lam, penalty=penalty, k=k, loss=loss),
        0.1 * C * y, jac=True, bounds=Bounds(low, high), method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 50},
    )  # fmt: skip
    for method in ("sdca", "tasks", *(("blocks",) if is_shared else ())):
        found = solved(problem, method)
        assert found.certificate.relative_gap <= 1e-8
        assert C * found.certificate.dual == pytest.approx(-slow.fun, rel=OBJECTIVE_RTOL)


@over_penalties
@pytest.mark.parametrize("loss", ["huber", "epsilon-insensitive"])
@pytest.mark.parametrize("is_shared", [False, True])
@pytest.mark.quick(5)
def test_the_objective_for_numbers_is_that_of_another_solver(penalty, k, loss, is_shared) -> None:
    tasks = related("numbers", n=9, T=3, is_shared=is_shared, seed=3, noise=1.0)
    C, epsilon = 3.0, 0.1
    lam = relative_lam(penalty, k=k, C=C, n_rows=10.0)
    problem = problem_of(tasks, loss, learned_kernel(penalty, k=k, C=C, lam=lam), epsilon=epsilon)
    n = len(problem.examples.y)

    def dual(both):
        # α in two parts >= 0, so that |α| is linear
        alpha = both[:n] - both[n:]
        value, slope = paper_dual(
            alpha, problem, C=C, lam=lam, penalty=penalty, k=k, loss="squared"
        )
        if loss == "huber":
            return value, np.concatenate([slope, -slope])
        value += epsilon * both.sum() - 0.5 * C * np.sum((alpha / C) ** 2)
        slope = slope - alpha / C
        return value, np.concatenate([slope + epsilon, epsilon - slope])

    top = C * (DELTA if loss == "huber" else 1.0)
    y = problem.examples.y
    slow = minimize(
        dual, 0.1 * top * np.concatenate([y > 0, y < 0]), jac=True, bounds=Bounds(0.0, top),
        method="L-BFGS-B",
        options={"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 50},
    )  # fmt: skip
    for method in ("sdca", "tasks", *(("blocks",) if is_shared else ())):
        found = solved(problem, method)
        assert found.certificate.relative_gap <= 1e-8
        assert found.certificate.terms.min() >= -TERM_ATOL
        assert C * found.certificate.dual == pytest.approx(-slow.fun, rel=OBJECTIVE_RTOL)


@over_penalties
@over_losses
def test_the_gap_is_a_sum_of_terms_of_examples_none_negative(kind, loss, penalty, k) -> None:
    tasks = related(kind, n=8, T=3)
    C = 2.0
    lam = relative_lam(penalty, k=k, C=C, n_rows=9.0)
    kernel = learned_kernel(penalty, k=k, C=C, lam=lam)
    problem = problem_of(tasks, loss, kernel)
    for n_passes in (0, 1, 3):
        end = coordinate_ascent(problem, "tasks", seed=0, max_iter=n_passes or 1, tolerance=0.5 * (not n_passes), trace=Trace())  # noqa: E501  # fmt: skip
        kappa = problem.initial_kappa() if n_passes == 0 else end.kappa
        found = problem.certificate(kappa)
        assert found.terms.min() >= -TERM_ATOL
        # the primal value of (6) from Θ, F and G themselves
        Z, alpha = indicator(problem), C * kappa
        G = Z.T @ (np.outer(alpha, alpha) * full_kernel(problem)) @ Z
        Theta = kernel.theta(G / C**2) / C
        F = (full_kernel(problem) @ (alpha[:, np.newaxis] * Z) * (Z @ Theta)).sum(axis=1)
        e = problem.examples
        if penalty == "power":
            V = 0.5 * (np.abs(Theta) ** (2 * k / (2 * k - 1))).sum()
        elif penalty == "exp":
            V = (xlogy(Theta, Theta) - Theta + 1).sum()
        else:
            V = (Theta * np.arcsinh(Theta) - np.sqrt(1 + Theta**2) + 1).sum()
        primal = C * problem.loss.values(e.y, F, e.w).sum() + 0.5 * np.vdot(Theta, G) + lam * V
        assert C * found.primal == pytest.approx(primal, rel=1e-10, abs=1e-12)
        assert found.gap == pytest.approx(found.primal - found.dual, rel=1e-9, abs=1e-11)
        # Θ of (10) is positive semidefinite at every iterate, with nothing that enforces it
        values = np.linalg.eigvalsh(Theta)
        assert values[0] >= -1e-10 * max(np.abs(values).max(), 1e-300)


@pytest.mark.parametrize("method", ["sdca", "tasks", "blocks"])
@pytest.mark.parametrize("features", [False, True])
@pytest.mark.parametrize("n_passes", [4, 25])
def test_updated_values_equal_recomputed_ones(method, features, n_passes, monkeypatch) -> None:
    monkeypatch.setattr(AscentState, "final", lambda state: state)  # which drops the products
    tasks = related("classes", T=5, n=40, is_shared=method == "blocks")
    kernel = learned_kernel("power", k=1, C=1.0, lam=relative_lam("power", k=1, C=1.0, n_rows=40.0))
    problem = problem_of(tasks, "hinge", kernel, features=features)
    end = coordinate_ascent(
        problem, method, seed=0, max_iter=n_passes, tolerance=1e-15, trace=Trace()
    )
    assert np.mean(end.kappa == 0.0) > 0.1  # rows without change are passed by
    afresh = problem.products(end.kappa)
    np.testing.assert_allclose(end.products, afresh, atol=1e-13 * np.abs(afresh).max())
    g = problem.gram(end.kappa, afresh)
    np.testing.assert_allclose(end.g, g, atol=1e-13 * np.abs(g).max())
    np.testing.assert_array_equal(end.g, end.g.T)


def convex_okl(X, Y, *, C, lam):
    """Return the optimum of p = 2 by the published alternation in the primal, W exact given Θ."""
    d, T = X.shape[1], Y.shape[1]
    Theta, value = np.eye(T), np.inf
    for _ in range(20_000):
        A = C * np.kron(np.eye(T), X.T @ X) + np.kron(np.linalg.inv(Theta), np.eye(d))
        W = np.linalg.solve(A, C * (X.T @ Y).T.ravel()).reshape(T, d).T
        values, V = np.linalg.eigh(W.T @ W / (2 * lam))
        Theta = (V * np.maximum(values, 1e-18) ** (1 / 3)) @ V.T
        fit_error = 0.5 * C * np.sum((Y - X @ W) ** 2)
        new = fit_error + 0.5 * np.trace(W.T @ W @ np.linalg.inv(Theta)) + lam / 2 * np.sum(Theta**2)  # noqa: E501  # fmt: skip
        if value - new <= 1e-12 * new:
            break
        value = new
    return new


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_squared_loss_with_p_2_is_convex_okl(C) -> None:
    tasks = related("numbers", T=3, n=25, is_shared=True, noise=1.0)
    lam = relative_lam("power", k=1, C=C, n_rows=25.0)
    problem = problem_of(
        tasks, "squared", learned_kernel("power", k=1, C=C, lam=lam), features=True
    )
    e = problem.examples
    published = convex_okl(e.X, e.y.reshape(3, -1).T, C=C, lam=lam)
    trace, eigen = Trace(), np.linalg.eigh(e.X.T @ e.X)
    spectral = solve_spectral(problem, eigen, max_iter=500, tolerance=1e-9, trace=trace)
    assert trace.history[-1].objective == pytest.approx(published, rel=OBJECTIVE_RTOL)
    for found in (
        solved(problem, "blocks", tolerance=1e-9),
        spectral,
        solve_newton(problem, max_iter=500, tolerance=1e-9, trace=Trace()),
    ):
        assert C * found.certificate.primal == pytest.approx(published, rel=OBJECTIVE_RTOL)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_fast_solvers_for_shared_rows_find_what_coordinate_ascent_finds(C) -> None:
    tasks = related("classes", T=5, n=80, is_shared=True)
    lam = relative_lam("power", k=1, C=C, n_rows=80.0)
    problem = problem_of(tasks, "squared", learned_kernel("power", k=1, C=C, lam=lam))
    slow = solved(problem, "blocks", tolerance=1e-10)
    spectral = solve_spectral(
        problem, np.linalg.eigh(problem.K), max_iter=500, tolerance=1e-10, trace=Trace()
    )
    alternating = solve_alternating(problem, seed=0, max_iter=500, tolerance=1e-9, trace=Trace())
    for found in (spectral, alternating):
        assert found.certificate.relative_gap <= 1.1e-9
        assert found.certificate.primal == pytest.approx(slow.certificate.primal, rel=1e-8)
        np.testing.assert_allclose(found.F, slow.F, atol=1e-3)


@pytest.mark.parametrize(("T", "n", "tolerance"), [(30, 100, 1e-8), (6, 1000, 1e-5)])
def test_many_outputs_and_single_precision_cost_no_accuracy(T, n, tolerance) -> None:
    # more outputs than landmarks; enough rows for products in single precision
    tasks = related("numbers", T=T, n=n, is_shared=True, noise=1.0)
    kernel = learned_kernel(
        "power", k=1, C=3.0, lam=relative_lam("power", k=1, C=3.0, n_rows=float(n))
    )
    problem = problem_of(tasks, "squared", kernel)
    found = solve_alternating(problem, seed=0, max_iter=500, tolerance=tolerance, trace=Trace())
    exact = solve_spectral(
        problem, np.linalg.eigh(problem.K), max_iter=500, tolerance=1e-9, trace=Trace()
    )
    assert found.certificate.relative_gap <= 1.1 * tolerance
    assert found.certificate.primal == pytest.approx(exact.certificate.primal, rel=1.1 * tolerance)
    assert found.certificate.dual <= exact.certificate.primal


@pytest.mark.parametrize("loss", ["squared", "huber", "squared-hinge", "logistic"])
@pytest.mark.parametrize("C", [0.1, 1e4])
@pytest.mark.quick(3)
def test_newton_in_the_weights_finds_what_coordinate_ascent_finds(loss, C) -> None:
    kind = "numbers" if loss in LOSSES["numbers"] else "classes"
    tasks = related(kind, T=4, n=40, noise=2.0)
    lam = relative_lam("power", k=1, C=C, n_rows=40.0)
    problem = problem_of(tasks, loss, learned_kernel("power", k=1, C=C, lam=lam), features=True)
    found = solve_newton(problem, max_iter=500, tolerance=1e-8, trace=Trace())
    slow = solved(problem, tolerance=1e-6, max_iter=3000)
    assert found.certificate.relative_gap <= 1e-8
    gap = slow.certificate.primal - found.certificate.primal
    assert -1e-8 * found.certificate.primal <= gap <= 1.001 * slow.certificate.gap


# -- reductions -------------------------------------------------------------------------------


def features_of(K):
    """Return rows whose products are K."""
    values, V = np.linalg.eigh(K)
    return V * np.sqrt(np.maximum(values, 0.0))


def single_machine(K, y, loss, C):
    """Return the predictions of scikit-learn's machine without an intercept."""
    Z = features_of(K)
    if loss == "squared":
        return KernelRidge(alpha=1 / C, kernel="precomputed").fit(K, y).predict(K)
    if loss == "huber":
        found = minimize(
            lambda w: C * huber(DELTA, y - Z @ w).sum() + 0.5 * w @ w, np.zeros(len(y)),
            jac=lambda w: w - C * Z.T @ np.clip(y - Z @ w, -DELTA, DELTA), method="L-BFGS-B",
            options={"maxiter": 10_000, "ftol": 1e-15, "gtol": 1e-9},
        )  # fmt: skip
        return Z @ found.x
    if loss == "epsilon-insensitive":
        machine = LinearSVR(epsilon=0.1, C=C, fit_intercept=False, tol=1e-10, max_iter=1_000_000)
        return machine.fit(Z, y).predict(Z)
    if loss == "logistic":
        machine = LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=100_000)
        return machine.fit(Z, y).decision_function(Z)
    halved = {"hinge": C, "squared-hinge": C / 2}[loss]  # ours has ½ of the square
    name = loss.replace("-", "_")
    machine = LinearSVC(
        loss=name, C=halved, fit_intercept=False, dual=True, tol=1e-10, max_iter=1_000_000
    )
    return machine.fit(Z, y).decision_function(Z)


@over_losses
def test_a_fixed_identity_is_a_machine_per_task(kind, loss) -> None:
    tasks = related(kind, T=3)
    C = 2.0
    problem = problem_of(tasks, loss, fixed_kernel(np.eye(3), C=C))
    found = solved(problem, tolerance=1e-10)
    e = problem.examples
    for r in range(3):
        rows, part = e.rows[r], e.parts[r]
        expected = single_machine(problem.K[rows, rows], e.y[part], loss, C)
        np.testing.assert_allclose(found.F[part], expected, atol=1e-4)


@over_losses
@pytest.mark.parametrize("k", [1, 2])
def test_one_task_is_a_single_machine_with_a_scaled_kernel(kind, loss, k) -> None:
    tasks = related(kind, T=1, n=25)
    C = 2.0
    lam = relative_lam("power", k=k, C=C, n_rows=25.0)
    problem = problem_of(tasks, loss, learned_kernel("power", k=k, C=C, lam=lam))
    found = solved(problem, tolerance=1e-10)
    scale = found.theta[0, 0] / C
    expected = single_machine(scale * problem.K, problem.examples.y, loss, C)
    np.testing.assert_allclose(found.F, expected, atol=1e-4)


def test_a_weight_of_two_is_a_row_given_twice() -> None:
    from dataclasses import replace

    tasks = related("classes", T=2, n=12)
    twice = TaskSet(
        tuple(task.take(np.concatenate([np.arange(task.n_samples), [0, 3]])) for task in tasks)
    )
    for loss in ("hinge", "squared-hinge", "logistic"):
        kernel = learned_kernel("power", k=1, C=1.0, lam=0.1)
        plain = problem_of(tasks, loss, kernel)
        e = plain.examples
        w = np.ones_like(e.y)
        w[[0, 3, int(e.offsets[1]), int(e.offsets[1]) + 3]] = 2.0
        weighted = solved(Problem(replace(e, w=w), plain.K, plain.loss, kernel), tolerance=1e-10)
        doubled = solved(problem_of(twice, loss, kernel), tolerance=1e-10)
        assert weighted.certificate.primal == pytest.approx(doubled.certificate.primal, rel=1e-9)


# -- the algorithm ----------------------------------------------------------------------------


def test_tasks_on_the_same_rows_share_them_and_predict_the_same() -> None:
    tasks = related("numbers", T=4, n=30, is_shared=True)
    shared = fit(tasks, tolerance=1e-10)
    assert shared.fit_info["n_rows"] == 30
    # one row more in one task only, weightless in effect: no longer the same rows
    kernel = learned_kernel("power", k=1, C=1.0, lam=0.05)
    e = examples_in_one_unit(tasks)
    apart = TaskSet(tuple(task.take(np.arange(30)[:: (-1) ** t]) for t, task in enumerate(tasks)))
    f = examples_in_one_unit(apart)
    assert e.is_shared
    assert not f.is_shared
    assert solved(problem_of(tasks, "squared", kernel)).certificate.primal == pytest.approx(
        solved(problem_of(apart, "squared", kernel)).certificate.primal, rel=1e-7
    )


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian", "polynomial"])
def test_the_model_predicts_what_the_solver_certified(kernel) -> None:
    tasks = related("numbers", T=3, n=25)
    model = fit(tasks, kernel=kernel, tolerance=1e-8)
    assert model.fit_info["relative_gap"] <= 1e-8
    for task in tasks:
        error = np.sqrt(np.mean((model.predict(task.X, task=task.name) - task.y) ** 2))
        assert error == pytest.approx(model.metrics["train_rmse"][task.name], rel=1e-6)


def test_a_precomputed_kernel_gives_what_the_kernel_itself_gives() -> None:
    tasks = related("numbers", T=3, n=12)
    X = np.concatenate([task.X for task in tasks])
    kernel = InputKernel("rbf", gamma=0.2)
    given = TaskSet(
        tuple(Task.from_rows(task.name, kernel.matrix(task.X, X), y=task.y) for task in tasks)
    )
    model = fit(given, kernel="precomputed", tolerance=1e-9)
    # on the relative scale gamma is in units of 1 over the total variance
    total = float(X.var(axis=0).sum())
    direct = fit(tasks, gamma=0.2 * total, standardise="none", tolerance=1e-9)
    assert model.fit_info["primal"] == pytest.approx(direct.fit_info["primal"], rel=1e-8)
    np.testing.assert_allclose(model.Theta, direct.Theta, rtol=1e-3)
    new = np.random.default_rng(5).standard_normal((4, X.shape[1]))
    for task in tasks:
        np.testing.assert_allclose(
            model.predict(kernel.matrix(new, X), task=task.name),
            direct.predict(new, task=task.name),
            atol=1e-3,
        )


def test_landmarks_solve_the_problem_of_their_own_kernel() -> None:
    tasks, C, lam = related("classes", T=3, n=15), 3.0, 2.0
    model = fit(
        tasks, loss="squared-hinge", nystrom=12, standardise="none", scale="absolute", gamma=0.2,
        C=C, lam=lam, intercept=0.0, tolerance=1e-8, max_iter=5000,
    )  # fmt: skip
    assert len(model.support) == 12
    problem = problem_of(tasks, "squared-hinge", learned_kernel("power", k=1, C=C, lam=lam))
    kernel = InputKernel("rbf", gamma=0.2)
    columns = kernel.matrix(problem.examples.X, model.support)
    inner = np.linalg.inv(kernel.gram(model.support) + 1e-12 * np.eye(12))
    problem = Problem(problem.examples, columns @ inner @ columns.T, problem.loss, problem.kernel)
    y = problem.examples.y
    slow = minimize(
        lambda a: paper_dual(a, problem, C=C, lam=lam, penalty="power", k=1, loss="squared-hinge"),
        0.1 * C * y, jac=True, method="L-BFGS-B",
        bounds=Bounds(np.where(y > 0, 0, -np.inf), np.where(y > 0, np.inf, 0)),
        options={"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 50},
    )  # fmt: skip
    assert model.fit_info["primal"] == pytest.approx(-slow.fun, rel=OBJECTIVE_RTOL)


def test_outliers_barely_change_a_huber_machine() -> None:
    tasks = related("numbers", T=3, n=40, noise=0.1)
    rng = np.random.default_rng(2)
    spoilt = [np.where(rng.random(task.n_samples) < 0.1, 30.0, task.y) for task in tasks]
    given = TaskSet(
        tuple(Task.from_rows(t.name, t.X, y=y) for t, y in zip(tasks, spoilt, strict=True))
    )
    errors = []
    for loss in ("squared", "huber"):
        model = fit(given, loss=loss, kernel="linear", delta=0.05, center_targets="none", C=10.0)
        errors.append(
            np.mean([np.mean((model.predict(t.X, task=t.name) - t.y) ** 2) for t in tasks])
        )
    assert errors[1] < 0.2 * errors[0]


def test_an_invalid_precomputed_kernel_is_rejected_with_a_reason() -> None:
    rng = np.random.default_rng(0)
    K = rng.standard_normal((10, 10))

    def tasks_of(K):
        return TaskSet(
            tuple(
                Task.from_rows(name, K[rows], y=rng.standard_normal(5))
                for name, rows in (("a", slice(0, 5)), ("b", slice(5, 10)))
            )
        )

    with pytest.raises(InvalidData, match="asymmetry"):
        fit(tasks_of(K), kernel="precomputed")
    with pytest.raises(InvalidData, match=r"eigenvalue -.*add .* to its diagonal"):
        fit(tasks_of(K + K.T), kernel="precomputed")
    assert fit(tasks_of(K + K.T), kernel="precomputed", indefinite="shift").tasks == ("a", "b")
    with pytest.raises(InvalidData, match="one column for each of the 10"):
        fit(tasks_of(K[:, :7]), kernel="precomputed")
    with pytest.raises(InvalidParams, match="cross-validation"):
        fit(tasks_of(K + K.T), kernel="precomputed", selection="cv")


def test_all_rows_as_landmarks_give_the_exact_kernel() -> None:
    tasks = related("classes", T=3, n=20)
    n = sum(task.n_samples for task in tasks)
    exact = fit(tasks, loss="squared-hinge", tolerance=1e-9)
    landmarks = fit(tasks, loss="squared-hinge", tolerance=1e-9, nystrom=n - 1)
    new = np.random.default_rng(1).standard_normal((9, 4))
    np.testing.assert_allclose(
        exact.decision_function(new, task="task-1"),
        landmarks.decision_function(new, task="task-1"),
        atol=0.1,
    )
    assert len(landmarks.support) == n - 1


def test_a_kernel_beyond_the_memory_limit_is_rejected_before_the_fit() -> None:
    summaries = related("numbers", T=3, n=2000).summaries()
    with pytest.raises(InvalidParams, match=r"6003 rows .* needs 0\.577 GB"):
        FMTL().check(summaries, FMTLParams(memory_gb=0.1))
    FMTL().check(summaries, FMTLParams(memory_gb=0.1, kernel="linear"))
    FMTL().check(summaries, FMTLParams(memory_gb=0.1, nystrom=100))


def test_an_unsuitable_loss_or_solver_is_rejected() -> None:
    with pytest.raises(InvalidParams, match="targets that are numbers"):
        fit(related("numbers"), loss="hinge")
    with pytest.raises(InvalidParams, match="targets that are classes"):
        fit(related("classes"), loss="epsilon-insensitive")
    with pytest.raises(InvalidParams, match="tasks on the same rows"):
        fit(related("numbers"), solver="spectral")
    with pytest.raises(InvalidParams, match="got hinge"):
        fit(related("classes"), solver="alternating")
    with pytest.raises(InvalidParams, match="k = 1"):
        fit(related("numbers"), solver="newton", kernel="linear", k=2)
    with pytest.raises(InvalidParams, match="'linear' or landmarks"):
        fit(related("numbers"), solver="newton")


def test_groups_of_tasks_are_found_and_reported() -> None:
    model = fit(related("numbers", T=6, n=40, noise=0.1, seed=1), kernel="linear", tolerance=1e-6)
    signs = np.sign(model.Theta)
    expected = np.outer([1, -1] * 3, [1, -1] * 3)
    np.testing.assert_array_equal(signs, expected)
    relations = model.fit_info["relations"]
    assert "strongly related" in relations["sentence"]
    assert sorted(relations["order"]) == sorted(model.tasks)
    assert np.linalg.eigvalsh(model.Theta)[0] >= -1e-10 * np.abs(model.Theta).max()


def test_a_larger_power_gives_sparser_relations() -> None:
    tasks = related("numbers", T=6, n=15, noise=2.0)
    size = []
    for k in (1, 2, 4):
        Theta = np.abs(fit(tasks, k=k, C=10.0).Theta)
        size.append(Theta[~np.eye(6, dtype=bool)].mean() / np.diag(Theta).mean())
    assert size[0] > size[1] > size[2]


def three_classes(n=60):
    rng = np.random.default_rng(3)
    y = rng.integers(0, 3, n)
    X = rng.standard_normal((n, 2)) + 4 * np.array([[0, 0], [1, 0], [0, 1]])[y]
    return X, np.array(["ash", "birch", "cedar"])[y]


def test_a_task_of_several_classes_is_one_against_all() -> None:
    X, y = three_classes()
    pair = Task.from_rows("pair", X[:30] + 0.1, y=np.where(y[:30] == "ash", 1, 0))
    model = fit(TaskSet((Task.from_rows("trees", X, y=y), pair)), C=10.0)
    assert model.output_names == ("pair", "trees: ash", "trees: birch", "trees: cedar")
    assert model.Theta.shape == (4, 4)
    assert np.mean(model.predict(X, task="trees") == y) > 0.9
    assert model.decision_function(X, task="trees").shape == (60, 3)
    assert set(model.predict(X, task="pair")) <= {0, 1}
    assert model.decision_function(X, task="pair").shape == (60,)
    alone = fit(TaskSet((Task.from_rows("trees", X, y=y),)), C=10.0)
    assert alone.fit_info["n_rows"] == 60
    assert np.mean(alone.predict(X, task="trees") == y) > 0.9


def test_balanced_classes_find_the_rare_one() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 2))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(200) > 1.6, "mine", "clutter")
    tasks = TaskSet((Task.from_rows("field", X, y=y),))
    found = [
        float(np.mean(fit(tasks, class_weight=w).predict(X, task="field")[y == "mine"] == "mine"))
        for w in ("none", "balanced")
    ]
    assert found[1] > found[0]


def test_the_strength_is_selected_within_the_training_rows() -> None:
    for kind in ("numbers", "classes"):
        model = fit(related(kind, n=30), selection="cv", grid=(0.001, 1.0, 10.0))
        losses = model.fit_info["cv_loss"]
        assert len(losses) == 3
        assert model.fit_info["C"] == (0.001, 1.0, 10.0)[int(np.argmin(losses))]


# -- new tasks --------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{"kernel": "linear"}, {}, {"nystrom": 20}])
def test_a_new_task_satisfies_its_own_optimality_with_the_others_frozen(settings) -> None:
    everything = related("numbers", T=5, n=25)
    model = fit(TaskSet(everything.tasks[:3]), tolerance=1e-9, C=3.0, **settings)
    joined = model
    for new in everything.tasks[3:]:
        joined = FMTL().adapt(joined, new)
        target = joined.target_of(new.name)
        F = (joined.predict(new.X, task=new.name) - target.center) / target.scale
        kappa = (new.y - target.center) / target.scale - F  # of squared loss
        Z = (new.X - joined.mean) / joined.deviation
        K = joined.kernel.gram(Z)
        if settings.get("nystrom"):
            M = joined.kernel.matrix(Z, joined.support) @ joined.expand
            K = M @ M.T
        # g of the joined task is that of its κ, and Θ follows from g
        assert joined.g[-1, -1] == pytest.approx(kappa @ K @ kappa, rel=1e-3)
        C, n_rows = joined.fit_info["C"], joined.fit_info["mean_rows"]
        lam = relative_lam("power", k=1, C=C, n_rows=n_rows)
        theta = learned_kernel("power", k=1, C=C, lam=lam).theta(joined.g)
        np.testing.assert_allclose(joined.Theta[-1], theta[-1] / C, rtol=1e-10)
    # a new task that is like the others is tied to them
    assert abs(joined.Theta[-1, 0]) > 0.1 * joined.Theta[-1, -1]


def test_an_unsuitable_new_task_is_rejected() -> None:
    model = fit(related("numbers"))
    X = np.ones((3, 4))
    with pytest.raises(InvalidData, match="has 5 features, the model 4"):
        FMTL().adapt(model, Task.from_rows("new", np.ones((3, 5)), y=[1.0, 2.0, 3.0]))
    small = fit(related("numbers", n=6), memory_gb=0.01)
    many = np.random.default_rng(0).standard_normal((1000, 4))
    with pytest.raises(InvalidData, match=r"1000 rows of task 'new' needs 0\.016 GB"):
        FMTL().adapt(small, Task.from_rows("new", many, y=many[:, 0]))
    with pytest.raises(InvalidData, match="are classes, but the model was trained on numbers"):
        FMTL().adapt(model, Task.from_rows("new", X, y=["a", "b", "a"]))


def test_a_new_task_of_several_classes_can_be_added() -> None:
    X, y = three_classes()
    first = TaskSet((Task.from_rows("trees", X, y=y),))
    for kernel in ("rbf", "linear"):
        model = FMTL().adapt(
            fit(first, C=10.0, kernel=kernel), Task.from_rows("woods", X[:40] + 0.1, y=y[:40])
        )
        assert model.Theta.shape == (6, 6)
        assert np.mean(model.predict(X, task="woods") == y) > 0.9


# -- traps ------------------------------------------------------------------------------------


def test_a_task_of_one_example_or_of_one_class_is_fitted() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 3))
    labels = np.where(X[:, 0] > 0, "a", "b")
    model = fit(
        TaskSet(
            (
                Task.from_rows("many", X, y=labels),
                Task.from_rows("one", X[:1], y=labels[:1]),
                Task.from_rows("alike", X[:5], y=["c"] * 5),
            )
        )
    )
    assert set(model.predict(X, task="alike")) == {"c"}
    assert any("only one class" in warning for warning in model.warnings)
    numbers = TaskSet((Task.from_rows("many", X, y=X[:, 0]), Task.from_rows("one", X[:1], y=[3.0])))
    np.testing.assert_allclose(fit(numbers).predict(X, task="one"), 3.0, atol=2.0)


def test_targets_in_other_units_give_the_same_predictions_in_those_units() -> None:
    tasks = related("numbers", T=3)
    scaled = TaskSet(tuple(Task.from_rows(t.name, t.X, y=1e6 * t.y) for t in tasks))
    for loss in ("squared", "epsilon-insensitive"):
        one, other = fit(tasks, loss=loss), fit(scaled, loss=loss)
        X = tasks.tasks[0].X
        np.testing.assert_allclose(
            1e6 * one.predict(X, task="task-0"), other.predict(X, task="task-0"), rtol=1e-6
        )


def test_targets_that_are_all_zero_give_zero() -> None:
    X = np.random.default_rng(0).standard_normal((8, 2))
    for k in (1, 4):
        model = fit(TaskSet((Task.from_rows("flat", X, y=np.zeros(8)),)), k=k)
        assert model.fit_info["relative_gap"] == 0.0
        np.testing.assert_array_equal(model.predict(X, task="flat"), np.zeros(8))
        assert (model.Theta == 0).all() == any("kernel is 0" in text for text in model.warnings)


@over_losses
def test_a_row_of_zeros_does_not_keep_the_gap_open(kind, loss) -> None:
    tasks = related(kind, T=2, n=10)
    X = [task.X.copy() for task in tasks]
    X[0][3] = 0.0
    tasks = TaskSet(tuple(Task.from_rows(t.name, x, y=t.y) for t, x in zip(tasks, X, strict=True)))
    model = fit(
        tasks, loss=loss, kernel="linear", standardise="none", intercept=0.0, tolerance=1e-6,
        max_iter=3000,
    )  # fmt: skip
    assert model.fit_info["relative_gap"] <= 1e-6


def test_equal_rows_with_opposite_labels_cancel() -> None:
    X = np.random.default_rng(0).standard_normal((10, 3))
    y = np.array(["a", "b"] * 5)
    tasks = TaskSet((Task.from_rows("both", np.repeat(X[:5], 2, axis=0), y=y),))
    model = fit(tasks, loss="squared", kernel="rbf", intercept=0.0)
    assert model.fit_info["relative_gap"] <= 1e-3
    np.testing.assert_allclose(model.decision_function(X, task="both"), 0.0, atol=0.05)


def test_identical_rows_can_be_fitted() -> None:
    tasks = related("numbers", T=2, n=6)
    twice = TaskSet(tuple(t.take(np.repeat(np.arange(t.n_samples), 3)) for t in tasks))
    for kernel in ("linear", "rbf"):
        assert fit(twice, kernel=kernel, C=100.0).fit_info["relative_gap"] <= 1e-3


def test_too_few_passes_cause_a_warning_with_the_gap() -> None:
    trace = Trace()
    model = fit(related("classes", n=40), max_iter=1, C=1000.0, trace=trace)
    assert trace.stop_reason == "max_iter"
    assert any("relative duality gap" in warning for warning in model.warnings)
    assert sum(model.metrics["duality_gap"].values()) == pytest.approx(
        model.fit_info["relative_gap"], rel=1e-6
    )


@pytest.mark.parametrize("C", [1.0, 1000.0])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_more_tasks_than_features_converge(loss, C) -> None:
    # the alternation alone freezes the directions in which its first θ has no rank
    kind = "numbers" if loss == "squared" else "classes"
    tasks = related(kind, T=9, n=30, d=3, noise=2.0)
    model = fit(tasks, kernel="linear", loss=loss, C=C, intercept=0.0, tolerance=1e-5)
    assert model.fit_info["solver"] == "newton"
    assert model.fit_info["relative_gap"] <= 1e-5
    shared = related("numbers", T=9, n=30, d=3, noise=2.0, is_shared=True)
    model = fit(shared, kernel="linear", C=C, tolerance=1e-5)
    assert model.fit_info["solver"] == "spectral"
    assert model.fit_info["relative_gap"] <= 1e-5


def test_the_preconditioner_is_the_inverse_of_its_approximation() -> None:
    rng = np.random.default_rng(31)
    Qt = np.linalg.qr(rng.standard_normal((7, 3)))[0].T
    S, mu, theta = np.array([5.0, 2.0, 1.0]), 0.3, np.array([0.0, 0.5, 40.0])
    K = Qt.T @ np.diag(S) @ Qt + mu * (np.eye(7) - Qt.T @ Qt)
    R = rng.standard_normal((3, 7))
    expected = [np.linalg.solve(np.eye(7) + t * K, r) for t, r in zip(theta, R, strict=True)]
    np.testing.assert_allclose(Preconditioner(Qt, S, mu).apply(R, theta), expected, atol=1e-12)


def test_only_a_precomputed_kernel_cannot_be_evaluated_on_held_out_rows() -> None:
    for kernel in ("linear", "rbf", "laplacian", "polynomial"):
        FMTL().check_held_out(FMTLParams(kernel=kernel))
    with pytest.raises(InvalidParams, match="precomputed"):
        FMTL().check_held_out(FMTLParams(kernel="precomputed"))


def test_c_is_selected_unless_it_is_given() -> None:
    tasks = related("numbers", T=4, n=8)
    selected = FMTL().fit(tasks, FMTL().parse({}), trace=Trace(), rng=np.random.default_rng(0))
    by_folds = fit(tasks, selection="cv")
    assert selected.fit_info["cv_loss"] == by_folds.fit_info["cv_loss"]
    best = np.argmin(selected.fit_info["cv_loss"])
    assert selected.fit_info["params"]["C"] == sorted(FMTLParams().grid)[best]
    for values in ({"C": 0.5}, {"kernel": "precomputed"}, {"C": 1.0, "selection": "given"}):
        assert FMTL().parse(values).selection == "given"
    assert FMTL().parse({"C": 0.5, "selection": "cv"}).selection == "cv"
