import numpy as np
import pytest

from algorithms.interface.errors import InvalidData, UnknownTask
from algorithms.interface.needs import Needs
from algorithms.interface.tasks import Task, TaskSet, check_magnitudes

ROWS = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (np.ones(3), "shape"),
        (np.ones((0, 2)), "no rows"),
        (np.ones((2, 0)), "no columns"),
        (np.array([["a", "b"]]), "needs numbers"),
        (np.array([[1j]]), "needs numbers"),
    ],
)
def test_malformed_rows_are_rejected_with_the_task(values, message) -> None:
    with pytest.raises(InvalidData, match=message) as caught:
        Task.from_rows("a", values)
    assert caught.value.task == "a"


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_located(bad) -> None:
    rows = ROWS.copy()
    rows[2, 1] = bad
    with pytest.raises(InvalidData, match="task 'a', row 2, column 'height'") as caught:
        Task.from_rows("a", rows, feature_names=["age", "height"])
    assert (caught.value.row, caught.value.column) == (2, "height")


def test_targets_must_fit_the_rows() -> None:
    with pytest.raises(InvalidData, match="3 rows but targets of shape"):
        Task.from_rows("a", ROWS, y=[1.0, 2.0])
    with pytest.raises(InvalidData, match="row 1: the target is nan"):
        Task.from_rows("a", ROWS, y=[1.0, np.nan, 2.0])
    with pytest.raises(InvalidData, match="2 columns but 1 feature names"):
        Task.from_rows("a", ROWS, feature_names=["age"])


def test_the_kind_of_target_is_recognised() -> None:
    assert Task.from_rows("a", ROWS).target == "none"
    assert Task.from_rows("a", ROWS, y=[0.5, 1.0, 2.0]).target == "numbers"
    classes = Task.from_rows("a", ROWS, y=["x", "y", "x"])
    assert (classes.target, classes.summary().n_classes) == ("classes", 2)


def test_integers_become_floats_and_rows_contiguous() -> None:
    task = Task.from_rows("a", np.asfortranarray(ROWS.astype(int)))
    assert task.X.dtype == np.float64
    assert task.X.flags.c_contiguous


def test_covariances_are_checked() -> None:
    assert Task.from_covariances("a", np.eye(3)).X.shape == (1, 3, 3)
    assert Task.from_covariances("a", np.zeros((2, 3, 3))).n_samples == 2
    with pytest.raises(InvalidData, match="square"):
        Task.from_covariances("a", np.ones((2, 3)))
    with pytest.raises(InvalidData, match="matrix 1 is not symmetric"):
        Task.from_covariances("a", np.stack([np.eye(2), [[1.0, 0.5], [0.0, 1.0]]]))
    with pytest.raises(InvalidData, match="negative eigenvalue"):
        Task.from_covariances("a", np.diag([1.0, -1.0]))
    with pytest.raises(InvalidData, match="finite"):
        Task.from_covariances("a", np.diag([1.0, np.nan]))


def test_rounding_in_single_precision_is_accepted() -> None:
    X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    C = (X.T @ X).astype(np.float64)
    C[0, 1] += 1e-7
    task = Task.from_covariances("a", C)
    np.testing.assert_array_equal(task.X[0], task.X[0].T)


def test_tasks_need_unique_names_and_at_least_one() -> None:
    with pytest.raises(InvalidData, match="at least one task"):
        TaskSet(())
    with pytest.raises(InvalidData, match="two tasks are named 'a'"):
        TaskSet((Task.from_rows("a", ROWS), Task.from_rows("a", ROWS)))


def test_tasks_are_found_by_name() -> None:
    tasks = TaskSet(tuple(Task.from_rows(f"t{i}", ROWS) for i in range(30)))
    assert tasks["t3"].name == "t3"
    assert len(tasks) == 30
    with pytest.raises(UnknownTask, match=r"'t0', .* and 10 more"):
        tasks["other"]


def test_take_keeps_rows_and_targets_together() -> None:
    task = Task.from_rows("a", ROWS, y=["x", "y", "z"]).take(np.array([2, 0]))
    np.testing.assert_array_equal(task.X, ROWS[[2, 0]])
    assert list(task.y) == ["z", "x"]


def test_unmet_needs_are_reported_in_sentences() -> None:
    numbers = Task.from_rows("a", ROWS, y=[0.5, 1.0, 2.0]).summary()
    stack = Task.from_covariances("c", np.eye(2)).summary()
    with pytest.raises(InvalidData, match="'a' has numeric targets; lda needs class labels"):
        Needs(same_features=True, target="classes").check([numbers], algorithm="lda")
    with pytest.raises(InvalidData, match="'c' has covariance matrices; lda needs rows"):
        Needs(same_features=True).check([stack], algorithm="lda")
    with pytest.raises(InvalidData, match="at least 2 tasks, got 1"):
        Needs(same_features=True, min_tasks=2).check([numbers], algorithm="mtfl")
    Needs(same_features=True, covariances=True, min_samples=2).check([stack], algorithm="pca")


def test_targets_are_all_numbers_or_all_classes() -> None:
    needs = Needs(same_features=True, target="any")
    numbers = Task.from_rows("a", ROWS, y=[0.5, 1.0, 2.0]).summary()
    classes = Task.from_rows("b", ROWS, y=["u", "v", "u"]).summary()
    needs.check([numbers], algorithm="it")
    needs.check([classes], algorithm="it")
    with pytest.raises(InvalidData, match=r"'a' has numeric targets, task 'b' class labels"):
        needs.check([numbers, classes], algorithm="it")
    with pytest.raises(InvalidData, match="'c' has no targets; it needs numeric targets or class"):
        needs.check([Task.from_rows("c", ROWS).summary()], algorithm="it")


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_values_whose_squares_overflow_are_rejected(size) -> None:
    X = np.array([[1.0, 0.0], [2.0, size]])
    with pytest.raises(InvalidData, match=r"task 'a', column 1 has values up to 1e[+-]200"):
        check_magnitudes([Task.from_rows("a", X)])
    with pytest.raises(InvalidData, match=r"task 'a' has targets up to 1e[+-]200"):
        check_magnitudes([Task.from_rows("a", np.ones((2, 1)), y=[0.0, size])])
    check_magnitudes([Task.from_rows("a", np.zeros((2, 1)), y=[0.0, 0.0])])


def test_tasks_with_other_column_names_are_rejected_where_columns_are_shared() -> None:
    def summaries(*names):
        return [
            Task.from_rows(f"t{i}", ROWS, feature_names=own).summary()
            for i, own in enumerate(names)
        ]

    needs = Needs(same_features=True)
    needs.check(summaries(("p", "q"), ("p", "q")), algorithm="pca")
    needs.check(summaries(("p", "q"), None), algorithm="pca")
    with pytest.raises(InvalidData, match="'t0' has a column 'q', but task 't1'") as caught:
        needs.check(summaries(("p", "q"), ("p", "r")), algorithm="pca")
    assert (caught.value.task, caught.value.column) == ("t1", "q")
    with pytest.raises(InvalidData, match="'t1' has the columns of task 't0' in another order"):
        needs.check(summaries(("p", "q"), ("q", "p")), algorithm="pca")
    Needs(same_features=False).check(summaries(("p", "q"), ("p", "r")), algorithm="mtda")


def test_selected_columns_keep_their_names_and_their_place_in_a_covariance() -> None:
    task = Task.from_rows("a", ROWS, y=[1.0, 2.0, 3.0], feature_names=["age", "iq"])
    turned = task.select_columns([1, 0])
    assert turned.feature_names == ("iq", "age")
    assert turned.X.tolist() == ROWS[:, ::-1].tolist()
    assert turned.X.flags.c_contiguous
    assert turned.y is task.y
    C = np.array([[4.0, 1.0, 2.0], [1.0, 5.0, 3.0], [2.0, 3.0, 6.0]])
    order = [2, 0, 1]
    found = Task.from_covariances("a", [C, 2 * C]).select_columns(order)
    assert found.X.tolist() == [
        C[np.ix_(order, order)].tolist(),
        (2 * C[np.ix_(order, order)]).tolist(),
    ]
