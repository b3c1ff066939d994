"""Columns that alone predict the targets are named."""

from dataclasses import replace

import numpy as np
import pytest

from algorithms.evaluation.scores.leaks import find_leaks
from algorithms.interface.tasks import Task, TaskSet

NAMES = ("age", "dose", "leak")


def tasks_with(make_leak, *, kind="numbers", n=40, n_tasks=3):
    rng = np.random.default_rng(0)
    tasks = []
    for i in range(n_tasks):
        X = rng.normal(size=(n, 3))
        f = X[:, 0] + rng.normal(size=n) + 5 * i
        y = f if kind == "numbers" else np.where(f - 5 * i > 0.8, "ill", "ok")
        task = Task.from_rows(f"t{i}", X, y=y, feature_names=NAMES)
        X[:, 2] = make_leak(f, y, rng)  # may be missing, as in raw rows
        tasks.append(replace(task, X=X))
    return TaskSet(tuple(tasks))


def columns(tasks):
    return [leak["column"] for leak in find_leaks(tasks)]


@pytest.mark.parametrize(
    "make_leak",
    [
        lambda f, _y, _rng: 3 * f - 7,
        lambda f, _y, rng: f + 0.01 * rng.normal(size=len(f)),
        lambda f, _y, _rng: 1e200 * f,
    ],
)
def test_a_copy_of_numeric_targets_is_named(make_leak) -> None:
    (leak,) = find_leaks(tasks_with(make_leak))
    assert leak["column"] == "leak"
    assert leak["error"] < 1e-3
    assert "ignore_column=leak" in leak["sentence"]


@pytest.mark.parametrize(
    "make_leak",
    [
        lambda f, _y, _rng: f,
        lambda _f, y, _rng: (y == "ill") * 1.0,
        lambda _f, y, rng: np.where(y == "ill", 7, rng.choice([1, 9], size=len(y))),  # levels
    ],
)
def test_a_column_that_separates_the_classes_is_named(make_leak) -> None:
    assert columns(tasks_with(make_leak, kind="classes")) == ["leak"]


@pytest.mark.parametrize("kind", ["numbers", "classes"])
@pytest.mark.parametrize(
    "make_leak",
    [
        lambda f, _y, rng: f + 0.3 * rng.normal(size=len(f)),  # a good column
        lambda f, _y, rng: rng.normal(size=len(f)),
        lambda f, _y, _rng: np.arange(len(f)),
        lambda f, _y, _rng: np.zeros(len(f)),
        lambda f, _y, _rng: np.where(np.arange(len(f)) < 10, f, np.nan),  # known of some rows only
    ],
)
def test_other_columns_are_not_named(make_leak, kind) -> None:
    assert columns(tasks_with(make_leak, kind=kind)) == []


def test_a_column_must_predict_the_targets_of_all_tasks_that_have_it() -> None:
    leaking = tasks_with(lambda f, _y, _rng: f)
    other = tasks_with(lambda f, _y, rng: rng.normal(size=len(f)), n_tasks=1).tasks[0]
    assert columns(TaskSet((*leaking.tasks[1:], other))) == []


def test_classes_of_few_rows_are_no_evidence() -> None:
    X = np.random.default_rng(0).normal(size=(30, 3))
    y = np.where(X[:, 2] > np.sort(X[:, 2])[-3], "ill", "ok")
    assert columns(TaskSet((Task.from_rows("t", X, y=y, feature_names=NAMES),))) == []


@pytest.mark.parametrize(("value", "n"), [(0.9471, 6), (0.4299, 40)])
def test_a_value_whose_mean_is_rounded_is_a_constant(value, n) -> None:
    assert np.full(n, value).mean() != value
    assert columns(tasks_with(lambda f, _y, _rng: np.full(len(f), value), n=n)) == []
