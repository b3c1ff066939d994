"""Tasks that mean-regularised learning leaves out of the common fit."""

import numpy as np
import pytest

from algorithms.baselines.linear import MeanRegularised, Ridge
from algorithms.baselines.linear.unrelated import find_unrelated
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Checkpoint, Trace
from algorithms.registry import load_model, save_model

#: The same sums in another order, after the inversion of a matrix.
ROUNDING = 1e-9
#: Values that do not depend on the other tasks.
OWN_UNITS = {"standardise": "none", "scale_targets": "task"}
ROWS = np.random.default_rng(9).normal(size=(5, 8))


def made(*, n_related=4, n_others=4, n=30, d=8, seed=1, labels=False) -> TaskSet:
    """Return tasks of which the first have the same coefficients, and the others their own."""
    rng = np.random.default_rng(seed)
    common, tasks = rng.normal(size=d), []
    for t in range(n_related + n_others):
        w = common if t < n_related else rng.normal(size=d)
        X = rng.normal(size=(n, d))
        y = X @ w + rng.normal(size=n) + t
        tasks.append(Task.from_rows(f"t{t}", X, y=np.where(y > t, "a", "b") if labels else y))
    return TaskSet(tuple(tasks))


def fit(algorithm, tasks, *, trace=None, **values):
    params = algorithm.parse(values)
    return algorithm.fit(tasks, params, trace=trace or Trace(), rng=np.random.default_rng(0))


def test_the_other_tasks_are_learned_as_without_those_left_out(tmp_path) -> None:
    tasks = made()
    model = fit(MeanRegularised(), tasks, unrelated="leave-out", **OWN_UNITS)
    assert model.fit_info["unrelated"] == ["t4", "t5", "t6", "t7"]
    related = fit(MeanRegularised(), TaskSet(tasks.tasks[:4]), **OWN_UNITS)
    alone = fit(Ridge(), tasks, **OWN_UNITS)
    save_model(model, tmp_path / "model")
    for one in (model, load_model(tmp_path / "model")):
        for task in tasks.names:
            other = related if task in related.tasks else alone
            expected = other.predict(ROWS, task=task)
            np.testing.assert_allclose(one.predict(ROWS, task=task), expected, rtol=ROUNDING)
    assert model.fit_info["ridge_alone"] == pytest.approx(alone.fit_info["ridge"])
    new = made(seed=2).tasks[0]
    adapted = MeanRegularised().adapt(model, Task.from_rows("new", new.X, y=new.y))
    expected = MeanRegularised().adapt(related, Task.from_rows("new", new.X, y=new.y))
    found = adapted.predict(ROWS, task="new")
    np.testing.assert_allclose(found, expected.predict(ROWS, task="new"), rtol=ROUNDING)


@pytest.mark.parametrize("values", [{}, {"selection": "given"}, {"fit_intercept": False}])
def test_related_tasks_and_pairs_are_learned_together_as_without_the_option(values) -> None:
    for tasks in (made(n_related=8, n_others=0), made(n_related=0, n_others=2)):
        plain = fit(MeanRegularised(), tasks, **values)
        model = fit(MeanRegularised(), tasks, unrelated="leave-out", **values)
        assert "unrelated" not in model.fit_info
        for task in tasks.names:
            expected = plain.predict(ROWS, task=task)
            np.testing.assert_array_equal(model.predict(ROWS, task=task), expected)


def test_classes_and_given_strengths_are_allowed() -> None:
    tasks = made(labels=True, n=60)
    values = {"selection": "given", "gamma": 100.0, "common_share": 0.001}
    model = fit(MeanRegularised(), tasks, unrelated="leave-out", **values)
    assert set(model.fit_info["unrelated"]) <= {"t4", "t5", "t6", "t7"}
    assert model.predict(ROWS, task="t7").shape == (5,)


def test_the_search_is_not_repeated_by_a_resumed_fit(tmp_path) -> None:
    tasks = made()
    whole = fit(MeanRegularised(), tasks, unrelated="leave-out")
    checkpoint = Checkpoint(tmp_path / "state", every_s=0.0)
    for _ in range(2):
        again = fit(
            MeanRegularised(), tasks, trace=Trace(checkpoint=checkpoint), unrelated="leave-out"
        )
        assert again.fit_info["unrelated"] == whole.fit_info["unrelated"]
        np.testing.assert_array_equal(again.functions.W, whole.functions.W)


def test_the_best_set_must_gain_more_than_its_standard_errors() -> None:
    task, unit = np.repeat(np.arange(3), 4), np.arange(12)
    alone = np.full(12, 1.0)

    def together(tasks):
        """Return large errors of task 2, and of the others if it is among the tasks."""
        return np.where(task == 2, 5.0, 2.0 if 2 in tasks else 0.5) + noise

    noise = np.zeros(12)
    found = find_unrelated(together, alone, task=task, unit=unit)
    assert found.tolist() == [False, False, True]
    # the same gains, of as many rows that must be left out together, are three numbers
    few = find_unrelated(together, alone, task=task, unit=np.repeat([0, 1, 1], 4))
    assert not few.any()
    noise = 100.0 * np.tile([1, -1, 1, -1], 3)
    assert not find_unrelated(lambda _: together([2]) + noise, alone, task=task, unit=unit).any()


def test_the_gain_over_tasks_alone_must_be_of_several_tasks() -> None:
    task = np.repeat(np.arange(8), 4)
    alone = np.full(32, 1.0)

    def together(tasks):
        """Return smaller errors of some tasks if the last one is not among them."""
        return np.where(task == 7, 3.0, 2.0 if 7 in tasks else errors[task])

    errors = np.array([0.5, 0.5, 0.5, 0.5, 1.0, 1.0, 1.0, 3.0])
    found = find_unrelated(together, alone, task=task, unit=np.arange(32))
    assert found.tolist() == [False] * 7 + [True]
    errors[2:4] = 1.0
    assert not find_unrelated(together, alone, task=task, unit=np.arange(32)).any()
