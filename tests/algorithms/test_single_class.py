"""Tasks of a single class, such as hospitals without an event, among tasks with two classes."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from algorithms.interface.classes import complete_classes
from algorithms.interface.errors import InvalidData
from algorithms.interface.lists import MAX_LISTED_NAMES
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS, load_model, save_model
from algorithms.wrappers.calibration.algorithm import calibrated
from benchmarks.harness.problems import rare_events

HOSPITALS = rare_events(np.random.default_rng(1))
#: Hospitals without an event.
WITHOUT = HOSPITALS.tasks.names[:6]
CLASSES = ("event", "none")
#: Fewer of them, for fits of several folds.
FEW = rare_events(np.random.default_rng(1), n_tasks=9, n_without=2)
#: The AUC of a pooled fit may differ by its regularisation.
MAX_AUC_DIFFERENCE = 0.02
#: Methods that predict the class of such a task for every row, because each task is learned alone.
ALONE = {
    "mtda", "lda-rt", "lda-tr", "lda-null", "aggregate", "pca-classifier", "tlvm", "gp-lvm",
    "ridge-task", "kernel-ridge-task", "shared-lasso", "logistic-regression-task", "mtfl",
    "boosted-trees-task", "nearest-neighbours-task", "constant-task",
}  # fmt: skip


def forms_of(algorithm):
    """Return the forms of an algorithm; None if it has no parameter of this name."""
    form = algorithm.Params.model_fields.get("form")
    forms = getattr(form.annotation, "__args__", ()) if form is not None else ()
    return ("task", "pooled") if {"task", "pooled"} <= set(forms) else (None,)


CASES = [
    pytest.param(algorithm, form, id=name if form is None else f"{name}-{form}")
    for name, algorithm in ALGORITHMS.items()
    for form in forms_of(algorithm)
]
over_cases = pytest.mark.parametrize(("algorithm", "form"), CASES)
over_classifiers = pytest.mark.parametrize(
    ("algorithm", "form"),
    [case for case in CASES if "predict" in case.values[0].methods_for("classes")],
)


def tasks_for(algorithm, tasks=HOSPITALS.tasks):
    """Return the tasks; with the rows of one of them for all if an algorithm needs this."""
    if not algorithm.needs.shared_rows:
        return tasks
    return TaskSet(tuple(replace(task, X=tasks.tasks[0].X) for task in tasks))


def fit(algorithm, form, tasks, **values):
    params = algorithm.parse(values if form is None else {"form": form, **values})
    algorithm.check(tasks.summaries(), params)
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


@over_cases
@pytest.mark.quick(5)
def test_every_method_trains_on_them(algorithm, form, tmp_path) -> None:
    model = fit(algorithm, form, tasks_for(algorithm))
    save_model(model, tmp_path / "model")
    model = load_model(tmp_path / "model")
    key = algorithm.name if form is None else f"{algorithm.name}-{form}"
    rows = {task.name: task.X for task in HOSPITALS.new}
    for task in WITHOUT:
        if "predict" not in model.available_methods():
            continue
        assert model.classes(task) == CLASSES
        predicted = set(model.predict(rows[task], task=task))
        assert predicted == {"none"} if key in ALONE else predicted <= set(CLASSES)
        for method in ("decision_function", "distances"):
            if method in model.available_methods():
                scores = getattr(model, method)(rows[task], task=task)
                assert np.isfinite(scores).all()
                is_constant = np.ptp(scores) < 1e-6 if scores.ndim == 1 else True
                assert is_constant or key not in ALONE


@over_classifiers
@pytest.mark.quick(5)
def test_calibrated_probabilities_are_neither_0_nor_1(algorithm, form) -> None:
    selects = "selection" in algorithm.Params.model_fields
    model = fit(
        calibrated(algorithm, {"n_folds": 2}),
        form,
        tasks_for(algorithm, FEW.tasks),
        **({"selection": "given"} if selects else {}),
    )
    rows = {task.name: task.X for task in FEW.new}
    for task in FEW.tasks.names[:2]:
        p = model.predict_proba(rows[task], task=task)
        assert p.shape == (len(rows[task]), 2)
        assert ((p > 0) & (p < 1)).all()
        np.testing.assert_allclose(p.sum(axis=1), 1.0)
        assert set(model.predict_set(rows[task], task=task).ravel()) <= {0.0, 1.0}


@pytest.mark.parametrize("name", ["logistic-regression", "ridge"])
def test_a_pooled_fit_ranks_as_well_as_that_of_scikit_learn(name) -> None:
    X, is_event = (
        np.concatenate([task.X for task in HOSPITALS.tasks]),
        np.concatenate([task.y == "event" for task in HOSPITALS.tasks]),
    )
    new = np.concatenate([task.X for task in HOSPITALS.new])
    truth = np.concatenate([task.y == "event" for task in HOSPITALS.new])
    model = fit(ALGORITHMS[name], "pooled", HOSPITALS.tasks)
    # the second of two classes has the scores
    scores = np.concatenate([-model.decision_function(t.X, task=t.name) for t in HOSPITALS.new])
    theirs = LogisticRegression().fit(X, is_event).decision_function(new)
    expected = roc_auc_score(truth, theirs)
    assert expected > 0.7
    assert abs(roc_auc_score(truth, scores) - expected) < MAX_AUC_DIFFERENCE


@pytest.mark.parametrize("name", ["mixed-model", "mean-regularised"])
def test_methods_that_share_rank_the_rows_of_a_task_without_events(name) -> None:
    model = fit(ALGORITHMS[name], None, HOSPITALS.tasks)
    new = [task for task in HOSPITALS.new if task.name in WITHOUT]
    scores = np.concatenate([-model.decision_function(t.X, task=t.name) for t in new])
    truth = np.concatenate([task.y == "event" for task in new])
    assert roc_auc_score(truth, scores) > 0.65


@pytest.mark.parametrize("name", ["logistic-regression", "mtfl", "boosted-trees"])
def test_log_odds_of_a_task_alone_are_those_of_half_an_event(name) -> None:
    form = "task" if "task" in forms_of(ALGORITHMS[name]) else None
    model = fit(ALGORITHMS[name], form, FEW.tasks, selection="given")
    scores = model.decision_function(FEW.new.tasks[0].X, task=WITHOUT[0])
    np.testing.assert_allclose(scores, np.log(12 / 0.5), rtol=2e-3)


def test_the_other_tasks_are_not_changed_by_a_task_without_events() -> None:
    algorithm = ALGORITHMS["logistic-regression"]
    tasks = HOSPITALS.tasks
    values = {"selection": "given", "standardise": "none"}
    some = TaskSet(tasks.tasks[:8])
    fewer = TaskSet(tasks.tasks[6:8])
    one, other = (fit(algorithm, "task", part, **values) for part in (some, fewer))
    X = HOSPITALS.new.tasks[6].X
    name = tasks.names[6]
    same = {"gamma": one.fit_info["ridge"] / other.fit_info["ridge"]}
    other = fit(algorithm, "task", fewer, **values, **same)
    np.testing.assert_allclose(
        one.decision_function(X, task=name), other.decision_function(X, task=name), rtol=1e-6
    )


def test_classes_of_a_task_are_those_of_the_tasks_that_have_its_class() -> None:
    given = [("a",), ("a", "b"), ("a", "c"), ("d",), ("e", "f"), (1,), (1, 2), ()]
    every = ("a", "b", "c")
    assert complete_classes(given) == [
        every, ("a", "b"), ("a", "c"), ("d",), ("e", "f"), (1, 2), (1, 2), (),
    ]  # fmt: skip
    assert complete_classes([*given, every])[:3] == [every, every, every]


def test_pairs_of_many_classes_are_problems_of_their_own() -> None:
    pairs = [(i, j) for i in range(10) for j in range(i)]
    assert complete_classes([*pairs, (3,)]) == [*pairs, tuple(range(10))]


@pytest.mark.parametrize("concentration", [np.inf, 6.0])
def test_few_rows_of_one_problem_know_its_classes(concentration) -> None:
    """Rows of five tasks are drawn with the shares .4, .3, .2, .1, or with shares near them."""
    rng = np.random.default_rng(0)
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    n_known, n_sets = 0, 200
    for _ in range(n_sets):
        own = rng.dirichlet(concentration * shares, 5) if concentration < np.inf else [shares] * 5
        drawn = [rng.choice(4, 5, p=p) for p in own]
        sets = [tuple(np.unique(labels).tolist()) for labels in drawn]
        every = set(np.concatenate(drawn).tolist())
        found = complete_classes(sets, [5] * 5)
        n_known += all(set(labels) == every for labels in found)
    assert n_known >= 0.9 * n_sets


def test_pairs_of_few_rows_stay_problems_of_their_own() -> None:
    rng = np.random.default_rng(0)
    for n in (5, 8, 15):
        drawn = [rng.choice([i, j], n) for i in range(10) for j in range(i)]
        sets = [tuple(np.unique(labels).tolist()) for labels in drawn]
        found = complete_classes(sets, [n] * len(sets))
        assert all(own == after for own, after in zip(sets, found, strict=True) if len(own) == 2)


@pytest.mark.parametrize("n_rows", [4, 6, 8])
def test_healthy_or_flu_and_healthy_or_cold_are_two_problems_at_few_rows(n_rows) -> None:
    sets = [("flu", "healthy"), ("cold", "healthy")] * 5
    assert complete_classes(sets, [n_rows] * 10) == sets
    # each lacks one, but all pairs are together somewhere
    shuffled = [("flu", "healthy"), ("cold", "healthy"), ("cold", "flu")] * 4
    every = ("cold", "flu", "healthy")
    assert set(complete_classes(shuffled, [4] * 12)) == {every}


def test_classes_that_few_tasks_keep_apart_are_of_one_problem() -> None:
    every = ("cold", "flu", "healthy")
    for n_tasks in (1, 2, 4):
        sets = [("flu", "healthy"), ("cold", "healthy")] * n_tasks
        assert set(complete_classes(sets, [4] * len(sets))) == {every}
    # nor in two rows, that have no third class
    assert set(complete_classes([("flu", "healthy"), ("cold", "healthy")] * 9, [2] * 18)) == {every}


def test_classes_are_those_of_connected_components() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        sizes = rng.integers(1, 4, size=12)
        given = [tuple(sorted(rng.choice(15, size=n, replace=False).tolist())) for n in sizes]
        adjacent = np.zeros((15, 15), dtype=bool)
        for own in given:
            adjacent[np.ix_(own, own)] = True
        reach = np.linalg.matrix_power(adjacent.astype(np.int64), 15) > 0
        every = [tuple(np.flatnonzero(reach[own[0]]).tolist()) for own in given]
        shares = [len(own) / len(all_of) for own, all_of in zip(given, every, strict=True)]
        mean = {
            e: np.mean([s for s, o in zip(shares, every, strict=True) if o == e]) for e in every
        }
        least = {e: 0.5 if e in given else 0.7 for e in every}
        assert complete_classes(given) == [
            all_of if len(own) == 1 or mean[all_of] >= least[all_of] else own
            for own, all_of in zip(given, every, strict=True)
        ]


def test_rows_of_a_part_keep_the_classes_of_the_task() -> None:
    X = np.random.default_rng(0).standard_normal((6, 2))
    (task,) = TaskSet((Task.from_rows("sole", X, y=["a", "b"] * 3),))
    part = TaskSet((task.take(np.array([0, 2, 4])),))
    assert part.tasks[0].class_labels().tolist() == ["a", "b"]
    model = fit(ALGORITHMS["logistic-regression"], "task", part, selection="given")
    assert model.classes("sole") == ("a", "b")
    assert set(model.predict(X, task="sole")) == {"a"}


def test_a_new_task_of_a_single_class_is_added_to_a_model() -> None:
    known = TaskSet(FEW.tasks.tasks[2:])
    new = Task.from_rows("new", FEW.tasks.tasks[0].X, y=["none"] * 12)
    for name in ("logistic-regression", "mtfl", "fmtl", "lda-rt", "boosted-trees"):
        algorithm = ALGORITHMS[name]
        model = algorithm.adapt(fit(algorithm, None, known, selection="given"), new)
        assert model.classes("new") == CLASSES
        assert set(model.predict(new.X, task="new")) <= set(CLASSES)


@pytest.mark.slow
def test_three_classes_are_completed() -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(30) % 3
    X = rng.standard_normal((30, 4)) + np.eye(3, 4)[labels]
    tasks = TaskSet(
        (
            Task.from_rows("all", X, y=np.array(["a", "b", "c"])[labels]),
            Task.from_rows("one", X[:9], y=["b"] * 9),
        )
    )
    for name in ("logistic-regression", "mtfl", "lda-tr", "boosted-trees", "kernel-tasks"):
        model = fit(calibrated(ALGORITHMS[name], {"n_folds": 2}), None, tasks, selection="given")
        assert model.classes("one") == ("a", "b", "c")
        assert set(model.predict(X, task="one")) == {"b"} or name == "kernel-tasks"
        p = model.predict_proba(X, task="one")
        assert ((p > 0) & (p < 1)).all()


def grades(rng) -> tuple[TaskSet, np.ndarray, np.ndarray]:
    """Return tasks with three classes, of which one lacks a class, and new rows with classes."""
    labels, w = np.array(["high", "low", "middle"]), np.array([2.0, 1.0, 0.0, 0.0])
    tasks = []
    for t in range(6):
        X = rng.standard_normal((20, 4))
        y = labels[[1, 2, 0]][np.digitize(X @ w, [-1.0, 1.0])]
        if t == 1:
            y = np.where(y == "high", "middle", y)
        tasks.append(Task.from_rows(f"t{t}", X, y=y))
    X = rng.standard_normal((300, 4))
    return TaskSet(tuple(tasks)), X, labels[[1, 2, 0]][np.digitize(X @ w, [-1.0, 1.0])]


@over_classifiers
@pytest.mark.quick(3)
def test_every_method_trains_where_a_task_lacks_one_of_three_classes(algorithm, form) -> None:
    tasks, X, _ = grades(np.random.default_rng(1))
    if algorithm.name in {"mean-regularised", "mixed-model"}:
        pytest.skip("two classes only")
    model = fit(algorithm, form, tasks_for(algorithm, tasks))
    assert model.classes("t1") == ("high", "low", "middle")
    assert set(model.predict(X, task="t1")) <= {"high", "low", "middle"}
    for method in ("decision_function", "predict_proba"):
        if method in model.available_methods():
            found = getattr(model, method)(X, task="t1")
            assert found.shape == (300, 3)
            assert np.isfinite(found).all()


@pytest.mark.parametrize("name", ["nearest-neighbours", "logistic-regression", "gp"])
def test_methods_that_share_know_a_class_that_a_task_lacks(name) -> None:
    tasks, X, y = grades(np.random.default_rng(1))
    form = None if name == "gp" else "pooled"
    model = fit(ALGORITHMS[name], form, tasks)
    scores = model.decision_function(X, task="t1")[:, 0]
    assert roc_auc_score(y == "high", scores) > 0.75


def test_tasks_whose_classes_no_other_task_has_are_all_named() -> None:
    X = np.random.default_rng(0).standard_normal((4, 2))
    single = [Task.from_rows(f"only-{i}", X, y=["x"] * 4) for i in range(MAX_LISTED_NAMES + 3)]
    tasks = TaskSet((*single, Task.from_rows("both", X, y=["a", "b"] * 2)))
    with pytest.raises(InvalidData) as caught:
        fit(ALGORITHMS["logistic-regression"], "task", tasks)
    message = caught.value.message
    assert f"{MAX_LISTED_NAMES + 3} of {MAX_LISTED_NAMES + 4} tasks" in message
    assert f"'only-{MAX_LISTED_NAMES - 1}' and 3 more" in message
    assert "leave these tasks out" in message
    assert "constant" in message
    assert caught.value.task == "only-0"
