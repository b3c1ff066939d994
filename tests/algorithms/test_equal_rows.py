"""Which equal rows are held out together: the same samples, and not what chance made equal."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from algorithms.interface.equal_rows import _sparse_logarithms
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.units import tie_rows, units_of


def tasks_of(rows_by_task, *, is_sparse=False) -> TaskSet:
    made = [csr_array(rows) if is_sparse else rows for rows in rows_by_task]
    return TaskSet(tuple(Task.from_rows(f"t{t:02d}", rows) for t, rows in enumerate(made)))


def n_units(tasks: TaskSet) -> int:
    return len(units_of(tasks).sizes)


def coins(rng) -> TaskSet:
    """Return tasks of the same rows in another order, of which each lacks one."""
    X = rng.normal(size=(24, 4))
    return tasks_of([np.delete(X, t, axis=0)[rng.permutation(23)] for t in range(8)])


def counties(rng, *, is_balanced: bool) -> TaskSet:
    """Return tasks of six rows with a yes/no column and a constant of the task."""
    halves = [rng.permutation(6) % 2 if is_balanced else rng.integers(0, 2, 6) for _ in range(50)]
    return tasks_of([np.stack([half, np.full(6, rng.normal())], axis=1) for half in halves])


def test_rows_that_come_again_in_every_task_are_the_same_samples() -> None:
    tasks = coins(np.random.default_rng(0))
    assert n_units(tasks) == 24
    found = tie_rows(tasks, "auto")
    assert found.equal_rows.startswith("184 of 184 rows are equal to another: 184 are held out")


def test_a_yes_or_no_column_ties_no_rows() -> None:
    for is_balanced in (False, True):
        for seed in range(5):
            rng = np.random.default_rng(seed)
            tasks = counties(rng, is_balanced=is_balanced)
            assert n_units(tasks) == 300
            # without the constant, too, where equal rows are in every task
            alone = tasks_of([task.X[:, :1] for task in tasks])
            assert n_units(alone) == 300
    assert "taken for different samples" in tie_rows(tasks, "auto").equal_rows


@pytest.mark.parametrize("is_sparse", [False, True])
def test_copies_are_tied_within_a_task_and_across(is_sparse) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6))
    X[1] = X[0]  # in a task
    X[30] = X[5]  # in another one
    tasks = tasks_of(np.split(X, 4), is_sparse=is_sparse)
    unit = units_of(tasks).unit
    assert len(set(unit)) == 38
    assert unit[1] == unit[0]
    assert unit[30] == unit[5]
    assert "4 are held out together with it" in tie_rows(tasks, "auto").equal_rows


def test_the_same_design_in_rows_of_few_levels_is_tied_unless_the_user_says_that_it_is_not() -> (
    None
):
    items = np.array([[a, b, c] for a in range(2) for b in range(3) for c in range(4)], float)
    rng = np.random.default_rng(0)
    tasks = tasks_of([items[rng.permutation(24)[:15]] for _ in range(50)])
    assert n_units(tie_rows(tasks, "auto")) == 24
    assert n_units(tie_rows(tasks, "values")) == 24
    assert n_units(tie_rows(tasks, "none")) == 750


def test_answers_to_the_same_items_are_samples_of_their_own() -> None:
    rng = np.random.default_rng(0)
    items = [rng.permutation(24)[:15, np.newaxis].astype(float) for _ in range(50)]
    tasks = tasks_of(items)
    assert n_units(tie_rows(tasks, "auto")) == 24  # numbers
    answers = tie_rows(tasks, "auto", is_category=True)
    assert n_units(answers) == 750
    assert "the same level of the only column" in answers.equal_rows
    assert n_units(tie_rows(tasks, "values", is_category=True)) == 24
    # several targets of one table are of the same samples
    shared = TaskSet(tuple(Task.from_rows(name, items[0]) for name in "ab"))
    assert n_units(tie_rows(shared, "auto", is_category=True)) == 15


def test_tasks_that_share_an_array_are_the_same_samples_however_few() -> None:
    X = np.arange(4.0)[:, np.newaxis]
    assert n_units(TaskSet((Task.from_rows("a", X), Task.from_rows("b", X)))) == 4


def test_the_order_of_rows_and_tasks_changes_no_unit() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.integers(0, 3, size=(40, 3)).astype(float), rng.normal(size=(40, 3))])
    X[60] = X[50]
    tasks = tasks_of(np.split(X, 4))
    before = units_of(tasks)
    order = rng.permutation(20)
    turned = TaskSet(tuple(task.take(order) for task in tasks.tasks[::-1]))
    after = units_of(turned)
    one = np.concatenate([before.of(name)[order] for name in tasks.names])
    other = np.concatenate([after.of(name) for name in tasks.names])
    np.testing.assert_array_equal(one[:, np.newaxis] == one, other[:, np.newaxis] == other)


def test_parts_and_prepared_rows_keep_the_units_of_the_raw_rows() -> None:
    X = np.random.default_rng(0).normal(size=(20, 3))
    tasks = tie_rows(tasks_of([X[:10], X[10:]]), "auto")
    constant = TaskSet(tuple(Task.from_rows(t.name, t.X * 0, groups=t.groups) for t in tasks))
    assert n_units(constant) == 20


def test_groups_of_all_rows_decide_alone() -> None:
    task = Task.from_rows("a", np.ones((4, 5)), groups=[1, 1, 2, 3])
    tied = tie_rows(TaskSet((task,)), "values")
    assert tied.equal_rows is None
    assert n_units(tied) == 3


def test_frequencies_of_sparse_rows_are_those_of_their_dense_copy() -> None:
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, size=(30, 5)) * (rng.random((30, 5)) < 0.5)
    X[:, 0] = 1.0 + rng.integers(0, 2, 30)  # a column without zeros
    part = np.repeat([0, 1], [10, 20])
    found = _sparse_logarithms(csr_array(X.astype(float)), part, np.array([10, 20]))
    for i in range(30):
        own = X[part == part[i]]
        expected = np.log((own == X[i]).mean(axis=0)).sum()
        assert found[i] == pytest.approx(expected)
