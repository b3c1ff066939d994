"""Answers by costs of missing a class, or by prevalence."""

from dataclasses import replace

import numpy as np
import pytest

import sibling
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS, load_model, save_model
from algorithms.wrappers.calibration.algorithm import calibrated
from algorithms.wrappers.calibration.options import Calibration
from algorithms.wrappers.calibration.thresholds import costs_of


def clinics(*, n=150, seed=0) -> TaskSet:
    """Return tasks in which 6 % of the rows are ill."""
    rng = np.random.default_rng(seed)
    tasks = []
    for name in "abc":
        X = rng.normal(size=(n, 3))
        p = 1 / (1 + np.exp(3.4 - X @ [1.0, -0.6, 0.4]))
        tasks.append(Task.from_rows(name, X, y=np.where(rng.random(n) < p, "ill", "ok")))
    return TaskSet(tuple(tasks))


def fit(tasks, **options):
    algorithm = calibrated(ALGORITHMS["ridge"], options)
    params = algorithm.parse({"form": "pooled"})
    algorithm.check(tasks.summaries(), params)
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


def recall(model, tasks, label="ill"):
    found = [np.mean(model.predict(t.X, task=t.name)[t.y == label] == label) for t in tasks]
    return np.mean(found)


def test_a_threshold_by_prevalence_finds_the_rare_class() -> None:
    tasks, new = clinics(), clinics(n=2000, seed=1)
    assert recall(fit(tasks), new) < 0.05
    model = fit(tasks, threshold="prevalence")
    assert recall(model, new) > 0.6
    assert recall(model, new, "ok") > 0.6
    share = np.mean(np.concatenate([task.y for task in tasks]) == "ill")
    p = model.predict_proba(new.tasks[0].X, task="a")[:, 0]
    np.testing.assert_array_equal(model.predict(new.tasks[0].X, task="a") == "ill", p > share)


def test_the_prevalence_does_not_depend_on_the_unit_of_a_tasks_weights() -> None:
    rng, options = np.random.default_rng(0), Calibration(threshold="prevalence")
    tasks = [replace(one, weights=rng.uniform(1, 9, one.n_samples)) for one in clinics()]
    expected = costs_of(options, TaskSet(tuple(tasks)))
    tasks[0] = replace(tasks[0], weights=1000 * tasks[0].weights)
    for name, costs in costs_of(options, TaskSet(tuple(tasks))).items():
        np.testing.assert_allclose(costs, expected[name])


def test_a_cost_of_ten_answers_a_class_above_one_eleventh() -> None:
    tasks = clinics()
    model = fit(tasks, threshold={"ill": 10})
    X = tasks.tasks[1].X
    p = model.predict_proba(X, task="b")[:, 0]
    np.testing.assert_array_equal(model.predict(X, task="b") == "ill", p > 1 / 11)
    np.testing.assert_array_equal(p, fit(tasks).predict_proba(X, task="b")[:, 0])


def test_the_report_has_the_recall_of_held_out_rows_with_the_threshold() -> None:
    tasks = clinics()
    found = fit(tasks, threshold="prevalence").report()["by_class"]
    assert list(found) == ["ill", "ok"]
    assert found["ill"]["recall"] > 0.5
    assert sum(entry["n_rows"] for entry in found.values()) == 450
    assert fit(tasks).report()["by_class"] is None


def test_rows_whose_scores_overflow_are_not_answered_by_a_threshold() -> None:
    tasks = clinics()
    X, y = ({task.name: getattr(task, part) for task in tasks} for part in ("X", "y"))
    model = sibling.TaskMachines(
        kernel="polynomial", degree=2, selection="given", calibration={"threshold": "prevalence"}
    ).fit(X, y)
    with pytest.raises(InvalidData, match="overflows"):
        model.predict(1e160 * X["a"], tasks="a")


def test_a_threshold_is_stored_with_the_model(tmp_path) -> None:
    tasks = clinics()
    model = fit(tasks, threshold="prevalence")
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    for task in tasks:
        answers = (m.predict(task.X, task=task.name) for m in (loaded, model))
        np.testing.assert_array_equal(*answers)


def test_a_threshold_of_an_unknown_class_or_of_numbers_is_refused() -> None:
    with pytest.raises(InvalidParams) as error:
        fit(clinics(), threshold={"sick": 10})
    assert error.value.field == "threshold/sick"
    numbers = TaskSet(
        tuple(Task.from_rows(t.name, t.X, y=t.X @ [1.0, 2.0, 3.0]) for t in clinics())
    )
    with pytest.raises(InvalidParams) as error:
        fit(numbers, threshold="prevalence")
    assert error.value.field == "threshold"


@pytest.mark.parametrize("label", [1, True, np.int64(1), 1.0])
def test_estimators_take_a_threshold_by_integers_and_booleans(label) -> None:
    tasks = clinics()
    X = {task.name: task.X for task in tasks}
    y = {task.name: (task.y == "ill").astype(type(label)) for task in tasks}
    expected, found = (
        sibling.LogisticRegression(calibration={"threshold": {key: 20}}).fit(X, y).predict(X)
        for key in ("1", label)
    )
    for name, answers in found.items():
        np.testing.assert_array_equal(answers, expected[name])


def test_estimators_take_a_threshold() -> None:
    tasks = clinics()
    X, y = (np.concatenate([getattr(t, name) for t in tasks]) for name in ("X", "y"))
    names = np.repeat(["a", "b", "c"], 150)
    options = {"form": "pooled", "target": "classes"}
    plain = sibling.Ridge(**options, calibration=True).fit(X, y, tasks=names)
    found = sibling.Ridge(**options, calibration={"threshold": {"ill": 20}})
    found = found.fit(X, y, tasks=names)
    n_plain, n_found = (np.sum(m.predict(X, tasks=names) == "ill") for m in (plain, found))
    assert n_plain < 5 < n_found
