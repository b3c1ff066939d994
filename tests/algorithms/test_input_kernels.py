"""Kernels of rows and their units, by those of scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import pairwise

from algorithms.baselines.kernels import TaskMachines
from algorithms.families.kernel_machines.input_kernels import (
    InputKernel,
    fit_standardiser,
    nystrom_map,
)
from algorithms.families.kernel_machines.params import MachineParams
from algorithms.families.kernel_machines.preparation import prepare
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace

GAMMA, DEGREE, COEF0, DIVISOR, BIAS = 0.3, 3, 0.6, 2.5, 0.7
NAMES = ("linear", "rbf", "laplacian", "polynomial")
over_names = pytest.mark.parametrize("name", NAMES)


def rows(n, *, seed=0):
    return np.random.default_rng(seed).standard_normal((n, 4)) * np.array([1.0, 2.0, 0.5, 3.0])


def published(name, X, Z, *, gamma=GAMMA):
    if name == "linear":
        return pairwise.linear_kernel(X, Z)
    if name == "polynomial":
        return pairwise.polynomial_kernel(X, Z, gamma=gamma, coef0=COEF0, degree=DEGREE)
    return getattr(pairwise, f"{name}_kernel")(X, Z, gamma=gamma)


@over_names
def test_kernels_are_those_of_scikit_learn_divided_with_the_squared_bias(name) -> None:
    X, Z = rows(9), rows(7, seed=1)
    kernel = InputKernel(name, GAMMA, DEGREE, COEF0, divisor=DIVISOR, bias=BIAS)
    expected = published(name, X, Z) / DIVISOR + BIAS**2
    np.testing.assert_allclose(kernel.matrix(X, Z), expected, rtol=1e-12, atol=1e-13)
    diagonal = np.diag(published(name, X, X)).mean()
    assert kernel.mean_diagonal(X) == pytest.approx(diagonal, rel=1e-12)
    if name == "linear":
        products = kernel.features(X) @ kernel.features(Z).T
        np.testing.assert_allclose(products, expected, rtol=1e-12, atol=1e-13)


@over_names
def test_features_of_landmarks_have_their_kernel(name) -> None:
    X = rows(6)
    kernel = InputKernel(name, GAMMA, DEGREE, COEF0, divisor=DIVISOR, bias=BIAS)
    features = kernel.matrix(X, X) @ nystrom_map(kernel, X)
    np.testing.assert_allclose(features @ features.T, kernel.gram(X), rtol=1e-8, atol=1e-8)


def test_columns_are_standardised_except_constant_ones() -> None:
    X = np.column_stack([rows(20), np.full(20, 7.0)])
    for form, mean, deviation in (
        ("none", 0.0, 1.0),
        ("center", X.mean(axis=0), 1.0),
        ("features", X.mean(axis=0), np.append(X[:, :4].std(axis=0), 1.0)),
    ):
        new = X + np.arange(5.0)  # where the last column is another constant
        np.testing.assert_allclose(fit_standardiser(X, form).apply(new), (new - mean) / deviation)


@over_names
@pytest.mark.parametrize("target", ["numbers", "classes"])
def test_the_relative_scale_has_a_unit_for_the_width_and_for_the_kernel(name, target) -> None:
    X = rows(30)
    y = X[:, 0] if target == "numbers" else np.where(X[:, 0] > 0, 1, 0)
    params = MachineParams(
        kernel=name, gamma=0.8, degree=DEGREE, coef0=COEF0, standardise="center", intercept=BIAS
    )
    tasks = TaskSet((Task.from_rows("t", X, y=y),))
    found = prepare(tasks, params, rng=np.random.default_rng(0))
    Z = X - X.mean(axis=0)
    unit = Z.std(axis=0).sum() if name == "laplacian" else Z.var(axis=0).sum()
    K = published(name, Z, Z, gamma=0.8 / unit)
    # numbers are centred; labels have an intercept, which is no part of the unit
    K = K / np.diag(K).mean() + (BIAS**2 if target == "classes" else 0.0)
    assert found.features is not None or found.K is not None
    made = found.K if found.K is not None else found.features @ found.features.T
    np.testing.assert_allclose(made, K, rtol=1e-10, atol=1e-12)


@over_names
def test_a_prediction_is_a_sum_over_kernels_of_scikit_learn(name) -> None:
    X, new = rows(25), rows(5, seed=2)
    y = np.where(X[:, 0] + 0.2 * X[:, 3] > 0, "b", "a")
    algorithm = TaskMachines()
    model = algorithm.fit(
        TaskSet((Task.from_rows("t", X, y=y),)),
        algorithm.Params(
            kernel=name, gamma=GAMMA, degree=DEGREE, coef0=COEF0, standardise="none",
            intercept=BIAS, scale="absolute", loss="squared", C=2.0, tolerance=1e-10,
            max_iter=50_000,
        ),
        trace=Trace(), rng=np.random.default_rng(0),
    )  # fmt: skip
    K, K_new = (published(name, Z, X) + BIAS**2 for Z in (X, new))
    expected = K_new @ np.linalg.solve(K + np.eye(25) / 2.0, np.where(y == "b", 1.0, -1.0))
    np.testing.assert_allclose(model.decision_function(new, task="t"), expected, atol=1e-3)


def test_a_precomputed_kernel_in_another_unit_gives_the_same_predictions() -> None:
    X, y = rows(20), rows(20)[:, 0]
    K = published("rbf", X, X)
    algorithm, found = TaskMachines(), []
    for unit in (1.0, 7.0):
        tasks = TaskSet((Task.from_rows("t", unit * K, y=y),))
        params = algorithm.Params(kernel="precomputed", tolerance=1e-9, max_iter=20_000)
        model = algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))
        found.append(model.predict(unit * K, task="t"))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_an_indefinite_kernel_is_shifted_by_its_least_eigenvalue() -> None:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 12))
    K, y = A + A.T, rng.standard_normal(12)
    tasks = TaskSet((Task.from_rows("t", K, y=y),))
    params = MachineParams(kernel="precomputed", indefinite="shift", scale="absolute")
    found = prepare(tasks, params, rng=rng).K
    np.testing.assert_allclose(found, K - np.linalg.eigvalsh(K)[0] * np.eye(12), atol=1e-12)
