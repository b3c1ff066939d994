"""The test that promotes challengers, against simulations of what it promises."""

from math import log

import numpy as np
import pytest

from algorithms.evaluation.monitoring.sequential import excess_bets
from algorithms.evaluation.monitoring.trial import (
    ALPHA,
    MAX_RATIO,
    advantage,
    needed_evidence,
    shown_worse,
    trial_evidence,
    usual_loss,
)

N_SIMULATIONS, N_DAYS, N_TASKS = 500, 60, 5


def wealth(means, n_rows, stakes=(0.1, 0.25, 0.45)):
    """The definition, one day after another, without logarithms."""
    money, sizes, found = np.ones(len(stakes)), [], []
    for mean, n in zip(means, n_rows, strict=True):
        x = mean * n**0.5
        size = np.sqrt(np.mean(np.square(sizes))) if sizes else 0.0
        bet = min(max(x / size, -2.0), 1.0) if size > 0 else 0.0
        money = money * (1 + bet * np.array(stakes))
        sizes.append(x)
        found.append(money.mean())
    return np.array(found)


def test_the_evidence_is_that_of_bets_made_one_after_another():
    rng = np.random.default_rng(0)
    means, n_rows = rng.normal(0.1, 1, 50), rng.integers(1, 200, 50)
    np.testing.assert_allclose(
        np.exp(trial_evidence(means, n_rows)), wealth(means, n_rows), rtol=1e-12
    )


def test_evidence_does_not_depend_on_the_unit_of_losses():
    means, n_rows = np.array([0.2, -0.1, 0.4, 0.3]), np.array([5, 9, 2, 7])
    np.testing.assert_allclose(
        trial_evidence(means, n_rows), trial_evidence(1e-9 * means, n_rows), rtol=1e-9
    )


def test_equal_predictions_and_no_days_are_no_evidence():
    assert trial_evidence([], []).shape == (0,)
    np.testing.assert_array_equal(trial_evidence([0.0] * 30, [10] * 30), np.zeros(30))


def test_the_usual_loss_is_that_of_normal_errors_also_among_outliers():
    errors = np.random.default_rng(0).normal(0, 3, 20_000)
    errors[:200] = 1e9
    assert usual_loss(errors**2) == pytest.approx(9, rel=0.05)
    assert usual_loss([0.0, 0.0, 0.0]) == 1.0
    assert usual_loss([0.0, 0.0, 0.0, 4.0]) == 1.0


def test_a_loss_counts_at_most_as_many_usual_ones():
    np.testing.assert_array_equal(
        advantage([1.0, 1e300], [2.0, 0.0], [2.0, 1.0]), [-0.5, MAX_RATIO]
    )


def test_levels_of_challengers_add_up_to_one_in_twenty():
    levels = [np.exp(-needed_evidence(k)) for k in range(1, 10_000)]
    assert sum(levels) < ALPHA < sum(levels) * 1.001
    assert levels[0] == pytest.approx(0.025)


def test_a_task_is_shown_worse_at_a_level_for_all_tasks():
    evidence = {"a": log(2 / ALPHA) - 0.01, "b": log(2 / ALPHA) + 0.01}
    assert shown_worse(evidence) == ["b"]
    assert shown_worse({}) == []


def simulated(rng, challenger, *, n=20, noise="normal", shock=0.0, spread=0.0):
    """Gains of the rows of each day, as the service makes them of paired losses.

    ``challenger`` multiplies its errors. A shock moves all rows of a day, and all of a task on it,
    for one of the two models, either with the same probability. Tasks have constant gains of their
    own, with mean 0 over rows, as where the challenger is better in some and worse in others.
    """
    days = []
    of_task = rng.normal(0, spread, N_TASKS)
    for _ in range(N_DAYS):
        tasks = rng.integers(N_TASKS, size=rng.poisson(n * N_TASKS) + 1)
        draw = rng.standard_normal if noise == "normal" else rng.standard_cauchy
        shared, *own = (0.7 * draw(len(tasks)) for _ in range(3))
        move = rng.normal(0, shock) + rng.normal(0, shock, N_TASKS)[tasks]
        first = shared + own[0] + np.maximum(move, 0)
        second = challenger * (shared + own[1] + np.maximum(-move, 0))
        gains = advantage(first**2, second**2, 1.0) + of_task[tasks]
        days.append(gains - of_task[tasks].mean())
    return days


def evidence_of(days):
    return trial_evidence([day.mean() for day in days], [len(day) for day in days])


def promoted(evidence, n_trials=1):
    """The first day, looked at daily, on which the challenger is promoted; None if it never is."""
    days = np.flatnonzero(evidence >= needed_evidence(n_trials))
    return int(days[0]) + 1 if len(days) else None


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("noise", "shock", "spread"),
    [("normal", 0, 0), ("cauchy", 0, 0), ("normal", 0.5, 0), ("normal", 0, 0.5), ("cauchy", 2, 1)],
)
def test_challengers_that_are_not_better_are_promoted_in_at_most_one_of_twenty(
    noise, shock, spread
):
    """500 trials of 60 days, looked at daily; the second challenger has its level, too."""
    rng = np.random.default_rng(1)
    n_false = 0
    for _ in range(N_SIMULATIONS):
        for k in (1, 2):
            found = simulated(rng, 1.0, noise=noise, shock=shock, spread=spread)
            if promoted(evidence_of(found), k):
                n_false += 1
                break
    assert n_false <= ALPHA * N_SIMULATIONS


@pytest.mark.slow
def test_bets_on_rows_would_promote_equal_models_where_days_have_shocks():
    """Why days are the unit: the same simulation, with a bet for each row."""
    rng = np.random.default_rng(2)
    n_false = 0
    for _ in range(100):
        rows = np.concatenate(simulated(rng, 1.0, shock=0.5))
        wealths = np.cumsum(excess_bets(1 + rows / MAX_RATIO), axis=0)
        n_false += bool((np.log(np.mean(np.exp(wealths), axis=1)) >= needed_evidence(1)).any())
    assert n_false > 20


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("challenger", "days", "share"), [(0.7, 25, 0.95), (0.85, 40, 0.8)])
def test_better_challengers_are_promoted_within_weeks(challenger, days, share):
    rng = np.random.default_rng(3)
    found = [promoted(evidence_of(simulated(rng, challenger, shock=0.2))) for _ in range(200)]
    within = np.mean([day is not None and day <= days for day in found])
    assert within >= share
