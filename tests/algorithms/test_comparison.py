"""Whether sharing helps: the numbers by hand, the sentences on data made to be known."""

import numpy as np
import pytest
from scipy.stats import kstest, t

from algorithms.evaluation.choices import freed
from algorithms.evaluation.comparison import Compare, compared_methods, gain
from algorithms.evaluation.metrics import METRICS
from algorithms.evaluation.splits import Splits
from algorithms.evaluation.verdict import conclude
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.problems import identical_gaussians
from algorithms.registry import ALGORITHMS
from service.jobs import plans

RMSE = METRICS["rmse"]


def numbers(n, *, name="t", seed=0) -> Task:
    rng = np.random.default_rng(seed)
    return Task.from_rows(name, rng.normal(size=(n, 3)), y=rng.normal(size=n))


def study(algorithm, tasks, *, seed=0, **values):
    """Give the report of a comparison, carried out as the parts of a job are."""
    algorithm = ALGORITHMS[algorithm]
    asked = values.pop("compare", Compare())
    wanted = plans.Asked(compare=asked)
    laid = plans.lay_out(algorithm, values, tasks.summaries(), wanted, seed=seed)
    parts = [
        plans.carry_out(part.plan, ALGORITHMS[part.algorithm], tasks, seed=seed, trace=Trace())
        for part in laid.parts
    ]
    return plans.draw_on(laid.plan, parts, tasks)[1]["comparison"]


def test_the_gain_is_the_corrected_resampled_t_test() -> None:
    ours, theirs = [1.0, 1.2, 0.9, 1.1], [1.4, 1.3, 1.5, 1.2]
    found = gain(ours, theirs, RMSE, ratio=0.25)
    d = np.subtract(theirs, ours)
    error = np.sqrt(d.var(ddof=1) * (1 / 4 + 0.25))
    assert found.mean == pytest.approx(d.mean())
    assert found.p_value == pytest.approx(2 * t.sf(d.mean() / error, 3))
    assert (found.low, found.high) == pytest.approx(t.interval(0.95, 3, d.mean(), error))
    # the other way up, the other way round
    other = gain(ours, theirs, METRICS["r2"], ratio=0.25)
    assert other.mean == pytest.approx(-found.mean)


def test_splits_without_a_value_are_left_out_and_one_is_too_few() -> None:
    assert gain([1.0, None, 2.0], [1.5, 9.0, None], RMSE, ratio=1.0) is None
    same = gain([1.0, 1.0], [1.0, 1.0], RMSE, ratio=1.0)
    assert (same.mean, same.p_value) == (0.0, 1.0)


def test_what_is_given_is_not_chosen_and_what_is_not_given_is() -> None:
    mtda = ALGORITHMS["mtda"]
    assert freed(mtda, {}) == {"selection": "cv"}
    assert freed(mtda, {"d": 3}) == {"d": 3, "d_grid": [3], "selection": "cv"}
    assert freed(mtda, {"selection": "given", "d": 3}) == {"selection": "given", "d": 3}
    assert freed(ALGORITHMS["pca"], {"k": 3}) == {"k": 3}


@pytest.mark.parametrize("name", [n for n, a in ALGORITHMS.items() if a.baselines])
def test_baselines_are_known_and_take_what_they_share(name) -> None:
    for method in compared_methods(ALGORITHMS[name], {}):
        ALGORITHMS[method.algorithm].parse(method.values)
    assert any(baseline.role == "single_task" for baseline in ALGORITHMS[name].baselines)


def test_a_metric_compares_with_what_it_says() -> None:
    class Fixed:
        @staticmethod
        def predict(X, **_):
            return X[:, 0]

        @staticmethod
        def decision_function(X, **_):
            return X[:, 0]

        @staticmethod
        def classes(_):
            return ("no", "yes")

    task = Task.from_rows("t", [[1.0], [2.0], [4.0]], y=[1.0, 3.0, 3.0])
    assert METRICS["rmse"].of(Fixed(), task) == pytest.approx(np.sqrt(2 / 3))
    assert METRICS["r2"].of(Fixed(), task) == pytest.approx(1 - 2 / (8 / 3))
    assert METRICS["explained_variance"].of(Fixed(), task) == pytest.approx(1 - (2 / 3) / (8 / 9))
    labels = Task.from_rows("t", [[1.0], [2.0], [4.0], [2.0]], y=["no", "yes", "yes", "no"])
    # of four pairs three are in order and one is tied
    auc = METRICS["auc"].of
    assert auc(Fixed(), labels) == pytest.approx((3 + 0.5) / 4)
    alone = Task.from_rows("t", [[1.0], [2.0]], y=["no", "no"])
    assert np.isnan(auc(Fixed(), alone))


@pytest.mark.parametrize(
    "splits",
    [
        Splits(scheme="kfold", n_folds=3, repeats=2),
        Splits(scheme="holdout", n_splits=6, test_size=0.4),
        Splits(scheme="given", given=[{"t": [0, 2]}, {"u": [1]}]),
    ],
)
def test_every_split_is_a_partition_and_depends_on_the_seed_alone(splits) -> None:
    tasks = TaskSet((numbers(9), numbers(5, name="u", seed=1)))
    for index in range(splits.count()):
        split = splits.split(tasks, index, seed=3)
        again = splits.split(tasks, index, seed=3)
        held = {task.name: task for task in split.test}
        for task in tasks:
            train = split.train[task.name]
            rows = [train.X, held[task.name].X] if task.name in held else [train.X]
            both = np.concatenate(rows)
            assert len(train.X) >= 1
            assert sorted(map(tuple, both)) == sorted(map(tuple, task.X))
            np.testing.assert_array_equal(train.X, again.train[task.name].X)
    assert splits.ratio(tasks) > 0


def test_repeats_differ_and_every_row_is_held_out_once_in_each() -> None:
    tasks = TaskSet((numbers(9),))
    splits = Splits(n_folds=3, repeats=2)
    held = [splits.split(tasks, index, seed=0).test["t"].X for index in range(6)]
    for start in (0, 3):
        assert len({tuple(row) for part in held[start : start + 3] for row in part}) == 9
    assert not np.array_equal(held[0], held[3])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([{"t": [9]}], "row 9 of task 't', which has 9 rows"),
        ([{"x": [0]}], "names the task 'x'"),
        ([{"t": list(range(9))}], "every row of task 't'"),
    ],
)
def test_rows_that_cannot_be_held_out_are_told(given, told) -> None:
    tasks = TaskSet((numbers(9),))
    with pytest.raises(InvalidData, match=told):
        Splits(scheme="given", given=given).split(tasks, 0, seed=0)


def subspaces(*, related: bool, n_tasks=8, n_samples=12, d=10, k=2, seed=0) -> TaskSet:
    """Give rows around k-dimensional subspaces, one for all tasks or another for each."""
    rng = np.random.default_rng(seed)
    common = np.linalg.qr(rng.normal(size=(d, k)))[0]
    made = []
    for index in range(n_tasks):
        basis = common if related else np.linalg.qr(rng.normal(size=(d, k)))[0]
        X = 2 * rng.normal(size=(n_samples, k)) @ basis.T + rng.normal(size=(n_samples, d))
        made.append(Task.from_rows(f"task {index}", X))
    return TaskSet(tuple(made))


def test_sharing_that_helps_is_told() -> None:
    found = study("rmt-pca", subspaces(related=True), k=2)
    assert found["verdict"] == "helps"
    assert found["sentences"][0].startswith("Sharing helps: rmt-pca beats")
    apart = next(entry for entry in found["overall"] if entry["role"] == "single_task")
    assert apart["low"] > 0


def test_sharing_that_hurts_is_told_and_the_winner_comes_first() -> None:
    tasks = subspaces(related=False, n_samples=40)
    found = study("rmt-pca", tasks, k=2, lam=1e6, selection="given")
    assert found["verdict"] == "hurts"
    assert found["sentences"][0].startswith("Use pca (each task learned alone)")
    assert {entry["verdict"] for entry in found["tasks"].values()} <= {"hurts", "unclear"}
    assert "worse" in found["sentences"][1]


def test_unrelated_tasks_cannot_be_told() -> None:
    found = study("rmt-pca", subspaces(related=False, n_samples=20), k=2)
    assert found["verdict"] == "unclear"
    assert "cannot be told" in found["sentences"][0]


def test_folds_that_hold_no_row_of_any_task_are_left_out() -> None:
    found = study("rmt-pca", subspaces(related=True, n_samples=3), k=1, selection="given")
    assert found["n_splits"] == 10  # each repeat has two folds of no row
    assert all(entry["gain"] is not None for entry in found["overall"])


def test_where_nothing_can_be_held_out_it_is_told() -> None:
    alone = TaskSet(tuple(Task.from_rows(n, [[1.0, 2.0]], y=[1.0]) for n in "ab"))
    with pytest.raises(InvalidData, match="no split holds out a row"):
        study("mtfl", alone, selection="given")


def test_a_method_without_baselines_cannot_be_compared() -> None:
    with pytest.raises(InvalidParams, match="pca cannot be compared"):
        study("pca", identical_gaussians(np.random.default_rng(0), n_tasks=2).tasks)


def test_labels_that_mean_nothing_give_no_gain_and_even_p_values() -> None:
    p_values, verdicts = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        tasks = TaskSet(
            tuple(
                Task.from_rows(f"t{i}", rng.normal(size=(20, 4)), y=rng.permutation(20) % 2)
                for i in range(3)
            )
        )
        asked = Compare(splits=Splits(n_folds=4, repeats=1))
        found = study("mtda", tasks, seed=seed, compare=asked, d=1, gamma=0.1)
        p_values += [
            entry["p_value"] for entry in found["overall"] if entry["baseline"] == "lda-rt"
        ]
        verdicts.append(found["verdict"])
    assert verdicts.count("helps") <= 3  # 5 % of 20, and its spread
    assert np.mean(np.array(p_values) < 0.05) <= 0.2
    assert kstest(p_values, "uniform", alternative="greater").pvalue > 0.01


def test_a_tie_is_no_proof() -> None:
    none = {"gain": 0.0, "low": 0.0, "high": 0.0, "p_value": 1.0}
    comparison = {
        "metric": "rmse",
        "title": "RMSE",
        "average": "tasks",
        "methods": [
            {"algorithm": "a", "role": "candidate", "value": 1.0},
            {"algorithm": "b", "role": "single_task", "value": 1.0},
        ],
        "overall": [{"baseline": "b", "role": "single_task", **none}],
        "by_task": {"t": [{"baseline": "b", "role": "single_task", **none}]},
    }
    found = conclude(comparison)
    assert found["verdict"] == "unclear"
    assert found["tasks"]["t"]["verdict"] == "unclear"
