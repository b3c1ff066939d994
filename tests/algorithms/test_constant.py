"""The trivial baseline, beside scikit-learn's."""

import numpy as np
import pytest
from sklearn.dummy import DummyClassifier, DummyRegressor

from algorithms.baselines.constant import Constant
from algorithms.evaluation.scores.metrics import METRICS, metrics_for
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.registry import load_model, save_model


def fit(*tasks, form="task"):
    params = Constant.Params(form=form)
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
def test_it_is_scored_by_every_metric_without_calibration(target) -> None:
    found = {
        metric.name for metric in metrics_for([Constant()], [TaskSummary("t", 5, 2, target=target)])
    }
    calibrated = {"predict_proba", "predict_interval", "predict_set"}
    assert found == {
        name
        for name, metric in METRICS.items()
        if metric.target in (target, "none") and not calibrated & set(metric.methods)
    }


def test_a_new_task_has_its_own_mean() -> None:
    model = fit(Task.from_rows("t", rows(5, 2), y=[1.0, 2.0, 3.0, 4.0, 5.0]))
    more = Constant().adapt(model, Task.from_rows("u", rows(3, 4), y=[2.0, 2.0, 5.0]))
    assert more.predict(rows(1, 4), task="u") == pytest.approx([3.0])
    assert more.predict(rows(1, 2), task="t") == pytest.approx([3.0])


@pytest.mark.parametrize("target", ["numbers", "classes"])
def test_pooled_constants_are_those_of_all_rows(target, tmp_path) -> None:
    X = [rows(4, 3), rows(9, 3, seed=1)]
    made = {"numbers": [x[:, 0] for x in X], "classes": [list("abab"), list("babbabbbb")]}
    y = made[target]
    tasks = [Task.from_rows(f"t{i}", x, y=one) for i, (x, one) in enumerate(zip(X, y, strict=True))]
    model = fit(*tasks, form="pooled")
    dummy = DummyRegressor() if target == "numbers" else DummyClassifier(strategy="prior")
    theirs = dummy.fit(np.concatenate(X), np.concatenate(y))
    save_model(model, tmp_path / "model")
    new = Task.from_rows("new", X[0][:2], y=y[0][:2])
    for one in (model, Constant().adapt(load_model(tmp_path / "model"), new)):
        for name in one.tasks:
            found, expected = one.predict(X[0], task=name), theirs.predict(X[0])
            if target == "classes":
                np.testing.assert_array_equal(found, expected)
                shares = one.decision_function(X[0], task=name)
                np.testing.assert_allclose(shares, theirs.predict_proba(X[0])[:, 1])
            else:
                np.testing.assert_allclose(found, expected, rtol=1e-14)
            mean = one.inverse_transform(np.zeros((1, 1)), task=name)
            np.testing.assert_allclose(mean, [np.concatenate(X).mean(axis=0)])


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (Task.from_rows("u", rows(40, 2), y=["a", "b"] * 20), "has 3 features, task 'u' 2"),
        (Task.from_rows("u", rows(40, 3), y=["a", "c"] * 20), "needs the same classes"),
        (Task.from_rows("u", rows(3, 3), y=[1.0, 2.0, 3.0]), "needs the same kind"),
    ],
)
def test_unlike_tasks_cannot_be_pooled(other, message) -> None:
    # so many rows that a task does not lack a class by chance
    task = Task.from_rows("t", rows(40, 3), y=["a", "b"] * 20)
    with pytest.raises(InvalidData, match=message):
        fit(task, other, form="pooled")


def test_a_new_task_of_pooled_constants_needs_targets_of_their_kind() -> None:
    model = fit(Task.from_rows("t", rows(3, 3), y=["a", "b", "a"]), form="pooled")
    for y in (None, [1.0, 2.0, 3.0], ["a", "c", "a"]):
        with pytest.raises(InvalidData, match="'u'"):
            Constant().adapt(model, Task.from_rows("u", rows(3, 3), y=y))
    with pytest.raises(InvalidData, match="'u' has 2 features, the model 3"):
        Constant().adapt(model, Task.from_rows("u", rows(3, 2), y=["a", "b", "a"]))
