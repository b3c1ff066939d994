"""Weights of rows and classes in estimators, alone and through scikit-learn's routing."""

import inspect

import numpy as np
import pytest
import sklearn
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sibling import CommonPCA, LogisticRegression, Neighbours, Ridge
from sibling.estimators import ESTIMATORS

#: Few rows are fitted best at an end of the grid.
pytestmark = pytest.mark.filterwarnings("ignore::sibling.FitWarning")

RNG = np.random.default_rng(0)
TASKS = np.repeat(["a", "b"], 40)
X = RNG.standard_normal((80, 3))
Y = X[:, 0] + 0.5 * RNG.standard_normal(80)
LABELS = np.where(Y > 1, "high", "low")
W = RNG.integers(0, 4, 80)


def test_rows_of_weight_zero_are_as_good_as_absent():
    fitted = Ridge().fit(X, Y, tasks=TASKS, sample_weight=W)
    kept = W > 0
    other = Ridge().fit(X[kept], Y[kept], tasks=TASKS[kept], sample_weight=8 * W[kept])
    np.testing.assert_array_equal(fitted.predict(X, tasks=TASKS), other.predict(X, tasks=TASKS))
    labels = np.where(W == 0, "odd", LABELS)
    classes = LogisticRegression(selection="given").fit(X, labels, tasks=TASKS, sample_weight=W)
    assert classes.classes_.tolist() == ["high", "low"]


def test_weights_by_task_are_those_of_rows():
    by_task = {name: name == TASKS for name in ("a", "b")}
    split = [{name: part[own] for name, own in by_task.items()} for part in (X, Y, W)]
    fitted = Ridge().fit(split[0], split[1], sample_weight=split[2])
    other = Ridge().fit(X, Y, tasks=TASKS, sample_weight=W)
    np.testing.assert_array_equal(fitted.predict(X, tasks=TASKS), other.predict(X, tasks=TASKS))


def test_class_weights_are_names_or_numbers():
    plain = LogisticRegression().fit(X, LABELS, tasks=TASKS)
    none = LogisticRegression(class_weight="none").fit(X, LABELS, tasks=TASKS)
    np.testing.assert_array_equal(plain.model_.functions.W, none.model_.functions.W)
    codes = (LABELS == "high").astype(int)
    given = LogisticRegression(class_weight={1: 3.0}).fit(X, codes, tasks=TASKS)
    by_rows = LogisticRegression().fit(
        X, codes, tasks=TASKS, sample_weight=np.where(codes, 3.0, 1.0)
    )
    np.testing.assert_array_equal(given.model_.functions.W, by_rows.model_.functions.W)
    for wrong, message in (("heavy", "class_weight"), ({1: -1.0}, "greater than 0")):
        with pytest.raises(ValueError, match=message):
            LogisticRegression(class_weight=wrong).fit(X, codes, tasks=TASKS)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), "the weight of each of the 80 rows as sample_weight"),
        (-np.ones(80), "row 0: the weight is -1"),
        (np.where(TASKS == "a", 0, 1), "the weights of task 'a' are all zero"),
        (["x"] * 80, "expected the weights of rows as numbers"),
        ({"a": 1}, "sample_weight is by task, but X is not"),
    ],
)
def test_invalid_weights_are_reported(weights, message):
    with pytest.raises(ValueError, match=message):
        Ridge().fit(X, Y, tasks=TASKS, sample_weight=weights)


def test_weights_by_task_of_another_length_are_reported_with_classes_too():
    X, y = np.arange(20.0)[:, np.newaxis], np.array(["a", "b"] * 10)
    with pytest.raises(ValueError, match="the weight of each of the 20 rows"):
        Ridge().fit({"t": X}, {"t": y}, sample_weight={"t": np.ones(19)})
    with pytest.raises(ValueError, match="task 't' has 20 rows but targets of shape"):
        Ridge().fit({"t": X}, {"t": y[1:]}, sample_weight={"t": np.ones(20)})


def test_what_uses_no_weights_says_so():
    for name, cls in ESTIMATORS.items():
        declared = "sample_weight" in inspect.signature(cls.fit).parameters
        assert declared == cls._algorithm.needs.weights, name
    with pytest.raises(ValueError, match="which nearest-neighbours does not use; use an"):
        Neighbours().fit(X, LABELS, tasks=TASKS, sample_weight=W)


def test_routing_passes_the_weights_that_are_requested():
    with sklearn.config_context(enable_metadata_routing=True):
        last = LogisticRegression(selection="given").set_fit_request(sample_weight=True)
        last.set_score_request(sample_weight=True)
        pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), last)
        pipeline.fit(X, LABELS, tasks=TASKS, sample_weight=W)
        scaled = StandardScaler().fit_transform(X)
        alone = LogisticRegression(selection="given")
        alone.fit(scaled, LABELS, tasks=TASKS, sample_weight=W)
        predicted = pipeline.predict(X, tasks=TASKS)
        np.testing.assert_array_equal(predicted, alone.predict(scaled, tasks=TASKS))
        score = pipeline.score(X, LABELS, tasks=TASKS, sample_weight=W)
        assert score == accuracy_score(LABELS, predicted, sample_weight=W)
        folds = list(StratifiedKFold(2, shuffle=True, random_state=0).split(X, TASKS))
        search = GridSearchCV(last, {"gamma": [0.1, 10.0]}, cv=folds, error_score="raise")
        search.fit(X, LABELS, tasks=TASKS, sample_weight=W)
        train, test = folds[0]
        one = LogisticRegression(selection="given", gamma=0.1).fit(
            X[train], LABELS[train], tasks=TASKS[train], sample_weight=W[train]
        )
        expected = one.score(X[test], LABELS[test], W[test], tasks=TASKS[test])
        assert search.cv_results_["split0_test_score"][0] == expected
        with pytest.raises(TypeError, match="sample_weight"):
            CommonPCA().set_fit_request(sample_weight=True)
