"""Targets in units of their own: what a unit may change, and what it must not."""

import numpy as np
import pytest
from scipy.special import digamma, polygamma

from algorithms.fmtl import FMTL
from algorithms.interface.target_scales import scale_prior, scales_by_task
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.mtfl import MTFL
from algorithms.numerics.moderated_scales import ScalePrior, estimate_prior
from algorithms.registry import ALGORITHMS

#: A factor that is no power of two rounds every target anew; solvers stop at a relative gap.
SCALED_RTOL = 1e-5
#: Answers of one fit that is exact, or of the same steps on numbers that rounding made unlike.
EXACT_RTOL = 1e-7
#: Estimates from 20,000 groups.
ESTIMATED_RTOL = 0.05

ROWS = np.random.default_rng(9).standard_normal((7, 4))

#: Every method that learns numbers from tasks of rows of their own, with what makes it exact.
METHODS = {
    "mtfl": {"tolerance": 1e-11},
    "ridge": {},
    "kernel-ridge": {},
    "mean-regularised": {},
    "shared-lasso": {"tolerance": 1e-10},
    "fmtl": {"tolerance": 1e-10, "max_iter": 5000},
    "kernel-tasks": {"tolerance": 1e-10},
    "kernel-mean": {"tolerance": 1e-10},
    "mtrl": {"tolerance": 1e-8},
}
#: Those that need the very same rows in every task.
SHARED_METHODS = {"okl": {"tolerance": 1e-8, "max_iter": 3000}, "convex-okl": {"tolerance": 1e-9}}
#: Methods whose fit for a given strength does not depend on a common unit of all targets.
LINEAR = ("mtfl", "ridge", "kernel-ridge", "mean-regularised", "shared-lasso")

#: The ends are the ones that overflow first.
SIZES = [1e-100, *(pytest.param(size, marks=pytest.mark.slow) for size in (1e-30, 1e30)), 1e100]

over_methods = pytest.mark.parametrize("name", [*METHODS, *SHARED_METHODS])


def made(seed=0, *, n_tasks=4, d=4, n=12, shared=False, spreads=None) -> TaskSet:
    rng = np.random.default_rng(seed)
    w, common = rng.standard_normal(d), rng.standard_normal((n, d))
    tasks = []
    for t in range(n_tasks):
        X = common if shared else rng.standard_normal((n + t, d))
        y = X @ (w + 0.5 * rng.standard_normal(d)) + rng.standard_normal(len(X)) + t
        tasks.append(Task.from_rows(f"t{t}", X, y=y * (1.0 if spreads is None else spreads[t])))
    return TaskSet(tuple(tasks))


def made_for(name, **values) -> TaskSet:
    return made(shared=name in SHARED_METHODS, **values)


def fit(name, tasks, **values):
    algorithm = ALGORITHMS[name]
    defaults = {**(METHODS | SHARED_METHODS)[name]}
    if "selection" in algorithm.Params.model_fields:
        defaults["selection"] = "given"
    params = algorithm.Params(**{**defaults, **values})
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


def scaled(tasks, factors) -> TaskSet:
    """Return the tasks with the targets of some multiplied."""
    return TaskSet(
        tuple(
            Task(task.name, task.X, "rows", task.y * factors.get(task.name, 1.0)) for task in tasks
        )
    )


def predictions(model, tasks) -> dict[str, np.ndarray]:
    return {task.name: model.predict(ROWS, task=task.name) for task in tasks}


# ---- laws ---------------------------------------------------------------------------------------


@over_methods
def test_the_unit_of_one_task_changes_only_its_predictions(name) -> None:
    tasks = made_for(name)
    before = predictions(fit(name, tasks, scale_targets="task"), tasks)
    after = predictions(fit(name, scaled(tasks, {"t1": 1000.0}), scale_targets="task"), tasks)
    for task, answer in before.items():
        factor = 1000.0 if task == "t1" else 1.0
        np.testing.assert_allclose(
            after[task], factor * answer, rtol=SCALED_RTOL, atol=SCALED_RTOL * factor
        )


@over_methods
def test_without_scales_the_unit_of_one_task_changes_others(name) -> None:
    """Without scales the unit matters, so the test above is not vacuous."""
    if name in ("ridge", "kernel-ridge", "kernel-tasks"):
        return
    tasks = made_for(name)
    before = fit(name, tasks, scale_targets="none").predict(ROWS, task="t0")
    after = fit(name, scaled(tasks, {"t1": 1000.0}), scale_targets="none").predict(ROWS, task="t0")
    assert np.abs(after - before).max() > 0.01


@over_methods
def test_a_task_in_its_own_unit_is_one_standardised_by_hand(name) -> None:
    tasks = made_for(name, spreads=(1.0, 30.0, 0.1, 5.0))
    model = fit(name, tasks, scale_targets="task")
    spreads = {task.name: task.y.std(ddof=1) for task in tasks}
    means = {task.name: task.y.mean() for task in tasks}
    by_hand = TaskSet(
        tuple(Task(t.name, t.X, "rows", (t.y - means[t.name]) / spreads[t.name]) for t in tasks)
    )
    other = fit(name, by_hand, scale_targets="none")
    for task in tasks:
        expected = means[task.name] + spreads[task.name] * other.predict(ROWS, task=task.name)
        np.testing.assert_allclose(
            model.predict(ROWS, task=task.name), expected, rtol=SCALED_RTOL, atol=SCALED_RTOL
        )


@over_methods
@pytest.mark.parametrize("how", ["moderated", "all"])
def test_the_common_unit_of_all_targets_has_no_effect(name, how) -> None:
    tasks = made_for(name, spreads=(1.0, 3.0, 0.5, 2.0))
    before = predictions(fit(name, tasks, scale_targets=how), tasks)
    everywhere = {task.name: 300.0 for task in tasks}
    after = predictions(fit(name, scaled(tasks, everywhere), scale_targets=how), tasks)
    for task, answer in before.items():
        np.testing.assert_allclose(
            after[task], 300.0 * answer, rtol=SCALED_RTOL, atol=300 * SCALED_RTOL
        )


@pytest.mark.parametrize("name", LINEAR)
@pytest.mark.parametrize("how", ["moderated", "task", "none"])
@pytest.mark.parametrize("size", SIZES)
def test_linear_methods_take_targets_of_any_size(name, how, size) -> None:
    tasks = made(1)
    before = fit(name, tasks, scale_targets=how)
    after = fit(name, scaled(tasks, {task.name: size for task in tasks}), scale_targets=how)
    for task in tasks:
        np.testing.assert_allclose(
            after.predict(ROWS, task=task.name) / size,
            before.predict(ROWS, task=task.name),
            rtol=SCALED_RTOL,
            atol=SCALED_RTOL,
        )
        assert after.metrics["r2"][task.name] == pytest.approx(before.metrics["r2"][task.name])


@pytest.mark.parametrize("name", [*METHODS])
@pytest.mark.parametrize("size", SIZES)
def test_standardised_columns_may_have_any_size(name, size) -> None:
    tasks = made(2)
    before, X = fit(name, tasks), {task.name: task.X * size for task in tasks}
    after = fit(name, TaskSet(tuple(Task(t.name, X[t.name], "rows", t.y) for t in tasks)))
    for task in tasks:
        np.testing.assert_allclose(
            after.predict(ROWS * size, task=task.name),
            before.predict(ROWS, task=task.name),
            rtol=SCALED_RTOL,
            atol=SCALED_RTOL,
        )


@pytest.mark.parametrize("name", ["mtfl", "ridge", "mean-regularised", "shared-lasso"])
@pytest.mark.parametrize("size", [1e-100, 1e-30, 1e30, 1e100])
def test_a_relative_strength_takes_raw_columns_of_any_size(name, size) -> None:
    tasks = made(3)
    before = fit(name, tasks, standardise="none")
    X = {task.name: task.X * size for task in tasks}
    larger = TaskSet(tuple(Task(t.name, X[t.name], "rows", t.y) for t in tasks))
    after = fit(name, larger, standardise="none")
    for task in tasks:
        np.testing.assert_allclose(
            after.predict(ROWS * size, task=task.name),
            before.predict(ROWS, task=task.name),
            rtol=SCALED_RTOL,
            atol=SCALED_RTOL,
        )


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize("size", [1e-100, 1e100])
@pytest.mark.quick(2)
def test_classifiers_take_raw_columns_of_any_size(loss, size) -> None:
    """A new task too: its rows have no unit but that of the model."""

    def scores(factor):
        tasks = [
            Task(t.name, factor * t.X, "rows", np.where(t.y > np.median(t.y), "b", "a"))
            for t in made(11, n_tasks=5)
        ]
        model = fit("mtfl", TaskSet(tuple(tasks[:4])), loss=loss, standardise="none")
        adapted = MTFL().adapt(model, tasks[4])
        return [adapted.decision_function(factor * ROWS, task=t.name) for t in tasks]

    for here, there in zip(scores(1.0), scores(size), strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-3, atol=1e-3)


def test_an_absolute_strength_is_in_the_units_of_the_rows() -> None:
    tasks = made(4)
    larger = TaskSet(tuple(Task(t.name, 1024 * t.X, "rows", t.y) for t in tasks))
    plain = {"standardise": "none", "gamma_scale": "absolute"}
    before = fit("mtfl", tasks, gamma=0.5, **plain)
    after = fit("mtfl", larger, gamma=0.5 * 1024**2, **plain)
    assert after.fit_info["gamma"] == 0.5 * 1024**2
    assert after.fit_info["objective"] == pytest.approx(
        before.fit_info["objective"], rel=EXACT_RTOL
    )
    for task in tasks:
        np.testing.assert_allclose(
            after.predict(1024 * ROWS, task=task.name),
            before.predict(ROWS, task=task.name),
            rtol=EXACT_RTOL,
        )


# ---- the choice of a strength -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "chosen", "keys"),
    [
        ("mtfl", {"selection": "loo"}, ("selection_errors", "gamma_given")),
        ("mtfl", {"selection": "cv"}, ("selection_errors", "gamma_given")),
        ("ridge", {"selection": "loo"}, ("selection_errors", "gamma")),
        ("mean-regularised", {"selection": "loo"}, ("selection_errors", "gamma")),
        ("shared-lasso", {"selection": "cv", "tolerance": 1e-6}, ("cv_errors", "share")),
        ("kernel-mean", {"selection": "cv"}, ("cv_loss", "C")),
    ],
)
def test_every_task_counts_equally_in_the_selection_whatever_its_unit(name, chosen, keys) -> None:
    tasks, factors = made(5), {"t1": 1000.0, "t3": 0.01}
    before = fit(name, tasks, scale_targets="task", **chosen)
    after = fit(name, scaled(tasks, factors), scale_targets="task", **chosen)
    errors, strength = keys
    np.testing.assert_allclose(after.fit_info[errors], before.fit_info[errors], rtol=1e-3)
    assert after.fit_info[strength] == before.fit_info[strength]


@pytest.mark.parametrize("name", ["mtfl", "ridge", "mean-regularised"])
def test_selection_errors_are_in_the_units_of_unscaled_targets(name) -> None:
    tasks = made(5)
    before = fit(name, tasks, scale_targets="none", selection="loo")
    after = fit(
        name, scaled(tasks, {t.name: 3.0 for t in tasks}), scale_targets="none", selection="loo"
    )
    np.testing.assert_allclose(
        after.fit_info["selection_errors"],
        9 * np.array(before.fit_info["selection_errors"]),
        rtol=1e-3,
    )


# ---- tasks with too few rows for a scale --------------------------------------------------------


@over_methods
@pytest.mark.parametrize("how", ["moderated", "task", "all", "none"])
def test_a_constant_task_is_predicted_near_its_constant(name, how) -> None:
    tasks = made_for(name)
    flat = TaskSet(
        (
            *tasks.tasks[:3],
            Task("flat", tasks.tasks[3].X, "rows", np.full(15, 1e9)[: tasks.tasks[3].n_samples]),
        )
    )
    model = fit(name, flat, scale_targets=how)
    spread = max(np.ptp(task.y) for task in tasks)
    assert np.abs(model.predict(ROWS, task="flat") - 1e9).max() < 3 * spread
    without = fit(name, flat, scale_targets=how)
    for task in tasks.tasks[:3]:
        np.testing.assert_array_equal(
            model.predict(ROWS, task=task.name), without.predict(ROWS, task=task.name)
        )


@pytest.mark.parametrize("name", ["mtfl", "ridge", "mean-regularised", "kernel-mean", "fmtl"])
def test_the_size_of_a_constant_does_not_affect_other_tasks(name) -> None:
    tasks = made(6)

    def answer(constant):
        flat = Task("flat", ROWS, "rows", np.full(len(ROWS), constant))
        return fit(name, TaskSet((*tasks, flat)), scale_targets="task").predict(ROWS, task="t0")

    np.testing.assert_allclose(answer(0.1), answer(0.1e100), rtol=EXACT_RTOL)


@pytest.mark.parametrize("name", ["mtfl", "mean-regularised"])
def test_a_task_of_one_row_has_the_typical_unit(name) -> None:
    tasks = made(7, spreads=(2.0, 2.0, 2.0, 2.0))
    one = TaskSet((*tasks, Task("one", ROWS[:1], "rows", np.array([5.0]))))
    scales = scales_by_task(one, "task", is_centered=True)
    known = sorted(task.y.std(ddof=1) for task in tasks)
    assert scales["one"] == pytest.approx((known[1] + known[2]) / 2)
    assert fit(name, one, scale_targets="task").predict(ROWS[:1], task="one") == pytest.approx(5.0)


# ---- moderated deviations -----------------------------------------------------------------------


@pytest.mark.parametrize(("weight", "scale"), [(4.0, 3.0), (20.0, 0.5), (2.0, 1e-90)])
def test_the_prior_of_drawn_deviations_is_recovered(weight, scale) -> None:
    rng = np.random.default_rng(0)
    freedoms = rng.integers(2, 12, 20_000)
    variances = weight / rng.chisquare(weight, 20_000)
    own = scale * np.sqrt(variances * rng.chisquare(freedoms) / freedoms)
    prior = estimate_prior(own.tolist(), freedoms.tolist())
    assert prior.weight == pytest.approx(weight, rel=ESTIMATED_RTOL)
    assert prior.scale == pytest.approx(scale, rel=ESTIMATED_RTOL)


def test_the_prior_solves_the_equations_of_its_moments() -> None:
    own, freedoms = np.array([1.0, 2.0, 5.0, 0.3, 8.0]), np.array([3, 4, 9, 2, 6])
    prior = estimate_prior(own.tolist(), freedoms.tolist())
    logs = np.log(own**2) - digamma(freedoms / 2) + np.log(freedoms / 2)
    half = prior.weight / 2
    assert polygamma(1, half) == pytest.approx(
        logs.var(ddof=1) - polygamma(1, freedoms / 2).mean(), rel=1e-9
    )
    assert 2 * np.log(prior.scale) == pytest.approx(logs.mean() + digamma(half) - np.log(half))


def test_deviations_of_one_population_are_pooled_by_their_freedom() -> None:
    own, freedoms = [3.0, 4.0, 3.5], [4, 40, 6]
    pooled = np.sqrt(np.average(np.square(own), weights=freedoms))
    assert estimate_prior(own, freedoms) == ScalePrior(pytest.approx(pooled), np.inf)


def test_the_moderated_variance_is_a_mean_of_both() -> None:
    prior = ScalePrior(2.0, 6.0)
    assert prior.moderate(5.0, 3) ** 2 == pytest.approx((6 * 4 + 3 * 25) / 9)
    assert prior.moderate(0.0, 3) == 2.0
    assert ScalePrior(2.0, np.inf).moderate(5.0, 3) == 2.0
    assert ScalePrior(2.0, 0.0).moderate(5e100, 3) == 5e100


def test_deviations_that_differ_by_chance_are_moderated_to_one() -> None:
    rng = np.random.default_rng(1)
    tasks = [
        Task.from_rows(f"t{t:02d}", np.zeros((4, 1)), y=rng.standard_normal(4)) for t in range(30)
    ]
    prior = scale_prior(tasks, "moderated", is_centered=True)
    scales = scales_by_task(TaskSet(tuple(tasks)), "moderated", is_centered=True).values()
    own = scales_by_task(TaskSet(tuple(tasks)), "task", is_centered=True).values()
    assert max(scales) / min(scales) < 0.3 * max(own) / min(own)
    assert prior.scale == pytest.approx(1.0, abs=0.3)


def test_deviations_that_differ_twentyfold_are_better_known_together() -> None:
    rng = np.random.default_rng(2)
    spreads = np.geomspace(1, 20, 30)
    tasks = [
        Task.from_rows(f"t{t:02d}", np.zeros((12, 1)), y=s * rng.standard_normal(12))
        for t, s in enumerate(spreads)
    ]
    scales = list(scales_by_task(TaskSet(tuple(tasks)), "moderated", is_centered=True).values())
    own = list(scales_by_task(TaskSet(tuple(tasks)), "task", is_centered=True).values())
    missed, missed_alone = (np.std(np.log(found / spreads)) for found in (scales, own))
    assert missed < missed_alone < 0.3


def test_few_rows_of_similar_spread_do_not_get_worse() -> None:
    """Deviations of 3 to 5 rows are noise: dividing by them makes MTFL worse, moderated not."""
    gains = {"task": [], "moderated": []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        B, train, test = np.linalg.qr(rng.standard_normal((6, 2)))[0], [], []
        for t in range(20):
            w, n = B @ rng.standard_normal(2), int(rng.integers(3, 6))
            X = rng.standard_normal((n + 100, 6))
            y = X @ w / np.linalg.norm(w) + 0.7 * rng.standard_normal(n + 100)
            train.append(Task.from_rows(f"t{t:02d}", X[:n], y=y[:n]))
            test.append((X[n:], y[n:]))

        def error(how, train=train, test=test):
            model = fit("mtfl", TaskSet(tuple(train)), scale_targets=how, tolerance=1e-4)
            return np.mean(
                [
                    np.mean((model.predict(X, task=task.name) - y) ** 2)
                    for task, (X, y) in zip(train, test, strict=True)
                ]
            )

        for how, found in gains.items():
            found.append(error("none") - error(how))
    assert np.mean(gains["task"]) < 2 * np.mean(gains["moderated"]) - 0.02
    assert np.mean(gains["moderated"]) > -0.02


# ---- models: new tasks, old artifacts -----------------------------------------------------------


@pytest.mark.parametrize("name", ["mtfl", "ridge", "kernel-ridge", "mean-regularised", "fmtl"])
def test_a_new_task_is_learned_in_the_unit_of_its_own_rows(name) -> None:
    algorithm, tasks = ALGORITHMS[name], made(8, n_tasks=5)
    model = fit(name, TaskSet(tasks.tasks[:4]), scale_targets="task")
    if not algorithm.supports_adaptation():
        return
    new = tasks.tasks[4]
    here = algorithm.adapt(model, new)
    there = algorithm.adapt(model, Task(new.name, new.X, "rows", 1000 * new.y))
    np.testing.assert_allclose(
        there.predict(ROWS, task="t4"), 1000 * here.predict(ROWS, task="t4"), rtol=SCALED_RTOL
    )


@pytest.mark.parametrize("name", ["mtfl", "ridge", "mean-regularised", "fmtl"])
@pytest.mark.parametrize("how", ["moderated", "task", "none"])
def test_a_new_constant_task_is_predicted_near_its_constant(name, how) -> None:
    algorithm, tasks = ALGORITHMS[name], made(8)
    model = fit(name, tasks, scale_targets=how)
    flat = algorithm.adapt(model, Task("flat", ROWS, "rows", np.full(len(ROWS), 7.0)))
    spread = max(np.ptp(task.y) for task in tasks)
    assert np.abs(flat.predict(ROWS, task="flat") - 7.0).max() < 2 * spread


@pytest.mark.parametrize("name", ["mtfl", "ridge", "mean-regularised", "fmtl"])
def test_an_artifact_without_scales_is_one_of_unscaled_targets(name) -> None:
    """Models made before have neither the parameter nor the prior; one common scale was theirs."""
    algorithm, tasks = ALGORITHMS[name], made(10, n_tasks=5)
    how = "all" if name == "fmtl" else "none"
    model = fit(name, TaskSet(tasks.tasks[:4]), scale_targets=how)
    header = model.header()
    header.pop("target_prior")
    header["fit_info"] = {**header["fit_info"], "params": {**header["fit_info"]["params"]}}
    del header["fit_info"]["params"]["scale_targets"]
    old = type(model).from_arrays(model.to_arrays(), header)
    new = tasks.tasks[4]
    assert old.predict(ROWS, task="t0").tobytes() == model.predict(ROWS, task="t0").tobytes()
    assert (
        algorithm.adapt(old, new).predict(ROWS, task=new.name).tobytes()
        == algorithm.adapt(model, new).predict(ROWS, task=new.name).tobytes()
    )


@pytest.mark.parametrize("algorithm", [MTFL(), FMTL()], ids=lambda one: one.name)
def test_baselines_of_numbers_scale_targets_like_the_candidate(algorithm) -> None:
    for baseline in algorithm.baselines:
        if "scale_targets" in ALGORITHMS[baseline.algorithm].Params.model_fields:
            assert "scale_targets" in baseline.copied_params
