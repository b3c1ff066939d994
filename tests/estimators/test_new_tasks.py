"""Estimators, called with rows of tasks that they were not fitted to."""

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import LeaveOneGroupOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from algorithms.interface.errors import InvalidParams, UnknownTask
from sibling import MixedModel, Neighbours, NewTasksWarning, Ridge

RNG = np.random.default_rng(5)
TASKS = np.repeat(["a", "b", "c", "d"], 12)
X = RNG.standard_normal((48, 3))
Y = X @ [1.0, 2.0, 0.0] + np.repeat(RNG.standard_normal(4), 12) + 0.1 * RNG.standard_normal(48)


@pytest.fixture(scope="module")
def fitted():
    return MixedModel().fit(X, Y, tasks=TASKS)


def test_rows_of_new_tasks_are_answered_beside_others(fitted) -> None:
    tasks = np.array(["a", "new", "b", "newer", "new"])
    with pytest.warns(NewTasksWarning, match="'new', 'newer'"):
        found = fitted.predict(X[:5], tasks=tasks, new_tasks="common")
    effects = fitted.fit_info_["fixed_effects"]
    standardised = (X[:5] - X.mean(0)) / X.std(0)
    expected = effects[0] + standardised @ effects[1:]
    np.testing.assert_allclose(found[tasks >= "new"], expected[tasks >= "new"])
    np.testing.assert_array_equal(found[:1], fitted.predict(X[:1], tasks="a"))
    with pytest.warns(NewTasksWarning):
        by_task = fitted.predict({"a": X[:1], "new": X[1:2]}, new_tasks="common")
    np.testing.assert_array_equal(by_task["new"], found[1:2])


def test_new_tasks_are_an_error_by_default(fitted) -> None:
    with pytest.raises(UnknownTask, match="new_tasks=common"):
        fitted.predict(X, tasks="new")
    alone = Ridge(selection="given").fit(X, Y, tasks=TASKS)
    with pytest.raises(UnknownTask, match=r"'new'.*adapt"):
        alone.predict(X, tasks="new", new_tasks="common")


def test_the_parameter_is_the_default_of_calls_and_kept_in_the_file(tmp_path) -> None:
    model = MixedModel(new_tasks="common").fit(X, Y, tasks=TASKS)
    model.adapt(X[:12], Y[:12], task="e")
    model.save(tmp_path / "model")
    for one in (model, MixedModel.load(tmp_path / "model")):
        with pytest.warns(NewTasksWarning):
            one.predict(X, tasks="new")
        with pytest.raises(UnknownTask):
            one.predict(X, tasks="new", new_tasks="refuse")


@pytest.mark.parametrize(("cls", "value"), [(Ridge, "common"), (MixedModel, "all")])
def test_a_parameter_that_the_model_cannot_follow_is_refused(cls, value) -> None:
    with pytest.raises(InvalidParams, match="new_tasks"):
        cls(new_tasks=value).fit(X, Y, tasks=TASKS)


def test_tasks_can_be_left_out_by_cross_validation() -> None:
    with (
        sklearn.config_context(enable_metadata_routing=True),
        pytest.warns(NewTasksWarning) as caught,
    ):
        found = cross_validate(
            make_pipeline(StandardScaler(), MixedModel(new_tasks="common")),
            X,
            Y,
            cv=LeaveOneGroupOut(),
            params={"tasks": TASKS, "groups": TASKS},
        )
    assert {warning.message.tasks for warning in caught} == {("a",), ("b",), ("c",), ("d",)}
    assert np.isfinite(found["test_score"]).all()


def test_classes_keep_their_dtype_for_new_tasks() -> None:
    labels = np.where(np.median(Y) < Y, 7, 3)
    model = Neighbours(selection="given", target="classes").fit(X, labels, tasks=TASKS)
    with pytest.warns(NewTasksWarning):
        predicted = model.predict(X, tasks="new", new_tasks="common")
    assert predicted.dtype == labels.dtype
    assert (predicted == labels).mean() > 0.7
