"""Learning curves of the automatic choice: nested rows, fits, and what is said of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import lsq_linear

from algorithms.evaluation.choice.curve_verdict import describe_curve
from algorithms.evaluation.choice.entries import Side
from algorithms.evaluation.choice.learning_curve import PartScores, report_curve
from algorithms.evaluation.choice.power_curves import fit_power_curves
from algorithms.evaluation.comparison.no_verdict import NO_METHOD
from algorithms.evaluation.scores.metrics import METRICS
from algorithms.interface.tasks import Task, TaskSet
from algorithms.splits.splits import Splits
from algorithms.splits.subsamples import N_PARTS, subsample
from tests.algorithms.test_automatic import auto, scores_of

RMSE, AUC = METRICS["rmse"], METRICS["auc"]
FOUR = Splits(n_folds=4, repeats=1)
ROWS = np.array([5.0, 10.0, 15.0, 20.0])


def linear_tasks(rng, *, n_tasks, d, n=20, shared=0.0) -> TaskSet:
    """Return linear tasks; ``shared`` is the share of coefficients' variance that is common."""
    common = rng.normal(size=d)
    tasks = []
    for t in range(n_tasks):
        w = np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.normal(size=d)
        X = rng.normal(size=(n, d))
        tasks.append(Task.from_rows(f"t{t}", X, y=X @ w + rng.normal(size=n)))
    return TaskSet(tuple(tasks))


def labelled_tasks(rng, *, n_groups=None) -> TaskSet:
    """Return tasks with a rare class; their rows are numbered, and may be in groups."""
    tasks = []
    for t, n in enumerate((13, 40, 81)):
        X = np.column_stack([np.arange(n) + 1000.0 * t, rng.normal(size=n)])
        y = np.array(["rare"] * 3 + ["often"] * (n - 3))
        groups = None if n_groups is None else rng.integers(n_groups, size=n).astype(str)
        tasks.append(Task.from_rows(f"t{t}", X, y=y, groups=groups))
    return TaskSet(tuple(tasks))


@pytest.mark.parametrize("n_groups", [None, 12])
@pytest.mark.parametrize("seed", range(3))
def test_parts_are_nested_and_keep_groups_and_classes(seed, n_groups) -> None:
    tasks = labelled_tasks(np.random.default_rng(seed), n_groups=n_groups)
    before = {task.name: set() for task in tasks}
    for k in range(1, N_PARTS + 1):
        part = subsample(tasks, k, seed=seed)
        for whole, own in zip(tasks, part, strict=True):
            kept = set(own.X[:, 0])
            assert before[own.name] <= kept
            before[own.name] = kept
            assert np.unique(own.y, return_counts=True)[1].min() >= 2
            if n_groups is None:
                more = own.n_samples - whole.n_samples * k / N_PARTS
                assert -1 < more < 1 + 2  # two rows of the rare class are kept
        if n_groups is not None:
            inside = {g for task in part for g in task.groups}
            left = [task.groups[~np.isin(task.X[:, 0], list(before[task.name]))] for task in tasks]
            assert not inside & {g for groups in left for g in groups}
    assert part is tasks


def test_parts_do_not_depend_on_the_order_of_tasks() -> None:
    tasks = labelled_tasks(np.random.default_rng(0))
    reverse = TaskSet(tasks.tasks[::-1])
    for own, other in zip(
        subsample(tasks, 2, seed=1).by_name(), subsample(reverse, 2, seed=1).by_name(), strict=True
    ):
        np.testing.assert_array_equal(own.X, other.X)


@given(
    limit=st.floats(0.1, 5.0),
    factor=st.floats(0.1, 50.0),
    exponent=st.sampled_from([0.5, 1.0, 1.5]),
)
def test_a_curve_is_found_from_its_points(limit, factor, exponent) -> None:
    losses = limit + factor * ROWS**-exponent
    found = fit_power_curves(ROWS, losses[None], 1 / losses**2, low=0.0)
    np.testing.assert_allclose(found.at(ROWS)[0], losses, rtol=1e-7)


@pytest.mark.parametrize(("low", "high"), [(0.0, np.inf), (-np.inf, 0.0), (-np.inf, np.inf)])
def test_the_fit_is_that_of_bounded_least_squares(low, high) -> None:
    """No exponent of the grid has a smaller error by another solver."""
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2.0, size=4)
    for values in rng.normal(size=(4, 4)):
        found = fit_power_curves(ROWS, values[None], weights, low=low, high=high)
        error = weights @ (found.at(ROWS)[0] - values) ** 2
        others = []
        for a in np.linspace(0.25, 2.0, 36):
            A = np.sqrt(weights)[:, None] * np.column_stack([np.ones(4), ROWS**-a])
            bounds = ([low, 0.0], [high, np.inf])
            others.append(2 * lsq_linear(A, np.sqrt(weights) * values, bounds, tol=1e-14).cost)
        assert error == pytest.approx(min(others), rel=1e-6, abs=1e-9)


def curve_of(gain, *, metric=RMSE, noise=0.01, n_splits=10, apart=3.0):
    """Return the report for a gain that depends on the number of rows."""
    rng = np.random.default_rng(0)

    def side(loss):
        errors = noise * rng.normal(size=n_splits)
        values = (metric.bounds[1] - loss if metric.larger_is_better else loss) + errors
        return Side(label={}, scores=scores_of({"t": values.tolist()}, metric=metric.name))

    of_parts = {
        k: PartScores(n, side(apart - gain(n)), side(apart))
        for k, n in enumerate(ROWS.tolist(), start=1)
    }
    return report_curve(of_parts, metric, "tasks", min_effect=0.01, ratio=0.25, methods=[])


def test_the_number_of_rows_where_a_gain_ends_is_found() -> None:
    # the smallest relevant gain is 0.03: 6/n - 0.17 is 0.03 at 30 rows
    found = curve_of(lambda n: 6.0 / n - 0.17)
    assert found["stops_at"] == pytest.approx(30, rel=0.1)
    assert found["low"] < 30 < found["high"]
    assert found["rows_needed"] is None  # it is shown already
    sentence = describe_curve(found, n_tasks=4)[0]
    start = f"From about {found['stops_at']:.2g} rows per task on, learning together no longer"
    assert sentence.startswith(start)
    assert "there are 20" in sentence


@pytest.mark.slow
def test_the_interval_covers_the_truth_in_most_data_sets() -> None:
    rng = np.random.default_rng(1)
    n_inside = 0
    for _ in range(40):
        shift = rng.normal(size=8)  # splits of one data set share an error
        found = curve_of(lambda n, s=shift: 6.0 / n - 0.17 + 0.01 * s[int(n) // 5], noise=0.05)
        n_inside += found["low"] <= 30 and (found["high"] is None or found["high"] >= 30)
    assert n_inside >= 33  # fewer than 33 of 40 at 95 %: 0.2 %


@pytest.mark.parametrize(
    ("gain", "noise", "expected"),
    [
        (lambda n: -0.5 + 0 * n, 0.01, "does not help with 5 rows per task or more"),
        (lambda n: 2.0 * n**-0.25, 0.001, "helps with up to at least 200 rows per task"),
        (lambda n: 0 * n, 0.5, "helps is unclear"),
        (lambda n: 2.0 / n, 0.08, "from which it no longer helps is unclear"),
    ],
)
def test_what_the_curve_does_not_show_is_said(gain, noise, expected) -> None:
    found = curve_of(gain, noise=noise)
    assert expected in describe_curve(found, n_tasks=4)[0]


def test_a_metric_that_is_to_be_large_has_the_same_gain() -> None:
    found = curve_of(lambda n: 0.15 - 0.5 / n, metric=AUC, noise=0.001, apart=0.3)
    assert found["points"][0]["gain"] == pytest.approx(0.05, abs=0.01)
    assert found["points"][0]["together"] > found["points"][0]["apart"]
    for side in ("together", "apart"):
        curve, point = found[side], found["points"][1]
        value = curve["limit"] + curve["factor"] * point["rows"] ** -curve["exponent"]
        assert value == pytest.approx(point[side], abs=0.01)


def test_rows_or_tasks_that_would_show_a_gain_are_named() -> None:
    found = curve_of(lambda n: 0.3 + 0 * n, noise=0.6)
    assert found["tasks_factor"] > 1
    assert "tasks of this kind instead of 4" in describe_curve(found, n_tasks=4)[1]
    last = found["points"][-1]
    reach = (last["high"] - last["low"]) / 2
    assert found["tasks_factor"] == pytest.approx((reach / last["gain"]) ** 2)


def test_a_side_without_methods_has_no_curve() -> None:
    tasks = linear_tasks(np.random.default_rng(0), n_tasks=3, d=2)
    options = {"algorithms": ["mixed-model"], "splits": FOUR}
    _, report = auto(tasks, curve=True, **options)
    assert report["curve"]["reason"] == NO_METHOD
    assert not report["curve"]["points"]
    _, report = auto(tasks, **options)
    assert report["curve"] is None


@pytest.mark.slow
def test_the_choice_is_made_anew_with_a_part_of_the_rows() -> None:
    tasks = linear_tasks(np.random.default_rng(0), n_tasks=6, n=24, d=6, shared=0.9)
    options = {"algorithms": ["ridge", "mean-regularised"], "splits": FOUR}
    _, without = auto(tasks, **options)
    _, report = auto(tasks, curve=True, **options)
    curve = report["curve"]
    shown = ("estimate", "together_or_apart", "tasks", "predictions")
    assert all(report[name] == without[name] for name in shown)
    assert [point["rows"] for point in curve["points"]] == pytest.approx([5, 9, 14, 18], abs=1)
    last, pair = curve["points"][-1], report["together_or_apart"]
    assert (last["together"], last["gain"]) == (pair["first_value"], pair["gain"])
    first = curve["points"][0]
    assert first["together"] > last["together"]
    assert first["apart"] > last["apart"]
    assert first["gain"] > last["gain"]
    assert any("rows per task" in sentence for sentence in report["sentences"])


@pytest.mark.slow
def test_the_budget_leaves_methods_off_the_curve() -> None:
    tasks = linear_tasks(np.random.default_rng(0), n_tasks=10, n=100, d=60)
    options = {"algorithms": ["constant", "ridge"], "splits": FOUR}
    _, report = auto(tasks, **options)
    n_methods, n_scored = len(report["leaderboard"]), 0
    budget_s = sum(row["total_s"] for row in report["leaderboard"])
    while n_scored < n_methods:  # the first budget that is enough for the scores
        budget_s *= 1.1
        _, report = auto(tasks, curve=True, budget_s=budget_s, **options)
        n_scored = len(report["leaderboard"])
    curve = report["curve"]
    assert len(curve["methods"]) + len(curve["left_out"]) == n_methods
    assert curve["left_out"]
    assert all("learning curve" in one["reason"] for one in curve["left_out"])
