"""Models of two fits: some tasks learned together, the others alone."""

from copy import deepcopy

import numpy as np
import pytest

from algorithms.interface.errors import InvalidArtifact, UnknownTask
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS, load_model, save_model
from algorithms.wrappers.calibration.algorithm import calibrated
from algorithms.wrappers.per_task import PerTaskModel
from algorithms.wrappers.preparation.algorithm import for_model, prepared
from algorithms.wrappers.preparation.recipe import Recipe
from algorithms.wrappers.wrapped_algorithm import WrappedAlgorithm


def tasks_of(*, labels=False, gaps=False) -> TaskSet:
    rng = np.random.default_rng(0)
    tasks = []
    for name in ("a", "b", "c"):
        X = rng.normal(size=(12, 3))
        y = X @ rng.normal(size=3) + 0.1 * rng.normal(size=12)
        if gaps:
            X[1, 1] = np.nan
        targets = np.where(y > 0, "p", "n") if labels else y
        tasks.append(Task.from_rows(name, X, y=targets, allows_missing=gaps))
    return TaskSet(tuple(tasks))


def fit(algorithm, tasks, values=(), *, trace=None):
    params = algorithm.parse(dict(values))
    rng = np.random.default_rng(3)
    return algorithm.fit(tasks, params, trace=trace or Trace(), rng=rng)


class Mixed(WrappedAlgorithm):
    """Trains models of two fits, as earlier versions did."""

    def __init__(self, inner, alone, tasks_alone):
        super().__init__(inner)
        self.alone, self.tasks_alone = alone, tuple(tasks_alone)

    def methods_for(self, target):
        alone = self.alone.methods_for(target)
        return tuple(name for name in self._inner.methods_for(target) if name in alone)

    def fit(self, tasks, params, *, trace, rng):
        alone = self.alone.fit(tasks, self.alone.parse({}), trace=trace.nested(), rng=deepcopy(rng))
        return PerTaskModel(
            self._inner.fit(tasks, params, trace=trace, rng=rng), alone, self.tasks_alone
        )


def mixed(inner, other, tasks):
    return Mixed(ALGORITHMS[inner], ALGORITHMS[other], tasks)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("gaps", [False, True])
def test_each_task_has_the_outputs_of_its_own_fit_bit_for_bit(tmp_path, labels, gaps) -> None:
    tasks = tasks_of(labels=labels, gaps=gaps)

    def wrap(algorithm):
        return prepared(algorithm, None, Recipe()) if gaps else algorithm

    names = ("fmtl", "nearest-neighbours") if labels else ("mtfl", "boosted-trees")
    together, alone = (fit(wrap(ALGORITHMS[name]), tasks) for name in names)
    model = fit(wrap(mixed(*names, ["c"])), tasks)
    save_model(model, tmp_path / "model")
    for one in (model, load_model(tmp_path / "model")):
        assert one.tasks == ("a", "b", "c")
        assert one.algorithm == names[0]
        assert set(one.available_methods()) == (
            set(together.available_methods()) & set(alone.available_methods())
        )
        for task in tasks:
            part = alone if task.name == "c" else together
            for method in one.available_methods():
                if method != "inverse_transform":
                    expected = getattr(part, method)(task.X, task=task.name)
                    found = getattr(one, method)(task.X, task=task.name)
                    np.testing.assert_array_equal(found, expected)
            assert one.classes(task.name) == part.classes(task.name)
            expected = part.coefficients(task.name)
            assert (one.coefficients(task.name) is None) == (expected is None)
            np.testing.assert_array_equal(one.coefficients(task.name), expected)
        with pytest.raises(UnknownTask):
            one.predict(tasks.tasks[0].X, task="d")


def test_what_is_learned_for_each_task_is_that_of_its_own_fit() -> None:
    tasks = tasks_of()
    together, alone = (fit(ALGORITHMS[name], tasks) for name in ("mtfl", "ridge"))
    model = fit(mixed("mtfl", "ridge", ["b"]), tasks)
    coef = model.learned()["coef"]
    np.testing.assert_array_equal(coef[[0, 2]], together.learned()["coef"][[0, 2]])
    np.testing.assert_array_equal(coef[1], alone.learned()["coef"][1])
    for name, scores in model.metrics.items():
        assert scores["a"] == together.metrics[name]["a"]
        assert scores["b"] == alone.metrics[name]["b"]


@pytest.mark.parametrize("gaps", [False, True])
def test_a_new_task_joins_those_that_are_learned_together(gaps) -> None:
    tasks = tasks_of(gaps=gaps)
    old, new = TaskSet(tasks.tasks[:2]), tasks.tasks[2]

    def adapted(algorithm):
        model = fit(prepared(algorithm, None, Recipe()) if gaps else algorithm, old)
        return for_model(ALGORITHMS["mtfl"], model, None).adapt(model, new)

    model, plain = adapted(mixed("mtfl", "ridge", ["b"])), adapted(ALGORITHMS["mtfl"])
    assert model.tasks == ("a", "b", "c")
    X = np.ones((2, 3))
    np.testing.assert_array_equal(model.predict(X, task="c"), plain.predict(X, task="c"))
    assert (model.predict(X, task="b") != plain.predict(X, task="b")).all()


def test_a_calibration_is_that_of_the_whole(tmp_path) -> None:
    tasks = tasks_of()
    algorithm = mixed("mtfl", "ridge", ["b"])
    model = fit(calibrated(algorithm, {"n_folds": 3}), tasks)
    save_model(model, tmp_path / "model")
    X = np.ones((2, 3))
    same = load_model(tmp_path / "model")
    for task in tasks.names:
        plain = fit(algorithm, tasks).predict(X, task=task)
        found = model.predict_interval(X, task=task, level=0.5)
        assert (found[:, 0] <= plain).all()
        assert (plain <= found[:, 1]).all()
        np.testing.assert_array_equal(same.predict_interval(X, task=task, level=0.5), found)


def test_a_file_without_a_model_for_a_task_is_refused(tmp_path) -> None:
    model = fit(mixed("mtfl", "ridge", ["d"]), tasks_of())
    save_model(model, tmp_path / "model")
    with pytest.raises(InvalidArtifact, match="no model for the tasks"):
        load_model(tmp_path / "model")
