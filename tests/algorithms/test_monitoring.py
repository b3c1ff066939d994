"""Is a model still as good as it promised? Evidence, pooled changes, columns and errors."""

import tracemalloc

import numpy as np
import pytest
from scipy.stats import binom, kstest

from algorithms.evaluation.monitoring.columns import (
    ALL_TASKS,
    Histogram,
    column_changes,
    stability_index,
)
from algorithms.evaluation.monitoring.errors import (
    Promise,
    TaskErrors,
    error_changes,
    pooled_ratios,
    share_interval,
)
from algorithms.evaluation.monitoring.pooling import pool_changes
from algorithms.evaluation.monitoring.sequential import (
    conformal_p_values,
    design_effect,
    excess_bets,
    log_evidence,
    uniformity_bets,
)

PERIOD = 45.0
YEAR_ALPHA = 0.05
#: 5 % a year, of which columns and errors have one half each.
ALPHA = YEAR_ALPHA * PERIOD / 365 / 2
N_TASKS, N_TRAINING = 10, 100


def histogram_of(values, n_levels=None):
    if n_levels:
        return Histogram(np.bincount(values, minlength=n_levels).astype(float), 0)
    counts, (low, *_, high) = np.histogram(values, 10)
    return Histogram(counts.astype(float), 0, low, high)


class World:
    """Tasks with two columns of numbers and one of levels, and a model with normal errors."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.centers = self.rng.standard_normal(N_TASKS)
        self.histograms, self.promises = {}, {}
        for t in range(N_TASKS):
            for name, values in self.columns(t, N_TRAINING).items():
                n_levels = 5 if name == "town" else None
                self.histograms[f"t{t}", name] = histogram_of(values, n_levels)
            errors = self.rng.standard_normal(N_TRAINING)
            self.promises[f"t{t}"] = Promise(float((errors**2).mean()), N_TRAINING)

    def columns(self, t, n, shift=0.0):
        center = self.centers[t] + shift
        return {
            "price": self.rng.normal(center, 1, n),
            "days": self.rng.exponential(1 + abs(center), n),
            "town": self.rng.choice(5, n, p=[0.4, 0.3, 0.15, 0.1, 0.05]),
        }

    def period(
        self,
        rows_per_week,
        *,
        broken=(),
        drifting=(),
        start=0.0,
        factor=2.0,
        shift=1.0,
        alike=0.0,
        late=0.0,
        wrong=0.0,
    ):
        """Values, losses and days of a period; tasks are broken or drift from a day on.

        Rows of one day share a part of the variance (``alike``), targets come some days ``late``
        on average, and a share of them is ``wrong``, by three times the spread of the errors.
        """
        values, days, errors = {}, {}, {}
        n = round(rows_per_week * PERIOD / 7)
        for t in range(N_TASKS):
            task = f"t{t}"
            days[task] = np.sort(self.rng.uniform(0, PERIOD, n))
            of_day = days[task].astype(int)
            is_late = days[task] >= start
            new, moved = self.columns(t, n), self.columns(t, n, shift)
            weather = self.rng.standard_normal(int(PERIOD) + 1)[of_day]
            new["price"] = (
                self.centers[t]
                + alike**0.5 * weather
                + (1 - alike) ** 0.5 * (new["price"] - self.centers[t])
            )
            for name, column in new.items():
                is_moved = is_late & (t in drifting)
                values[task, name] = np.where(is_moved, moved[name], column).astype(float)
            error = alike**0.5 * self.rng.standard_normal(int(PERIOD) + 1)[of_day]
            error += (1 - alike) ** 0.5 * self.rng.standard_normal(n)
            error *= np.where(is_late & (t in broken), factor, 1)
            error += np.where(self.rng.random(n) < wrong, 3 * self.rng.standard_normal(n), 0)
            labelled = days[task] + (self.rng.exponential(late, n) if late else 0)
            order = np.argsort(labelled)
            errors[task] = TaskErrors(error[order] ** 2, labelled[order], days[task][order])
        return values, days, errors

    def alarms(self, values, days, errors, alpha=ALPHA):
        columns = column_changes(self.histograms, values, days, n_days=PERIOD, alpha=alpha, seed=0)
        options = {"is_rate": False, "n_days": 2 * PERIOD, "alpha": alpha}
        by_task, common = error_changes(errors, self.promises, **options)
        found = [("column", c.task, c.alarm_day) for c in columns if c.alarm_day is not None]
        found += [("error", t, e.alarm_day) for t, e in by_task.items() if e.alarm_day is not None]
        if common is not None and common.alarm_day is not None:
            found.append(("error", ALL_TASKS, common.alarm_day))
        return found


def seen_on(day, values, days, errors):
    """What is known of a period on one of its days."""
    is_there = {task: of_task <= day for task, of_task in days.items()}
    return (
        {key: of_column[is_there[key[0]]] for key, of_column in values.items()},
        {task: of_task[is_there[task]] for task, of_task in days.items()},
        {
            task: TaskErrors(*(part[e.days <= day] for part in (e.losses, e.days, e.row_days)))
            for task, e in errors.items()
        },
    )


# --- evidence ------------------------------------------------------------------------------------


def test_conformal_p_values_of_the_same_distribution_are_uniform():
    rng = np.random.default_rng(0)
    p = []
    for _ in range(300):
        shares = rng.dirichlet(np.ones(4))
        counts = np.bincount(rng.choice(4, 30, p=shares), minlength=4).astype(float)
        p += [conformal_p_values(rng.choice(4, 30, p=shares), counts, rng)]
    p = np.array(p)
    assert ((p > 0) & (p < 1)).all()
    assert kstest(p.ravel(), "uniform").pvalue > 0.01
    assert abs(np.corrcoef(p[:, 0], p[:, 1])[0, 1]) < 0.15


def test_bets_gain_nothing_on_average_under_the_null_hypothesis():
    rng = np.random.default_rng(1)
    p = rng.random((8000, 3))
    wealth = [np.exp(uniformity_bets(row, np.arange(3.0)).sum(axis=0)) for row in p]
    assert np.mean(wealth, axis=0) == pytest.approx(np.ones(7), abs=0.25)
    losses = rng.random((4000, 5)) < 0.3
    wealth = [np.exp(excess_bets(row / 0.3).sum(axis=0)) for row in losses.astype(float)]
    assert np.mean(wealth, axis=0) == pytest.approx(np.ones(4), abs=0.2)


def test_evidence_is_the_mean_over_bets_and_starts():
    log_factors = np.log([[2.0, 1.0], [3.0, 1.0], [0.5, 1.0]])
    evidence = np.exp(log_evidence(log_factors, np.array([0.5, 7.5, 8.0]), 14.0))
    assert evidence == pytest.approx([(2 + 1 + 1 + 1) / 4, (6 + 1 + 3 + 1) / 4, (3 + 1.5 + 2) / 4])
    assert log_evidence(np.zeros((0, 2)), np.zeros(0), 14.0).size == 0


def test_evidence_of_ten_years_and_p_values_of_many_levels_take_little_memory():
    rng = np.random.default_rng(5)
    days = np.sort(rng.uniform(0, 1825, 5_000))
    tracemalloc.start()
    evidence = log_evidence(0.1 * rng.standard_normal((5_000, 5)), days, 1825.0)
    bins = rng.integers(0, 1000, 5_000)
    p = conformal_p_values(bins, np.ones(1000), rng)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.isfinite(evidence).all()
    assert kstest(p, "uniform").pvalue > 0.01
    assert peak < 40e6


# --- one task or all -----------------------------------------------------------------------------


def test_a_change_of_one_task_is_told_from_a_change_of_all():
    rng = np.random.default_rng(2)
    noise, variances = 0.2 * rng.standard_normal(20), np.full(20, 0.04)
    one = noise + np.where(np.arange(20) == 7, 1.5, 0)
    pooled = pool_changes(one, variances)
    assert (pooled.is_common(), pooled.with_own_increase()) == (False, [7])
    pooled = pool_changes(noise + 1.0, variances)
    assert (pooled.is_common(), pooled.with_own_increase()) == (True, [])
    assert pooled.mean == pytest.approx(1.0, abs=0.15)
    quiet = pool_changes(noise, variances)
    assert (quiet.is_common(), quiet.with_own_increase()) == (False, [])


def test_a_change_of_some_tasks_is_not_one_of_all():
    rng = np.random.default_rng(6)
    noise, variances = 0.2 * rng.standard_normal(50), np.full(50, 0.04)
    for n_broken in (2, 5, 10, 20):
        pooled = pool_changes(noise + np.where(np.arange(50) < n_broken, 1.5, 0), variances)
        assert not pooled.is_common()
        assert len({*pooled.with_own_increase()} & {*range(n_broken)}) >= n_broken - 1
    drifting = pool_changes(noise + rng.normal(1.0, 0.4, 50), variances)
    assert drifting.is_common()


def test_a_single_task_has_no_change_of_its_own():
    pooled = pool_changes(np.array([1.0]), np.array([0.01]))
    assert (pooled.is_common(), pooled.with_own_increase(), pooled.spread) == (True, [], 0)


def test_pooled_variances_are_those_of_a_restricted_likelihood():
    from statsmodels.regression.mixed_linear_model import MixedLM

    rng = np.random.default_rng(3)
    effects = rng.normal(0, 0.7, 30)
    rows = effects[:, None] + rng.normal(0, 1, (30, 25))
    means = rows.mean(axis=1)
    fit = MixedLM(rows.ravel(), np.ones(rows.size), np.repeat(np.arange(30), 25)).fit(reml=True)
    pooled = pool_changes(means, np.full(30, fit.scale / 25))
    assert pooled.mean == pytest.approx(float(np.ravel(fit.fe_params)[0]), abs=1e-6)
    assert pooled.spread**2 == pytest.approx(float(np.ravel(fit.cov_re)[0]), rel=0.1)
    expected = [float(np.ravel(effect)[0]) for effect in fit.random_effects.values()]
    assert pooled.own == pytest.approx(expected, abs=0.02)


# --- columns and errors --------------------------------------------------------------------------


def test_values_outside_and_missing_and_unknown_ones_have_bins_of_their_own():
    numbers = Histogram(np.array([5.0, 5.0]), 1, 0.0, 2.0)
    assert numbers.bins(np.array([-1, 0, 0.9, 1.1, 2, 3, np.nan])).tolist() == [0, 1, 1, 2, 2, 3, 4]
    levels = Histogram(np.array([5.0, 5.0]), 0)
    assert levels.bins(np.array([0.0, 1.0, -1.0, np.nan])).tolist() == [1, 2, 3, 4]
    constant = Histogram(np.array([5.0, 0.0]), 0, 1.0, 1.0)
    assert constant.bins(np.array([1.0, 2.0, 0.5])).tolist() == [1, 3, 0]
    huge = Histogram(np.array([5.0, 5.0]), 0, -1.5e308, 1.5e308)
    assert huge.bins(np.array([-1e308, 1e308, 1.6e308])).tolist() == [1, 2, 3]


def test_the_stability_index_is_zero_for_equal_shares_and_grows():
    assert stability_index([10, 20], [100, 200]) == pytest.approx(0, abs=1e-3)
    assert stability_index([10, 20], [20, 10]) > 0.25
    assert stability_index([0, 0], [1, 2]) == 0


def test_a_quiet_period_has_no_alarm():
    world = World(0)
    assert world.alarms(*world.period(20)) == []


def test_a_task_that_breaks_is_named():
    world = World(1)
    found = world.alarms(*world.period(20, broken=[3], start=14))
    assert {(kind, task) for kind, task, _ in found} >= {("error", "t3")}
    assert {task for _, task, _ in found} <= {"t3", ALL_TASKS}
    assert min(day for *_, day in found) > 14


def test_a_column_that_moves_in_one_task_is_named():
    world = World(2)
    found = world.alarms(*world.period(60, drifting=[5], start=10))
    assert ("column", "t5") in {(kind, task) for kind, task, _ in found}
    assert {task for _, task, _ in found} <= {"t5", ALL_TASKS}


def test_a_small_move_of_all_tasks_is_found_over_all():
    world = World(3)
    everyone = range(N_TASKS)
    found = world.alarms(*world.period(20, drifting=everyone, start=10, shift=0.4))
    assert ("column", ALL_TASKS) in {(kind, task) for kind, task, _ in found}


def test_errors_of_classes_are_rates_with_exact_intervals():
    rng = np.random.default_rng(4)
    days = np.sort(rng.uniform(0, PERIOD, 200))
    promises = {"a": Promise(0.1, 300), "b": Promise(0.1, 300)}
    errors = {
        "a": TaskErrors((rng.random(200) < 0.35).astype(float), days, days),
        "b": TaskErrors((rng.random(200) < 0.1).astype(float), days, days),
    }
    options = {"is_rate": True, "n_days": PERIOD, "alpha": ALPHA}
    by_task, common = error_changes(errors, promises, **options)
    assert by_task["a"].alarm_day is not None
    assert by_task["b"].alarm_day is None
    assert by_task["b"].low < 0.1 < by_task["b"].high
    assert common.n_rows == 400
    _, pooled = pooled_ratios(by_task, promises, is_rate=True)
    assert pooled.own[0] > 0 > pooled.own[1]
    assert share_interval(0, 10) == (0.0, pytest.approx(0.30850, abs=1e-5))
    assert share_interval(10, 10) == (pytest.approx(0.69150, abs=1e-5), 1.0)


@pytest.mark.parametrize("size", [0.0, 1e-200])
def test_errors_of_next_to_nothing_have_an_interval(size):
    days = np.arange(5.0)
    errors = {"a": TaskErrors(np.full(5, size), days, days)}
    promises = {"a": Promise(1.0, 50)}
    _, common = error_changes(errors, promises, is_rate=False, n_days=PERIOD, alpha=ALPHA)
    assert (common.loss, common.alarm_day) == (size, None)
    assert 0 <= common.low <= size <= common.high < 10 * size + 1e-300


def test_the_bound_of_a_loss_allows_for_the_error_of_its_promise():
    rng, n_tasks = np.random.default_rng(0), 100
    days = np.linspace(0, PERIOD, 30)
    errors = {f"t{t}": TaskErrors(rng.standard_normal(30) ** 2, days, days) for t in range(n_tasks)}
    promises = {task: Promise(float((rng.standard_normal(10) ** 2).mean()), 10) for task in errors}
    by_task, common = error_changes(errors, promises, is_rate=False, n_days=PERIOD, alpha=ALPHA)
    assert max(change.low / change.promised for change in by_task.values()) > 1
    assert max(change.low / change.bound for change in by_task.values()) < 1
    assert common.promised < common.bound
    # a task that nothing was promised of, in other units, does not break the promise of others
    errors["new"] = TaskErrors(1e4 * rng.standard_normal(30) ** 2, days, days)
    _, common = error_changes(errors, promises, is_rate=False, n_days=PERIOD, alpha=ALPHA)
    assert common.low < common.bound


def test_values_of_one_day_that_are_alike_are_no_evidence():
    """A day has weather of its own, or each row comes several times."""
    world, n_days = World(5), int(PERIOD)
    days = {f"t{t}": np.sort(world.rng.uniform(0, PERIOD, 30 * n_days)) for t in range(N_TASKS)}
    weather, repeated = dict(world.histograms), dict(world.histograms)
    for key in world.histograms:
        of_day = days[key[0]].astype(int)
        fresh = world.rng.standard_normal(len(of_day))
        shift = world.rng.standard_normal(n_days)[of_day]
        weather[key] = 0.5 * shift + 0.75**0.5 * fresh
        repeated[key] = np.repeat(fresh, 3)[: len(of_day)]
    histogram = histogram_of(world.rng.standard_normal(N_TRAINING))
    histograms = dict.fromkeys(world.histograms, histogram)
    options = {"n_days": PERIOD, "alpha": ALPHA, "seed": 0}
    for values in (weather, repeated):
        changes = column_changes(histograms, values, days, **options)
        assert all(change.alarm_day is None for change in changes)
    errors = {
        task: TaskErrors(weather[task, "price"] ** 2, days[task], days[task]) for task in days
    }
    promises = dict.fromkeys(days, Promise(1.0, N_TRAINING))
    by_task, common = error_changes(errors, promises, is_rate=False, n_days=PERIOD, alpha=ALPHA)
    assert all(change.alarm_day is None for change in (*by_task.values(), common))


def test_the_design_effect_is_between_one_and_the_rows_of_a_day():
    rng = np.random.default_rng(7)
    days = np.repeat(np.arange(60.0), 12)
    x = rng.standard_normal(720)
    of_day = np.repeat(rng.standard_normal(60), 12)
    assert design_effect(x, np.arange(720.0)) == 1
    assert 1 <= design_effect(x, days) < 1.7
    assert 5 < design_effect(0.7 * of_day + 0.7 * x, days) < 12
    assert design_effect(of_day, days) == 12
    assert design_effect(x[:24], days[:24]) == 1 + 0.05 * 11  # two days tell nothing


# --- simulated years -----------------------------------------------------------------------------


def days_to_alarm(found, kind, task, start):
    """Return the days from a change to its alarm; those of the rest of the period without one."""
    days = [day for one, name, day in found if (one, name) == (kind, task)]
    return (days[0] if days else PERIOD) - start


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"rows_per_week": 15},
        {"rows_per_week": 100, "alike": 0.1},
        {"rows_per_week": 30, "alike": 0.3},
        {"rows_per_week": 15, "late": 20.0},
    ],
    ids=["independent rows", "days alike", "days much alike", "targets weeks late"],
)
def test_at_most_one_quiet_year_in_twenty_has_an_alarm(options, record_property):
    """Also one that later rows make smaller: what a look has found stays."""
    n_years, n_alarms = 60, 0
    for seed in range(n_years):
        world = World(1000 + seed)
        periods = [world.period(**options) for _ in range(8)]
        looks = ((day, period) for period in periods for day in (4, 10, np.inf))
        n_alarms += any(world.alarms(*seen_on(day, *period)) for day, period in looks)
    record_property("quiet years with an alarm", f"{n_alarms} of {n_years}")
    assert n_alarms <= binom.ppf(0.999, n_years, YEAR_ALPHA)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows_per_week", "late", "most_days"), [(10, 0, 30), (30, 0, 14), (100, 0, 8), (30, 14, 28)]
)
def test_a_broken_task_is_found_and_named_in_simulated_periods(
    rows_per_week, late, most_days, record_property
):
    delays, right, n_worlds = [], 0, 20
    for seed in range(n_worlds):
        world = World(2000 + seed)
        found = world.alarms(*world.period(rows_per_week, broken=[4], start=10, late=late))
        delays.append(days_to_alarm(found, "error", "t4", 10))
        right += {task for _, task, _ in found} <= {"t4", ALL_TASKS}
    record_property("median of days to the alarm", float(np.median(delays)))
    assert right >= n_worlds - 1
    assert np.median(delays) < most_days, delays


@pytest.mark.slow
@pytest.mark.parametrize(("factor", "shift", "most_days"), [(1.3, 0.4, 25), (2.0, 1.0, 8)])
def test_a_change_of_all_tasks_is_found_and_told_from_that_of_one(
    factor, shift, most_days, record_property
):
    errors, columns, n_common, n_worlds = [], [], 0, 20
    everyone = range(N_TASKS)
    for seed in range(n_worlds):
        world = World(3000 + seed)
        changes = {"broken": everyone, "drifting": everyone, "factor": factor, "shift": shift}
        period = world.period(20, start=10, **changes)
        found = world.alarms(*period)
        errors.append(days_to_alarm(found, "error", ALL_TASKS, 10))
        columns.append(days_to_alarm(found, "column", ALL_TASKS, 10))
        options = {"is_rate": False, "n_days": 2 * PERIOD, "alpha": ALPHA}
        by_task, _ = error_changes(period[2], world.promises, **options)
        n_common += pooled_ratios(by_task, world.promises, is_rate=False)[1].is_common()
    record_property("median of days to the alarm of errors", float(np.median(errors)))
    record_property("median of days to the alarm of columns", float(np.median(columns)))
    record_property("told to be of all tasks", f"{n_common} of {n_worlds}")
    assert n_common >= n_worlds - 1
    assert max(np.median(errors), np.median(columns)) < most_days, (errors, columns)


@pytest.mark.slow
def test_wrong_targets_make_no_alarms_once_they_are_corrected(record_property):
    n_years, n_wrong, n_corrected = 40, 0, 0
    for seed in range(n_years):
        is_alarmed = []
        for wrong in (0.03, 0.0):
            world = World(4000 + seed)
            periods = [world.period(15, wrong=wrong) for _ in range(8)]
            is_alarmed.append(any(world.alarms(*period) for period in periods))
        n_wrong += is_alarmed[0]
        n_corrected += is_alarmed[1]
    record_property("years with an alarm while 3 % of targets are wrong", f"{n_wrong} of {n_years}")
    record_property("years with an alarm when they are corrected", f"{n_corrected} of {n_years}")
    assert n_corrected <= binom.ppf(0.999, n_years, YEAR_ALPHA)
    assert n_wrong <= n_years / 2
