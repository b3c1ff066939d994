"""Intervals, probabilities and sets of new tasks, calibrated by leaving tasks out."""

import numpy as np
import pytest
from scipy.stats import norm

from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS, load_model, save_model
from algorithms.wrappers.calibration.algorithm import calibrated
from algorithms.wrappers.new_tasks import with_new_tasks
from algorithms.wrappers.preparation.algorithm import prepared
from algorithms.wrappers.preparation.recipe import Recipe
from algorithms.wrappers.weights import weighted

#: The same numbers by sums in another order.
ROUNDING = 1e-9
RIDGE = {"form": "pooled", "intercept": "common", "selection": "given", "gamma": 0.01}


def task_of(rng, name: str, *, n: int = 6, spread: float = 1.0, classes: bool = False) -> Task:
    """Return a task whose level is drawn anew, with a standard deviation of ``spread``."""
    X = rng.standard_normal((n, 2))
    y = 3 + spread * rng.standard_normal() + X @ [1.0, -1.0] + 0.2 * rng.standard_normal(n)
    return Task.from_rows(name, X, y=np.where(y > 3, "high", "low") if classes else y)


def tasks_of(rng, n_tasks: int = 20, **options) -> TaskSet:
    return TaskSet(tuple(task_of(rng, f"t{t}", **options) for t in range(n_tasks)))


def fit(name, tasks, *, wrap=lambda algorithm: algorithm, n_folds=5, **values):
    options = {"leave_tasks_out": True, "n_folds": n_folds}
    algorithm = calibrated(wrap(ALGORITHMS[name]), options)
    params = algorithm.parse(values)
    algorithm.check(tasks.summaries(), params)
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


def new(model):
    return with_new_tasks(model, ("new",))


def test_intervals_are_those_of_a_jackknife_over_tasks() -> None:
    tasks = tasks_of(np.random.default_rng(1), 9, n=5)
    model = fit("ridge", tasks, n_folds=9, **RIDGE)
    rows, level = np.random.default_rng(2).standard_normal((4, 2)), 0.8
    ridge = ALGORITHMS["ridge"]
    lows, highs, weights = [], [], []
    for left_out in tasks:
        rest = TaskSet(tuple(task for task in tasks if task is not left_out))
        without = ridge.fit(rest, ridge.parse(RIDGE), trace=Trace(), rng=np.random.default_rng(0))
        any_task = rest.names[0]  # all have the same function
        residuals = np.abs(left_out.y - without.predict(left_out.X, task=any_task))
        predicted = without.predict(rows, task=any_task)[:, np.newaxis]
        lows.append(predicted - residuals)
        highs.append(predicted + residuals)
        weights.append(np.full(5, 1 / (10 * 5)))
    lows, highs = np.concatenate(lows, axis=1), np.concatenate(highs, axis=1)
    weights = np.concatenate(weights)
    for i, (low, high) in enumerate(new(model).predict_interval(rows, task="new", level=level)):
        # the smallest u, and the largest, for which a share of the weights is on its side
        assert weights[highs[i] <= high + ROUNDING].sum() >= level - ROUNDING
        assert weights[highs[i] < high - ROUNDING].sum() < level
        assert weights[lows[i] >= low - ROUNDING].sum() >= level - ROUNDING
        assert weights[lows[i] > low + ROUNDING].sum() < level


def test_rows_of_weight_0_change_no_interval() -> None:
    tasks = [*tasks_of(np.random.default_rng(1))]
    given = [Task.from_rows(one.name, one.X, y=abs(one.y), weights=1 + one.y**2) for one in tasks]
    longer = [
        Task.from_rows(
            one.name,
            np.concatenate([one.X, one.X[:1]]),
            y=np.append(one.y, -1e6),
            weights=np.append(one.weights, 0.0),
        )
        for one in given
    ]
    rows = np.random.default_rng(2).standard_normal((4, 2))
    ours, theirs = (
        new(
            fit(
                "ridge",
                TaskSet(tuple(some)),
                wrap=lambda algorithm: weighted(algorithm, None, has_weights=True),
                **RIDGE,
            )
        )
        for some in (given, longer)
    )
    for task in ("t0", "new"):
        ends = ours.predict_interval(rows, task=task, level=0.95)
        assert ends.min() == 0
        np.testing.assert_allclose(theirs.predict_interval(rows, task=task, level=0.95), ends)


@pytest.mark.parametrize(
    ("name", "params"),
    [
        pytest.param("constant", {"form": "pooled"}, id="constant"),
        pytest.param("ridge", RIDGE, id="ridge", marks=pytest.mark.slow),
    ],
)
def test_intervals_cover_rows_of_tasks_that_nobody_has_seen(name, params) -> None:
    covered = {0.8: [], 0.9: []}
    for seed in range(25):
        rng = np.random.default_rng(seed)
        model = new(fit(name, tasks_of(rng), **params))
        for _ in range(5):
            task = task_of(rng, "new")
            for level, found in covered.items():
                ends = model.predict_interval(task.X, task="new", level=level)
                found.append(((task.y >= ends[:, 0]) & (task.y <= ends[:, 1])).mean())
    for level, found in covered.items():
        error = np.std(found) / np.sqrt(len(found))
        assert level - 2 * error < np.mean(found) < level + 0.05 + 2 * error


@pytest.mark.slow
def test_intervals_of_trained_tasks_do_not_cover_new_ones() -> None:
    covered = {"new": [], "t0": []}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        model = new(fit("mixed-model", tasks_of(rng)))
        for _ in range(5):
            task = task_of(rng, "new")
            for name, found in covered.items():
                ends = model.predict_interval(task.X, task=name, level=0.9)
                found.append(((task.y >= ends[:, 0]) & (task.y <= ends[:, 1])).mean())
    assert np.mean(covered["new"]) > 0.85
    assert np.mean(covered["t0"]) < 0.5


def test_intervals_are_as_wide_as_tasks_differ() -> None:
    widths = []
    for spread in (0.0, 3.0):
        tasks = tasks_of(np.random.default_rng(3), spread=spread)
        ends = new(fit("mean-regularised", tasks)).predict_interval(
            np.zeros((1, 2)), task="new", level=0.9
        )
        widths.append(float(np.diff(ends)[0, 0]))
    assert widths[1] > 5 * widths[0]


def test_probabilities_and_sets_of_new_tasks_count_how_far_tasks_differ() -> None:
    rng = np.random.default_rng(4)
    tasks = tasks_of(rng, 30, n=12, spread=2.0, classes=True)
    tasks = TaskSet(tuple(task for task in tasks if len(set(task.y)) == 2))
    model = new(fit("ridge", tasks, **RIDGE))
    rows = np.array([[2.0, -2.0], [0.0, 0.0], [-2.0, 2.0]])
    p = model.predict_proba(rows, task="new")
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    # the distance to the boundary over the deviation of levels and noise
    expected = norm.cdf(np.array([4.0, 0.0, -4.0]) / np.hypot(2.0, 0.2))
    np.testing.assert_allclose(p[:, 0], expected, atol=0.1)
    covered = []
    for _ in range(60):
        task = task_of(rng, "new", n=12, spread=2.0, classes=True)
        sets = model.predict_set(task.X, task="new", level=0.8)
        codes = np.searchsorted(["high", "low"], task.y)
        covered.append(sets[np.arange(12), codes].mean())
    assert np.mean(covered) > 0.8 - 2 * np.std(covered) / np.sqrt(60)


@pytest.mark.parametrize("is_prepared", [False, True])
@pytest.mark.parametrize("classes", [False, True])
def test_a_stored_model_answers_the_same(tmp_path, classes, is_prepared) -> None:
    tasks = tasks_of(np.random.default_rng(5), 12, n=10, spread=0.3, classes=classes)
    model = fit(
        "ridge",
        tasks,
        wrap=lambda one: prepared(one, None, Recipe() if is_prepared else None),
        **RIDGE,
    ).with_ignored_columns(frozenset({"note"}))
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.report() == model.report()
    assert loaded.ignored_columns == {"note"}
    rows = np.random.default_rng(6).standard_normal((5, 2))
    for method in {"predict_proba", "predict_set", "predict_interval"} & set(
        model.available_methods()
    ):
        expected = getattr(new(model), method)(rows, task="new")
        np.testing.assert_array_equal(getattr(new(loaded), method)(rows, task="new"), expected)
        trained = getattr(model, method)(rows, task="t0")
        np.testing.assert_array_equal(getattr(new(model), method)(rows, task="t0"), trained)


def test_the_report_has_the_errors_on_left_out_tasks_beside_those_on_left_out_rows() -> None:
    tasks = tasks_of(np.random.default_rng(7))
    report = fit("mixed-model", tasks).report()["new_tasks"]
    assert report["n_tasks"] == 20
    assert report["largest"] == pytest.approx(20 / 21)
    # the spread of the levels of tasks, and the noise of rows
    assert report["left_out_tasks"]["rmse"] == pytest.approx(1.0, abs=0.4)
    assert report["left_out_rows"]["rmse"] == pytest.approx(0.25, abs=0.1)


def test_a_level_beyond_what_the_tasks_allow_is_refused() -> None:
    model = new(fit("ridge", tasks_of(np.random.default_rng(8), 5), **RIDGE))
    with pytest.raises(InvalidData, match=r"0\.833"):
        model.predict_interval(np.zeros((1, 2)), task="new", level=0.9)


def test_a_model_calibrated_without_leaving_tasks_out_has_no_intervals_of_new_tasks() -> None:
    algorithm = calibrated(ALGORITHMS["ridge"], {})
    tasks, params = tasks_of(np.random.default_rng(9), 4), algorithm.parse(RIDGE)
    model = new(algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0)))
    assert model.predict(np.zeros((1, 2)), task="new").shape == (1,)
    with pytest.raises(InvalidData, match="new_tasks 'common'") as refused:
        model.predict_interval(np.zeros((1, 2)), task="new")
    assert refused.value.task == "new"


def test_what_cannot_leave_tasks_out_is_refused_before_the_fit() -> None:
    with pytest.raises(InvalidData, match="only task"):
        fit("ridge", tasks_of(np.random.default_rng(10), 1, n=20), **RIDGE)
    with pytest.raises(InvalidParams, match="leave_tasks_out"):
        fit("ridge", tasks_of(np.random.default_rng(10), 4))
