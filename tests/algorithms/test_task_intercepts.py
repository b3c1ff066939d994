"""Pooled forms with an intercept of each task, against dummy columns and other solvers."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.numerics.leave_one_out import units_by_size
from algorithms.numerics.task_intercepts import (
    InterceptPath,
    TaskIntercepts,
    ridge_with_intercepts,
)
from algorithms.registry import ALGORITHMS

#: Two exact solvers, of which one is worse conditioned.
EXACT_RTOL = 1e-8
SIZES = (5, 1, 7, 6)
LEVELS = np.repeat([0.0, 3.0, 1.0, -2.0], SIZES)


def made(q: int, *, has_weights: bool = False):
    rng = np.random.default_rng(q)
    n = sum(SIZES)
    A = rng.normal(size=(n, q)) + 2
    Y = rng.normal(size=(n, 2)) + LEVELS[:, np.newaxis] + A[:, :1]
    return A, Y, rng.uniform(0.5, 2, n) if has_weights else None


def with_dummies(A, Y, s, *, ridge: float, kappa: float, rows, at):
    """Return the answers at some rows of a ridge regression on rows and dummy columns of tasks."""
    D = np.eye(len(SIZES))[np.repeat(np.arange(len(SIZES)), SIZES)]
    Z = np.column_stack([A, np.ones(len(A)), D])
    penalty = np.diag([ridge] * A.shape[1] + [0.0] + [kappa] * len(SIZES))
    left = Z[rows].T @ (s[rows, np.newaxis] * Z[rows]) + penalty
    right = Z[rows].T @ (s[rows, np.newaxis] * Y[rows])
    return Z[at] @ np.linalg.solve(left, right)


@pytest.mark.parametrize("kappa", [0.1, 5.0, 1e6])
@pytest.mark.parametrize("has_weights", [False, True])
@pytest.mark.parametrize("q", [3, 40])
def test_a_ridge_with_intercepts_has_penalised_dummy_columns(q, has_weights, kappa) -> None:
    A, Y, weights = made(q, has_weights=has_weights)
    s, everything = np.ones(len(A)) if weights is None else weights, np.arange(len(A))
    intercepts = TaskIntercepts.of(SIZES, weights, kappa)
    w, b_t, b = ridge_with_intercepts(A, Y, intercepts, ridge=0.7)
    one = {"ridge": 0.7, "kappa": kappa}
    expected = with_dummies(A, Y, s, **one, rows=everything, at=everything)
    np.testing.assert_allclose(A @ w + b_t[intercepts.task], expected, rtol=EXACT_RTOL)
    np.testing.assert_allclose(b, b_t.mean(axis=0), rtol=EXACT_RTOL)
    # rows 0, 1 and 8, of two tasks, are left out together
    unit = np.arange(len(A))
    unit[[1, 8]] = 0
    positions = np.unique(unit, return_inverse=True)[1]
    path = InterceptPath.of(A, Y, intercepts)
    found = path.errors(0.7, units=units_by_size(positions))
    for which in np.unique(unit):
        at, rows = np.flatnonzero(unit == which), np.flatnonzero(unit != which)
        errors = Y[at] - with_dummies(A, Y, s, **one, rows=rows, at=at)
        np.testing.assert_allclose(
            found[at], np.sqrt(s[at, np.newaxis]) * errors, rtol=EXACT_RTOL, atol=1e-10
        )


@pytest.mark.slow  # statsmodels takes seconds to import
def test_intercepts_are_the_fixed_and_random_effects_of_statsmodels() -> None:
    import statsmodels.api as sm

    A, Y, _ = made(3)
    y, D = Y[:, 0], np.eye(len(SIZES))[np.repeat(np.arange(len(SIZES)), SIZES)]
    none = {"ridge": 1e-12}
    w, b_t, _ = ridge_with_intercepts(A, Y[:, :1], TaskIntercepts.of(SIZES, None, 1e-9), **none)
    fixed = sm.OLS(y, np.column_stack([A, D])).fit().params
    np.testing.assert_allclose(np.vstack([w, b_t])[:, 0], fixed, rtol=1e-6)
    w, _, b = ridge_with_intercepts(A, Y[:, :1], TaskIntercepts.of(SIZES, None, 2.0), **none)
    gls = sm.GLS(y, np.column_stack([A, np.ones(len(A))]), sigma=np.eye(len(A)) + D @ D.T / 2.0)
    np.testing.assert_allclose(np.append(w[:, 0], b), gls.fit().params, rtol=1e-6)


def levelled(*, classes: bool = False, scale: float = 1.0, n_tasks: int = 8, n: int = 10):
    """Return tasks with common slopes and levels far apart, and fresh rows of each."""
    rng = np.random.default_rng(5)
    sets: list[list[Task]] = [[], []]
    for t in range(n_tasks):
        level = 3.0 * rng.standard_normal()
        for made, size in zip(sets, (n, 60), strict=True):
            X = rng.standard_normal((size, 3))
            y = scale**t * (X @ [1.0, -1.0, 0.5] + level + 0.3 * rng.standard_normal(size))
            made.append(Task.from_rows(f"t{t}", X, y=np.where(y > 0, "b", "a") if classes else y))
    return TaskSet(tuple(sets[0])), TaskSet(tuple(sets[1]))


def fit(name: str, tasks: TaskSet, **values):
    algorithm = ALGORITHMS[name]
    params = algorithm.parse({"form": "pooled", **values})
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


def rmse(model, tasks: TaskSet) -> float:
    """Return the mean over tasks of the error, in deviations of the task."""
    errors = [
        np.sqrt(np.mean((model.predict(t.X, task=t.name) - t.y) ** 2)) / np.std(t.y) for t in tasks
    ]
    return float(np.mean(errors))


@pytest.mark.parametrize("name", ["ridge", "kernel-ridge"])
def test_pooled_tasks_with_other_levels_have_them(name) -> None:
    tasks, fresh = levelled()
    assert rmse(fit(name, tasks, intercept="common"), fresh) > 1.2
    assert rmse(fit(name, tasks), fresh) < 0.45


def test_pooled_tasks_of_other_units_have_scales_of_their_own() -> None:
    tasks, fresh = levelled(scale=7.0)
    assert rmse(fit("ridge", tasks, scale_targets="all"), fresh) > 1
    assert rmse(fit("ridge", tasks), fresh) < 0.55


def test_pooled_classes_with_other_levels_have_them() -> None:
    tasks, fresh = levelled(classes=True)
    assert any(len(set(task.y)) == 1 for task in tasks)  # and the other class in other tasks

    def error(model) -> float:
        return float(np.mean([np.mean(model.predict(t.X, task=t.name) != t.y) for t in fresh]))

    assert error(fit("logistic-regression", tasks, intercept="common")) > 0.25
    assert error(fit("logistic-regression", tasks)) < 0.12


def test_a_pooled_logistic_regression_minimises_its_objective() -> None:
    tasks, _ = levelled(classes=True, n_tasks=4)
    model = fit("logistic-regression", tasks, selection="given", standardise="none", gamma=0.5)
    ridge, [penalty] = model.fit_info["ridge"], model.fit_info["intercept_penalties"]

    def objective(x):
        w, b_t = x[:3], x[3:]
        losses = [
            np.logaddexp(0, -np.where(task.y == "b", 1, -1) * (task.X @ w + b)).sum()
            for task, b in zip(tasks, b_t, strict=True)
        ]
        return sum(losses) + ridge * w @ w + penalty / 2 * np.sum((b_t - b_t.mean()) ** 2)

    best = minimize(objective, np.zeros(7), tol=1e-12).x
    np.testing.assert_allclose(model.functions.W[:, 0], best[:3], atol=1e-4)
    np.testing.assert_allclose(model.functions.intercept, best[3:], atol=1e-4)


@pytest.mark.parametrize("name", ["ridge", "logistic-regression"])
def test_an_added_task_has_the_common_slopes_and_a_level_of_its_own(name) -> None:
    classes = name == "logistic-regression"
    tasks, _ = levelled(classes=classes)
    model = fit(name, TaskSet(tasks.tasks[:-1]))
    last = tasks.tasks[-1]
    added = ALGORITHMS[name].adapt(model, last)
    rows = np.random.default_rng(0).normal(size=(20, 3))
    f = added.decision_function(rows, task=last.name)
    differences = f - added.decision_function(rows, task="t0")
    np.testing.assert_allclose(differences, differences[0], rtol=1e-6)
    functions, kappa = model.functions, model.fit_info["intercept_rows"]
    b, level = functions.common[-1, 0], added.functions.intercept[-1]
    common = functions.basis.images(last.X, functions.common[:-1])[:, 0]
    if classes:
        y = np.where(last.y == "b", 1, -1)
        slopes = y / (1 + np.exp(y * (common + level)))
        penalty = model.fit_info["intercept_penalties"][0]
        assert penalty * (level - b) == pytest.approx(slopes.sum(), rel=1e-6)
    else:
        expected = (np.sum(last.y - common) + kappa * b) / (len(last.y) + kappa)
        assert level == pytest.approx(expected)


@pytest.mark.parametrize("name", ["ridge", "logistic-regression"])
def test_a_model_without_common_part_answers_as_before(name) -> None:
    tasks, _ = levelled(classes=name == "logistic-regression")
    model = fit(name, TaskSet(tasks.tasks[:-1]), intercept="common")
    params = {k: v for k, v in model.fit_info["params"].items() if k != "intercept"}
    functions = replace(model.functions, fit_info={**model.fit_info, "params": params})
    old = replace(model, functions=functions)
    rows = np.random.default_rng(0).normal(size=(9, 3))
    added = ALGORITHMS[name].adapt(old, tasks.tasks[-1])
    expected = model.decision_function(rows, task="t0")
    np.testing.assert_array_equal(added.decision_function(rows, task=tasks.names[-1]), expected)
    new = old.for_new_tasks(("new",))
    np.testing.assert_array_equal(new.decision_function(rows, task="new"), expected)
