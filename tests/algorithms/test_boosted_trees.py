"""Gradient-boosted trees, beside LightGBM's own predictions."""

from dataclasses import replace

import numpy as np
import pytest

from algorithms.baselines.boosted_trees import BoostedTrees, training
from algorithms.baselines.boosted_trees.forest import parse_lightgbm
from algorithms.interface.artifact import read_arrays, write_arrays
from algorithms.interface.errors import InvalidArtifact, InvalidData, InvalidParams
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.interface.weights import joint_weights, weigh
from algorithms.registry import load_model, save_model

#: Sums of the same leaves in another order.
RTOL = 1e-10


def made(kind, *, n_tasks=6, n=40, d=3, seed=0) -> TaskSet:
    rng = np.random.default_rng(seed)
    tasks = []
    for t in range(n_tasks):
        X = rng.normal(size=(n, d)) * 3 + 1
        score = np.sin(X[:, 0]) + (2 * (t % 2) - 1) * X[:, 1] + 0.3 * rng.normal(size=n)
        labels = np.digitize(score, [-1.0, 1.0])
        y = {"numbers": 5 + 100 * score, "two": labels > 0, "three": labels}[kind]
        tasks.append(Task.from_rows(f"t{t}", X, y=y if kind == "numbers" else y.astype(int)))
    return TaskSet(tuple(tasks))


def fit(tasks, **values):
    params = BoostedTrees.Params(**{"selection": "given", "n_trees": 30, **values})
    return BoostedTrees().fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


def moments(values, weights):
    """Return the weighted mean and standard deviation of each column."""
    mean = np.average(values, axis=0, weights=weights)
    return mean, np.sqrt(np.average((values - mean) ** 2, axis=0, weights=weights))


@pytest.mark.parametrize("form", ["task", "pooled"])
@pytest.mark.parametrize("kind", ["numbers", "two", "three"])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.quick(5)
def test_predictions_are_those_of_lightgbm(form, kind, is_weighted) -> None:
    import lightgbm

    tasks = made(kind)
    if is_weighted:
        own = np.random.default_rng(2).uniform(0.1, 3.0, (6, 40))
        pairs = zip(tasks, own, strict=True)
        tasks = weigh(TaskSet(tuple(replace(task, weights=w) for task, w in pairs)))
    model = fit(tasks, form=form, learning_rate=0.2, n_leaves=7, min_rows=3, l2=0.5)
    union = np.concatenate([task.X for task in tasks])
    mean, deviation = moments(union, joint_weights(tasks))
    settings = {
        "objective": {"numbers": "regression", "two": "binary", "three": "multiclass"}[kind],
        "num_class": 3 if kind == "three" else 1,
        "learning_rate": 0.2, "num_leaves": 7, "min_data_in_leaf": 3, "lambda_l2": 0.5,
        "min_data_in_bin": 1, "min_data_per_group": 3, "use_missing": False, "num_threads": 1,
        "deterministic": True, "force_row_wise": True, "verbosity": -1,
        "cat_smooth": 3.0, "cat_l2": 1.0,
    }  # fmt: skip
    rng = np.random.default_rng(1)
    for t, task in enumerate(tasks):
        some = list(tasks) if form == "pooled" else [task]
        X = (np.concatenate([one.X for one in some]) - mean) / deviation
        y = np.concatenate([one.y for one in some])
        w = joint_weights(TaskSet(tuple(some)))
        center, unit = moments(y, w) if kind == "numbers" else (0.0, 1.0)
        new = np.concatenate([rng.normal(size=(30, 3)) * 3, task.X])
        Z = (new - mean) / deviation
        categorical = []
        if form == "pooled":
            X = np.column_stack([X, np.repeat(np.arange(6), 40)])
            Z, categorical = np.column_stack([Z, np.full(len(Z), t)]), [3]
        y = (y - center) / unit
        data = lightgbm.Dataset(X, y, weight=w, categorical_feature=categorical)
        booster = lightgbm.train(settings, data, num_boost_round=30)
        theirs = booster.predict(Z, raw_score=True)
        if kind == "numbers":
            found = model.predict(new, task=task.name)
            np.testing.assert_allclose(found, center + unit * theirs, rtol=RTOL)
            continue
        scores = model.decision_function(new, task=task.name)
        np.testing.assert_allclose(scores, theirs, rtol=RTOL, atol=1e-12)
        expected = (theirs > 0) * 1 if kind == "two" else theirs.argmax(axis=1)
        np.testing.assert_array_equal(model.predict(new, task=task.name), expected)
    if form == "pooled":  # the test reaches splits on the task
        assert len(model.forest.sets)


@pytest.mark.parametrize("kind", ["numbers", "two"])
def test_weights_as_lightgbm_takes_them_need_a_regularisation_larger_by_their_mean(kind) -> None:
    import lightgbm

    (task, *_) = made(kind)
    w = np.random.default_rng(2).uniform(0.1, 9.0, task.n_samples)
    own = TaskSet((replace(task, weights=w),))
    model = fit(weigh(own), form="task", learning_rate=0.2, n_leaves=7, min_rows=3, l2=0.5)
    mean, deviation = moments(task.X, w)
    center, unit = moments(task.y, w) if kind == "numbers" else (0.0, 1.0)
    settings = {
        "objective": "regression" if kind == "numbers" else "binary",
        "learning_rate": 0.2, "num_leaves": 7, "min_data_in_leaf": 3, "min_data_in_bin": 1,
        "lambda_l2": 0.5 * w.mean(), "min_sum_hessian_in_leaf": 1e-3 * w.mean(),
        "use_missing": False, "num_threads": 1, "deterministic": True, "verbosity": -1,
    }  # fmt: skip
    X = (task.X - mean) / deviation
    data = lightgbm.Dataset(X, (task.y - center) / unit, weight=w)
    theirs = lightgbm.train(settings, data, num_boost_round=30).predict(X, raw_score=True)
    method = "predict" if kind == "numbers" else "decision_function"
    found = getattr(model, method)(task.X, task=task.name)
    # their sums of weights have single precision
    np.testing.assert_allclose(found, center + unit * theirs, rtol=1e-4, atol=1e-4 * unit)


def test_pooled_trees_use_the_task() -> None:
    tasks = made("numbers", n=100)
    model = fit(tasks, n_trees=100)
    up, down = (model.predict([[1.0, x, 1.0] for x in (-3, 5)], task=t) for t in ("t1", "t0"))
    assert up[1] - up[0] > 100
    assert down[0] - down[1] > 100


def test_the_number_of_trees_is_small_for_noise_and_large_without() -> None:
    rng = np.random.default_rng(0)
    noise = [Task.from_rows(f"t{t}", rng.normal(size=(60, 2)), y=rng.normal(size=60)) for t in "ab"]
    assert fit(TaskSet(tuple(noise)), selection="cv", n_trees=60).fit_info["n_trees"] <= 5
    assert fit(made("numbers", n=60), selection="cv", n_trees=60).fit_info["n_trees"] >= 30


@pytest.mark.parametrize("form", ["task", "pooled"])
@pytest.mark.parametrize("kind", ["numbers", "three"])
@pytest.mark.quick(2)
def test_the_held_out_error_is_that_of_the_first_trees(form, kind) -> None:
    # the error of the selected number, with one fit for each fold
    from algorithms.evaluation import fold_splits

    tasks = made(kind, n=24)
    model = fit(tasks, form=form, selection="cv", n_trees=40)
    n_trees, rng = model.fit_info["n_trees"], np.random.default_rng(0)
    total, n_rows = 0.0, 0
    for split in fold_splits(tasks.by_name(), n_folds=3, seed=int(rng.integers(2**32))):
        other = fit(split.train, form=form, n_trees=n_trees)
        pooled = np.concatenate([task.y for task in split.train])
        for task in split.test:
            n_rows += task.n_samples
            if kind == "three":
                F = other.decision_function(task.X, task=task.name)
                F = F - np.log(np.exp(F).sum(axis=1, keepdims=True))
                total -= F[np.arange(len(F)), task.y].sum()
                continue
            unit = np.std(pooled if form == "pooled" else split.train[task.name].y)
            error = other.predict(task.X, task=task.name) - task.y
            total += np.sum((error / unit) ** 2)
    assert model.fit_info["cv_error"] == pytest.approx(total / n_rows, rel=1e-9)


def test_a_new_task_has_its_own_trees_or_no_known_category() -> None:
    tasks = made("numbers")
    new = Task.from_rows("new", tasks.tasks[1].X, y=tasks.tasks[1].y)
    rows = np.random.default_rng(0).normal(size=(9, 3))
    own = BoostedTrees().adapt(fit(tasks, form="task"), new)
    np.testing.assert_array_equal(own.predict(rows, task="new"), own.predict(rows, task="t1"))
    pooled = BoostedTrees().adapt(fit(tasks), new)
    assert pooled.parts[-1].category == -1
    assert np.isfinite(pooled.predict(rows, task="new")).all()
    with pytest.raises(InvalidData, match="'new' needs numeric targets"):
        BoostedTrees().adapt(fit(tasks), Task.from_rows("new", rows[:2], y=["a", "b"]))


def test_models_are_loaded_and_applied_without_lightgbm(tmp_path, monkeypatch) -> None:
    model = fit(made("numbers"))
    save_model(model, tmp_path / "m")
    monkeypatch.setattr(training, "find_spec", {}.get)
    rows = np.zeros((2, 3))
    loaded = load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.predict(rows, task="t0"), model.predict(rows, task="t0"))
    with pytest.raises(InvalidParams, match=r"is not installed.* pip install lightgbm"):
        fit(made("numbers"))


CORRUPT = {
    "a cycle": ("children", np.zeros_like),
    "a child beyond the tree": ("children", lambda a: a + 1000),
    "a leaf beyond the tree": ("children", lambda a: np.full_like(a, -1000)),
    "the smallest integer": ("children", lambda a: np.full_like(a, np.iinfo(np.int64).min)),
    "a column beyond the rows": ("feature", lambda a: a + 100),
    "a negative column": ("feature", lambda a: a - 100),
    "a set beyond the sets": ("categories", lambda a: np.full_like(a, 10**6)),
    "a negative set": ("categories", lambda a: a - 5),
    "fewer sets": ("sets", lambda a: a[:0]),
    "narrow sets": ("sets", lambda a: a[:, :2].copy()),
    "fewer leaves": ("leaf", lambda a: a[:-1].copy()),
    "no numbers": ("leaf", lambda a: a * np.nan),
    "an infinite threshold": ("threshold", lambda a: a + np.inf),
    "trees in disorder": ("node_start", lambda a: a[::-1].copy()),
    "no trees": ("leaf_start", lambda a: a[:0]),
    "another type": ("feature", lambda a: a.astype(np.float64)),
    "another shape": ("children", lambda a: a.ravel()),
    "a narrow scale": ("scale", lambda a: a[:1].copy()),
}


@pytest.mark.parametrize("what", CORRUPT)
def test_corrupt_trees_are_rejected_when_loaded(what, tmp_path) -> None:
    name, change = CORRUPT[what]
    save_model(fit(made("numbers")), tmp_path / "m")
    arrays, header = read_arrays(tmp_path / "m")
    arrays[name] = change(arrays[name])
    write_arrays(tmp_path / "m", arrays, header=header)
    with pytest.raises(InvalidArtifact):
        load_model(tmp_path / "m")


@pytest.mark.parametrize(
    "change", [{"trees": [0, 999]}, {"trees": [5, 5]}, {"trees": [-1, 5]}, {"category": 99}]
)
def test_a_corrupt_header_is_rejected(change, tmp_path) -> None:
    save_model(fit(made("numbers")), tmp_path / "m")
    arrays, header = read_arrays(tmp_path / "m")
    header["model"]["parts"][0] |= change
    write_arrays(tmp_path / "m", arrays, header=header)
    with pytest.raises(InvalidArtifact):
        load_model(tmp_path / "m")


@pytest.mark.slow
def test_random_changes_of_trees_are_rejected_or_harmless(tmp_path) -> None:
    """Every index is checked: a changed file is rejected, or its model predicts numbers."""
    save_model(fit(made("numbers"), n_trees=5), tmp_path / "m")
    arrays, header = read_arrays(tmp_path / "m")
    rng, n_loaded = np.random.default_rng(0), 0
    names = sorted(set(arrays) - {"mean", "scale"})
    for _ in range(200):
        name = names[rng.integers(len(names))]
        flat = arrays[name].copy()
        flat.reshape(-1)[rng.integers(flat.size)] = rng.integers(-3, 40) % 256
        write_arrays(tmp_path / "x", {**arrays, name: flat}, header=header)
        try:
            model = load_model(tmp_path / "x")
        except InvalidArtifact:
            continue
        n_loaded += 1
        assert np.isfinite(model.predict(rng.normal(size=(20, 3)), task="t1")).all()
    assert 0 < n_loaded < 200


def test_a_tree_without_splits_is_a_constant() -> None:
    forest = parse_lightgbm(
        "x\nTree=0\nnum_leaves=1\nleaf_value=2.5\n\nend of trees", n_categories=0
    )
    np.testing.assert_array_equal(
        forest.leaf_values(np.zeros((2, 1)), np.array([-1, -1]), slice(0, 1)), [[2.5], [2.5]]
    )


@pytest.mark.slow
def test_trees_tell_tasks_of_five_rows_apart() -> None:
    rng = np.random.default_rng(3)
    tasks, errors = [], []
    for t in range(20):
        X = rng.normal(size=(65, 3))
        y = X[:, 0] + 5 * rng.normal() + 0.3 * rng.normal(size=65)
        tasks.append(Task.from_rows(f"t{t:02d}", X, y=y))
    model = fit(
        TaskSet(tuple(task.take(np.arange(5)) for task in tasks)), selection="cv", n_trees=300
    )
    for task in tasks:
        predicted = model.predict(task.X[5:], task=task.name)
        errors.append(np.sqrt(np.mean((predicted - task.y[5:]) ** 2)))
    levels = [task.y.mean() for task in tasks]
    assert np.mean(errors) < 0.4 * np.std(levels)
