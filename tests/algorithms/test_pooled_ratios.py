"""R², explained variance and AUC of a task, pooled over the held-out rows of all splits."""

import numpy as np
import pytest
from sklearn.metrics import r2_score

from algorithms.evaluation.scores.metrics import METRICS, metrics_for
from algorithms.evaluation.scores.ratios import MIN_RATIO_ROWS, R2, add_sums
from algorithms.evaluation.selection.paths import fit_candidates
from algorithms.evaluation.selection.validation import (
    concatenate_scores,
    mean_known,
    mean_score,
    score_splits,
    without_small_ratios,
)
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits


def hospitals(*, sizes=(12,) * 20, seed=1) -> TaskSet:
    rng = np.random.default_rng(seed)
    slopes = rng.normal(size=5)
    tasks = []
    for i, n in enumerate(sizes):
        X = rng.normal(size=(n, 5))
        y = X @ (slopes + 0.2 * rng.normal(size=5)) + 3 * rng.normal() + rng.normal(size=n)
        tasks.append(Task.from_rows(f"hospital {i}", X, y=y))
    return TaskSet(tuple(tasks))


def scored(algorithm, tasks, splits, indices=None, *, params=None):
    return score_splits(
        fit_candidates(ALGORITHMS[algorithm], [params or {}]),
        tasks,
        splits,
        range(splits.count()) if indices is None else indices,
        metrics=metrics_for([ALGORITHMS[algorithm]], tasks.tasks),
        seed=0,
        trace=Trace(),
    )[0]


def test_r2_of_tasks_of_a_dozen_rows_is_near_that_over_all_rows_of_their_task() -> None:
    """Means over cells of two or three rows were below -10 here."""
    scores = scored("mixed-model", hospitals(), Splits())
    assert 0.3 < mean_score(scores, "r2", "tasks") < mean_score(scores, "r2", "rows")
    assert mean_score(scores, "explained_variance", "tasks") > 0.3


def test_r2_of_constants_is_a_little_below_0() -> None:
    scores = scored("constant", hospitals(), Splits())
    # the mean of the training rows is off by the error of a mean of ten rows
    assert -0.5 < mean_score(scores, "r2", "tasks") < 0


def test_the_values_of_the_splits_have_the_pooled_ratio_as_their_mean() -> None:
    rng = np.random.default_rng(0)
    truth, prediction = rng.normal(size=(2, 23)) + 1e6
    parts = np.split(np.arange(23), [2, 3, 10])
    sums = np.array(
        [R2.sums(len(part), truth[part], prediction[part], None) for part in parts]
        + [np.full(6, np.nan)]  # a split that holds out no row
    )
    values = R2.per_split(sums)
    assert np.isnan(values[-1])
    assert values[:-1].mean() == pytest.approx(r2_score(truth, prediction))
    np.testing.assert_allclose(add_sums(sums), R2.sums(23, truth, prediction, None), rtol=1e-9)


def test_weights_count_as_repeated_rows() -> None:
    rng = np.random.default_rng(0)
    truth, prediction, weights = rng.normal(size=12), rng.normal(size=12), rng.integers(1, 4, 12)
    once = R2.sums(12, truth, prediction, weights.astype(float))
    repeated = R2.sums(12, np.repeat(truth, weights), np.repeat(prediction, weights), None)
    np.testing.assert_allclose(once, repeated)


def test_auc_counts_the_pairs_of_rows_of_a_task_that_were_held_out_together() -> None:
    rng = np.random.default_rng(3)
    tasks = []
    for name in "ab":
        X = rng.normal(size=(14, 2))
        y = np.where(X[:, 0] + rng.normal(size=14) > 0.5, "ill", "ok")
        tasks.append(Task.from_rows(name, X, y=y))
    tasks, splits = TaskSet(tuple(tasks)), Splits(repeats=1)
    scores = scored("ridge", tasks, splits)
    right, n_pairs = dict.fromkeys("ab", 0.0), dict.fromkeys("ab", 0)
    ridge = ALGORITHMS["ridge"]
    for index in range(splits.count()):
        split = splits.split(tasks, index, seed=0)
        rng = np.random.default_rng([0, index])
        model = ridge.fit(split.train, ridge.parse({}), trace=Trace(), rng=rng)
        for task in split.test:
            score = model.decision_function(task.X, task=task.name)
            ill, ok = score[task.y == "ill"], score[task.y == "ok"]
            right[task.name] += (ok[:, np.newaxis] > ill).sum()
            n_pairs[task.name] += ill.size * ok.size
    by_task = {task: mean_known(values) for task, values in scores["by_task"]["auc"].items()}
    assert by_task == pytest.approx({task: right[task] / n_pairs[task] for task in "ab"})
    over_rows = mean_score(scores, "auc", "rows")
    assert over_rows == pytest.approx(sum(right.values()) / sum(n_pairs.values()))


def test_tasks_with_few_rows_have_no_ratio_and_are_left_out_of_its_mean() -> None:
    tasks, splits = hospitals(sizes=(30, MIN_RATIO_ROWS, MIN_RATIO_ROWS - 1)), Splits()
    pieces = [scored("ridge", tasks, splits, [index]) for index in range(splits.count())]
    before = concatenate_scores(pieces)
    after = concatenate_scores(without_small_ratios(pieces, splits))
    assert after["few_rows"] == ["hospital 2"]  # repeats do not make more of the same rows
    assert mean_known(before["by_task"]["r2"]["hospital 2"]) is not None
    assert mean_known(after["by_task"]["r2"]["hospital 2"]) is None
    of_others = [mean_known(after["by_task"]["r2"][f"hospital {i}"]) for i in (0, 1)]
    assert mean_score(after, "r2", "tasks") == pytest.approx(np.mean(of_others))
    assert after["over_rows"] == before["over_rows"]
    assert after["by_task"]["rmse"] == before["by_task"]["rmse"]


def test_other_methods_in_other_splits_have_pooled_ratios() -> None:
    tasks, splits = hospitals(sizes=(12, 12)), Splits(repeats=1)
    names = ("ridge", "constant", "ridge", "constant", "ridge")
    pieces = [scored(name, tasks, splits, [i]) for i, name in enumerate(names)]
    assert mean_score(concatenate_scores(pieces), "r2", "tasks") > -1


def test_scores_that_an_earlier_version_stored_are_still_read() -> None:
    scores = scored("ridge", hospitals(sizes=(12, 12)), Splits(repeats=1), [0])
    older = {"by_task": scores["by_task"], "over_rows": scores["over_rows"]}
    joined = concatenate_scores(without_small_ratios([older, scores], Splits(repeats=1)))
    of_task = scores["by_task"]["r2"]["hospital 0"]
    assert joined["by_task"]["r2"]["hospital 0"] == of_task * 2
    assert METRICS["r2"].ratio is R2
