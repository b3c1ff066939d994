"""The automatic choice as an estimator: the report of a job, and the methods of its model."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone, is_classifier, is_regressor

from algorithms.interface.errors import InvalidArtifact
from algorithms.interface.new_tasks import NewTasksWarning
from sibling import Auto, Ensemble, FitWarning, Ridge
from sibling.client import Client
from sibling.remote_estimator import RemoteEstimator

RNG = np.random.default_rng(0)
TASKS = np.repeat(["a", "b", "c", "d"], 15)
X = RNG.standard_normal((60, 3))
Y = X @ [1.0, 2.0, 0.0] + (TASKS == "b") + 0.1 * RNG.standard_normal(60)
LABELS = np.where(np.median(Y) < Y, "high", "low")
#: Methods of every role that fit in milliseconds.
FAST = ["constant", "ridge", "mean-regularised"]
#: The same, of classes.
FAST_CLASSES = ["constant", "logistic-regression", "mean-regularised"]


@pytest.fixture(scope="module")
def fitted():
    return Auto(algorithms=FAST).fit(X, Y, tasks=TASKS)


def test_a_fit_has_the_model_the_report_and_the_verdict(fitted):
    assert fitted.tasks_ == ("a", "b", "c", "d")
    assert is_regressor(fitted)
    assert fitted.score(X, Y, tasks=TASKS) > 0.9
    choice = fitted.report_["choice"]
    assert fitted.verdict_ == choice["together_or_apart"]["verdict"] == "helps"
    assert {row["algorithm"] for row in choice["leaderboard"]} == set(FAST)
    assert sum(row["weight"] for row in choice["leaderboard"]) == pytest.approx(1.0)
    low, high = fitted.predict_interval(X[:5], tasks="a", level=0.8).T
    assert (low < high).all()
    assert not hasattr(fitted, "predict_proba")
    assert len(fitted.history_["loop"]) > 10


def test_a_frame_with_the_column_of_tasks_is_predicted_in_one_call(fitted):
    frame = pd.DataFrame(X, columns=["x", "y", "z"]).assign(shop=TASKS, sales=Y)
    made = Auto(algorithms=FAST)
    made.fit(frame[["x", "y", "z"]], frame["sales"], tasks=frame["shop"])
    np.testing.assert_array_equal(
        made.predict(frame.drop(columns="sales")), fitted.predict(X, tasks=TASKS)
    )
    assert "of sales" in made.report_["choice"]["sentences"][1]


@pytest.mark.parametrize(("column", "n_units"), [("item", 90), ("number", 12)])
def test_answers_of_persons_to_items_are_held_out_one_by_one(column, n_units):
    rng = np.random.default_rng(0)
    item = np.concatenate([rng.permutation(12)[:9] for _ in range(10)])
    frame = pd.DataFrame({"item": [f"item {i}" for i in item], "number": 1.5 * item})
    persons, y = np.repeat([f"p{p}" for p in range(10)], 9), item % 3 + rng.normal(size=90)
    made = Auto(algorithms=["constant", "ridge"]).fit(frame[[column]], y, tasks=persons)
    assert made.report_["choice"]["rows"]["n_units"] == n_units


def test_classes_have_probabilities_and_sets():
    made = Auto(algorithms=FAST_CLASSES).fit(X, LABELS, tasks=TASKS)
    assert is_classifier(made)
    assert made.classes_.tolist() == ["high", "low"]
    p = made.predict_proba(X, tasks=TASKS)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(made.classes_[p.argmax(axis=1)], made.predict(X, tasks=TASKS))
    assert set(np.unique(made.predict_set(X, tasks=TASKS))) <= {0.0, 1.0}
    assert made.report_["choice"]["metric"] == "error_rate"


def test_text_and_gaps_are_prepared_inside_the_folds():
    frame = pd.DataFrame({"x": X[:, 0], "shape": np.where(X[:, 1] > 0, "round", "square")})
    frame.loc[3, "x"] = np.nan
    made = Auto(algorithms=FAST).fit(frame, Y, tasks=TASKS)
    assert made.predict(frame, tasks=TASKS).shape == (60,)
    with pytest.warns(UserWarning, match="oval"):
        made.predict(frame[:1].assign(shape="oval"), tasks="a")


def test_one_method_has_its_own_model_and_any_estimator_of_it_loads_the_file(tmp_path):
    made = Auto(algorithms=["ridge"], single=True).fit(X, Y, tasks=TASKS)
    assert made.model_.algorithm == "ridge"
    assert not hasattr(made, "predict_interval")
    made.save(tmp_path / "model")
    for cls in (Auto, Ridge):
        loaded = cls.load(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict(X, tasks=TASKS), made.predict(X, tasks=TASKS))
    assert not hasattr(loaded, "report_")


def test_a_file_has_the_weighted_mean(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    for cls in (Auto, Ensemble):
        loaded = cls.load(tmp_path / "model")
        for method in ("predict", "predict_interval"):
            np.testing.assert_array_equal(
                getattr(loaded, method)(X, tasks=TASKS), getattr(fitted, method)(X, tasks=TASKS)
            )
    with pytest.raises(InvalidArtifact, match=r"load it with Ensemble\.load"):
        Ridge.load(tmp_path / "model")


def test_new_tasks_are_answered_by_what_the_tasks_have_in_common(fitted):
    with pytest.raises(ValueError, match="'e'"):
        fitted.predict(X[:2], tasks="e")
    with pytest.warns(NewTasksWarning, match="e"):
        assert fitted.predict(X[:2], tasks="e", new_tasks="common").shape == (2,)
    made = Auto(algorithms=FAST, new_tasks="common").fit(X, Y, tasks=TASKS)
    assert any(row["left_out_tasks"] for row in made.report_["choice"]["leaderboard"])
    with pytest.warns(NewTasksWarning, match="e"):
        made.predict(X[:2], tasks="e")
    with pytest.raises(ValueError, match="fmtl"):
        Auto(algorithms=["fmtl"], new_tasks="common").fit(X, Y, tasks=TASKS)


@pytest.mark.slow
def test_a_task_is_added_and_the_report_stays():
    made = Auto(algorithms=["ridge", "mean-regularised"]).fit(X, Y, tasks=TASKS)
    report = made.report_
    made.adapt(X[:10], Y[:10], task="new")
    assert made.tasks_[-1] == "new"
    assert made.predict(X[:2], tasks="new").shape == (2,)
    assert made.report_ is report


@pytest.mark.slow
def test_a_calibrated_choice_reports_its_calibration():
    made = Auto(algorithms=FAST, calibration=True).fit(X, Y, tasks=TASKS)
    assert made.calibration_ == made.report_["calibration"]
    assert made.predict_interval(X[:2], tasks="a").shape == (2, 2)


@pytest.mark.slow  # four races
def test_weights_of_rows_and_of_classes_count():
    weights = np.where(TASKS == "a", 1.0, 3.0) * (np.arange(60) % 5 > 0)
    plain, weighted = (
        Auto(algorithms=FAST).fit(X, Y, tasks=TASKS, sample_weight=w) for w in (None, weights)
    )
    assert not np.array_equal(plain.predict(X, tasks=TASKS), weighted.predict(X, tasks=TASKS))
    equal, heavy = (
        Auto(algorithms=FAST_CLASSES, class_weight=w).fit(X, LABELS, tasks=TASKS)
        for w in (None, {"high": 9.0})
    )
    more, less = (made.predict_proba(X, tasks=TASKS)[:, 0].mean() for made in (heavy, equal))
    assert more > less


def test_what_does_not_fit_is_an_error_that_names_it():
    for params, match in (
        ({"algorithms": ["rigde"]}, "ridge"),
        ({"metric": "auc"}, "auc"),
        ({"budget_s": -1.0}, "budget_s"),
        ({"new_tasks": "maybe"}, "new_tasks"),
    ):
        with pytest.raises(ValueError, match=match):
            Auto(**params).fit(X, Y, tasks=TASKS)
    unreachable = RemoteEstimator(Auto(algorithms=["mtda"]), client=Client("http://127.0.0.1:1"))
    with pytest.raises(ValueError, match="mtda"):
        unreachable.fit(X, Y, tasks=TASKS)


def test_numbers_that_may_be_codes_are_a_warning_and_parameters_are_cloned():
    made = clone(Auto(algorithms=["constant"], splits={"n_folds": 3, "repeats": 1}))
    with pytest.warns(FitWarning, match="target='classes'"):
        made.fit(X, (Y > 0).astype(int), tasks=TASKS)
    assert made.report_["choice"]["n_splits"] == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trained", "lacks"),
    [
        ({"new_tasks": "common"}, "without calibration: train it again with calibration and"),
        ({"calibration": True}, "without new_tasks 'common': train it again"),
        ({}, "without calibration and new_tasks 'common'"),
        (
            {"new_tasks": "common", "calibration": {"leave_tasks_out": False}},
            "'leave_tasks_out' is false",
        ),
    ],
)
def test_an_interval_of_a_new_task_says_what_the_training_lacked(trained, lacks):
    made = Auto(algorithms=["ridge"], **trained).fit(X, Y, tasks=TASKS)
    with pytest.warns(NewTasksWarning), pytest.raises(ValueError, match=lacks):
        made.predict_interval(X[:2], tasks="e", level=0.5, new_tasks="common")


@pytest.mark.slow  # a race that leaves tasks out
def test_a_calibrated_choice_with_new_tasks_has_their_intervals():
    made = Auto(algorithms=["ridge"], new_tasks="common", calibration=True)
    made.fit(X, Y, tasks=TASKS)
    with pytest.warns(NewTasksWarning):
        low, high = made.predict_interval(X[:2], tasks="e", level=0.5).T
    assert (low < high).all()


@pytest.mark.slow
def test_members_without_a_common_part_are_left_out_for_new_tasks_and_the_report_says_so():
    rng = np.random.default_rng(5)
    rows, tasks = rng.standard_normal((120, 2)), np.repeat(["a", "b", "c"], 40)
    # a curve of each task, which lines do not have, around a common line
    y = rows[:, 0] + np.sin(3 * rows[:, 1] + np.repeat([0, 2, 4], 40))
    made = Auto(
        algorithms=["kernel-ridge", "mean-regularised"], new_tasks="common", calibration=True
    ).fit(rows, y, tasks=tasks)
    choice = made.report_["choice"]
    weighted = [row for row in choice["leaderboard"] if row["weight"]]
    shared = [row for row in weighted if row["role"] != "single_task"]
    answer = choice["new_tasks"]
    assert [one["algorithm"] for one in answer["members"]] == [row["algorithm"] for row in shared]
    assert 0 < answer["weight"] < 1
    assert answer["weight"] == pytest.approx(sum(row["weight"] for row in shared))
    assert any(f"{answer['weight']:.0%} of the weight" in one for one in choice["sentences"])
    with pytest.warns(NewTasksWarning):
        low, high = made.predict_interval(rows[:9], tasks="new", level=0.5).T
    assert (low < high).all()
    # what new tasks are off by is learned from tasks that are left out
    own = made.predict_interval(rows[:9], tasks="a", level=0.5)
    assert (high - low).mean() > np.diff(own).mean()


@pytest.mark.slow
def test_weights_of_classes_decide_what_is_answered():
    rng = np.random.default_rng(3)
    noise = rng.standard_normal((90, 2))
    tasks, labels = np.repeat(["a", "b", "c"], 30), np.where(rng.random(90) < 0.5, "ill", "well")
    answers = [
        Auto(algorithms=["ridge", "constant"], class_weight=weights)
        .fit(noise, labels, tasks=tasks)
        .predict(noise, tasks=tasks)
        for weights in ({"ill": 1000.0}, {"well": 1000.0})
    ]
    # the maps from scores to probabilities had undone the weights
    assert (answers[0] == "ill").mean() > 0.9
    assert (answers[1] == "well").mean() > 0.9
