"""What weights, strength and scale of kernel machines mean, by machines of scikit-learn."""

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from algorithms.baselines.kernels import TaskMachines
from algorithms.families.kernel_machines.output_kernels import relative_lam
from algorithms.fmtl import FMTL
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace

#: Decision values of two solvers of one convex problem.
DECISION_ATOL = 2e-4
#: Of one problem, solved twice to a gap of 1e-10.
SAME_RTOL = 1e-4

INTERCEPT = 0.7


def labelled(n, *, seed, n_classes=2, share=0.2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    f = X @ np.array([1.0, -0.5, 0.2]) + 0.7 * rng.standard_normal(n)
    cuts = np.quantile(f, [1 - share] if n_classes == 2 else [0.5, 0.5 + share])
    return X, np.array(["a", "b", "c"])[np.searchsorted(cuts, f)]


def fit(algorithm, tasks, **values):
    params = algorithm.Params(tolerance=1e-10, max_iter=20_000, **values)
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


def machine(loss, X, y, C, weight):
    """Return the decision values of scikit-learn's machine, the intercept as one more feature."""
    Z = np.column_stack([X, np.full(len(X), INTERCEPT)])
    if loss == "logistic":
        one = LogisticRegression(
            C=C, class_weight=weight, fit_intercept=False, tol=1e-10, max_iter=100_000
        )
    elif loss == "squared":
        share = np.mean(y > 0)
        w = np.where(y > 0, 0.5 / share, 0.5 / (1 - share)) if weight else np.ones(len(y))
        one = KernelRidge(alpha=1 / C, kernel="linear").fit(Z, y, sample_weight=w)
        return one.predict(Z)
    else:
        halved = C if loss == "hinge" else C / 2  # ours has ½ of the square
        one = LinearSVC(
            C=halved, loss=loss.replace("-", "_"), class_weight=weight, fit_intercept=False,
            dual=True, tol=1e-10, max_iter=1_000_000,
        )  # fmt: skip
    return one.fit(Z, y).decision_function(Z)


PLAIN = {"kernel": "linear", "standardise": "none", "scale": "absolute", "intercept": INTERCEPT}


@pytest.mark.parametrize("weight", ["none", "balanced"])
@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "logistic", "squared"])
def test_class_weights_are_those_of_scikit_learn(loss, weight) -> None:
    rows = [labelled(40, seed=1), labelled(60, seed=2, share=0.4)]
    tasks = TaskSet(tuple(Task.from_rows(f"t{i}", X, y=y) for i, (X, y) in enumerate(rows)))
    model = fit(TaskMachines(), tasks, loss=loss, class_weight=weight, C=0.5, **PLAIN)
    for i, (X, y) in enumerate(rows):
        expected = machine(
            loss, X, np.where(y == "b", 1, -1), 0.5, None if weight == "none" else weight
        )
        np.testing.assert_allclose(
            model.decision_function(X, task=f"t{i}"), expected, atol=DECISION_ATOL
        )


def test_class_weights_of_several_classes_are_those_of_each_against_all() -> None:
    X, y = labelled(60, seed=3, n_classes=3)
    tasks = TaskSet((Task.from_rows("t", X, y=y),))
    model = fit(TaskMachines(), tasks, loss="squared-hinge", class_weight="balanced", **PLAIN)
    F = model.decision_function(X, task="t")
    for i, label in enumerate("abc"):
        expected = machine("squared-hinge", X, np.where(y == label, 1, -1), 1.0, "balanced")
        np.testing.assert_allclose(F[:, i], expected, atol=DECISION_ATOL)


@pytest.mark.parametrize("weight", ["none", "balanced"])
def test_a_new_task_has_the_weights_of_the_fit(weight) -> None:
    # Θ of the new task alone is a number: its machine is that of scikit-learn at Θ_tt C
    X, y = labelled(50, seed=4)
    old = Task.from_rows("old", np.zeros((4, 3)), y=["a", "b", "a", "b"])
    model = fit(
        FMTL(), TaskSet((old,)), loss="squared-hinge", class_weight=weight,
        **{**PLAIN, "intercept": 0.0}, C=3.0,
    )  # fmt: skip
    joined = FMTL().adapt(model, Task.from_rows("new", X, y=y))
    assert joined.Theta[1, 0] == 0.0
    y = np.where(y == "b", 1, -1)
    one = LinearSVC(
        C=1.5 * joined.Theta[1, 1], loss="squared_hinge", fit_intercept=False, dual=True,
        class_weight=None if weight == "none" else weight, tol=1e-10, max_iter=1_000_000,
    )  # fmt: skip
    expected = one.fit(X, y).decision_function(X)
    np.testing.assert_allclose(
        joined.decision_function(X, task="new"), expected, atol=DECISION_ATOL
    )


# -- the relative scale -----------------------------------------------------------------------

PENALTIES = [("power", 1), ("power", 2), ("power", 4), ("exp", 1), ("cosh", 1)]
over_penalties = pytest.mark.parametrize(("penalty", "k"), PENALTIES)


@over_penalties
def test_rows_given_three_times_are_a_strength_three_times_as_large(penalty, k) -> None:
    # so it is for one support vector machine, and so C means the same for any number of rows
    rows = [labelled(20, seed=seed, share=0.4) for seed in (1, 2)]

    def made(times):
        return TaskSet(
            tuple(
                Task.from_rows(f"t{i}", np.tile(X, (times, 1)), y=np.tile(y, times))
                for i, (X, y) in enumerate(rows)
            )
        )

    values = {"loss": "squared-hinge", "penalty": penalty, "k": k}
    often, strong = fit(FMTL(), made(3), C=0.7, **values), fit(FMTL(), made(1), C=2.1, **values)
    np.testing.assert_allclose(often.Theta, strong.Theta, rtol=SAME_RTOL, atol=1e-9)
    assert often.fit_info["primal"] == pytest.approx(strong.fit_info["primal"], rel=1e-8)
    X = rows[0][0]
    np.testing.assert_allclose(
        often.decision_function(X, task="t0"), strong.decision_function(X, task="t0"), rtol=1e-3
    )


@over_penalties
@pytest.mark.parametrize("C", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("n_rows", [5.0, 300.0])
def test_lambda_of_the_relative_scale_is_in_units_of_rows_and_strength(
    penalty, k, C, n_rows
) -> None:
    # with F = Θ K α, Θ = 1 and Σ κF = n_rows, the Θ of (10) is 1 again: ρ = C n_rows / (2λ)
    lam = relative_lam(penalty, k=k, C=C, n_rows=n_rows)
    rho = C * n_rows / (2 * lam)
    if penalty == "power":
        assert ((2 * k - 1) / k * rho) ** (2 * k - 1) == pytest.approx(1.0)
    else:
        assert rho == pytest.approx(1.0)


# -- what a model keeps -----------------------------------------------------------------------


def numbers(n, *, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    f = X @ (np.array([1.0, -0.5, 0.2]) + 0.3 * rng.standard_normal(3))
    return Task.from_rows(f"t{seed}", X, y=f + 0.3 * rng.standard_normal(n))


@pytest.mark.parametrize("settings", [{"kernel": "linear"}, {}, {"nystrom": 15}])
@pytest.mark.parametrize("C", [0.2, 5.0])
def test_stored_weights_for_new_tasks_reproduce_the_predictions(settings, C) -> None:
    tasks = TaskSet((numbers(25, seed=1), numbers(30, seed=2)))
    model = fit(FMTL(), tasks, C=C, **settings)
    new = numbers(20, seed=3)
    joined = FMTL().adapt(model, new)
    rows = [(task.X - model.mean) / model.deviation for task in (*tasks, new)]

    def products(X):
        """Return Σ_j α_j k(x, x_j) of rows and both outputs, (n, 2)."""
        if settings.get("kernel") == "linear":
            return model.kernel.features(X) @ model.U
        columns = model.kernel.matrix(X, model.support)
        if settings:
            return columns @ model.expand @ model.U
        parts = [model.output == s for s in range(2)]
        return np.stack([columns[:, model.row[p]] @ model.alpha[p] for p in parts], axis=1)

    # of squared loss α = C (y - F): the dual variables follow from the answers
    alphas = []
    for name, task in zip(joined.tasks, (*tasks, new), strict=True):
        scale = joined.target_of(name).scale
        alphas.append(C * (task.y - joined.predict(task.X, task=name)) / scale)
    G = np.stack([products(X).T @ a for X, a in zip(rows, alphas, strict=True)], axis=1)
    np.testing.assert_allclose(model.g, G[:, :2] / C**2, rtol=1e-3, atol=1e-6)
    np.testing.assert_allclose(joined.g[:2, 2], G[:, 2] / C**2, rtol=0.02, atol=1e-4)
    np.testing.assert_array_equal(joined.g[:2, :2], model.g)
    # (10), and F = Σ_s Θ_ts Σ_j α_j k(x, x_j)
    lam = relative_lam("power", k=1, C=C, n_rows=27.5)
    np.testing.assert_allclose(model.Theta, C**2 * model.g / (2 * lam), rtol=2e-3, atol=1e-5)
    for t, task in enumerate(tasks):
        target = model.target_of(task.name)
        F = (model.predict(task.X, task=task.name) - target.center) / target.scale
        np.testing.assert_allclose(products(rows[t]) @ model.Theta[t], F, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("max_iter", [1, 100])
def test_reported_objective_and_bound_differ_by_the_reported_gap(max_iter) -> None:
    tasks = TaskSet((numbers(25, seed=1), numbers(30, seed=2)))
    found = []
    for n_steps in (max_iter, 5000):
        params = FMTL.Params(C=3.0, loss="huber", max_iter=n_steps, tolerance=1e-9)
        model = FMTL().fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
        found.append(model.fit_info)
    early, late = found
    assert early["primal"] - early["dual"] == pytest.approx(
        early["relative_gap"] * early["primal"], rel=1e-6, abs=1e-9
    )
    optimum = late["primal"]
    assert early["dual"] * (1 - 1e-9) <= optimum <= early["primal"] * (1 + 1e-9)
