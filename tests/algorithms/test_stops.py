"""Contenders that are clearly behind are stopped before all folds, if these take long."""

import numpy as np
import pytest

from algorithms.ensemble.behind import leader_of
from algorithms.ensemble.held_out import HeldOutRows, spread_rows
from algorithms.ensemble.stack import stack_of
from algorithms.interface.tasks import Task, TaskSet
from tests.algorithms.test_automatic import auto, linear_tasks


def rows_of(n_tasks, *, target="numbers") -> HeldOutRows:
    rng, tasks = np.random.default_rng(0), []
    for t in range(n_tasks):
        X = rng.normal(size=(20, 2))
        y = np.where(X[:, 0] > 0, "yes", "no") if target == "classes" else X[:, 0]
        tasks.append(Task.from_rows(f"t{t}", X, y=y))
    made = TaskSet(tuple(tasks))
    return HeldOutRows.of(made, spread_rows(made, n_folds=5, seed=0))


def scores_of(rows: HeldOutRows, noise: float, seed: int) -> np.ndarray:
    """Return outputs with errors."""
    rng = np.random.default_rng(seed)
    if not rows.labels:
        return (rows.y + noise * rng.normal(size=len(rows.y)))[:, np.newaxis]
    second = 2.0 * rows.y - 1.0 + noise * rng.normal(size=len(rows.y))
    return np.stack([-second, second], axis=1)


@pytest.mark.parametrize("target", ["numbers", "classes"])
@pytest.mark.parametrize("n_tasks", [3, 12])
def test_one_is_behind_if_its_loss_is_larger_beyond_chance(n_tasks, target) -> None:
    rows = rows_of(n_tasks, target=target)
    finished = stack_of(rows, [scores_of(rows, 3.0, 1), scores_of(rows, 0.4, 2)])
    for noise, expected in ((3.0, "good"), (0.4, None)):
        own = scores_of(rows, noise, 3)
        own[rows.fold > 3] = np.nan
        assert leader_of(finished, ["bad", "good"], own) == expected


@pytest.mark.slow  # two races of large tables
def test_a_race_stops_one_that_is_behind_and_chooses_the_same(monkeypatch) -> None:
    tasks = linear_tasks(np.random.default_rng(0), n_tasks=10, n=20, shared=1.0, noise=0.3)
    names = ["ridge", "boosted-trees", "mean-regularised"]
    _, whole = auto(tasks, algorithms=names)
    monkeypatch.setattr("algorithms.ensemble.race.MIN_SAVED_S", 0.0)
    _, stopped = auto(tasks, algorithms=names)
    reasons = {(one["algorithm"], one["role"]): one["reason"] for one in stopped["left_out"]}
    assert "clearly behind" in reasons["boosted-trees", "pooled"]
    assert whole["leaderboard"][0]["algorithm"] == stopped["leaderboard"][0]["algorithm"]
    assert stopped["estimate"]["value"] == pytest.approx(whole["estimate"]["value"], rel=1e-2)
    # one of each side is kept
    assert {row["role"] for row in stopped["leaderboard"]} >= {"single_task", "pooled"}
    assert stopped["together_or_apart"]["reason"] is None


@pytest.mark.slow
def test_one_that_learns_tasks_alone_is_not_stopped_for_one_that_learns_together(
    monkeypatch,
) -> None:
    rng, tasks = np.random.default_rng(0), []
    for t in range(20):
        X = rng.normal(size=(15, 2))
        y = np.cos(2 * X[:, 0]) + X[:, 1] ** 2 + 0.2 * rng.normal(size=15)
        tasks.append(Task.from_rows(f"t{t:02}", X, y=y))
    monkeypatch.setattr("algorithms.ensemble.race.MIN_SAVED_S", 0.0)
    _, report = auto(TaskSet(tuple(tasks)), algorithms=["ridge", "gp", "kernel-ridge"])
    found = {(row["algorithm"], row["role"]): row["value"] for row in report["leaderboard"]}
    assert found["gp", "multi_task"] < 0.5 * found["kernel-ridge", "single_task"]
    # in the mixture of those that learn alone it has weight
    assert found["kernel-ridge", "single_task"] < found["ridge", "single_task"]
