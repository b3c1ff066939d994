"""The trivial baseline, beside scikit-learn's."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor

from algorithms.constant import Constant
from algorithms.evaluation.metrics import METRICS, metrics_for
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.registry import load_model, save_model


def fit(*tasks):
    params = Constant.Params()
    return Constant().fit(TaskSet(tasks), params, trace=Trace(), rng=np.random.default_rng(0))


def rows(n, d, *, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_numbers_get_the_mean_of_their_task() -> None:
    tasks = [Task.from_rows(f"t{i}", rows(7, 2 + i), y=rows(7, 1, seed=i)[:, 0]) for i in range(2)]
    model = fit(*tasks)
    for task in tasks:
        theirs = DummyRegressor().fit(task.X, task.y).predict(rows(4, task.n_features))
        np.testing.assert_allclose(
            model.predict(rows(4, task.n_features), task=task.name), theirs, rtol=1e-15
        )
        assert METRICS["r2"].score(model, task) == pytest.approx(0.0, abs=1e-12)
    assert model.available_methods() == ("transform", "inverse_transform", "predict")


@pytest.mark.parametrize("labels", [["a", "b", "b"], [3, 1, 2, 2, 1], ["b", "a"]])
def test_classes_get_the_commonest_and_their_shares(labels, tmp_path) -> None:
    X = rows(len(labels), 3)
    model = fit(Task.from_rows("t", X, y=labels))
    theirs = DummyClassifier(strategy="prior").fit(X, labels)
    np.testing.assert_array_equal(model.predict(X, task="t"), theirs.predict(X))
    shares = theirs.predict_proba(X)
    expected = shares[:, 1] if shares.shape[1] == 2 else shares
    np.testing.assert_allclose(model.decision_function(X, task="t"), expected)
    assert METRICS["auc"].score(model, Task.from_rows("t", X, y=labels)) == pytest.approx(0.5)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.classes("t") == model.classes("t") == tuple(sorted(set(labels)))
    np.testing.assert_array_equal(loaded.predict(X, task="t"), model.predict(X, task="t"))


def test_rows_are_reconstructed_as_their_mean() -> None:
    task = Task.from_rows("t", rows(6, 4))
    model = fit(task)
    assert model.available_methods() == ("transform", "inverse_transform")
    image = model.inverse_transform(model.transform(task.X, task="t"), task="t")
    np.testing.assert_allclose(image, np.tile(task.X.mean(axis=0), (6, 1)))
    assert METRICS["retained_variance"].score(model, task) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("target", ["none", "numbers", "classes"])
def test_it_is_scored_by_every_metric(target) -> None:
    found = {
        metric.name for metric in metrics_for([Constant()], [TaskSummary("t", 5, 2, target=target)])
    }
    assert found == {name for name, metric in METRICS.items() if metric.target in (target, "none")}


def test_a_new_task_has_its_own_mean() -> None:
    model = fit(Task.from_rows("t", rows(5, 2), y=[1.0, 2.0, 3.0, 4.0, 5.0]))
    more = Constant().adapt(model, Task.from_rows("u", rows(3, 4), y=[2.0, 2.0, 5.0]))
    assert more.predict(rows(1, 4), task="u") == pytest.approx([3.0])
    assert more.predict(rows(1, 2), task="t") == pytest.approx([3.0])
