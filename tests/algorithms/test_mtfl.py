import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression, MultiTaskLasso
from sklearn.svm import SVC

from algorithms.evaluation import fold_splits
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.mtfl import MTFL
from algorithms.mtfl.algorithm import _features
from algorithms.mtfl.factors import _evaluate as factor_gradient
from algorithms.mtfl.selection import design_of, follow_path, leave_one_out_error, problem_of
from algorithms.numerics import lbfgs
from algorithms.numerics.feature_norms import ColumnNorm, TraceNorm
from algorithms.numerics.leave_one_out import leave_one_out_errors
from algorithms.numerics.losses import ProximalHinge
from algorithms.numerics.stacks import Block, stack_blocks

#: Gap that the default parameters promise.
GAP = 1e-6
#: Objectives of two solvers that both have the gap.
OBJECTIVE_RTOL = 1e-6
#: The same for the paper's solver, which is that slow, after 1,500 steps.
PAPER_RTOL = 1e-3
#: A gap g leaves coefficients about √g from the optimum; these tests ask for a gap of 1e-11.
COEFFICIENT_RTOL = 1e-4
#: A path has a gap of 1e-4, which leaves coefficients about a hundredth from the optimum.
HELD_OUT_RTOL = 0.03
#: The formula for leave-one-out against as many fits.
LOO_ATOL = 1e-9

PLAIN = {
    "selection": "given",
    "gamma_scale": "absolute",
    "standardise": "none",
    "scale_targets": "none",
    "tolerance": 1e-11,
}


def made(seed=0, *, n_tasks=8, d=6, sizes=(4, 12), rank=2, classes=0, noise=0.3) -> TaskSet:
    """Return tasks that depend on a few common combinations of columns."""
    rng = np.random.default_rng(seed)
    B = rng.standard_normal((d, rank))
    tasks = []
    for t in range(n_tasks):
        n = int(rng.integers(sizes[0], sizes[1] + 1))
        X = rng.standard_normal((n, d)) + rng.standard_normal(d)
        f = X @ B @ rng.standard_normal(rank) + noise * rng.standard_normal(n)
        y = f if not classes else np.array([f"c{c}" for c in np.argsort(np.argsort(f)) % classes])
        if classes == 2:
            y = np.where(f > np.median(f), "up", "down")
        tasks.append(Task.from_rows(f"t{t:02d}", X, y=y))
    return TaskSet(tuple(tasks))


def shared(seed=0, *, n=20, d=6, n_tasks=5) -> TaskSet:
    """Return tasks on the same rows."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    W = rng.standard_normal((d, 2)) @ rng.standard_normal((2, n_tasks))
    Y = X @ W + 0.5 * rng.standard_normal((n, n_tasks))
    return TaskSet(tuple(Task.from_rows(f"t{t}", X, y=Y[:, t]) for t in range(n_tasks)))


def fit(tasks, *, seed=0, trace=None, **values):
    params = MTFL.Params(**{**PLAIN, **values})
    return MTFL().fit(tasks, params, trace=trace or Trace(), rng=np.random.default_rng(seed))


def certificate(tasks, model, *, gamma, features="learned"):
    """Return the objective (7) and the dual bound of a model, from their definitions."""
    order = 2 if features == "learned" else None

    def dual_norm(Z):
        return np.linalg.norm(Z, 2) if order else np.linalg.norm(Z, axis=1).max()

    W = model.functions.W
    norm = np.linalg.norm(W, "nuc") if order else np.linalg.norm(W, axis=1).sum()
    residuals = [task.y - model.predict(task.X, task=task.name) for task in tasks]
    value = sum(np.sum(r**2) for r in residuals) + gamma * norm**2
    best = -np.inf
    for scale in np.linspace(0.9, 1.1, 201):
        alphas = [2 * scale * (r - r.mean()) for r in residuals]
        Z = np.stack([task.X.T @ a for task, a in zip(tasks, alphas, strict=True)], axis=1)
        gain = sum(a @ task.y - a @ a / 4 for task, a in zip(tasks, alphas, strict=True))
        best = max(best, gain - dual_norm(Z) ** 2 / (4 * gamma))
    return value, best


def optimum(tasks, *, gamma, features="learned") -> float:
    """Return the optimum of (7) by L-BFGS on the factors of W, since ‖W‖ = min ½(‖U‖² + ‖V‖²)."""
    rows = [task.X - task.X.mean(axis=0) for task in tasks]
    targets = [task.y - task.y.mean() for task in tasks]
    d, T = rows[0].shape[1], len(rows)
    r = min(d, T) if features == "learned" else 1
    size = r * (d + T) if features == "learned" else d * (1 + T)

    def evaluate(x):
        U, V = x[: d * r].reshape(d, r), x[d * r :].reshape(-1, T)
        W = U @ V if features == "learned" else U * V
        residuals = [y - X @ w for X, y, w in zip(rows, targets, W.T, strict=True)]
        Z = -2 * np.stack([X.T @ e for X, e in zip(rows, residuals, strict=True)], axis=1)
        gradients = (
            (Z @ V.T, U.T @ Z)
            if features == "learned"
            else (np.sum(Z * V, axis=1, keepdims=True), Z * U)
        )
        slope = np.concatenate([one.ravel() for one in gradients]) + gamma * (x @ x) * x
        return sum(float(e @ e) for e in residuals) + gamma / 4 * float(x @ x) ** 2, slope

    start = np.random.default_rng(0).standard_normal(size)
    options = {"maxiter": 5_000, "ftol": 1e-14, "gtol": 1e-8, "maxcor": 30}
    return float(minimize(evaluate, start, jac=True, method="L-BFGS-B", options=options).fun)


# ---- the optimum and its certificate ------------------------------------------------------------


@pytest.mark.parametrize("features", ["learned", "selected"])
@pytest.mark.parametrize("gamma", [0.05, 1.0, 20.0])
def test_the_certificate_holds_by_its_definition(features, gamma) -> None:
    tasks = made(1)
    model = fit(tasks, gamma=gamma, features=features, tolerance=GAP)
    value, bound = certificate(tasks, model, gamma=gamma, features=features)
    truth = optimum(tasks, gamma=gamma, features=features)
    assert model.fit_info["relative_gap"] <= GAP
    assert value == pytest.approx(model.fit_info["objective"], rel=1e-9)
    assert max(bound, model.fit_info["lower_bound"]) <= truth * (1 + 1e-9)
    assert truth <= value * (1 + 1e-9)
    # the bound of the last residuals is of first order only, so it needs a smaller gap
    exact = fit(tasks, gamma=gamma, features=features)
    value, bound = certificate(tasks, exact, gamma=gamma, features=features)
    assert (value - bound) / value <= 1e-5


@pytest.mark.parametrize(
    ("data", "features"),
    [
        *itertools.product(("own rows", "many rows", "shared rows"), ("learned", "selected")),
        ("few rows", "selected"),
        pytest.param("few rows", "learned", marks=pytest.mark.slow),  # as long as all others
    ],
)
@pytest.mark.quick(3)
def test_both_solvers_and_a_descent_on_factors_agree(features, data) -> None:
    tasks = {
        "own rows": made(2),
        "many rows": made(2, sizes=(12, 20)),
        "shared rows": shared(2),
        "few rows": made(3, n_tasks=5, d=8, sizes=(2, 5)),
    }[data]
    found = [
        fit(tasks, gamma=0.3, features=features, solver=solver, tolerance=GAP, max_iter=1_500)
        for solver in ("admm", "alternation")
    ]
    assert [model.fit_info["solver"] for model in found] == ["admm", "alternation"]
    assert found[0].fit_info["relative_gap"] <= GAP
    truth = optimum(tasks, gamma=0.3, features=features)
    for model, rtol in zip(found, (OBJECTIVE_RTOL, PAPER_RTOL), strict=True):
        assert model.fit_info["objective"] == pytest.approx(truth, rel=rtol)


def test_names_of_former_solvers_are_accepted_and_mean_admm() -> None:
    models = [
        fit(made(2), gamma=0.3, solver=solver)
        for solver in ("auto", "admm", "variable-projection", "proximal-gradient")
    ]
    assert {model.fit_info["solver"] for model in models} == {"admm"}
    assert len({model.functions.W.tobytes() for model in models}) == 1


@pytest.mark.parametrize("gamma", [1e-3, 0.03, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("d", [4, 12, 40])
def test_few_steps_are_enough_for_any_number_of_columns(d, gamma) -> None:
    tasks, trace = made(3, d=d, sizes=(8, 14)), Trace()
    scaled = {"gamma": gamma, "gamma_scale": "relative"}
    model = fit(tasks, **scaled, tolerance=GAP, trace=trace)
    assert model.fit_info["relative_gap"] <= GAP
    # with a fixed penalty, 12 columns and a gamma of 0.03 need 1,000
    assert trace.n_iterations <= 150


@pytest.mark.parametrize("gamma", [0.03, 0.3, 3.0])
def test_selected_features_on_shared_rows_are_the_multi_task_lasso(gamma) -> None:
    tasks = shared(4)
    model = fit(tasks, gamma=gamma, features="selected")
    W = model.functions.W
    alpha = gamma * np.linalg.norm(W, axis=1).sum() / len(tasks.tasks[0].X)
    Y = np.stack([task.y for task in tasks], axis=1)
    lasso = MultiTaskLasso(alpha=alpha, tol=1e-12, max_iter=100_000).fit(tasks.tasks[0].X, Y)
    np.testing.assert_allclose(W, lasso.coef_.T, atol=COEFFICIENT_RTOL * np.abs(W).max())
    np.testing.assert_allclose(model.functions.intercept, lasso.intercept_, atol=1e-4)


def test_one_task_is_ridge_regression() -> None:
    task = made(5, n_tasks=1, d=6, sizes=(15, 15)).tasks[0]
    gamma = 0.7
    for solver in ("admm", "alternation"):
        model = fit(TaskSet((task,)), gamma=gamma, solver=solver, tolerance=1e-8, max_iter=1_000)
        X, y = task.X - task.X.mean(axis=0), task.y - task.y.mean()
        w = np.linalg.solve(X.T @ X + gamma * np.eye(6), X.T @ y)
        np.testing.assert_allclose(model.functions.W[:, 0], w, atol=1e-3 * np.abs(w).max())
        assert model.fit_info["n_features"] == 1 or solver != "admm"


def test_d_of_equation_9_minimises_equation_8() -> None:
    rng = np.random.default_rng(6)
    W = fit(made(6), gamma=0.1).functions.W
    left, s, _ = np.linalg.svd(W, full_matrices=False)
    best = np.sum(s) ** 2
    D = (left * s) @ left.T / s.sum()
    assert np.trace(W.T @ np.linalg.pinv(D) @ W) == pytest.approx(best, rel=1e-6)
    for spread in (0.01, 0.1, 1.0) * 30:
        A = D + spread * np.cov(rng.standard_normal((len(W), 20)))
        assert np.trace(W.T @ np.linalg.solve(A / np.trace(A), W)) >= best * (1 - 1e-9)


def test_the_model_holds_d_by_its_features() -> None:
    tasks = made(7)
    model = fit(tasks, gamma=0.5)
    W = model.functions.W
    values, vectors = np.linalg.eigh(W @ W.T)
    root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
    D = (model.U * model.spectrum) @ model.U.T
    np.testing.assert_allclose(D, root / np.trace(root), atol=1e-4)
    assert model.spectrum.sum() == pytest.approx(1)
    assert (np.diff(model.spectrum) <= 0).all()
    rows = tasks.tasks[0].X
    np.testing.assert_allclose(model.transform(rows, task="t00"), rows @ model.U)


def test_features_are_few_where_the_truth_has_few() -> None:
    tasks = made(8, n_tasks=30, d=10, sizes=(15, 20), rank=2, noise=0.05)
    assert fit(tasks, gamma=30.0).spectrum[:2].sum() > 0.99


def test_a_random_change_of_the_solution_never_lowers_the_objective() -> None:
    tasks, rng, gamma = made(9), np.random.default_rng(0), 0.2
    model = fit(tasks, gamma=gamma)
    W, b = model.functions.W, model.functions.intercept

    def objective(W):
        errors = [task.y - task.X @ w - c for task, w, c in zip(tasks, W.T, b, strict=True)]
        return sum(np.sum(e**2) for e in errors) + gamma * np.linalg.norm(W, "nuc") ** 2

    best = objective(W)
    for size in 10.0 ** rng.uniform(-5, 0, 100):
        assert objective(W + size * rng.standard_normal(W.shape)) >= best * (1 - 1e-10)


@pytest.mark.parametrize("features", ["learned", "selected"])
@pytest.mark.parametrize("gamma", [0.01, 1.0, 30.0])
def test_admm_on_many_rows_is_certified_by_the_definition(features, gamma) -> None:
    tasks = made(3, n_tasks=10, d=8, sizes=(30, 60))
    trace = Trace()
    model = fit(tasks, gamma=gamma, features=features, tolerance=GAP, trace=trace)
    assert model.fit_info["solver"] == "admm"
    value, _ = certificate(tasks, model, gamma=gamma, features=features)
    assert value == pytest.approx(model.fit_info["objective"], rel=1e-9)
    truth = optimum(tasks, gamma=gamma, features=features)
    assert model.fit_info["lower_bound"] <= truth * (1 + 1e-10)
    assert truth <= model.fit_info["objective"] * (1 + 1e-10)
    assert trace.n_iterations <= 60


def test_a_task_with_dependent_columns_has_no_inverse_and_can_be_fitted_by_admm() -> None:
    tasks = list(made(4, n_tasks=4, d=5, sizes=(20, 30)))
    tasks[1] = replace(tasks[1], X=tasks[1].X * np.array([1.0, 1, 0, 1, 1]))
    found = TaskSet(tuple(tasks))
    assert design_of(found, MTFL.Params(**PLAIN)).least_squares(centre=True).stacks.inverses is None
    model = fit(found, gamma=0.5, tolerance=GAP)
    assert model.fit_info["relative_gap"] <= GAP
    assert model.fit_info["objective"] == pytest.approx(optimum(found, gamma=0.5), rel=GAP)


def test_inverses_and_moments_of_stacks_are_those_of_numpy() -> None:
    rng = np.random.default_rng(5)
    blocks = [
        Block(
            np.linalg.qr(rng.normal(size=(9, 4)))[1], np.ones((4, 2)), np.array([2 * t, 2 * t + 1])
        )
        for t in range(3)
    ]
    stacks = stack_blocks(blocks)
    assert stacks.inverses is not None
    np.testing.assert_allclose(
        stacks.inverses[0], np.linalg.inv(np.stack([block.X for block in blocks])), atol=1e-12
    )
    share = rng.uniform(size=6)
    expected = sum(
        (share[2 * t] + share[2 * t + 1]) * block.X.T @ block.X for t, block in enumerate(blocks)
    )
    np.testing.assert_allclose(stacks.moment(share), expected, atol=1e-12)
    few = stack_blocks([Block(rng.normal(size=(2, 5)), np.ones((2, 1)), np.array([0]))])
    values = np.linalg.eigvalsh(few.moment(np.array([2.0])))
    np.testing.assert_allclose(
        values, np.linalg.eigvalsh(2 * few.parts[0].X[0].T @ few.parts[0].X[0])[-2:], atol=1e-12
    )
    assert few.inverses is None
    square = Block(rng.normal(size=(4, 4)), np.ones((4, 1)), np.array([0]))
    assert stack_blocks([square]).inverses is None  # not triangular


# ---- rows of every kind -------------------------------------------------------------------------


def test_merging_equal_rows_changes_nothing() -> None:
    tasks = shared(11)
    # a digit that no float of the data has keeps the rows apart, and changes nothing else
    apart = TaskSet(
        tuple(
            Task.from_rows(task.name, task.X * (1 + t * 2.0**-50), y=task.y)
            for t, task in enumerate(tasks)
        )
    )
    a, b = fit(tasks, gamma=0.3), fit(apart, gamma=0.3)
    np.testing.assert_allclose(a.functions.W, b.functions.W, atol=COEFFICIENT_RTOL)


def test_more_features_than_rows_are_solved_in_the_span_of_the_rows() -> None:
    tasks = made(12, n_tasks=4, d=60, sizes=(3, 6))
    model = fit(tasks, gamma=0.5, tolerance=1e-8)
    value, bound = certificate(tasks, model, gamma=0.5)
    assert (value - bound) / value <= 1e-5
    assert model.functions.W.shape == (60, 4)


def test_a_task_of_one_row_and_constant_or_equal_columns_can_be_fitted() -> None:
    tasks = []
    for task in made(13):
        X = np.column_stack([task.X, np.ones(task.n_samples), task.X[:, 0]])
        tasks.append(Task.from_rows(task.name, X, y=task.y))
    single = Task.from_rows("single", tasks[0].X[:1], y=[3.0])
    model = fit(TaskSet((*tasks, single)), gamma=0.3, tolerance=GAP)
    assert model.fit_info["relative_gap"] <= GAP
    assert model.predict(single.X, task="single") == pytest.approx([3.0])
    np.testing.assert_allclose(model.functions.W[6], 0, atol=1e-12)
    np.testing.assert_allclose(model.functions.W[0], model.functions.W[7], atol=1e-3)


def test_shifted_rows_and_targets_shift_the_intercept_only() -> None:
    tasks = made(14)
    moved = TaskSet(tuple(Task.from_rows(t.name, t.X + 7.0, y=t.y - 100.0) for t in tasks))
    a, b = fit(tasks, gamma=0.3), fit(moved, gamma=0.3)
    np.testing.assert_allclose(a.functions.W, b.functions.W, atol=COEFFICIENT_RTOL)
    rows = tasks.tasks[0].X
    np.testing.assert_allclose(
        a.predict(rows, task="t00") - 100, b.predict(rows + 7, task="t00"), atol=1e-3
    )


def test_targets_without_signal_give_zero_and_a_warning() -> None:
    tasks = TaskSet(tuple(Task.from_rows(t.name, t.X, y=np.full(len(t.X), 2.0)) for t in made(15)))
    model = fit(tasks, gamma=1.0)
    assert "all coefficients are zero" in model.warnings[0]
    np.testing.assert_allclose(model.predict(tasks.tasks[0].X, task="t00"), 2.0)


def test_columns_of_different_scales_cause_a_warning_and_can_be_standardised() -> None:
    tasks = TaskSet(
        tuple(Task.from_rows(t.name, t.X * np.array([1e4, 1, 1, 1, 1, 1]), y=t.y) for t in made(16))
    )
    assert any("standardise" in warning for warning in fit(tasks, gamma=1.0).warnings)
    scaled = fit(tasks, gamma=1.0, standardise="features")
    plain = fit(made(16), gamma=1.0, standardise="features")
    assert not scaled.warnings
    rows = made(16).tasks[0].X
    np.testing.assert_allclose(
        scaled.predict(rows * np.array([1e4, 1, 1, 1, 1, 1]), task="t00"),
        plain.predict(rows, task="t00"),
        atol=1e-4,
    )


# ---- kernels ------------------------------------------------------------------------------------


def test_a_polynomial_of_degree_one_is_linear_with_a_constant_column() -> None:
    tasks = made(17, d=4)
    kernel = fit(tasks, gamma=0.3, kernel="polynomial", degree=1, fit_intercept=False)
    wide = TaskSet(
        tuple(
            Task.from_rows(t.name, np.column_stack([np.ones(len(t.X)), t.X / 2]), y=t.y)
            for t in tasks
        )
    )
    linear = fit(wide, gamma=0.3, fit_intercept=False)
    rows = np.random.default_rng(0).standard_normal((7, 4))
    np.testing.assert_allclose(
        kernel.predict(rows, task="t03"),
        linear.predict(np.column_stack([np.ones(7), rows / 2]), task="t03"),
        atol=1e-3,
    )
    assert kernel.fit_info["objective"] == pytest.approx(linear.fit_info["objective"], rel=1e-8)
    np.testing.assert_allclose(kernel.spectrum[:2], linear.spectrum[:2], atol=1e-4)


def test_a_kernel_fits_a_curve_that_a_linear_model_cannot() -> None:
    rng = np.random.default_rng(18)
    tasks = []
    for t in range(6):
        X = rng.uniform(-2, 2, (30, 2))
        f = rng.standard_normal() * np.sin(2 * X[:, 0]) + rng.standard_normal() * X[:, 1] ** 2
        tasks.append(Task.from_rows(f"t{t}", X, y=f))
    rbf = MTFL().fit(TaskSet(tuple(tasks)), MTFL.Params(kernel="rbf"), trace=Trace(), rng=rng)
    assert min(rbf.metrics["r2"].values()) > 0.95
    assert rbf.fit_info["relative_gap"] <= GAP


# ---- classes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("features", ["learned", "selected"])
@pytest.mark.parametrize("gamma", [0.3, 5.0])
def test_classifiers_are_certified(loss, features, gamma) -> None:
    tasks = made(19, classes=2, sizes=(8, 25), noise=1.0)
    trace = Trace()
    model = fit(tasks, gamma=gamma, loss=loss, features=features, tolerance=GAP, trace=trace)
    assert model.fit_info["relative_gap"] <= GAP
    assert trace.stop_reason == "converged"
    # the objective is that of the answer, and the bound lies below that of any other
    assert margin_objective(tasks, model.functions, gamma, loss, features) == pytest.approx(
        model.fit_info["objective"], rel=1e-9
    )
    rng = np.random.default_rng(0)
    W, b = model.functions.W, model.functions.intercept
    for size in 10.0 ** rng.uniform(-4, 0, 30):
        other = (W + size * rng.standard_normal(W.shape), b + size * rng.standard_normal(b.shape))
        value = margin_objective(tasks, None, gamma, loss, features, other=other)
        assert value >= model.fit_info["lower_bound"]


def margin_objective(tasks, functions, gamma, loss, features, *, other=None) -> float:
    W, b = other or (functions.W, functions.intercept)
    total = 0.0
    for task, w, c in zip(tasks, W.T, b, strict=True):
        m = np.where(task.y == "up", 1, -1) * (task.X @ w + c)
        total += np.sum(np.log1p(np.exp(-m)) if loss == "logistic" else np.maximum(0, 1 - m))
    norm = np.linalg.norm(W, "nuc")
    if features == "selected":
        norm = np.linalg.norm(W, axis=1).sum()
    return total + gamma * norm**2


def test_one_task_with_logistic_loss_is_logistic_regression() -> None:
    task = made(20, n_tasks=1, classes=2, sizes=(40, 40), noise=2.0).tasks[0]
    model = fit(TaskSet((task,)), gamma=0.4, loss="logistic")
    other = LogisticRegression(C=1 / 0.8, tol=1e-10, max_iter=10_000).fit(task.X, task.y)
    np.testing.assert_allclose(model.functions.W[:, 0], other.coef_[0], atol=1e-4)
    np.testing.assert_allclose(model.functions.intercept, other.intercept_, atol=1e-4)


def test_one_task_with_hinge_loss_is_a_support_vector_machine() -> None:
    task = made(21, n_tasks=1, classes=2, sizes=(40, 40), noise=2.0).tasks[0]
    model = fit(TaskSet((task,)), gamma=0.4, loss="hinge", tolerance=1e-8)
    other = SVC(kernel="linear", C=1 / 0.8, tol=1e-9).fit(task.X, task.y)
    np.testing.assert_allclose(model.functions.W[:, 0], other.coef_[0], atol=1e-3)
    rows = np.random.default_rng(0).standard_normal((50, 6))
    np.testing.assert_allclose(
        model.decision_function(rows, task="t00"), other.decision_function(rows), atol=3e-3
    )


def test_more_than_two_classes_are_learned_one_against_the_rest() -> None:
    rng = np.random.default_rng(22)
    centres = 3 * rng.standard_normal((3, 5))
    tasks = []
    for t in range(4):
        labels = np.arange(24) % 3
        X = centres[labels] + rng.standard_normal((24, 5))
        y = labels if t % 2 else np.array(["a", "b", "c"])[labels]
        tasks.append(Task.from_rows(f"t{t}", X, y=y))
    tasks.append(Task.from_rows("two", X[labels < 2], y=np.array(["x", "y"])[labels[labels < 2]]))
    tasks = TaskSet(tuple(tasks))
    for loss in ("logistic", "square"):
        model = fit(tasks, gamma=0.1, loss=loss, tolerance=1e-5)
        assert model.decision_function(X, task="t0").shape == (24, 3)
        assert model.decision_function(X, task="two").shape == (24,)
        assert min(model.metrics["accuracy"].values()) > 0.9
        assert set(model.predict(X, task="t0")) == {"a", "b", "c"}


# ---- the choice of gamma ------------------------------------------------------------------------


@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("width", [3, 12])
def test_leave_one_out_is_that_of_as_many_fits(has_intercept, width) -> None:
    rng = np.random.default_rng(23)
    A, Y = rng.standard_normal((8, width)), rng.standard_normal((8, 2))
    brute = np.zeros_like(Y)
    for i in range(8):
        B, T = np.delete(A, i, axis=0), np.delete(Y, i, axis=0)
        mean, mean_T = (B.mean(axis=0), T.mean(axis=0)) if has_intercept else (0.0, 0.0)
        B, T = B - mean, T - mean_T
        V = np.linalg.solve(B.T @ B + 0.3 * np.eye(width), B.T @ T)
        brute[i] = Y[i] - (A[i] - mean) @ V - mean_T
    errors = leave_one_out_errors(A, Y, ridge=0.3, has_intercept=has_intercept)
    np.testing.assert_allclose(errors, brute, atol=LOO_ATOL)


@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("width", [3, 12])
def test_rows_of_a_unit_are_left_out_together(has_intercept, width) -> None:
    rng = np.random.default_rng(25)
    A, Y = rng.standard_normal((9, width)), rng.standard_normal((9, 2))
    A[7] = A[2]  # the same row twice, one unit
    unit = np.array([0, 1, 2, 3, 3, 3, 4, 2, 5])
    brute = np.zeros_like(Y)
    for i in range(9):
        B, T = A[unit != unit[i]], Y[unit != unit[i]]
        mean, mean_T = (B.mean(axis=0), T.mean(axis=0)) if has_intercept else (0.0, 0.0)
        B, T = B - mean, T - mean_T
        V = np.linalg.solve(B.T @ B + 0.3 * np.eye(width), B.T @ T)
        brute[i] = Y[i] - (A[i] - mean) @ V - mean_T
    errors = leave_one_out_errors(A, Y, ridge=0.3, has_intercept=has_intercept, unit=unit)
    np.testing.assert_allclose(errors, brute, atol=LOO_ATOL)
    whole = leave_one_out_errors(A, Y, ridge=0.3, has_intercept=True, unit=np.zeros(9, dtype=int))
    assert np.isnan(whole).all()  # nothing would be left to learn from


def test_leave_one_out_is_in_the_metric_of_d() -> None:
    tasks = made(24)
    params = MTFL.Params(**PLAIN)
    design = design_of(tasks, params)
    U = np.random.default_rng(0).standard_normal((6, 2))
    U /= np.linalg.norm(U)
    total, D = 0.0, U @ U.T
    for task in tasks:
        for i in range(task.n_samples):
            X, y = np.delete(task.X, i, axis=0), np.delete(task.y, i)
            K = (X - X.mean(axis=0)) @ D @ (X - X.mean(axis=0)).T + 0.4 * np.eye(len(X))
            w = D @ (X - X.mean(axis=0)).T @ np.linalg.solve(K, y - y.mean())
            total += (task.y[i] - (task.X[i] - X.mean(axis=0)) @ w - y.mean()) ** 2
    mean = total / sum(task.n_samples for task in tasks)
    found = leave_one_out_error(design, U, 0.4 / design.row_unit**2, has_intercept=True)
    assert design.target_unit**2 * found == pytest.approx(mean, rel=LOO_ATOL)


def test_a_warm_path_ends_where_cold_starts_do() -> None:
    params = MTFL.Params(**PLAIN)
    tasks = made(25, n_tasks=12)
    design = design_of(tasks, params)
    gammas = [30.0, 3.0, 0.3, 0.03]
    path = follow_path(
        design,
        params,
        [gamma / design.row_unit**2 for gamma in gammas],
        loss="square",
        tolerance=1e-8,
        trace=Trace(),
        loop="path",
    )
    for gamma, solution in zip(gammas, path, strict=True):
        cold = fit(tasks, gamma=gamma, tolerance=1e-8).fit_info["objective"]
        assert design.target_unit**2 * solution.objective == pytest.approx(cold, rel=1e-7)


@pytest.mark.parametrize("selection", ["loo", "cv"])
def test_the_selected_gamma_has_the_smallest_error(selection) -> None:
    tasks = made(26, n_tasks=10)
    model = fit(tasks, selection=selection, gamma_scale="relative", tolerance=GAP)
    tried, errors = model.fit_info["selection_gammas"], model.fit_info["selection_errors"]
    assert model.fit_info["gamma_given"] == tried[int(np.argmin(errors))]
    assert np.isfinite(errors).all()


def test_few_rows_are_scored_by_cross_validation() -> None:
    few = fit(made(34, n_tasks=5), selection="auto", tolerance=GAP)
    many = fit(made(34, n_tasks=5, sizes=(30, 40)), selection="auto", tolerance=GAP)
    assert (few.fit_info["selection"], many.fit_info["selection"]) == ("cv", "loo")


@pytest.mark.parametrize(("n_rows", "selection"), [(40, "loo"), (39, "cv")])
def test_twenty_rows_of_all_tasks_for_each_column_are_enough(n_rows, selection) -> None:
    rng = np.random.default_rng(35)
    X, y = rng.standard_normal((n_rows, 2)), rng.standard_normal(n_rows)
    tasks = TaskSet((Task.from_rows("a", X[:15], y=y[:15]), Task.from_rows("b", X[15:], y=y[15:])))
    assert fit(tasks, selection="auto", grid=(1.0,)).fit_info["selection"] == selection


@pytest.mark.parametrize(
    ("noise", "grid", "which"),
    [(1e-6, (1e-9, 1.0, 1e9), "smallest"), (30.0, (1e-9, 1e-3, 1.0), "largest")],
)
def test_a_gamma_at_either_end_of_the_grid_causes_a_warning(noise, grid, which) -> None:
    model = fit(made(36, noise=noise), selection="loo", grid=grid, tolerance=GAP)
    end = {"smallest": min, "largest": max}[which](grid)
    assert model.fit_info["gamma_given"] == end
    assert any(f"gamma = {end:g} is the {which} value" in w for w in model.warnings)


def test_an_end_of_the_grid_where_every_gamma_has_the_same_error_causes_none() -> None:
    flat = (Task(t.name, t.X, "rows", np.full(t.n_samples, 3.0)) for t in made(36, noise=1e-6))
    model = fit(TaskSet(tuple(flat)), selection="loo", grid=(1e-9, 1.0, 1e9), tolerance=GAP)
    assert model.fit_info["gamma_given"] == 1e9
    assert not any("value" in warning for warning in model.warnings)


def test_gamma_is_relative_to_the_size_of_the_rows() -> None:
    tasks = made(27)
    larger = TaskSet(tuple(Task.from_rows(t.name, 50 * t.X, y=t.y) for t in tasks))
    values = {"gamma_scale": "relative", "gamma": 0.1}
    a, b = fit(tasks, **values), fit(larger, **values)
    np.testing.assert_allclose(a.functions.W, 50 * b.functions.W, rtol=1e-3, atol=1e-4)


# ---- new tasks ----------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["square", "logistic", "hinge"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_adapting_to_a_task_of_the_fit_gives_the_same_weights(loss, kernel) -> None:
    tasks = made(28, classes=0 if loss == "square" else 2, sizes=(10, 20), noise=1.0)
    model = fit(tasks, gamma=0.5, loss=loss, kernel=kernel, tolerance=1e-8)
    twin = Task("twin", tasks["t03"].X, "rows", tasks["t03"].y)
    adapted = MTFL().adapt(model, twin)
    rows = np.random.default_rng(0).standard_normal((9, 6))
    np.testing.assert_allclose(
        adapted.decision_function(rows, task="twin"),
        model.decision_function(rows, task="t03"),
        atol=5e-3,
    )
    assert adapted.metrics.keys() == model.metrics.keys()


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_a_new_task_that_stops_early_causes_a_warning(loss) -> None:
    tasks = made(28, classes=2, sizes=(10, 20), noise=1.0)
    model = fit(tasks, gamma=0.5, loss=loss, tolerance=1e-6)
    twin = Task("twin", tasks["t03"].X, "rows", tasks["t03"].y)
    assert MTFL().adapt(model, twin).warnings == model.warnings
    params = {**model.fit_info["params"], "max_iter": 1, "tolerance": 1e-12}
    hurried = MTFL.Model(replace(model.functions, fit_info={**model.fit_info, "params": params}), model.U, model.spectrum)  # noqa: E501  # fmt: skip
    adapted = MTFL().adapt(hurried, twin)
    assert "adaptation to task 'twin' stopped with a relative duality gap" in adapted.warnings[-1]


# ---- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"loss": "hinge"}, "loss"),
        ({"kernel": "rbf", "features": "selected"}, "features"),
        ({"loss": "hinge", "solver": "alternation"}, "solver"),
        ({"loss": "logistic", "selection": "loo"}, "selection"),
    ],
)
def test_unsuitable_parameters_are_rejected_by_name(values, field) -> None:
    tasks = made(29, classes=0 if field == "loss" else 2)
    with pytest.raises(InvalidParams) as caught:
        fit(tasks, **values)
    assert caught.value.field == field


def test_one_class_and_single_rows_are_rejected() -> None:
    tasks = made(30, classes=2)
    alike = Task.from_rows("alike", tasks.tasks[0].X, y=["unlike"] * tasks.tasks[0].n_samples)
    with pytest.raises(InvalidData, match="'alike' has rows of one class only"):
        fit(TaskSet((*tasks, alike)))
    single = TaskSet(tuple(Task.from_rows(t.name, t.X[:1], y=[1.0]) for t in made(30)))
    with pytest.raises(InvalidData, match="selection 'given'"):
        fit(single, selection="loo")


# ---- the quasi-Newton step ----------------------------------------------------------------------


def test_the_compact_direction_is_that_of_the_matrix_update() -> None:
    rng = np.random.default_rng(31)
    A = rng.standard_normal((7, 7))
    A = A @ A.T + np.eye(7)
    S, Y = np.zeros((0, 7)), np.zeros((0, 7))
    for _ in range(5):
        s = rng.standard_normal(7)
        S, Y = lbfgs.add_pair(S, Y, s, A @ s)
    H = np.eye(7) * (S[-1] @ Y[-1]) / (Y[-1] @ Y[-1])
    for s, y in zip(S, Y, strict=True):
        E = np.eye(7) - np.outer(s, y) / (s @ y)
        H = E @ H @ E.T + np.outer(s, s) / (s @ y)
    g = rng.standard_normal(7)
    np.testing.assert_allclose(lbfgs.direction(g, S, Y), -H @ g, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("features", ["learned", "selected"])
@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_gradients_are_those_of_finite_differences(features, loss) -> None:
    tasks = made(32, classes=2)
    params = MTFL.Params(**{**PLAIN, "features": features, "loss": loss})
    problem = problem_of(design_of(tasks, params), params, 0.5, loss=loss)
    rng = np.random.default_rng(0)
    r = 6 if features == "learned" else 1
    x = rng.standard_normal(6 * r + 8 * 6 + 8)
    parts = problem.stacks.parts
    losses = [problem.loss for _ in parts]
    if loss == "hinge":
        losses = [ProximalHinge(rng.uniform(size=part.Y.shape), 0.7) for part in parts]

    def evaluate(x):
        point = factor_gradient(problem, losses, x)
        return point.value, point.gradient

    gradient = evaluate(x)[1]
    for _ in range(5):
        along = rng.standard_normal(x.shape)
        step = 1e-6
        slope = (evaluate(x + step * along)[0] - evaluate(x - step * along)[0]) / (2 * step)
        assert slope == pytest.approx(gradient @ along, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("norm", [TraceNorm(), ColumnNorm()])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("tau", [0.01, 0.3, 5.0])
def test_the_prox_is_a_minimum(norm, power, tau) -> None:
    rng = np.random.default_rng(33)
    W = rng.standard_normal((5, 4))

    def objective(V):
        return 0.5 * np.sum((V - W) ** 2) + tau * norm.norm(V) ** power

    found = norm.shrink(W, tau, power=power)
    for size in 10.0 ** rng.uniform(-6, 0, 200):
        assert objective(found) <= objective(found + size * rng.standard_normal(W.shape)) + 1e-12
    assert objective(found) <= objective(found * 0.999) + 1e-12
    assert objective(found) <= objective(found * 1.001) + 1e-12


# ---- the choice of gamma by cross-validation, done again by hand --------------------------------


def relative_unit(tasks) -> float:
    """Return tr S² / tr S of the rows about the means of their tasks, by its definition."""
    rows = np.concatenate([task.X - task.X.mean(axis=0) for task in tasks])
    values = np.linalg.eigvalsh(rows.T @ rows / len(rows))
    return float(np.sum(values**2) / np.sum(values))


@pytest.mark.parametrize("scale_targets", ["none", "task"])
def test_a_fold_has_gamma_in_the_unit_of_its_own_rows(scale_targets) -> None:
    # rows of unlike size: without one fold the unit is a fraction of that of all rows
    rng = np.random.default_rng(31)
    sizes = np.geomspace(0.1, 10, 9)[:, np.newaxis]
    w, tasks = rng.standard_normal(3), []
    for t in range(3):
        X = sizes * rng.standard_normal((9, 3))
        y = X @ (w + 0.3 * rng.standard_normal(3)) + 3 * rng.standard_normal(9)
        tasks.append(Task.from_rows(f"t{t}", X, y=5.0**t * y))
    tasks, grid = TaskSet(tuple(tasks)), (30.0, 1.0, 0.03)
    values = {"gamma_scale": "relative", "scale_targets": scale_targets, "tolerance": 1e-9}
    found = fit(tasks, seed=4, selection="cv", n_folds=3, grid=grid, **values)
    seed = int(np.random.default_rng(4).integers(2**32))
    splits = list(fold_splits(tasks, n_folds=3, seed=seed))
    units = [relative_unit(split.train) for split in splits]
    assert max(units) > 2 * min(units)
    for gamma, error in zip(grid, found.fit_info["selection_errors"], strict=True):
        squares = []
        for split, unit in zip(splits, units, strict=True):
            values |= {"gamma": gamma * unit, "gamma_scale": "absolute"}
            model = fit(split.train, **values)
            for task in split.test:
                own = split.train[task.name].y.std(ddof=1) if scale_targets == "task" else 1.0
                squares.append(((model.predict(task.X, task=task.name) - task.y) / own) ** 2)
        assert error == pytest.approx(np.mean(np.concatenate(squares)), rel=HELD_OUT_RTOL)


def test_features_of_a_thousandth_are_kept_and_rounding_is_not() -> None:
    axes = np.linalg.qr(np.random.default_rng(37).standard_normal((4, 4)))[0]
    found, spectrum = _features(axes[:, :3] * np.sqrt([0.001, 0.999, 1e-12]))
    np.testing.assert_allclose(spectrum, [0.999, 0.001], rtol=1e-9)
    np.testing.assert_allclose(np.abs(found @ axes[:, [1, 0]]), np.eye(2), atol=1e-9)
