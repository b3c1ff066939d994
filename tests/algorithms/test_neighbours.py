"""k-nearest neighbours, beside scikit-learn's."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor

from algorithms.baselines.neighbours import Neighbours
from algorithms.interface.artifact import read_arrays, write_arrays
from algorithms.interface.errors import InvalidArtifact, InvalidData
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import load_model, save_model

#: Sums of the same numbers in another order.
RTOL = 1e-12


def made(kind, *, n_tasks=3, n=20, d=4):
    rng = np.random.default_rng(0)
    tasks = []
    for t in range(n_tasks):
        X = rng.normal(size=(n + t, d)) * np.arange(1, d + 1)
        score = X[:, 0] + rng.normal(size=n + t)
        labels = np.digitize(score, [-0.5, 0.5])
        y = {"numbers": score, "two": np.array(["a", "b"])[(score > 0) * 1], "three": labels}[kind]
        tasks.append(Task.from_rows(f"t{t}", X, y=y))
    return TaskSet(tuple(tasks))


def fit(tasks, **values):
    params = Neighbours.Params(**values)
    return Neighbours().fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


@pytest.mark.parametrize("form", ["task", "pooled"])
@pytest.mark.parametrize("weights", ["uniform", "distance"])
@pytest.mark.parametrize("kind", ["numbers", "two", "three"])
def test_predictions_are_those_of_scikit_learn(form, weights, kind) -> None:
    tasks = made(kind)
    model = fit(tasks, form=form, weights=weights, selection="given", k=6)
    union = np.concatenate([task.X for task in tasks])
    mean, deviation = union.mean(axis=0), union.std(axis=0)
    rng = np.random.default_rng(1)
    for task in tasks:
        new = np.concatenate([rng.normal(size=(30, 4)), task.X[:3]])  # some at distance 0
        X, y = task.X, task.y
        if form == "pooled":
            X, y = union, np.concatenate([one.y for one in tasks])
        theirs = (KNeighborsRegressor if kind == "numbers" else KNeighborsClassifier)(
            6, weights=weights, algorithm="brute"
        ).fit((X - mean) / deviation, y)
        found, expected = (
            model.predict(new, task=task.name),
            theirs.predict((new - mean) / deviation),
        )
        if kind == "numbers":
            np.testing.assert_allclose(found, expected, rtol=RTOL)
            continue
        np.testing.assert_array_equal(found, expected)
        shares = theirs.predict_proba((new - mean) / deviation)
        if kind == "two":
            shares = shares[:, 1] - shares[:, 0]
        scores = model.decision_function(new, task=task.name)
        np.testing.assert_allclose(scores, shares, atol=1e-12)


def test_one_neighbour_reproduces_the_training_targets() -> None:
    tasks = made("numbers")
    model = fit(tasks, selection="given", k=1)
    for task in tasks:
        np.testing.assert_array_equal(model.predict(task.X, task=task.name), task.y)


def test_as_many_neighbours_as_rows_give_the_mean_with_a_warning() -> None:
    tasks = made("numbers")
    model = fit(tasks, selection="given", k=21)
    assert model.warnings[0].startswith("1 of 3 tasks ('t0') has fewer rows than k")
    for task in list(tasks)[:2]:
        np.testing.assert_allclose(model.predict(task.X, task=task.name), task.y.mean())


def test_many_neighbours_are_selected_for_noise_and_few_without() -> None:
    rng = np.random.default_rng(2)
    X = rng.uniform(size=(2, 60, 1))
    smooth = TaskSet(tuple(Task.from_rows(f"t{t}", x, y=x[:, 0]) for t, x in enumerate(X)))
    noise = TaskSet(
        tuple(Task.from_rows(f"t{t}", x, y=rng.normal(size=60)) for t, x in enumerate(X))
    )
    assert fit(smooth).k == 1
    assert fit(noise).k >= 15


def test_a_new_task_has_its_own_rows_or_those_of_all_tasks() -> None:
    tasks = made("numbers")
    X, y = np.zeros((1, 4)), np.array([7.0])
    new = Task.from_rows("new", X, y=y)
    own = Neighbours().adapt(fit(tasks, selection="given", k=1), new)
    assert own.predict(np.ones((1, 4)), task="new") == [7.0]
    model = fit(tasks, form="pooled", selection="given", k=3)
    pooled = Neighbours().adapt(model, new)
    rows = np.random.default_rng(0).normal(size=(5, 4))
    np.testing.assert_array_equal(pooled.predict(rows, task="new"), model.predict(rows, task="t0"))
    with pytest.raises(InvalidData, match="'new' needs numeric targets"):
        Neighbours().adapt(model, Task.from_rows("new", np.zeros((2, 4)), y=["a", "b"]))


def test_rows_whose_distances_overflow_are_named() -> None:
    model = fit(made("numbers"), selection="given")
    rows = np.zeros((3, 4))
    for huge in (1e200, 1e308):
        rows[1] = huge
        with pytest.raises(InvalidData, match="row 1 has values so large"):
            model.predict(rows, task="t0")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("rows.0", lambda a: a[:, :2].copy()),
        ("rows.0", lambda a: np.full_like(a, np.nan)),
        ("rows.0", lambda a: a[:0]),
        ("targets.0", lambda a: a[:-1]),
        ("targets.0", lambda a: np.concatenate([a, a], axis=1)),
        ("mean", lambda a: a.astype(np.float32)),
    ],
)
def test_a_corrupt_artifact_is_rejected(tmp_path, name, change) -> None:
    save_model(fit(made("numbers"), selection="given"), tmp_path / "m")
    arrays, header = read_arrays(tmp_path / "m")
    arrays[name] = change(arrays[name])
    write_arrays(tmp_path / "m", arrays, header=header)
    with pytest.raises(InvalidArtifact):
        load_model(tmp_path / "m")


@pytest.mark.parametrize("change", [{"source": [0, 1, 9]}, {"source": [0]}, {"k": 0}])
def test_a_corrupt_header_is_rejected(tmp_path, change) -> None:
    save_model(fit(made("numbers"), selection="given"), tmp_path / "m")
    arrays, header = read_arrays(tmp_path / "m")
    header["model"] |= change
    write_arrays(tmp_path / "m", arrays, header=header)
    with pytest.raises(InvalidArtifact):
        load_model(tmp_path / "m")
