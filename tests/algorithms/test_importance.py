"""Importance of columns, against known coefficients and scikit-learn."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.inspection import permutation_importance
from sklearn.metrics import r2_score, roc_auc_score

from algorithms.evaluation.scores.importance import EFFORTS, importance_of
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.wrappers.preparation.algorithm import prepared
from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.recipe import Recipe

#: Coefficients of the tasks of :func:`known`, and the standard deviations of the columns.
WEIGHTS = {"a": np.array([2.0, 0.0, -1.0, 0.0]), "b": np.array([1.0, 0.0, -2.0, 0.0])}
SPREAD = np.array([1.0, 5.0, 0.5, 1.0])
NAMES = ("age", "noise", "dose", "hour")
UNLIMITED_S = 1e3


def known(n=300, target="numbers"):
    """Return tasks whose targets are known linear functions of the columns."""
    rng = np.random.default_rng(3)
    tasks = []
    for name, w in WEIGHTS.items():
        X = rng.standard_normal((n, 4)) * SPREAD + 7.0
        y = (X - 7.0) @ w + 1e-3 * rng.standard_normal(n)
        if target == "numbers":
            y = 10.0 + 3.0 * y
        else:
            y = np.array(["no", "yes", "very"])[
                np.digitize(y, [0] if target == "classes" else [0, 1])
            ]
        tasks.append(Task.from_rows(name, X, y=y, feature_names=NAMES))
    return TaskSet(tuple(tasks))


def fit(name, tasks, **values):
    algorithm = ALGORITHMS[name] if isinstance(name, str) else name
    params, rng = algorithm.parse(values), np.random.default_rng(0)
    return algorithm.fit(tasks, params, trace=Trace(), rng=rng)


def importance(model, tasks, budget_s=UNLIMITED_S):
    return importance_of(model, tuple(tasks), rng=np.random.default_rng(1), budget_s=budget_s)


#: Linear models with little shrinkage, and the error of what remains of it.
LINEAR = {
    "ridge": ({"gamma": 1e-8}, 1e-3),
    "mtfl": ({"gamma": 1e-8}, 0.02),
    "mean-regularised": ({}, 0.02),
    "mixed-model": ({}, 0.02),
    "cmtl": ({}, 0.02),
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear_models_have_the_known_coefficients_of_the_standardised_columns(name) -> None:
    values, atol = LINEAR[name]
    tasks = known(100)
    found = importance(fit(name, tasks, **values), tasks)
    assert (found.kind, found.metric) == ("coefficients", None)
    order = [NAMES.index(column) for column in found.columns]
    for task in tasks:
        truth = 3.0 * WEIGHTS[task.name] * task.X.std(axis=0) / task.y.std()
        np.testing.assert_allclose(found.coefficients[task.name], truth[order], atol=atol)
        np.testing.assert_allclose(found.tasks[task.name], np.abs(truth)[order], atol=atol)
    np.testing.assert_allclose(found.shared, np.mean(list(found.tasks.values()), axis=0))
    assert set(found.columns[:2]) == {"age", "dose"}
    assert (np.diff(found.shared) <= 0).all()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("ridge", "numbers"),
        ("shared-lasso", "numbers"),
        ("logistic-regression", "classes"),
        ("mtfl", "classes"),
        ("fmtl", "numbers"),
        ("kernel-tasks", "classes"),
        ("gmtl", "numbers"),
    ],
)
def test_coefficients_are_the_slopes_of_the_predictions(name, target) -> None:
    tasks = known(40, target)
    model = fit(name, tasks, **({"kernel": "linear"} if name in {"fmtl", "kernel-tasks"} else {}))
    rows = tasks["b"].X
    outputs = model.decision_function(rows, task="b").reshape(len(rows), -1)
    slopes = np.linalg.lstsq(rows - rows.mean(0), outputs - outputs.mean(0))[0]
    atol = 1e-6 * np.abs(slopes).max()
    np.testing.assert_allclose(model.coefficients("b"), slopes, atol=atol)


class Sklearn:
    """A task of a model as an estimator of scikit-learn."""

    def __init__(self, model, task) -> None:
        self.model, self.task = model, task
        self.classes_ = np.array(model.classes(task))
        self._estimator_type = "classifier" if model.classes(task) else "regressor"

    def fit(self, *_):
        return self

    def predict(self, X):
        return self.model.predict(X, task=self.task)

    def decision_function(self, X):
        return self.model.decision_function(X, task=self.task)


@pytest.mark.parametrize(
    ("name", "target", "scoring"),
    [
        ("kernel-ridge", "numbers", "r2"),
        ("nearest-neighbours", "three", "accuracy"),
        ("nearest-neighbours", "classes", "roc_auc"),
    ],
)
def test_permutation_importance_is_that_of_scikit_learn(name, target, scoring) -> None:
    tasks = known(80, target)
    model = fit(name, tasks)
    found = importance(model, tasks)
    assert found.kind == "permutation"
    assert found.metric == {"roc_auc": "auc"}.get(scoring, scoring)

    def score(estimator, X, y):
        if scoring == "r2":
            return r2_score(y, estimator.predict(X))
        if scoring == "roc_auc":
            return roc_auc_score(y == "yes", estimator.decision_function(X))
        return np.mean(estimator.predict(X) == y)

    order = [NAMES.index(column) for column in found.columns]
    for task in tasks:
        reference = permutation_importance(
            Sklearn(model, task.name), task.X, task.y, scoring=score, n_repeats=30, random_state=0
        )
        # the mean of five permutations against the mean of thirty
        error = reference.importances_std * np.sqrt(1 / EFFORTS[0][1] + 1 / 30)
        difference = np.array(found.tasks[task.name]) - reference.importances_mean[order]
        assert (np.abs(difference) <= 4 * error[order] + 1e-12).all()


def test_columns_that_a_model_does_not_use_have_no_importance() -> None:
    tasks = known()
    found = importance(fit("boosted-trees", tasks), tasks)
    assert set(found.columns[:2]) == {"age", "dose"}
    assert (np.abs(found.shared[2:]) < 0.02).all()
    found = importance(fit("constant", tasks), tasks)
    assert not any(found.shared)
    assert found.sentence == "No column has an importance above 0."


@pytest.mark.parametrize("target", ["numbers", "classes"])
def test_the_gaussian_process_finds_the_only_column_that_matters(target) -> None:
    rng, tasks = np.random.default_rng(4), []
    for t in range(6):
        X = rng.normal(size=(40, 4)) * SPREAD
        y = np.sin(2 * X[:, 2] / SPREAD[2]) + t + 0.1 * rng.normal(size=40)
        y = y if target == "numbers" else np.where(y > t, "high", "low")
        tasks.append(Task.from_rows(f"t{t}", X, y=y, feature_names=NAMES))
    model = fit("gp", TaskSet(tuple(tasks)))
    found = importance(model, tasks)
    assert found.columns[0] == NAMES[2]
    assert found.shared[0] > 0.3
    assert (np.abs(found.shared[1:]) < 0.02).all()
    lengths = model.fit_info["length_scales"]
    assert min(np.delete(lengths, 2)) > 5 * lengths[2]


def test_the_same_seed_permutes_the_same() -> None:
    tasks = known(60)
    model = fit("kernel-ridge", tasks)
    assert importance(model, tasks) == importance(model, tasks)


def test_rows_are_sampled_and_what_takes_too_long_is_left_out() -> None:
    tasks = known(EFFORTS[0][0] + 1)
    model = fit("nearest-neighbours", tasks)
    assert set(importance(model, tasks).n_rows.values()) == {EFFORTS[0][0]}
    assert importance(model, tasks, budget_s=0.0) is None


def raw(n=400):
    """Return a task with a category, gaps and a date, and its columns.

    The category adds 0, 1 or 4; a missing age adds 2; the date adds nothing.
    """
    rng = np.random.default_rng(5)
    site, age = rng.integers(0, 3, n).astype(float), rng.standard_normal(n)
    is_missing = rng.random(n) < 0.3
    date = rng.uniform(1e9, 1.1e9, n)
    y = np.array([0.0, 1.0, 4.0])[site.astype(int)] + np.where(is_missing, 2.0, 0.5 * age)
    age[is_missing] = np.nan
    names = ("site", "age", "date")
    columns = (Column("site", "category", ("x", "y", "z")), Column("age"), Column("date", "date"))
    X = np.column_stack([site, age, date])
    tasks = [
        Task.from_rows(name, X, y=y, feature_names=names, allows_missing=True) for name in "ab"
    ]
    return TaskSet(tuple(tasks)), columns


@pytest.mark.parametrize("name", ["ridge", "boosted-trees"])
def test_encoded_columns_are_grouped_by_the_original_one(name) -> None:
    tasks, columns = raw()
    model = fit(prepared(ALGORITHMS[name], columns, Recipe()), tasks, **LINEAR.get(name, ({},))[0])
    found = importance(model, tasks)
    assert sorted(found.columns) == ["age", "date", "site"]
    of = dict(zip(found.columns, found.shared, strict=True))
    assert of["site"] > of["age"] > 5 * abs(of["date"])
    if name == "ridge":
        effect = np.array([0.0, 1.0, 4.0])[tasks["a"].X[:, 0].astype(int)]
        assert of["site"] == pytest.approx(np.std(effect) / np.std(tasks["a"].y), rel=1e-3)
        signed = dict(zip(found.columns, found.coefficients["a"], strict=True))
        assert signed["site"] is None
        assert signed["date"] is not None


def test_sparse_rows_have_the_importance_of_dense_ones() -> None:
    tasks = known(80)
    sparse = [Task.from_rows(t.name, csr_array(t.X), y=t.y, feature_names=NAMES) for t in tasks]
    model = fit("ridge", tasks)
    expected, found = importance(model, tasks), importance(model, sparse)
    assert found.columns == expected.columns
    np.testing.assert_allclose(found.shared, expected.shared)


def test_models_without_predictions_have_none() -> None:
    tasks = known(50)
    assert importance(fit("pca", tasks, k=1), tasks) is None
