"""Intervals and sets: by the definition, and with the promised coverage on new rows."""

from dataclasses import replace

import numpy as np
import pytest

from algorithms.evaluation.scores.metrics import METRICS
from algorithms.evaluation.selection.validation import score_model
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.model import apply
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS, load_model, save_model
from algorithms.splits.splits import Split
from algorithms.wrappers.calibration.algorithm import CalibratedAlgorithm
from algorithms.wrappers.calibration.conformal import (
    ConformalScores,
    adaptive_scores,
    intervals,
    lowest_target,
    prediction_sets,
)
from algorithms.wrappers.calibration.options import Calibration

#: Made data sets of a measured coverage, more of tasks that are scored one by one, and new rows of
#: each task.
N_SETS, N_SETS_BY_TASK, N_NEW = 80, 120, 60
LEVEL = 0.9
#: The weight of the new row's task, and models of five rows, make borrowed intervals wide.
MAX_OWN, MAX_BORROWED = 0.96, 0.985
#: What ridge selects among in each fold: a choice of three is a choice.
GRID = (0.1, 1.0, 10.0)
#: Standard errors that a mean over sets may be below the level.
N_ERRORS = 3.0


def scores_of(rng, counts, *, n_folds=4, has_scale=False) -> ConformalScores:
    owner = np.repeat(np.arange(len(counts)), counts)
    n = len(owner)
    return ConformalScores(
        rng.exponential(size=n), rng.integers(n_folds, size=n), owner, len(counts), has_scale
    )


@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95])
def test_intervals_of_a_large_task_are_those_of_the_definition(level) -> None:
    """Barber et al. 2021, (3.1): ranks ⌊α(n + 1)⌋ and ⌈(1 - α)(n + 1)⌉ of n values."""
    rng = np.random.default_rng(0)
    held_out = scores_of(rng, [37, 60])
    own = held_out.owner == 1
    R, fold = held_out.scores[own], held_out.folds[own]
    mu = rng.normal(size=(5, 4))
    found = intervals(mu, held_out.of_task(1, level), level)
    n = len(R)
    for row, (low, high) in zip(mu, found, strict=True):
        upper_rank = int(np.ceil(round(level * (n + 1), 9)))
        assert high == pytest.approx(np.sort(row[fold] + R)[upper_rank - 1], rel=1e-12)
        assert low == pytest.approx(np.sort(row[fold] - R)[n - upper_rank], rel=1e-12)


def test_sets_are_those_of_the_definition() -> None:
    """Romano et al. 2020, (8): classes with fewer than (1 - α)(n + 1) smaller scores."""
    rng = np.random.default_rng(1)
    held_out = scores_of(rng, [50])
    E = held_out.scores / 3
    held_out = ConformalScores(E, held_out.folds, held_out.owner, 1, has_scale=False)
    p = [rng.dirichlet(np.ones(3), size=6) for _ in range(4)]
    u = rng.random(6)
    scores = [adaptive_scores(one, u) for one in p]
    found = prediction_sets(scores, held_out.of_task(0, LEVEL), LEVEL)
    for row in range(6):
        for c in range(3):
            n_smaller = 0
            for e, k in zip(E, held_out.folds, strict=True):
                own = p[k][row]
                n_smaller += e < own[own > own[c]].sum() + u[row] * own[c]
            assert found[row, c] == (n_smaller < LEVEL * 51)


def test_a_small_task_borrows_with_equal_weights_of_tasks() -> None:
    rng = np.random.default_rng(2)
    held_out = scores_of(rng, [3, *range(4, 24)])
    found = held_out.of_task(0, LEVEL)
    assert found.is_borrowed
    assert found.is_enough(LEVEL)
    # 20 other tasks and the task itself
    owner = held_out.owner[held_out.owner != 0]
    np.testing.assert_allclose(np.bincount(owner, found.weights)[1:], 1 / 21, rtol=1e-12)
    assert not held_out.of_task(20, LEVEL).is_borrowed


def test_residuals_are_borrowed_in_units_of_their_task() -> None:
    rng = np.random.default_rng(3)
    owner = np.repeat(np.arange(30), 15)
    scale = np.exp(rng.normal(size=30))
    R = np.abs(rng.normal(size=450)) * scale[owner]
    held_out = ConformalScores(R, np.zeros(450, dtype=np.intp), owner, 30, has_scale=True)
    for t in (0, 7):
        found = held_out.of_task(t, 0.95)  # 15 rows are fewer than 40
        assert found.is_borrowed
        rms = np.sqrt(np.mean(found.scores**2))
        # 15 rows give a scale up to about 18 %, and units with an estimated scale have heavy tails
        assert rms == pytest.approx(scale[t], rel=0.5)


def made(rng, *, n, n_tasks, noise) -> TaskSet:
    common = rng.normal(size=3)
    tasks = []
    for t in range(n_tasks):
        X = rng.normal(size=(n, 3))
        y = X @ (common + 0.3 * rng.normal(size=3)) + noise(rng, t, X)
        tasks.append(Task.from_rows(f"t{t}", X, y=y))
    return TaskSet(tuple(tasks))


NOISES = {
    "normal": lambda rng, t, X: rng.normal(size=len(X)),  # noqa: ARG005
    "heavy tails": lambda rng, t, X: rng.standard_t(2, size=len(X)),  # noqa: ARG005
    "unequal": lambda rng, t, X: (1 + 4 * t) * np.exp(X[:, 0]) * rng.normal(size=len(X)),
}


def fit(name, tasks, *, seed=0, n_folds=5, **values):
    algorithm = CalibratedAlgorithm(ALGORITHMS[name], Calibration(n_folds=n_folds))
    params = algorithm.parse(values)
    algorithm.check(tasks.summaries(), params)
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(seed))


def coverages(make, n, metric, *, n_folds=5, n_sets=N_SETS) -> np.ndarray:
    """Return the coverage of new rows in each set and task."""
    found = []
    for seed in range(n_sets):
        whole = make(np.random.default_rng([seed, n]))
        rows = np.arange(n)
        model = fit(
            "ridge",
            TaskSet(tuple(task.take(rows) for task in whole)),
            seed=seed,
            n_folds=n_folds,
            grid=GRID,
        )
        new = [task.take(np.arange(n, task.n_samples)) for task in whole]
        found.append([METRICS[metric].score(model, task) for task in new])
    return np.array(found)


def check_coverage(found: np.ndarray, *, most=MAX_OWN) -> None:
    """Check means over sets, whose error is that of independent sets."""
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
    assert np.all(found.mean(axis=0) >= LEVEL - N_ERRORS * error)
    assert np.all(found.mean(axis=0) <= most)


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_intervals_cover_new_rows_of_every_task_with_many_rows(noise) -> None:
    n = 30

    def make(rng):
        return made(rng, n=n + N_NEW, n_tasks=2, noise=NOISES[noise])

    check_coverage(coverages(make, n, "coverage", n_sets=N_SETS_BY_TASK))


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_intervals_cover_new_rows_of_a_random_task_with_few_rows(noise) -> None:
    n = 6

    def make(rng):
        return made(rng, n=n + N_NEW, n_tasks=12, noise=NOISES[noise])

    by_set = coverages(make, n, "coverage", n_folds=3).mean(axis=1, keepdims=True)
    check_coverage(by_set, most=MAX_BORROWED)


@pytest.mark.slow
def test_sets_cover_new_rows_of_every_task() -> None:
    n = 60

    def make(rng):
        tasks = []
        for t in range(2):
            X = rng.normal(size=(n + N_NEW, 3))
            scores = X + (0.3 + t) * rng.normal(size=X.shape)
            tasks.append(Task.from_rows(f"t{t}", X, y=np.array(["a", "b", "c"])[scores.argmax(1)]))
        return TaskSet(tuple(tasks))

    check_coverage(coverages(make, n, "set_coverage"))


def test_a_loaded_model_has_the_same_intervals_and_sets(tmp_path) -> None:
    rng = np.random.default_rng(5)
    tasks = made(rng, n=25, n_tasks=2, noise=NOISES["normal"])
    model = fit("ridge", tasks, n_folds=3)
    save_model(model, tmp_path / "numbers")
    again = load_model(tmp_path / "numbers")
    X = rng.normal(size=(7, 3))
    for level in (0.5, 0.9):
        ends = model.predict_interval(X, task="t1", level=level)
        assert np.all(ends[:, 0] < ends[:, 1])
        np.testing.assert_array_equal(ends, again.predict_interval(X, task="t1", level=level))
    wide, narrow = (np.diff(model.predict_interval(X, task="t0", level=a)) for a in (0.9, 0.5))
    assert np.all(wide > narrow)
    labels = TaskSet(
        tuple(Task.from_rows(task.name, task.X, y=np.digitize(task.y, [-1, 1])) for task in tasks)
    )
    model = fit("ridge", labels, n_folds=3)
    save_model(model, tmp_path / "classes")
    again = load_model(tmp_path / "classes")
    assert again.available_methods()[-2:] == ("predict_proba", "predict_set")
    sets = model.predict_set(X, task="t1")
    np.testing.assert_array_equal(sets, again.predict_set(X, task="t1"))
    # the same row has the same set in every request
    np.testing.assert_array_equal(sets[3:4], model.predict_set(X[3:4], task="t1"))


def test_too_few_rows_and_wrong_levels_are_explained() -> None:
    tasks = made(np.random.default_rng(6), n=12, n_tasks=2, noise=NOISES["normal"])
    model = fit("ridge", tasks)
    with pytest.raises(InvalidData, match=r"too few rows .* use a level up to 0\.923"):
        model.predict_interval(tasks.tasks[0].X, task="t0", level=0.95)
    assert model.predict_interval(tasks.tasks[0].X, task="t0", level=0.92).shape == (12, 2)
    with pytest.raises(InvalidParams, match="level is 1"):
        model.predict_interval(tasks.tasks[0].X, task="t0", level=1.0)
    with pytest.raises(InvalidParams, match="predict takes no level"):
        apply(model, "predict", tasks.tasks[0].X, task="t0", level=0.9)


def test_intervals_of_what_is_never_negative_do_not_reach_below_zero(tmp_path) -> None:
    rng = np.random.default_rng(7)
    tasks = made(rng, n=30, n_tasks=2, noise=NOISES["normal"])
    tasks = TaskSet(tuple(replace(task, y=np.maximum(task.y, 0.0)) for task in tasks))
    model = fit("ridge", tasks, n_folds=3)
    free = replace(model, conformal=replace(model.conformal, lowest=-np.inf))
    X, y = rng.normal(scale=3, size=(200, 3)), rng.exponential(size=200)
    ends, wider = (one.predict_interval(X, task="t0", level=0.8) for one in (model, free))
    is_negative = wider[:, 1] < 0  # where the model itself is sure of an impossible value
    assert 0 < is_negative.sum() < (wider[:, 0] < 0).sum()
    np.testing.assert_array_equal(ends[is_negative], wider[is_negative])
    np.testing.assert_array_equal(ends[~is_negative], np.maximum(wider[~is_negative], 0))
    is_in, was_in = ((e[:, 0] <= y) & (y <= e[:, 1]) for e in (ends, wider))
    np.testing.assert_array_equal(is_in, was_in)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    np.testing.assert_array_equal(ends, again.predict_interval(X, task="t0", level=0.8))


def test_rows_of_weight_0_do_not_count_as_covered() -> None:
    class Intervals:
        def predict_interval(self, X, *, task, level):
            del task, level
            return np.tile([0.0, 2.0], (len(X), 1))

    task = Task("a", np.zeros((4, 1)), y=np.array([1.0, 1.0, 5.0, 5.0]))
    for weights, expected in ((np.array([1.0, 2.0, 1.0, 0.0]), 2 / 3), (None, 0.5)):
        part = TaskSet((replace(task, weights=weights),))
        scores = score_model(Intervals(), Split(part, part), ["a"], [METRICS["coverage"]])
        assert scores["by_task"]["coverage"]["a"] == [pytest.approx(expected)]


def test_one_negative_target_of_any_task_leaves_all_intervals_as_they_are() -> None:
    zero, one = Task("a", np.ones((2, 1)), y=np.zeros(2)), np.array([1.0, -1e-9])
    assert lowest_target([zero, replace(zero, y=np.ones(2))]) == 0
    assert lowest_target([zero, replace(zero, y=one)]) == -np.inf
    assert lowest_target([zero, replace(zero, y=one, weights=np.array([1.0, 0.0]))]) == 0
