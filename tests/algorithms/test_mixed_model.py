"""The linear mixed model, beside that of statsmodels and formulas with n × n matrices."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import check_grad, minimize
from scipy.special import expit, log_expit

from algorithms.baselines.mixed_model import MixedModel
from algorithms.baselines.mixed_model.binomial import DEVIATION_RATE, BinomialProblem
from algorithms.baselines.mixed_model.covariance import Structure
from algorithms.baselines.mixed_model.likelihood import MixedModelProblem
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import load_model, save_model

#: Answers of two iterative solvers of the same problem.
FIXED_RTOL, VARIANCE_RTOL = 1e-4, 1e-3
PLAIN = {"standardise": "none", "scale_targets": "none", "tolerance": 1e-8}


def made(*, n_tasks=20, n=12, d=2, seed=0, noise=1.0, spread=(1.0, 0.5)) -> TaskSet:
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d)
    tasks = []
    for t in range(n_tasks):
        X = rng.normal(size=(n + t % 3, d))
        own = w + rng.normal(size=d) * np.resize(spread, d)
        y = X @ own + 2 + 1.5 * rng.normal() + noise * rng.normal(size=len(X))
        tasks.append(Task.from_rows(f"t{t:02d}", X, y=y))
    return TaskSet(tuple(tasks))


def fit(tasks, **values):
    params = MixedModel.Params(**{**PLAIN, **values})
    return MixedModel().fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


def covariance_of(model):
    Psi = np.array(model.fit_info["relative_covariance"])
    Psi = Psi if Psi.ndim == 2 else np.diag(Psi)
    return model.fit_info["residual_variance"] * Psi


def estimates_of_statsmodels(tasks, *, random, covariance):
    """Return fixed effects, residual variance, covariance and effects (T, q)."""
    from statsmodels.regression.mixed_linear_model import MixedLM, MixedLMParams

    X = np.concatenate([task.X for task in tasks])
    A = np.column_stack([np.ones(len(X)), X])
    y = np.concatenate([task.y for task in tasks])
    groups = np.repeat(np.arange(len(tasks)), [task.n_samples for task in tasks])
    Z = A if random == "slopes" else A[:, :1]
    free = None
    if covariance == "diagonal":
        free = MixedLMParams.from_components(np.ones(A.shape[1]), np.eye(Z.shape[1]))
    found = MixedLM(y, A, groups=groups, exog_re=Z).fit(reml=True, free=free, gtol=1e-8)
    effects = np.stack([np.asarray(found.random_effects[t]) for t in range(len(tasks))])
    return found.fe_params, found.scale, np.asarray(found.cov_re), effects


def check_estimates(tasks, model, *, random, covariance):
    b, noise, Sigma, U = estimates_of_statsmodels(tasks, random=random, covariance=covariance)
    scale = np.abs(b).max()
    np.testing.assert_allclose(model.fit_info["fixed_effects"], b, atol=FIXED_RTOL * scale)
    assert model.fit_info["residual_variance"] == pytest.approx(noise, rel=VARIANCE_RTOL)
    atol = VARIANCE_RTOL * np.abs(Sigma).max()
    np.testing.assert_allclose(covariance_of(model), Sigma, atol=atol)
    coefficients = np.tile(b, (len(tasks), 1))
    coefficients[:, : U.shape[1]] += U
    for t, task in enumerate(tasks):
        A = np.column_stack([np.ones(5), task.X[:5]])
        np.testing.assert_allclose(
            model.predict(task.X[:5], task=task.name),
            A @ coefficients[t],
            atol=1e-3 * np.std(task.y),
        )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("random", "covariance"),
    [("intercepts", "diagonal"), ("slopes", "diagonal"), ("slopes", "full")],
)
def test_estimates_are_those_of_statsmodels(random, covariance) -> None:
    tasks = made()
    model = fit(tasks, random=random, covariance=covariance)
    check_estimates(tasks, model, random=random, covariance=covariance)


@pytest.mark.filterwarnings("ignore")
def test_estimates_on_school_are_those_of_statsmodels(data_file) -> None:
    with np.load(data_file("school.npz")) as data:
        X, y, task = data["X"].astype(float), data["y"].astype(float), data["task"]
    independent: list[int] = []
    for column in range(X.shape[1]):
        chosen = np.column_stack([np.ones(len(X)), X[:, [*independent, column]]])
        if np.linalg.matrix_rank(chosen) == chosen.shape[1]:
            independent.append(column)
    X = X[:, independent]
    tasks = TaskSet(
        tuple(Task.from_rows(f"s{t:03d}", X[task == t], y=y[task == t]) for t in range(139))
    )
    model = fit(tasks, random="intercepts")
    check_estimates(tasks, model, random="intercepts", covariance="diagonal")


def problem_of(tasks, *, has_slopes):
    ordered = tasks.by_name()
    return MixedModelProblem.of(
        [t.X for t in ordered],
        [t.y for t in ordered],
        weights=[None] * len(ordered),
        has_slopes=has_slopes,
    )


def dense_restricted_likelihood(problem, Psi, noise):
    """Return −log L with the covariance (n, n) of all rows, without the constant."""
    n, q = len(problem.y), len(Psi)
    Z = problem.A[:, :q]
    same = problem.task[:, np.newaxis] == problem.task
    V = noise * (np.eye(n) + same * (Z @ Psi @ Z.T))
    X = problem.A @ problem.B
    inverse = np.linalg.inv(V)
    M = X.T @ inverse @ X
    r = problem.y - X @ np.linalg.solve(M, X.T @ inverse @ problem.y)
    logdets = np.linalg.slogdet(V).logabsdet + np.linalg.slogdet(M).logabsdet
    return 0.5 * (logdets + r @ inverse @ r)


@pytest.mark.parametrize("has_slopes", [False, True])
def test_the_likelihood_is_that_of_the_covariance_of_all_rows(has_slopes) -> None:
    problem = problem_of(made(n_tasks=4, n=6), has_slopes=has_slopes)
    q = problem.n_effects
    values, dense = [], []
    for seed in range(3):
        L = np.random.default_rng(seed).normal(size=(q, q))
        found = problem.effects(L @ L.T)
        values.append(found.value)
        dense.append(dense_restricted_likelihood(problem, L @ L.T, found.noise))
        # sigma² is at its optimum
        for factor in (0.99, 1.01):
            assert dense_restricted_likelihood(problem, L @ L.T, factor * found.noise) > dense[-1]
    np.testing.assert_allclose(np.diff(values), np.diff(dense), rtol=1e-8)


def test_a_task_with_fewer_rows_than_effects_has_the_same_likelihood_by_its_rows() -> None:
    problem = problem_of(made(n_tasks=9, n=3, d=8, spread=(0.5,)), has_slopes=True)
    assert problem.blocks is not None
    L = np.random.default_rng(0).normal(size=(9, 9))
    by_rows, by_effects = (one.effects(L @ L.T) for one in (problem, replace(problem, blocks=None)))
    for name in ("b", "U", "noise", "value", "gradient"):
        expected = getattr(by_effects, name)
        np.testing.assert_allclose(getattr(by_rows, name), expected, rtol=1e-8, atol=1e-10)


def test_all_levels_of_a_category_have_one_variance_and_other_columns_their_own() -> None:
    rng = np.random.default_rng(0)
    tasks = []
    for t in range(12):
        X = np.column_stack([np.eye(4)[rng.integers(0, 4, size=20)], rng.normal(size=(20, 2))])
        own = np.concatenate([2 * rng.normal(size=4), [rng.normal(), 0.0]])
        y = X @ own + 0.1 * rng.normal(size=20)
        tasks.append(replace(Task.from_rows(f"t{t}", X, y=y), sources=(0, 0, 0, 0, 1, 2)))
    model = fit(TaskSet(tuple(tasks)), tolerance=1e-5)
    variances = np.array(model.fit_info["relative_covariance"])
    assert len(set(variances[1:5])) == 1
    assert len(set(variances)) == 4
    truth = np.array([4.0, 1.0]) / model.fit_info["residual_variance"]
    np.testing.assert_allclose(variances[[1, 5]], truth, rtol=0.6)


@pytest.mark.parametrize("form", ["shared", "diagonal", "full"])
@pytest.mark.parametrize("has_slopes", [False, True])
def test_the_gradient_is_that_of_finite_differences(form, has_slopes) -> None:
    problem = problem_of(made(n_tasks=5, n=6), has_slopes=has_slopes)
    structure = Structure.of(form, problem.n_effects)
    z = structure.start() + 0.3 * np.random.default_rng(1).normal(size=structure.start().shape)
    error = check_grad(
        lambda z: problem.objective(z, structure)[0],
        lambda z: problem.objective(z, structure)[1],
        z,
        epsilon=1e-6,
    )
    assert error < 1e-4


@pytest.mark.parametrize("covariance", ["shared", "diagonal", "full"])
def test_a_new_task_gets_its_conditional_mean(covariance, tmp_path) -> None:
    # with standardised columns and scaled targets, by the covariance of rows in those units
    tasks = made()
    save_model(fit(tasks, covariance=covariance, standardise="features"), tmp_path / "m")
    model = load_model(tmp_path / "m")
    new = Task.from_rows("new", tasks.tasks[3].X[:4], y=tasks.tasks[3].y[:4])
    adapted = MixedModel().adapt(model, new)
    basis, Sigma = model.functions.basis, covariance_of(model)
    noise, b = model.fit_info["residual_variance"], np.array(model.fit_info["fixed_effects"])
    rows = np.random.default_rng(3).normal(size=(5, 2))
    A, at = (np.column_stack([np.ones(len(X)), basis(X)]) for X in (new.X, rows))
    V = A @ Sigma @ A.T + noise * np.eye(4)
    expected = at @ b + at @ Sigma @ A.T @ np.linalg.solve(V, new.y - A @ b)
    np.testing.assert_allclose(adapted.predict(rows, task="new"), expected, rtol=1e-9)
    # the rows of a task of the model give the predictions of that task
    again = MixedModel().adapt(model, Task.from_rows("new", tasks.tasks[3].X, y=tasks.tasks[3].y))
    np.testing.assert_allclose(
        again.predict(rows, task="new"), model.predict(rows, task="t03"), rtol=1e-8
    )


def test_one_task_gives_least_squares() -> None:
    tasks = made(n_tasks=1, n=30, d=3)
    task = tasks.tasks[0]
    A = np.column_stack([np.ones(30), task.X])
    expected = A @ np.linalg.lstsq(A, task.y, rcond=None)[0]
    np.testing.assert_allclose(fit(tasks).predict(task.X, task="t00"), expected, rtol=1e-8)


def test_equal_tasks_are_pooled_and_unlike_ones_are_not() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 8, 2))
    equal = X @ np.array([1.0, -2.0]) + rng.normal(size=(30, 8))
    unlike = np.einsum("tnd,td->tn", X, 10 * rng.normal(size=(30, 2)))
    unlike += 0.1 * rng.normal(size=(30, 8))

    def tasks_of(y):
        return TaskSet(tuple(Task.from_rows(f"t{t:02d}", X[t], y=y[t]) for t in range(30)))

    pooled = fit(tasks_of(equal))
    assert np.diag(covariance_of(pooled)).max() < 0.2 * pooled.fit_info["residual_variance"]
    model = fit(tasks_of(unlike))
    for t in (0, 7):
        A = np.column_stack([np.ones(8), X[t]])
        alone = A @ np.linalg.lstsq(A, unlike[t], rcond=None)[0]
        np.testing.assert_allclose(model.predict(X[t], task=f"t{t:02d}"), alone, atol=0.05)


def test_dependent_columns_change_no_prediction() -> None:
    tasks = made()
    twice = TaskSet(
        tuple(Task.from_rows(t.name, np.column_stack([t.X, t.X[:, :1]]), y=t.y) for t in tasks)
    )
    one, two = fit(tasks, random="intercepts"), fit(twice, random="intercepts")
    for task, doubled in zip(tasks, twice, strict=True):
        np.testing.assert_allclose(
            two.predict(doubled.X, task=task.name), one.predict(task.X, task=task.name), rtol=1e-5
        )


def test_unsuitable_tasks_and_parameters_are_rejected() -> None:
    with pytest.raises(InvalidData, match=r"at least 6 rows .* got 5; use"):
        fit(made(n_tasks=1, n=5, d=4))
    with pytest.raises(InvalidParams, match="'full' supports up to 30 columns, the tasks have 31"):
        fit(made(d=31), covariance="full")
    rng = np.random.default_rng(0)
    classes = Task.from_rows("t", rng.normal(size=(9, 2)), y=list("abcabcabc"))
    with pytest.raises(InvalidData, match="'t' has 3 classes; mixed-model supports"):
        fit(TaskSet((classes,)))


def test_a_fit_that_ends_early_warns() -> None:
    assert "did not converge in 1 steps" in fit(made(), max_iter=1).warnings[0]
    assert fit(made()).warnings == ()


def classes_of(*, n_tasks=6, n=12, d=2, seed=0) -> TaskSet:
    """Return tasks of two classes by the log-odds of a mixed model."""
    rng = np.random.default_rng(seed)
    tasks = []
    for task in made(n_tasks=n_tasks, n=n, d=d, seed=seed, spread=(0.5,)):
        p = expit(task.y - 2)
        tasks.append(Task.from_rows(task.name, task.X, y=np.where(rng.random(len(p)) < p, 1, 0)))
    return TaskSet(tuple(tasks))


def binomial(tasks, *, has_slopes) -> BinomialProblem:
    rng = np.random.default_rng(1)
    return BinomialProblem.of(
        [task.X for task in tasks],
        [2.0 * task.y - 1 for task in tasks],
        has_slopes=has_slopes,
        weights=[0.2 + rng.random(task.n_samples) for task in tasks],
    )


def dense_log_odds(problem):
    """Return the matrix (n, d + 1 + Tq) of all effects, and the function −log of their density."""
    T, q, ends = len(problem.rows), problem.n_effects, [len(X) for X in problem.rows]
    A = np.column_stack([np.ones(sum(ends)), np.concatenate(problem.rows)])
    same = np.repeat(np.arange(T), ends)[:, np.newaxis] == np.arange(T)
    Z = (same[:, :, np.newaxis] * A[:, np.newaxis, :q]).reshape(len(A), T * q)
    design, signs = np.hstack([A, Z]), 2 * problem.y - 1

    def loss(effects, Q):
        return 0.5 * effects @ Q @ effects - problem.weights @ log_expit(signs * (design @ effects))

    return design, loss


@pytest.mark.parametrize("has_slopes", [False, True])
@pytest.mark.parametrize("n", [3, 12])
def test_the_likelihood_of_classes_is_laplaces_by_another_solver(has_slopes, n) -> None:
    problem = binomial(classes_of(n=n, d=2 if n > 3 else 5), has_slopes=has_slopes)
    design, loss = dense_log_odds(problem)
    q, T = problem.n_effects, len(problem.rows)
    structure = Structure.of("full", q)
    z = structure.start() + 0.3 * np.random.default_rng(2).normal(size=structure.start().shape)
    Psi = structure.matrix(z)
    k = len(problem.precision)
    Q = np.zeros((k + T * q, k + T * q))
    Q[:k, :k], Q[k:, k:] = np.diag(problem.precision), np.kron(np.eye(T), np.linalg.inv(Psi))
    found = minimize(loss, np.zeros(len(Q)), args=(Q,), method="BFGS", options={"gtol": 1e-9})
    p = expit(design @ found.x)
    H = Q + (design.T * problem.weights * p * (1 - p)) @ design
    # the determinants of log|M| and log|I + GΨ| are log|H| + T log|Ψ|
    logdets = np.linalg.slogdet(H).logabsdet + T * np.linalg.slogdet(Psi).logabsdet
    prior = DEVIATION_RATE * np.exp(z[: structure.n_variances]).sum()
    value, _ = problem.objective(z, structure)
    assert value == pytest.approx(found.fun + 0.5 * logdets + prior, rel=1e-7)
    effects = problem.effects(Psi)
    np.testing.assert_allclose(np.append(effects.b, effects.U), found.x, atol=1e-5)


def test_the_likelihood_of_classes_is_near_the_integral_over_all_effects() -> None:
    problem = binomial(classes_of(n_tasks=2, n=15, d=1), has_slopes=False)
    design, loss = dense_log_odds(problem)
    structure = Structure.of("diagonal", 1)
    points, weights = np.polynomial.hermite_e.hermegauss(12)
    grid, mass = (
        np.stack(np.meshgrid(*[one] * 4), axis=-1).reshape(-1, 4) for one in (points, weights)
    )
    for z in (np.log([0.3]), np.log([1.0])):
        Psi = structure.matrix(z)
        Q = np.diag([*problem.precision, 1 / Psi[0, 0], 1 / Psi[0, 0]])
        centre = np.append(problem.effects(Psi).b, problem.effects(Psi).U)
        p = expit(design @ centre)
        root = np.linalg.inv(np.linalg.cholesky(Q + (design.T * p * (1 - p)) @ design)).T
        values = np.array([loss(one, Q) for one in centre + grid @ root.T])
        integral = mass.prod(axis=1) @ np.exp((grid**2).sum(axis=1) / 2 - values)
        exact = np.log(Psi[0, 0]) - np.log(integral * np.linalg.det(root) / (2 * np.pi) ** 2)
        value = problem.objective(z, structure)[0] - DEVIATION_RATE * np.exp(z[0])
        assert value == pytest.approx(exact, abs=0.1)  # the error of the approximation


@pytest.mark.parametrize("form", ["shared", "diagonal", "full"])
@pytest.mark.parametrize("has_slopes", [False, True])
def test_the_gradient_of_classes_is_that_of_finite_differences(form, has_slopes) -> None:
    problem = binomial(classes_of(n_tasks=5, n=6), has_slopes=has_slopes)
    structure = Structure.of(form, problem.n_effects)
    z = structure.start() + 0.3 * np.random.default_rng(1).normal(size=structure.start().shape)
    value, gradient = (lambda z, i=i: problem.objective(z, structure)[i] for i in range(2))
    assert check_grad(value, gradient, z, epsilon=1e-6) < 1e-4


def test_a_new_task_of_classes_gets_the_mode_given_the_common_part(tmp_path) -> None:
    tasks = classes_of(n_tasks=12)
    save_model(fit(tasks, standardise="features"), tmp_path / "m")
    model = load_model(tmp_path / "m")
    assert model.fit_info["link"] == "logit"
    task = tasks.tasks[3]
    again = MixedModel().adapt(model, replace(task, name="new"))
    rows = np.random.default_rng(3).normal(size=(5, 2))
    np.testing.assert_allclose(
        again.decision_function(rows, task="new"),
        model.decision_function(rows, task=task.name),
        atol=1e-4,
    )


def test_scores_of_classes_are_log_odds_and_separable_tasks_have_finite_ones() -> None:
    tasks = classes_of(n_tasks=40, n=30, d=1)
    model = fit(tasks, random="intercepts")
    fresh = classes_of(n_tasks=40, n=30, d=1)  # the same tasks
    p = np.concatenate([expit(model.decision_function(t.X, task=t.name)) for t in fresh])
    truth = np.concatenate([task.y for task in fresh])
    for part in np.array_split(np.argsort(p), 4):
        assert p[part].mean() == pytest.approx(truth[part].mean(), abs=0.06)
    separable = TaskSet(
        tuple(Task.from_rows(f"t{t}", np.arange(-3.0, 3.0)[:, np.newaxis], y=[0, 0, 0, 1, 1, 1])
              for t in range(5))
    )  # fmt: skip
    assert np.abs(fit(separable).decision_function([[3.0]], task="t0")) < 20
