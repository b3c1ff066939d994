"""Rows that belong together are on the same side of every split, in whatever task they are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from algorithms.evaluation import fold_split, folds_of, stratified_split
from algorithms.evaluation.scores.metrics import metrics_for
from algorithms.evaluation.selection.paths import fit_candidates
from algorithms.evaluation.selection.validation import score_per_split, score_splits
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.interface.units import tie_rows, units_of
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits, fold_splits
from algorithms.splits.tied_rows import describe_rows

TARGETS = ("none", "numbers", "classes")


def made(rng, *, n_tasks, n_values, target, has_groups) -> TaskSet:
    """Return tasks whose rows are drawn from a few, so that many are equal."""
    values = rng.normal(size=(n_values, 2))
    tasks = []
    for t in range(n_tasks):
        n = int(rng.integers(1, 15))
        y = {
            "none": None,
            "numbers": rng.normal(size=n),
            "classes": rng.integers(0, 3, size=n),
        }[target]
        groups = None
        if has_groups and rng.random() < 0.8:
            groups = rng.integers(0, 8, size=n)
            groups = groups if rng.random() < 0.5 else groups.astype(str)
        X = values[rng.integers(0, n_values, size=n)]
        tasks.append(Task.from_rows(f"t{t}", X, y=y, groups=groups))
    return TaskSet(tuple(tasks))


def are_tied(a: Task, i: int, b: Task, j: int) -> bool:
    """Return whether two rows must not be divided, from the rows alone."""
    if a.groups is not None and b.groups is not None:
        return str(a.groups[i]) == str(b.groups[j])
    return np.array_equal(a.X[i], b.X[j])


problems = st.builds(
    lambda seed, n_tasks, n_values, target, has_groups: made(
        np.random.default_rng(seed),
        n_tasks=n_tasks,
        n_values=n_values,
        target=target,
        has_groups=has_groups,
    ),
    seed=st.integers(0, 2**32 - 1),
    n_tasks=st.integers(1, 4),
    n_values=st.integers(1, 60),
    target=st.sampled_from(TARGETS),
    has_groups=st.booleans(),
)


@given(tasks=problems)
@settings(max_examples=200, deadline=None)
def test_units_are_the_connected_components_of_rows_that_belong_together(tasks) -> None:
    rows = [(task, i) for task in tasks.by_name() for i in range(task.n_samples)]
    graph = [[are_tied(*one, *other) for other in rows] for one in rows]
    expected = connected_components(np.array(graph), directed=False)[1]
    unit = units_of(tie_rows(tasks, "values")).unit
    np.testing.assert_array_equal(unit[:, np.newaxis] == unit, expected[:, np.newaxis] == expected)


@pytest.mark.slow
@given(tasks=problems, n_folds=st.integers(2, 5), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_no_pair_of_rows_that_belong_together_is_ever_divided(tasks, n_folds, seed) -> None:
    schemes = [
        Splits(n_folds=n_folds, repeats=2),
        Splits(scheme="holdout", n_splits=3, test_size=1 / n_folds),
    ]
    for splits in schemes:
        tied = tie_rows(tasks, "values")
        for held in splits.held_out(tied, range(splits.count()), seed=seed):
            sides = [(task, held[task.name]) for task in tasks]
            for a, of_a in sides:
                for b, of_b in sides:
                    for i in range(a.n_samples):
                        for j in range(b.n_samples):
                            assert of_a[i] == of_b[j] or not are_tied(a, i, b, j)


@given(tasks=problems, n_folds=st.integers(2, 5), seed=st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_every_class_is_in_training_and_each_row_is_held_out_once(tasks, n_folds, seed) -> None:
    folds = folds_of(tasks, n_folds=n_folds, seed=seed)
    units = units_of(tasks)
    for task in tasks:
        own = folds[task.name]
        classes = task.y if task.target == "classes" else np.zeros(task.n_samples)
        for fold in range(n_folds):
            assert set(classes[own != fold]) == set(classes)
    # a row that is never held out has a reason: its unit is needed, or was, by a class of some task
    for task in tasks:
        for unit in np.unique(units.of(task.name)[folds[task.name] < 0]):
            assert any(is_needed(other, units, unit, folds, n_folds) for other in tasks)


def is_needed(task, units, unit, folds, n_folds) -> bool:
    """Return whether a class of the task would have no training row, were a unit held out."""
    classes = task.y if task.target == "classes" else np.zeros(task.n_samples)
    mine = units.of(task.name) == unit
    return any(
        not np.any((classes == label) & ~mine & (folds[task.name] != fold))
        for label in np.unique(classes[mine])
        for fold in range(n_folds)
    )


@given(tasks=problems, seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_folds_do_not_depend_on_the_order_of_the_tasks(tasks, seed) -> None:
    here = folds_of(tasks, n_folds=3, seed=seed)
    there = folds_of(TaskSet(tasks.tasks[::-1]), n_folds=3, seed=seed)
    for name, folds in here.items():
        np.testing.assert_array_equal(folds, there[name])


def dealt_in_turn(y, n_folds, rng):
    """Return the folds of rows that are all different, and keep a row of each class in training."""
    folds = np.full(len(y), -1)
    order = rng.permutation(len(y))
    free = [i for i in order if (y == y[i]).sum() > 1]
    folds[free] = np.arange(len(free)) % n_folds
    for label in np.unique(y[free]):
        members = [i for i in free if y[i] == label]
        if len(set(folds[members])) == 1:
            folds[members[-1]] = -1
    return folds


@given(
    counts=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=3),
    n_folds=st.integers(2, 6),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_distinct_rows_are_assigned_to_folds_in_turn(counts, n_folds, seed) -> None:
    rng = np.random.default_rng(seed)
    tasks = []
    for t, of_classes in enumerate(counts):
        y = rng.permutation(np.repeat(np.arange(len(of_classes)), of_classes))
        tasks.append(Task.from_rows(f"t{t}", rng.normal(size=(len(y), 2)), y=y))
    folds = folds_of(TaskSet(tuple(tasks)), n_folds=n_folds, seed=seed)
    for task in tasks:
        own = np.random.default_rng([seed, task.n_samples, *task.name.encode()])
        np.testing.assert_array_equal(folds[task.name], dealt_in_turn(task.y, n_folds, own))


@given(
    n_groups=st.integers(5, 30), n_folds=st.integers(2, 5), seed=st.integers(0, 99),
    is_even=st.booleans(),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_groups_are_spread_evenly(n_groups, n_folds, seed, is_even) -> None:
    rng = np.random.default_rng(seed)
    sizes = np.full(n_groups, 6) if is_even else rng.integers(1, 12, size=n_groups)
    groups = np.repeat(np.arange(n_groups), sizes)
    X, y = rng.normal(size=(len(groups), 2)), rng.integers(0, 2, size=len(groups))
    task = Task.from_rows("t", X, y=y, groups=groups)
    folds = folds_of(TaskSet((task,)), n_folds=n_folds, seed=seed)["t"]
    held = np.bincount(folds[folds >= 0], minlength=n_folds)
    # folds differ by what one group, at the most, can make them differ, classes included
    assert held.max() - held.min() <= 2 * sizes.max()
    assert held.min() > 0


def test_repeats_differ_if_all_labels_differ() -> None:
    # every combination of labels is there once, so that none is to be spread
    bits = (np.arange(32)[:, np.newaxis] >> np.arange(5)) % 2
    X = np.random.default_rng(0).normal(size=(32, 3))
    tasks = TaskSet(tuple(Task.from_rows(f"t{t}", X, y=bits[:, t]) for t in range(5)))
    for splits in (Splits(n_folds=4, repeats=4), Splits(scheme="holdout", n_splits=4)):
        found = splits.held_out(tasks, range(0, splits.count(), splits.count() // 4), seed=0)
        assert len({held["t0"].tobytes() for held in found}) == 4


def test_large_groups_are_held_out_in_different_splits() -> None:
    # of 200 rows 60 are to be held out: that is one of the smaller groups
    groups = np.repeat([0, 1, 2], [50, 50, 100])
    task = Task.from_rows("t", np.random.default_rng(0).normal(size=(200, 2)), groups=groups)
    splits = Splits(scheme="holdout", n_splits=40, test_size=0.3)
    held = splits.held_out(TaskSet((task,)), range(40), seed=0)
    first = [set(groups[one["t"]]) for one in held]
    assert all(len(found) == 1 for found in first)
    assert set.union(*first) == {0, 1}


def test_one_large_group_leaves_no_fold_empty() -> None:
    # half of the rows are one group: it is a fold, and the others share the rest evenly
    groups = np.concatenate([np.zeros(100), 1 + np.arange(100)])
    task = Task.from_rows("t", np.random.default_rng(0).normal(size=(200, 2)), groups=groups)
    folds = folds_of(TaskSet((task,)), n_folds=5, seed=0)["t"]
    assert sorted(np.bincount(folds)) == [25, 25, 25, 25, 100]


def test_zeros_of_either_sign_are_the_same_row_and_the_last_bit_counts() -> None:
    X = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0], [np.nextafter(0.0, 1.0), 1.0]])
    units = units_of(tie_rows(TaskSet((Task.from_rows("t", X),)), "values")).of("t")
    assert units[0] == units[1]
    assert len(set(units)) == 3


@pytest.mark.parametrize(
    ("y", "groups", "message"),
    [
        (None, ["p1"] * 3, r"'a' \(all\) are of one group, 'p1'"),
        (["u", "v", "v"], ["p1", "p2", "p2"], r"\(class 'v'\) are of one group, 'p2'"),
    ],
)
def test_a_group_that_leaves_no_rows_to_hold_out_is_named(y, groups, message) -> None:
    task = Task.from_rows("a", np.arange(6.0).reshape(3, 2), y=y, groups=groups)
    with pytest.raises(InvalidData, match=message):
        fold_splits(TaskSet((task,)), n_folds=3, seed=0)


def test_groups_distinguish_rows_of_equal_values() -> None:
    # pupils with the same attributes: each has a number of its own
    task = Task.from_rows("a", np.ones((6, 2)), groups=np.arange(6))
    assert len(set(units_of(TaskSet((task,))).of("a"))) == 6
    split = fold_split(TaskSet((task,)), fold=0, n_folds=3, seed=0)
    assert (split.train["a"].n_samples, split.test["a"].n_samples) == (4, 2)


def test_equal_rows_that_leave_no_rows_to_hold_out_are_named() -> None:
    tasks = tie_rows(TaskSet((Task.from_rows("a", np.ones((4, 2))),)), "values")
    with pytest.raises(InvalidData, match="have the same values"):
        fold_splits(tasks, n_folds=3, seed=0)


def test_a_stratified_split_has_no_row_in_both_parts() -> None:
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(10, 4)), 2, axis=0)
    tasks = TaskSet((Task.from_rows("t", X, y=np.arange(20) % 2),))
    split = stratified_split(tasks, n_train=3, rng=rng)
    known = {tuple(row) for row in split.train["t"].X}
    assert known.isdisjoint(map(tuple, split.test["t"].X))
    assert split.train["t"].n_samples == 6


def coin_flips(kind: str, rng) -> TaskSet:
    """Return tasks of (nearly) the same rows with the same labels, which mean nothing."""
    n = 24
    X, y = rng.normal(size=(n, 4)), np.array(["no", "yes"])[rng.permutation(n) % 2]
    tasks = []
    for t in range(8):
        rows = rng.permutation(n) if kind == "permuted" else np.delete(np.arange(n), t)
        tasks.append(Task.from_rows(f"t{t}", X[rows], y=y[rows]))
    return TaskSet(tuple(tasks))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["permuted", "one row missing"])
@pytest.mark.parametrize("scheme", ["kfold", "holdout"])
@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("fmtl", {"kernel": "rbf", "C": 10.0, "gamma": 2.0}),
        ("kernel-mean", {"kernel": "rbf", "C": 10.0, "gamma": 2.0}),
    ],
)
def test_coin_flips_shared_by_tasks_cannot_be_predicted(name, params, scheme, kind) -> None:
    algorithm = ALGORITHMS[name]
    found = []
    for seed in range(4):
        tasks = coin_flips(kind, np.random.default_rng(seed))
        splits = Splits(scheme=scheme, n_folds=4, repeats=1, n_splits=4, test_size=0.25)
        (scores,) = score_splits(
            fit_candidates(algorithm, [params]),
            tasks,
            splits,
            range(4),
            metrics=metrics_for([algorithm], tasks.tasks),
            seed=seed,
            trace=Trace(),
        )
        found += score_per_split(scores, "error_rate", "rows")
    # 16 splits of 6 coins: four standard errors of a share of a half
    assert np.mean(found) > 0.5 - 4 * 0.5 / np.sqrt(16 * 6)


def test_a_row_missing_in_one_task_is_held_out_in_the_others() -> None:
    tasks = coin_flips("one row missing", np.random.default_rng(0))
    for fold in range(5):
        split = fold_split(tasks, fold=fold, n_folds=5, seed=0)
        known = {tuple(row) for task in split.train for row in task.X}
        for task in split.test:
            assert known.isdisjoint(map(tuple, task.X))


def test_a_given_split_that_divides_a_unit_causes_a_warning() -> None:
    X = np.random.default_rng(0).normal(size=(6, 9))
    tasks = TaskSet(
        (
            Task.from_rows("a", X[:4], groups=["p", "q", "q", "r"]),
            Task.from_rows("b", X[[5, 0]]),
        )
    )
    found = describe_rows(tasks, Splits(given=[{"a": [1, 2]}, {"b": [1]}, {"a": [1], "b": [0]}]))
    assert (found["n_rows"], found["n_units"], found["largest_unit"]) == (6, 4, 2)
    (warning,) = found["warnings"]
    assert warning.startswith(
        "2 of 5 test rows have the same values or the same group as training rows"
    )
    assert "split 1 tests on row 1 of task 'b' and trains on row 0 of task 'a'" in warning
    assert describe_rows(tasks, Splits(given=[{"a": [1, 2]}]))["warnings"] == []
    assert describe_rows(tasks, Splits())["warnings"] == []
