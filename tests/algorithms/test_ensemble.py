"""The weighted ensemble: its weights, its folds, its budget, and what it promises of new rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression

from algorithms.ensemble import race as race_module
from algorithms.ensemble.contenders import CONTENDERS, contenders_for
from algorithms.ensemble.held_out import HeldOutRows, RowOptions, spread_rows
from algorithms.ensemble.report import describe_expected
from algorithms.ensemble.stack import ClassStack, NumberStack
from algorithms.ensemble.weights import (
    MIN_ERROR,
    SHRINKAGE,
    bootstrap_shares,
    combine,
    fit_simplex,
    log_loss_objective,
    mix,
    squares_objective,
    task_means,
)
from algorithms.interface.errors import InvalidData, UnknownTask
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.interface.work import WorkEstimate
from algorithms.registry import ALGORITHMS, load_model, save_model
from algorithms.wrappers.calibration.algorithm import calibrated
from algorithms.wrappers.preparation.algorithm import prepared
from algorithms.wrappers.preparation.recipe import Recipe

ENSEMBLE = ALGORITHMS["ensemble"]
#: Both solvers stop within this of the smallest objective.
SOLVER_ATOL = 1e-6
#: A share of duplicated outputs may change a prediction by this, relative to its deviation.
MAX_DUPLICATE_CHANGE = 0.01
#: Error of the expected score over several seeds, relative to the truth.
EXPECTED_RTOL = 0.06


def fit(tasks: TaskSet, *, trace: Trace | None = None, **values):
    params = ENSEMBLE.parse(values)
    return ENSEMBLE.fit(tasks, params, trace=trace or Trace(), rng=np.random.default_rng(0))


def made(n_tasks=8, n=12, d=3, *, seed=0, spread=0.5, noise=0.5) -> TaskSet:
    """Return tasks with numbers, of related slopes."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(d)
    tasks = []
    for t in range(n_tasks):
        X = rng.standard_normal((n, d))
        slopes = common + spread * rng.standard_normal(d)
        tasks.append(Task.from_rows(f"t{t}", X, y=X @ slopes + noise * rng.standard_normal(n)))
    return TaskSet(tuple(tasks))


def labelled(tasks: TaskSet) -> TaskSet:
    """Return the tasks with the classes "high" and "low" of their numbers."""
    return TaskSet(
        tuple(
            Task.from_rows(one.name, one.X, y=np.where(one.y > 0.3, "high", "low")) for one in tasks
        )
    )


def quadratic_forms(rng, n_tasks=6, n_rows=9, n_methods=5):
    """Return the residuals of methods on rows of tasks, and their mean products by task."""
    R = rng.standard_normal((n_tasks, n_rows, n_methods)) * rng.uniform(0.5, 2.0, n_methods)
    R += rng.standard_normal((n_tasks, n_rows, 1))  # errors that all methods share
    return R, np.einsum("tia,tib->tab", R, R) / n_rows


def probabilities(rng, n_methods=4, n_rows=60, n_classes=3):
    log_p = np.log(rng.dirichlet(np.ones(n_classes), size=(n_methods, n_rows)))
    y = rng.integers(n_classes, size=n_rows)
    of_class = log_p[:, np.arange(n_rows), y]
    return log_p, of_class, y, np.full(n_rows, 1.0 / n_rows)


def smallest_by_scipy(objective, n_methods, n_rows):
    """Return the smallest penalised objective on the simplex, from several starts."""

    def penalised(w):
        away = w - 1.0 / n_methods
        return objective(w)[0] + SHRINKAGE * n_methods**2 / (2 * n_rows) * float(away @ away)

    rng = np.random.default_rng(0)
    starts = [np.full(n_methods, 1.0 / n_methods), *rng.dirichlet(np.ones(n_methods), size=4)]
    found = [
        minimize(
            penalised,
            start,
            method="SLSQP",
            bounds=[(0.0, 1.0)] * n_methods,
            constraints={"type": "eq", "fun": lambda w: w.sum() - 1.0},
            options={"ftol": 1e-12, "maxiter": 1000},
        )
        for start in starts
    ]
    return min(float(one.fun) for one in found), penalised


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_simplex_weights_reach_the_minimum_of_a_generic_solver(kind, seed) -> None:
    rng = np.random.default_rng(seed)
    if kind == "numbers":
        _, Q = quadratic_forms(rng)
        objective, n_methods, n_rows = squares_objective(Q, MIN_ERROR), 5, 54
    else:
        log_p, of_class, _, shares = probabilities(rng)
        objective, n_methods, n_rows = log_loss_objective(log_p, of_class, shares), 4, 60
    expected, penalised = smallest_by_scipy(objective, n_methods, n_rows)
    w = fit_simplex(objective, n_methods, n_rows, trace=Trace(), loop="weights")
    assert (w >= 0).all()
    assert w.sum() == pytest.approx(1.0)
    assert penalised(w) <= expected + SOLVER_ATOL


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_gradients_of_the_objectives_are_those_of_differences(kind) -> None:
    rng = np.random.default_rng(3)
    if kind == "numbers":
        objective = squares_objective(quadratic_forms(rng)[1], MIN_ERROR)
        w = rng.dirichlet(np.ones(5))
    else:
        log_p, of_class, _, shares = probabilities(rng)
        objective = log_loss_objective(log_p, of_class, shares)
        w = rng.dirichlet(np.ones(4))
    steps = 1e-5 * np.eye(len(w))
    slopes = [(objective(w + s)[0] - objective(w - s)[0]) / 2e-5 for s in steps]
    np.testing.assert_allclose(objective(w)[1], slopes, rtol=1e-6, atol=1e-9)


def test_the_error_of_a_mixture_is_a_quadratic_form_of_its_weights() -> None:
    rng = np.random.default_rng(1)
    R, Q = quadratic_forms(rng)
    w = rng.dirichlet(np.ones(5))
    direct = np.log(((R @ w) ** 2).mean(axis=1) + MIN_ERROR).mean()
    assert squares_objective(Q, MIN_ERROR)(w)[0] == pytest.approx(direct)


def test_two_classes_are_mixed_by_the_weighted_mean_of_their_log_odds() -> None:
    rng = np.random.default_rng(2)
    p = rng.uniform(0.05, 0.95, size=(3, 20))
    log_p = np.log(np.stack([1 - p, p], axis=2))
    w = np.array([0.5, 0.3, 0.2])
    odds = w @ np.log(p / (1 - p))
    np.testing.assert_allclose(mix(log_p, w)[0][:, 1], 1 / (1 + np.exp(-odds)))


def test_impossible_classes_get_no_probability() -> None:
    with np.errstate(divide="ignore"):
        log_p = np.log(np.array([[[0.4, 0.6, 0.0]], [[0.1, 0.9, 0.0]]]))
    p, _ = mix(log_p, np.array([0.7, 0.3]))
    assert p[0, 2] == 0.0
    assert p.sum() == pytest.approx(1.0)


def test_bootstrap_shares_count_the_draws_that_a_method_wins() -> None:
    rng = np.random.default_rng(0)
    always_best = np.column_stack([np.zeros(5), np.ones(5), np.full(5, 2.0)])
    np.testing.assert_array_equal(bootstrap_shares(always_best, rng), [1.0, 0.0, 0.0])
    # with two tasks, each won by one of two methods, the share is P(r_1 > r_2) = ½
    tied = bootstrap_shares(np.array([[0.0, 1.0], [1.0, 0.0]]), rng)
    assert tied[0] == pytest.approx(0.5, abs=0.1)


def test_permuted_methods_and_tasks_permute_the_weights() -> None:
    _, Q = quadratic_forms(np.random.default_rng(4))
    methods, tasks = [3, 1, 4, 0, 2], [5, 2, 0, 1, 4, 3]
    w, other = (
        fit_simplex(squares_objective(q, MIN_ERROR), 5, 54, trace=Trace(), loop="weights")
        for q in (Q, Q[tasks][:, methods][:, :, methods])
    )
    np.testing.assert_allclose(other, w[methods], atol=1e-5)


def test_small_weights_are_dropped_and_the_others_add_up_to_one() -> None:
    w = combine(np.array([0.9, 0.1, 0.0]), np.array([0.95, 0.0, 0.05]))
    np.testing.assert_allclose(w, [0.925 / 0.975, 0.05 / 0.975, 0.0])
    many = combine(np.full(50, 0.02), np.full(50, 0.02))
    np.testing.assert_allclose(many, 0.02)  # all are small, so all stay


def test_means_over_tasks_use_the_weights_of_rows() -> None:
    found = task_means(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1]), np.array([1.0, 3.0, 2.0]), 2)
    np.testing.assert_allclose(found, [2.5, 5.0])


def held_out(tasks: TaskSet, *, n_folds: int) -> HeldOutRows:
    return HeldOutRows.of(tasks, spread_rows(tasks, n_folds=n_folds, seed=0))


@pytest.mark.parametrize("class_weight", [None, "none", "balanced"])
def test_factors_of_weights_and_rows_of_weight_0_change_no_weight_of_a_fit(class_weight) -> None:
    rng = np.random.default_rng(0)
    given = [replace(one, weights=rng.uniform(1, 9, one.n_samples)) for one in labelled(made())]
    longer = [
        Task.from_rows(
            one.name,
            np.concatenate([one.X[:1], one.X]),
            y=np.concatenate([one.y[:1], one.y]),
            weights=10.0**t * np.concatenate([[0.0], one.weights]),
        )
        for t, one in enumerate(given)
    ]
    ours, theirs = (
        HeldOutRows.of(
            tasks, spread_rows(tasks, n_folds=5, seed=0), RowOptions(class_weight=class_weight)
        )
        for tasks in (TaskSet(tuple(given)), TaskSet(tuple(longer)))
    )
    np.testing.assert_allclose(theirs.fit_weights, ours.fit_weights)


def test_a_huge_target_of_weight_0_changes_no_unit() -> None:
    (task,) = made(n_tasks=1)
    y, weights = task.y.copy(), np.ones(task.n_samples)
    y[0], weights[0] = 1e9, 0.0
    rows = held_out(TaskSet((replace(task, y=y, weights=weights),)), n_folds=5)
    assert rows.unit == pytest.approx(np.std(task.y[1:]))


def stacked(tasks: TaskSet, kind=NumberStack, n_methods=3, seed=0):
    """Return a stack of made outputs: the targets with errors."""
    rng = np.random.default_rng(seed)
    rows = held_out(tasks.by_name(), n_folds=5)
    if kind is NumberStack:
        truth = rows.y[:, np.newaxis]
    else:
        truth = np.where(rows.y[:, np.newaxis] == np.arange(len(rows.labels)), 1.0, -1.0)
    sizes = np.linspace(0.5, 1.5, n_methods)
    errors = [s * rng.standard_normal(truth.shape) for s in sizes]
    return kind(rows, np.stack([truth + one for one in errors]))


def weights_of(stack):
    return stack.learn_weights(stack.scored, is_single=False, trace=Trace(), seed=0)


def test_an_expected_error_rate_is_at_most_1() -> None:
    stack = stacked(labelled(made(n_tasks=2)), ClassStack)
    is_right = stack.rows.owner == 0
    answers = (stack.rows.y == is_right).astype(float)
    found = describe_expected(stack, np.stack([1 - answers, answers], axis=1))
    assert [found[key] for key in ("low", "value", "high")] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize("kind", [NumberStack, ClassStack])
def test_a_duplicate_changes_predictions_by_less_than_a_hundredth(kind) -> None:
    tasks = made() if kind is NumberStack else labelled(made())
    stack = stacked(tasks, kind)
    doubled = replace(stack, outputs=np.concatenate([stack.outputs, stack.outputs[:1]]))
    before, after = (one.mixed(weights_of(one), stack.scored) for one in (stack, doubled))
    assert np.abs(after - before).mean() <= MAX_DUPLICATE_CHANGE * before.std()


def test_the_only_method_is_the_ensemble() -> None:
    stack = stacked(made(), n_methods=1)
    np.testing.assert_array_equal(weights_of(stack), [1.0])
    np.testing.assert_array_equal(
        stack.cross_fit(stack.fold_weights(is_single=False, trace=Trace(), seed=0)),
        stack.outputs[0],
    )


@pytest.mark.parametrize("kind", [NumberStack, ClassStack])
def test_stacks_that_are_joined_and_divided_are_those_of_the_outputs(kind) -> None:
    stack = stacked(made() if kind is NumberStack else labelled(made()), kind)
    single = [kind(stack.rows, stack.outputs[[a]]) for a in range(3)]
    joined = single[0].join(single[1:])
    np.testing.assert_array_equal(joined.row_losses, stack.row_losses)
    np.testing.assert_array_equal(joined.take([2, 0]).row_losses, stack.row_losses[[2, 0]])
    np.testing.assert_array_equal(weights_of(joined), weights_of(stack))


def test_of_many_rows_few_decide_on_a_mixture_and_it_is_as_good(monkeypatch) -> None:
    stack = stacked(made(n=100))
    every = weights_of(stack)
    monkeypatch.setattr("algorithms.ensemble.stack.MAX_MIXED_ROWS", len(stack.rows.y) // 3)
    np.testing.assert_allclose(weights_of(stack), every, atol=0.1)


def test_the_rows_that_decide_on_a_mixture_are_of_all_kinds_where_these_alternate(
    monkeypatch,
) -> None:
    rows = stacked(made(n=200)).rows
    errors = np.random.default_rng(0).standard_normal(rows.y.shape)
    by_day, by_night = np.where(rows.row % 2, [[1.0], [0.5]], [[0.5], [1.0]]) * errors
    stack = NumberStack(rows, np.stack([rows.y + by_day, rows.y + by_night])[:, :, np.newaxis])
    every = weights_of(stack)
    monkeypatch.setattr("algorithms.ensemble.stack.MAX_MIXED_ROWS", len(rows.y) * 2 // 3)
    np.testing.assert_allclose(weights_of(stack), every, atol=0.1)


@pytest.mark.parametrize("n", [100, 3_000])
def test_kernels_of_many_rows_are_those_of_each_task(n) -> None:
    tasks = [Task.from_rows(f"t{t}", np.zeros((n, 2)), y=np.zeros(n)) for t in range(4)]
    summaries = TaskSet(tuple(tasks)).summaries()
    (kernel,) = (one for one in contenders_for(summaries) if one.label == "kernel-ridge per task")
    kernel.algorithm.check(summaries, kernel.params)
    assert kernel.role == "single_task"
    alone = kernel.algorithm.work(summaries[:1], kernel.params).seconds
    seconds = kernel.algorithm.work(summaries, kernel.params).seconds
    assert (seconds < 5 * alone) == (n > 1_000)


def test_platt_maps_are_logistic_regressions_of_the_scores() -> None:
    stack = stacked(labelled(made(n=100)), ClassStack)
    slope, intercept = stack.maps(stack.scored)[2, 1]
    scores = stack.outputs[2][:, [1]]
    sklearn = LogisticRegression(C=np.inf).fit(scores, stack.rows.y)
    # Platt's targets are not quite 0 and 1
    assert slope == pytest.approx(sklearn.coef_[0, 0], rel=0.05)
    assert intercept == pytest.approx(sklearn.intercept_[0], abs=0.05)


@pytest.mark.slow
def test_how_often_a_class_is_in_the_other_rows_says_nothing_of_held_out_coins() -> None:
    # one table of 100 coins is better or worse than chance by .01
    losses = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        coins = TaskSet(
            tuple(
                Task.from_rows(f"t{t}", rng.normal(size=(5, 2)), y=rng.choice(["no", "yes"], 5))
                for t in range(20)
            )
        )
        contenders = {one["label"]: one for one in fit(coins).fit_info["contenders"]}
        losses.append(contenders["constant pooled"]["loss"])
    assert np.mean(losses) >= np.log(2) - 0.005


def test_probabilities_of_a_row_come_from_maps_without_its_fold() -> None:
    stack = stacked(labelled(made()), ClassStack)
    fold = stack.rows.folds[0]
    spoilt = np.where((stack.rows.fold == fold)[:, np.newaxis], -stack.outputs, stack.outputs)
    other = replace(stack, outputs=spoilt)
    own = np.flatnonzero(stack.rows.fold == fold)
    others = np.flatnonzero(stack.rows.fold != fold)
    np.testing.assert_array_equal(stack.maps(others), other.maps(others))
    assert (other.row_losses[0, own].mean()) > stack.row_losses[0, own].mean()


@pytest.mark.slow  # statistics
def test_sets_of_classes_cover_their_share_of_new_rows() -> None:
    tasks, covered, sizes = labelled(made(n_tasks=12, n=40, noise=2.0)), [], []
    model = fit(TaskSet(tuple(one.take(np.arange(20)) for one in tasks)))
    for one in tasks:
        found = model.predict_set(one.X[20:], task=one.name, level=0.9)
        covered.append(found[np.arange(20), (one.y[20:] == "low").astype(int)])
        sizes.append(found.sum(axis=1))
        best = model.predict_proba(one.X[20:], task=one.name).argmax(axis=1)
        assert (found[np.arange(20), best] == 1.0).all()
    # a binomial standard error of 240 rows is .02
    assert np.mean(covered) == pytest.approx(0.9, abs=0.06)
    assert 1.0 < np.mean(sizes) < 2.0


def test_the_only_row_of_a_class_in_its_task_is_held_out_too() -> None:
    tasks = []
    rng = np.random.default_rng(0)
    for t in range(10):
        y = np.array(["rare"] + ["usual"] * 7)
        tasks.append(Task.from_rows(f"t{t}", rng.standard_normal((8, 2)), y=y))
    rows = held_out(TaskSet(tuple(tasks)), n_folds=5)
    is_rare = rows.y == 0
    assert (rows.fold[is_rare] >= 0).all()
    assert np.bincount(rows.fold[is_rare]).max() < 6  # by chance, though it is row 0 of each task


def test_rows_of_a_group_are_held_out_together() -> None:
    tasks = TaskSet(
        tuple(replace(one, groups=np.repeat(["a", "b", "c", "d"], 3)) for one in made(n=12))
    )
    rows = held_out(tasks, n_folds=3)
    groups = np.concatenate([one.groups for one in tasks])
    for group in "abcd":
        assert len(set(rows.fold[groups == group].tolist())) == 1


@pytest.mark.slow
def test_the_report_says_what_each_method_is_worth() -> None:
    tasks = made()
    model = fit(tasks)
    found = model.fit_info["contenders"]
    assert {one["label"] for one in found} == {one.label for one in CONTENDERS["numbers"]}
    scored = [one for one in found if "reason" not in one]
    assert [one["loss"] for one in scored] == sorted(one["loss"] for one in scored)
    assert sum(one["weight"] for one in scored) == pytest.approx(1.0)
    assert all(set(one["by_task"]) == set(tasks.names) for one in scored)
    left_out = {one["label"] for one in found if "reason" in one}
    assert left_out == {"gp of logarithms", "gp per task of logarithms"}
    assert all(one["seconds"] > 0 for one in model.race()["contenders"] if "loss" in one)
    expected = model.fit_info["expected"]
    assert expected["metric"] == "rmse"
    assert expected["low"] < expected["value"] < expected["high"]
    assert expected["value"] == pytest.approx(np.mean(list(expected["by_task"].values())))


@pytest.mark.slow
def test_one_method_alone_predicts_as_its_own_model() -> None:
    tasks = made()
    model = fit(tasks, single=True)
    best = model.fit_info["contenders"][0]
    assert best["weight"] == 1.0
    alone = ALGORITHMS[best["algorithm"]]
    other = alone.fit(
        tasks.by_name(),
        alone.parse(best["params"]),
        trace=Trace(),
        rng=np.random.default_rng(int(np.random.default_rng(0).integers(2**31))),
    )
    rows = np.random.default_rng(1).standard_normal((4, 3))
    np.testing.assert_allclose(
        model.predict(rows, task="t3"), other.predict(rows, task="t3"), rtol=1e-6
    )


def test_a_tiny_budget_leaves_one_method_and_names_the_others() -> None:
    model = fit(made(), budget_s=1e-3)
    assert [one["label"] for one in model.fit_info["contenders"] if "loss" in one] == [
        "constant per task"
    ]
    assert "ridge pooled" in model.warnings[0]


def test_a_race_that_is_ended_keeps_the_methods_that_are_scored() -> None:
    steps = []
    trace = Trace(on_step=steps.append, is_ending=lambda: len(steps) > 20)
    model = fit(made(), trace=trace)
    scored = [one["label"] for one in model.fit_info["contenders"] if "loss" in one]
    assert 1 < len(scored) < len(model.fit_info["contenders"])
    assert "ended before" in model.warnings[0]
    assert "budget" not in model.warnings[0]


def test_a_race_that_is_ended_before_its_first_score_keeps_the_first_method() -> None:
    model = fit(made(), trace=Trace(is_ending=lambda: True))
    scored = [one["label"] for one in model.fit_info["contenders"] if "loss" in one]
    assert scored == ["constant per task"]


def test_the_expected_work_and_the_time_left_are_within_the_budget() -> None:
    steps = []
    tasks = made(n_tasks=40, n=100, d=20)
    work = ENSEMBLE.work(tasks.summaries(), ENSEMBLE.parse({"budget_s": 2.0}))
    assert work.seconds == pytest.approx(2.0)
    fit(made(), trace=Trace(on_step=steps.append), budget_s=7.0)
    assert all(0 <= step.left_s <= 7.0 for step in steps)


def test_a_fit_that_exceeds_the_budget_is_interrupted(monkeypatch) -> None:
    # the clock jumps with the first gradient of the first Gaussian process
    times = iter(range(10**6))
    seconds = [0.0]
    monkeypatch.setattr(race_module.Clock, "spent", lambda _self: seconds[0])
    gp = ALGORITHMS["gp"]
    plain = type(gp).fit

    def slow(self, tasks, params, *, trace, rng):
        seconds[0] += 100.0 if next(times) == 0 else 0.0
        return plain(self, tasks, params, trace=trace, rng=rng)

    monkeypatch.setattr(type(gp), "fit", slow)
    model = fit(made(), budget_s=100.0)
    reasons = {
        one["label"]: one["reason"] for one in model.fit_info["contenders"] if "reason" in one
    }
    assert reasons["gp"].startswith(race_module.TOO_SLOW)
    assert "mtfl" in reasons


def test_a_fit_that_is_expected_to_exceed_the_budget_is_not_tried(monkeypatch) -> None:
    gp = type(ALGORITHMS["gp"])
    endless = WorkEstimate("1e12 evaluations", "set fewer", steps=1e12)
    monkeypatch.setattr(gp, "work", lambda *_: endless)
    monkeypatch.setattr(gp, "fit", None)
    model = fit(made(n_tasks=3))
    reasons = {one["label"]: one.get("reason", "") for one in model.fit_info["contenders"]}
    assert reasons["gp"] == race_module.TOO_SLOW


@pytest.mark.slow  # a race
def test_a_method_that_needs_too_much_memory_is_left_out(monkeypatch) -> None:
    def fit_much(*_, **__):
        raise MemoryError("Unable to allocate 8 TiB")

    monkeypatch.setattr(type(ALGORITHMS["mtfl"]), "fit", fit_much)
    model = fit(made(n_tasks=3))
    reasons = {one["label"]: one.get("reason", "") for one in model.fit_info["contenders"]}
    assert "8 TiB" in reasons["mtfl"]


@pytest.mark.slow
def test_a_method_that_cannot_be_fitted_is_named_and_left_out() -> None:
    tasks = labelled(made())
    three = replace(tasks.tasks[0], y=np.array(["a", "high", "low"] * 4), classes=None)
    model = fit(TaskSet((three, *tasks.tasks[1:])))
    reasons = [one for one in model.fit_info["contenders"] if one["label"] == "mixed-model"]
    assert "3 classes" in reasons[0]["reason"]
    assert model.classes("t0") == ("a", "high", "low")
    assert model.classes("t1") == ("high", "low")
    p = model.predict_proba(tasks.tasks[0].X, task="t0")
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert p.shape == (12, 3)


def test_tasks_without_rows_to_hold_out_are_refused() -> None:
    tasks = TaskSet(tuple(one.take(np.arange(1)) for one in made(n_tasks=3)))
    with pytest.raises(InvalidData, match="no row can be held out"):
        fit(tasks)


@pytest.mark.slow  # statistics
def test_intervals_cover_their_share_of_new_rows() -> None:
    tasks, covered = made(n_tasks=12, n=40), []
    half = [one.take(np.arange(20)) for one in tasks]
    model = fit(TaskSet(tuple(half)))
    for one in tasks:
        new = one.take(np.arange(20, 40))
        low, high = model.predict_interval(new.X, task=one.name, level=0.8).T
        covered.append((low <= new.y) & (new.y <= high))
    # a binomial standard error of 240 rows is .026
    assert np.mean(covered) == pytest.approx(0.8, abs=0.08)


@pytest.mark.slow
def test_the_expected_score_is_that_of_new_rows() -> None:
    ratios = []
    for seed in range(6):
        tasks = made(n_tasks=10, n=220, seed=seed)
        model = fit(TaskSet(tuple(one.take(np.arange(15)) for one in tasks)))
        true = [
            np.sqrt(np.mean((model.predict(one.X[15:], task=one.name) - one.y[15:]) ** 2))
            for one in tasks
        ]
        ratios.append(model.fit_info["expected"]["value"] / np.mean(true))
    assert np.exp(np.mean(np.log(ratios))) == pytest.approx(1.03, abs=EXPECTED_RTOL)


@pytest.mark.slow
def test_it_is_better_than_the_mean_of_its_methods_and_near_the_best() -> None:
    ratios = []
    for seed in range(4):
        tasks = made(n_tasks=12, n=215, seed=seed, spread=0.3 * (1 + seed))
        model = fit(TaskSet(tuple(one.take(np.arange(15)) for one in tasks)))
        errors = []
        for one in (model, *model.members):
            found = [one.predict(t.X[15:], task=t.name) - t.y[15:] for t in tasks]
            errors.append(np.mean([np.sqrt(np.mean(e**2)) for e in found]))
        ratios.append(errors[0] / min(errors[1:]))
    assert np.mean(ratios) <= 1.02


def test_new_tasks_get_the_members_with_a_common_part() -> None:
    model = fit(made(spread=0.0))
    extended = model.for_new_tasks(("new",))
    assert extended.weights.sum() == pytest.approx(1.0)
    assert "predict_interval" not in extended.available_methods()
    with pytest.raises(UnknownTask, match="trained tasks"):
        extended.predict_interval(np.zeros((1, 3)), task="new")


@pytest.mark.slow  # races of numbers and classes
def test_raw_rows_have_probabilities_sets_and_intervals(tmp_path) -> None:
    algorithm = prepared(ENSEMBLE, None, Recipe())
    for tasks, methods in (
        (made(), {"predict", "predict_interval"}),
        (labelled(made()), {"predict", "decision_function", "predict_proba", "predict_set"}),
    ):
        model = algorithm.fit(
            tasks, ENSEMBLE.parse({}), trace=Trace(), rng=np.random.default_rng(0)
        )
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        assert set(loaded.available_methods()) == methods
        rows = np.random.default_rng(1).standard_normal((5, 3))
        for method in methods:
            np.testing.assert_array_equal(
                getattr(loaded, method)(rows, task="t1"), getattr(model, method)(rows, task="t1")
            )


@pytest.mark.slow
def test_a_calibration_replaces_its_own_probabilities() -> None:
    algorithm = calibrated(ENSEMBLE, {})
    tasks = labelled(made(n=20))
    assert len(set(algorithm.methods_for("classes"))) == len(algorithm.methods_for("classes"))
    model = algorithm.fit(tasks, ENSEMBLE.parse({}), trace=Trace(), rng=np.random.default_rng(0))
    assert len(set(model.available_methods())) == len(model.available_methods())
    assert model.predict_proba(tasks.tasks[0].X, task="t0").shape == (20, 2)


@pytest.mark.slow  # three races
def test_weights_change_with_the_rows_and_not_with_the_order_of_columns() -> None:
    tasks = made(n_tasks=5)
    turned = TaskSet(tuple(replace(one, X=one.X[:, ::-1].copy()) for one in tasks))
    losses = [
        {one["label"]: one["loss"] for one in fit(t).fit_info["contenders"] if "loss" in one}
        for t in (tasks, turned)
    ]
    for label in ("ridge pooled", "ridge per task", "mean-regularised", "constant per task"):
        assert losses[0][label] == pytest.approx(losses[1][label], rel=1e-6), label


def test_progress_names_each_fit_and_ends_at_one() -> None:
    trace = Trace()
    fit(made(n_tasks=4), trace=trace)
    loops = list(trace.stop_reasons)
    assert loops[0] == "fit constant per task"
    assert "folds of gp" in loops
    assert loops[-1] == "weights"
    assert trace.history[-1].fraction == pytest.approx(1.0)
    seconds = [step.elapsed_s for step in trace.history]
    assert seconds == sorted(seconds)


def test_folds_of_a_gp_start_from_its_fit_of_all_rows() -> None:
    tasks, rng = made(n_tasks=4, n=20), np.random.default_rng(0)
    gp = ALGORITHMS["gp"]
    whole = gp.fit(tasks, gp.parse({}), trace=Trace(), rng=rng)
    again = gp.refit(whole, tasks, gp.parse({"max_iter": 1}), trace=Trace(), rng=rng)
    rows = rng.standard_normal((5, 3))
    np.testing.assert_allclose(
        again.predict(rows, task="t1"), whole.predict(rows, task="t1"), rtol=0.05, atol=0.02
    )


@pytest.mark.quick(1)
@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_new_task_is_learned_by_every_member_and_has_intervals(kind, tmp_path) -> None:
    tasks = made(n_tasks=6, n=12)
    tasks = tasks if kind == "numbers" else labelled(tasks)
    model = fit(TaskSet(tasks.tasks[:5]), budget_s=2.0)
    adapted = ENSEMBLE.adapt(model, tasks.tasks[5])
    save_model(adapted, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    rows = tasks.tasks[0].X
    np.testing.assert_array_equal(loaded.predict(rows, task="t0"), model.predict(rows, task="t0"))
    new = tasks.tasks[5]
    method = "predict_interval" if kind == "numbers" else "predict_set"
    assert np.isfinite(getattr(loaded, method)(new.X, task=new.name, level=0.5)).all()


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_a_new_task_is_learned_by_the_members_that_can(kind, tmp_path) -> None:
    tasks = made(n_tasks=4, n=12)
    tasks = tasks if kind == "numbers" else labelled(tasks)
    known, new = TaskSet(tasks.tasks[:3]), tasks.tasks[3]
    algorithms = [ALGORITHMS["kernel-ridge"], ALGORITHMS["mean-regularised"]]
    members = tuple(
        one.fit(known, one.parse({}), trace=Trace(), rng=np.random.default_rng(0))
        for one in algorithms
    )
    model = fit(known, budget_s=1e-3)
    maps = np.tile(model.maps[:1], (2, 1, 1))
    model = replace(model, members=members, weights=np.array([0.75, 0.25]), maps=maps)
    adapted = ENSEMBLE.adapt(model, new)
    assert adapted.tasks == tasks.names
    assert "kernel-ridge" in adapted.warnings[-1]
    assert "75%" in adapted.warnings[-1]
    save_model(adapted, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    method = "predict" if kind == "numbers" else "predict_proba"
    rows = known.tasks[0].X
    for task in known.names:
        np.testing.assert_array_equal(
            getattr(loaded, method)(rows, task=task), getattr(model, method)(rows, task=task)
        )
    alone = replace(adapted, members=adapted.members[1:], weights=np.ones(1), maps=maps[1:])
    np.testing.assert_array_equal(
        getattr(loaded, method)(rows, task=new.name), getattr(alone, method)(rows, task=new.name)
    )
    assert loaded.width("predict", task=new.name) == 3
    # another task, after the file was loaded
    again = ENSEMBLE.adapt(loaded, replace(new, name="again"))
    np.testing.assert_array_equal(
        again.predict(rows, task="again"), loaded.predict(rows, task=new.name)
    )


def test_an_ensemble_of_members_that_cannot_be_adapted_names_one() -> None:
    tasks = made(n_tasks=3)
    model = fit(TaskSet(tasks.tasks[:2]), budget_s=1e-3)
    alone = ALGORITHMS["kernel-ridge"]
    member = alone.fit(
        TaskSet(tasks.tasks[:2]),
        alone.parse({"form": "task"}),
        trace=Trace(),
        rng=np.random.default_rng(0),
    )
    with pytest.raises(InvalidData, match="kernel-ridge, a member"):
        ENSEMBLE.adapt(replace(model, members=(member,)), tasks.tasks[2])
