"""Probabilities from cross-fitted scores: equal to scikit-learn's, calibrated, and borrowed."""

import numpy as np
import pytest
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.metrics import brier_score_loss, log_loss

from algorithms.evaluation.scores.metrics import METRICS, metrics_for
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.numerics import sigmoid
from algorithms.numerics.sigmoid import fit_sigmoid, prior_targets
from algorithms.registry import ALGORITHMS, load_model, save_model
from algorithms.splits.splits import folds_of
from algorithms.wrappers.calibration.algorithm import CalibratedAlgorithm
from algorithms.wrappers.calibration.options import Calibration
from algorithms.wrappers.calibration.probabilities import (
    BORROWED_WEIGHT,
    ProbabilityMap,
    Scored,
    learn_maps,
)
from algorithms.wrappers.calibration.quality import reliability
from algorithms.wrappers.preparation.algorithm import PreparedAlgorithm
from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.recipe import Recipe

#: scikit-learn stops its iterations at a gradient of about 1e-6.
SIGMOID_RTOL = 2e-4
N_FOLDS = 5


def classes_task(rng, name="t", *, n=120, n_classes=2, noise=1.0) -> Task:
    X = rng.normal(size=(n, 4))
    scores = X[:, :n_classes] + noise * rng.normal(size=(n, n_classes))
    return Task.from_rows(name, X, y=np.array(["a", "b", "c", "d"])[scores.argmax(axis=1)])


def fit(name, tasks, *, seed=0, wrap=lambda algorithm: algorithm, **values):
    algorithm = CalibratedAlgorithm(wrap(ALGORITHMS[name]), Calibration(n_folds=N_FOLDS))
    params = algorithm.parse(values)
    algorithm.check(tasks.summaries(), params)
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(seed))


def test_classes_of_which_only_one_group_can_be_held_out_are_refused() -> None:
    task = classes_task(np.random.default_rng(0), n=20)
    groups = np.where(np.arange(20) < 8, "small", "large")
    y = np.where(groups == "large", task.y, "a")
    tasks = TaskSet((Task.from_rows("t", task.X, y=y, groups=groups),))
    with pytest.raises(InvalidData, match="must all stay together"):
        fit("constant", tasks)


class Ours(ClassifierMixin, BaseEstimator):
    """One of our algorithms with one task, as scikit-learn calibrates it."""

    def __init__(self, name="ridge"):
        self.name = name

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        algorithm = ALGORITHMS[self.name]
        tasks = TaskSet((Task.from_rows("t", X, y=y),))
        self.model_ = algorithm.fit(
            tasks, algorithm.Params(), trace=Trace(), rng=np.random.default_rng(0)
        )
        return self

    def decision_function(self, X):
        return self.model_.decision_function(X, task="t")

    def predict(self, X):
        return self.model_.predict(X, task="t")


@pytest.mark.parametrize(
    ("n", "n_classes", "method"),
    [(120, 2, "sigmoid"), (150, 3, "sigmoid"), (1200, 2, "isotonic"), (1500, 3, "isotonic")],
)
def test_one_task_gets_the_probabilities_of_scikit_learn_on_the_same_folds(
    n, n_classes, method
) -> None:
    rng = np.random.default_rng(n)
    tasks = TaskSet((classes_task(rng, n=n, n_classes=n_classes),))
    model = fit("ridge", tasks)
    seed = int(np.random.default_rng(0).integers(2**31))
    fold = folds_of(tasks, n_folds=N_FOLDS, seed=seed)["t"]
    cv = [(np.flatnonzero(fold != f), np.flatnonzero(fold == f)) for f in range(N_FOLDS)]
    (task,) = tasks
    theirs = CalibratedClassifierCV(Ours(), method=method, cv=cv, ensemble=False)
    theirs.fit(task.X, task.y)
    new = rng.normal(size=(500, 4))
    p, expected = model.predict_proba(new, task="t"), theirs.predict_proba(new)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    if method == "sigmoid":
        np.testing.assert_allclose(p, expected, rtol=SIGMOID_RTOL)
    else:  # theirs reach 0 and 1, ours stay within Platt's targets
        is_inside = ((expected > 0.02) & (expected < 0.98)).all(axis=1)
        assert is_inside.sum() > 100
        np.testing.assert_allclose(p[is_inside], expected[is_inside], atol=0.004)
        assert 0 < p.min() < p.max() < 1


@pytest.mark.parametrize("name", ["ridge", "mtda", "nearest-neighbours", "gp-lvm"])
def test_every_kind_of_score_becomes_a_probability_and_survives_a_file(name, tmp_path) -> None:
    rng = np.random.default_rng(3)
    tasks = TaskSet(tuple(classes_task(rng, f"t{t}", n=30, n_classes=3) for t in range(2)))
    model = fit(name, tasks)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.available_methods() == model.available_methods()
    assert "predict_proba" in model.available_methods()
    for task in tasks:
        p = model.predict_proba(task.X, task=task.name)
        assert p.shape == (30, 3)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
        np.testing.assert_array_equal(p, again.predict_proba(task.X, task=task.name))
        right = p[np.arange(30), np.searchsorted(model.classes(task.name), task.y)]
        assert right.mean() > 0.4  # a third by chance


@pytest.mark.slow  # several algorithms
def test_the_model_itself_is_that_of_the_algorithm_alone() -> None:
    tasks = TaskSet((classes_task(np.random.default_rng(5)),))
    alone = ALGORITHMS["boosted-trees"]
    plain = alone.fit(tasks, alone.Params(), trace=Trace(), rng=np.random.default_rng(7))
    inner = fit("boosted-trees", tasks, seed=7).inner
    assert {k: v.tobytes() for k, v in plain.to_arrays().items()} == {
        k: v.tobytes() for k, v in inner.to_arrays().items()
    }


def test_probabilities_of_new_rows_are_calibrated_where_the_scores_are_not() -> None:
    """Of 8,000 new rows in bins of probability, each share is within its binomial band."""
    rng = np.random.default_rng(11)
    task = classes_task(rng, n=8800, noise=2.0)
    train = TaskSet((task.take(np.arange(800)),))
    model = fit("ridge", train)
    new = task.take(np.arange(800, 8800))
    p = model.predict_proba(new.X, task="t")[:, 1]
    is_b = new.y == "b"
    before = reliability(1 / (1 + np.exp(-model.decision_function(new.X, task="t"))), is_b)
    after = reliability(p, is_b)
    assert sum(point["n"] for point in after) == 8000

    def error(points) -> float:
        return sum(one["n"] * abs(one["probability"] - one["share"]) for one in points) / 8000

    # a slope from 800 rows is off by some per cent
    assert error(after) < 0.03 < error(before)
    quality = model.quality
    assert quality["after"]["calibration_error"] < quality["before"]["calibration_error"]
    assert quality["after"]["log_loss"] == pytest.approx(log_loss(is_b, p), abs=0.03)


def test_no_probability_falls_with_its_score() -> None:
    scores, is_class = np.array([3.0, 2.0, 1.0, 0.0]), np.array([False, False, True, False])
    a, b = fit_sigmoid(scores, is_class, np.ones(4))
    assert a == 0.0
    low, high = prior_targets(is_class, np.ones(4))
    assert expit(b) == pytest.approx((high + 3 * low) / 4)


@pytest.mark.parametrize("seed", range(4))
def test_rounding_of_many_rows_costs_no_steps(monkeypatch, seed) -> None:
    rng, losses, loss = np.random.default_rng(seed), [], sigmoid._loss
    p = expit(0.5 * rng.normal(size=500))
    known = rng.binomial(80, p)
    scores = np.repeat(np.log((known + 0.5) / (80.5 - known)), 100)  # 500 values of 50,000 rows
    is_class = rng.random(50_000) < np.repeat(p, 100)

    def counted(*given):
        losses.append(loss(*given))
        return losses[-1]

    monkeypatch.setattr(sigmoid, "_loss", counted)
    a, b = fit_sigmoid(scores, is_class, np.ones(50_000))
    assert len(losses) < 20  # some seeds took 2,600
    monkeypatch.undo()
    few = fit_sigmoid(scores[::7], is_class[::7], np.ones(len(scores[::7])))
    assert (a, b) == pytest.approx(few, abs=0.1)


def scored(rng, n, *, slope=2.0) -> Scored:
    codes = rng.integers(2, size=n)
    scores = (2 * codes - 1)[:, np.newaxis] / slope + rng.normal(size=(n, 1))
    return Scored(("no", "yes"), scores, codes)


def test_a_small_task_borrows_and_a_large_one_does_not() -> None:
    rng = np.random.default_rng(1)
    small, large = scored(rng, 3), scored(rng, 900)
    grid = np.linspace(-3, 3, 13)[:, np.newaxis]
    with_large = learn_maps({"small": small, "large": large})
    alone = learn_maps({"large": large})["large"]
    # three rows count against BORROWED_WEIGHT of the others
    assert 5 * len(small.codes) < BORROWED_WEIGHT
    own = learn_maps({"small": small})["small"].apply(grid)[:, 1]
    common = alone.apply(grid)[:, 1]
    borrowed = with_large["small"].apply(grid)[:, 1]
    assert np.abs(borrowed - common).mean() < 0.5 * np.abs(own - common).mean()
    np.testing.assert_allclose(with_large["large"].apply(grid)[:, 1], common, atol=0.01)


def test_probabilities_of_rows_far_from_every_class_do_not_underflow() -> None:
    sigmoids = np.array([[1.0, 0.0], [1.0, 1.0], [2.0, 0.0]])
    scores = np.array([[-900.0, -900.0, -800.0], [1.0, 2.0, -3.0], [-np.inf, 0.0, 1.0]])
    p = ProbabilityMap(1.0, sigmoids, {}).apply(scores)
    np.testing.assert_allclose(p[0], [1 / (1 + np.e), np.e / (1 + np.e), 0.0], atol=1e-12)
    plain = expit(scores[1:] * sigmoids[:, 0] + sigmoids[:, 1])
    np.testing.assert_array_equal(p[1:], plain / plain.sum(axis=1, keepdims=True))


def test_a_task_without_held_out_rows_gets_the_map_of_the_others() -> None:
    rng = np.random.default_rng(2)
    none = Scored(("no", "yes"), np.zeros((0, 1)), np.zeros(0, dtype=np.intp))
    large = scored(rng, 600)
    maps = learn_maps({"none": none, "large": large}, borrowed_weight=1e9)
    grid = np.linspace(-3, 3, 13)[:, np.newaxis]
    np.testing.assert_allclose(maps["none"].apply(grid), maps["large"].apply(grid), rtol=1e-6)
    with pytest.raises(InvalidData, match="no row of task 'none'"):
        learn_maps({"none": none})


def test_scores_of_tasks_on_different_scales_are_borrowed_alike() -> None:
    rng = np.random.default_rng(4)
    a, b, small = scored(rng, 400), scored(rng, 400), scored(rng, 30)
    wide = Scored(b.classes, 1000 * b.scores, b.codes)
    grid = np.linspace(-3, 3, 7)[:, np.newaxis]
    plain = learn_maps({"a": a, "b": b, "small": small})
    scaled = learn_maps({"a": a, "b": wide, "small": small})
    np.testing.assert_allclose(plain["b"].apply(grid), scaled["b"].apply(1000 * grid), atol=0.02)
    assert np.abs(plain["small"].apply(grid) - scaled["small"].apply(grid)).max() < 0.1


def test_brier_score_and_log_loss_are_those_of_scikit_learn() -> None:
    rng = np.random.default_rng(6)
    tasks = TaskSet((classes_task(rng, "two"), classes_task(rng, "three", n_classes=3)))
    algorithm = CalibratedAlgorithm(ALGORITHMS["ridge"], Calibration())
    assert {"brier", "log_loss"} <= {m.name for m in metrics_for([algorithm], tasks.tasks)}
    assert "brier" not in {m.name for m in metrics_for([ALGORITHMS["ridge"]], tasks.tasks)}
    model = fit("ridge", tasks)
    for task in tasks:
        p = model.predict_proba(task.X, task=task.name)
        labels = list(model.classes(task.name))
        truth = p[:, 1] if len(labels) == 2 else p
        theirs = brier_score_loss(task.y, truth, labels=labels, pos_label=labels[1])
        assert METRICS["brier"].score(model, task) == pytest.approx(theirs, rel=1e-12)
        assert METRICS["log_loss"].score(model, task) == pytest.approx(
            log_loss(task.y, p, labels=labels), rel=1e-12
        )


def test_raw_rows_are_prepared_within_every_fold(tmp_path) -> None:
    rng = np.random.default_rng(8)
    X = rng.normal(size=(90, 2))
    X[:, 1] = rng.integers(3, size=90)
    y = np.where(X[:, 0] + X[:, 1] + rng.normal(size=90) > 1, "high", "low")
    X[::7, 0] = np.nan
    raw = Task.from_rows("t", X, y=y, feature_names=["height", "colour"], allows_missing=True)
    columns = [Column("height"), Column("colour", "category", ("blue", "green", "red"))]

    def wrap(algorithm):
        return PreparedAlgorithm(algorithm, columns, Recipe())

    model = fit("ridge", TaskSet((raw,)), wrap=wrap)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    p = again.predict_proba(X, task="t")
    np.testing.assert_array_equal(p, model.predict_proba(X, task="t"))
    assert "predict_proba" in again.takes_missing
    assert np.mean(np.array(model.classes("t"))[p.argmax(axis=1)] == y) > 0.7


def test_tasks_that_cannot_be_calibrated_are_refused_with_the_reason() -> None:
    rng = np.random.default_rng(9)
    rows = TaskSet((Task.from_rows("t", rng.normal(size=(20, 2))),))
    with pytest.raises(InvalidData, match="do not predict the targets of task 't'"):
        fit("pca", rows)
    one_each = TaskSet((Task.from_rows("t", rng.normal(size=(2, 2)), y=["a", "b"]),))
    with pytest.raises(InvalidData, match="train without calibration"):
        fit("constant", one_each)
