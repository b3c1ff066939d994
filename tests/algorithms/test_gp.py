"""The multi-task Gaussian process, beside scikit-learn, ridge regression and plain formulas."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

import algorithms.gp.posterior as posterior_module
from algorithms.gp.covariance import (
    MIN_NOISE,
    Hyperparameters,
    Parts,
    Rows,
    covariances,
    variances,
)
from algorithms.gp.evidence import Problem, ScaleMoments
from algorithms.gp.posterior import JITTER, Layout, mean, solve, variance
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS, load_model, save_model
from algorithms.wrappers.new_tasks import with_new_tasks

GP = ALGORITHMS["gp"]


def made_rows(*, n_tasks=4, n=6, d=3, seed=0) -> Rows:
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), n)
    X = rng.normal(size=(len(task), d))
    return Rows(X, task, np.arange(d), float((X**2).sum(axis=1).mean()))


def theta_of(**values: float) -> Hyperparameters:
    theta = Hyperparameters(0.5, 0.6, 0.2, 0.15, 0.3, 0.1, 1.3, np.linspace(0.6, 1.4, 3))
    return theta._replace(**values)


def made_tasks(*, n_tasks=8, n=12, d=3, seed=0, own=0.3, noise=0.3, labels=None) -> TaskSet:
    rng = np.random.default_rng(seed)
    w = rng.normal(size=d)
    tasks = []
    for t in range(n_tasks):
        X = rng.normal(size=(n, d))
        y = X @ (w + own * rng.normal(size=d)) + np.sin(2 * X[:, 0]) + noise * rng.normal(size=n)
        if labels is not None:
            y = np.array(labels)[np.digitize(y, np.linspace(-1, 1, len(labels) + 1)[1:-1])]
        tasks.append(Task.from_rows(f"t{t:02d}", X, y=y))
    return TaskSet(tuple(tasks))


def with_targets(tasks, change) -> TaskSet:
    return TaskSet(tuple(replace(one, y=change(one.y)) for one in tasks))


def fit(tasks, **values):
    return GP.fit(tasks, GP.parse(values), trace=Trace(), rng=np.random.default_rng(0))


def exact(rows, theta, y, noise, Z, task):
    """Return mean and variance by inverting the whole covariance."""
    common, own = covariances(Z, rows.X, rows, theta)
    k = common + (rows.task == task) * own
    inverse = np.linalg.inv(Parts.of(rows, theta).matrix() + np.diag(noise + JITTER))
    v = variances(Z, rows, theta) - np.einsum("zn,nm,zm->z", k, inverse, k)
    return k @ inverse @ y, v


def test_the_common_part_is_the_process_of_scikit_learn() -> None:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, WhiteKernel

    rows = made_rows()
    theta = theta_of(own_slopes=0.0, own_curve=0.0, own_constant=0.0)
    Y = np.random.default_rng(1).normal(size=(len(rows.X), 1))
    problem = Problem(rows, Y, np.ones(len(Y)), 0.0, 1.0, np.zeros(0))
    z = np.log([1e-300 if v == 0 else v for v in theta[:7]] + theta.lengths.tolist())
    z[5] = math.log(theta.noise - MIN_NOISE)
    kernel = (
        ConstantKernel(1.0)
        + ConstantKernel(theta.common_slopes / rows.size) * DotProduct(0.0, sigma_0_bounds="fixed")
        + ConstantKernel(theta.common_curve) * RBF(math.sqrt(rows.size) * theta.lengths)
        + WhiteKernel(theta.noise)
    )
    peer = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0).fit(rows.X, Y[:, 0])
    assert problem.negative_log_evidence(z) == pytest.approx(-peer.log_marginal_likelihood_value_)

    layout = Layout.of(rows, theta, max_exact=1000)
    solution = solve(layout, Y, np.full(len(Y), theta.noise))
    Z = np.random.default_rng(2).normal(size=(10, 3))
    expected, deviation = peer.predict(Z, return_std=True)
    means = mean(layout, solution.alpha, solution.feature_weights, Z, 0)[:, 0]
    np.testing.assert_allclose(means, expected, atol=1e-6)
    v = variance(layout, solution, Z, 0) + theta.noise
    np.testing.assert_allclose(v, deviation**2, rtol=1e-6)


def test_linear_parts_are_ridge_regression_of_common_and_own_coefficients() -> None:
    rows = made_rows()
    theta = theta_of(common_curve=0.0, own_curve=0.0)
    y = np.random.default_rng(1).normal(size=(len(rows.X), 1))
    layout = Layout.of(rows, theta, max_exact=1000)
    solution = solve(layout, y, np.full(len(y), theta.noise - JITTER))

    def basis(X, task):
        """Return the columns whose coefficients have independent prior variances of 1."""
        slopes, indicator = X / math.sqrt(rows.size), np.eye(4)[task]
        own = math.sqrt(theta.own_slopes) * slopes
        columns = [
            np.ones((len(X), 1)),
            math.sqrt(theta.common_slopes) * slopes,
            math.sqrt(theta.own_constant) * indicator,
            (indicator[:, :, None] * own[:, None]).reshape(len(X), -1),
        ]
        return np.hstack(columns)

    A = basis(rows.X, rows.task)
    weights = np.linalg.solve(A.T @ A + theta.noise * np.eye(A.shape[1]), A.T @ y)
    Z = np.random.default_rng(2).normal(size=(10, 3))
    for t in range(4):
        means = mean(layout, solution.alpha, solution.feature_weights, Z, t)
        np.testing.assert_allclose(means, basis(Z, np.full(10, t)) @ weights, atol=1e-9)


@pytest.mark.parametrize("has_scales", [True, False])
@pytest.mark.parametrize("n_targets", [1, 3])
@pytest.mark.parametrize("groups", [[0, 1, 2], [0, 1, 1], [0, 0, 0]])
def test_the_gradient_is_that_of_differences(has_scales, n_targets, groups) -> None:
    rows = replace(made_rows(), group=np.array(groups))
    rng = np.random.default_rng(1)
    problem = Problem(
        rows,
        rng.normal(size=(len(rows.X), n_targets)),
        rng.uniform(0.5, 2.0, size=len(rows.X)),
        0.7,
        0.4,
        rng.normal(size=4 if has_scales else 0),
    )
    z = problem.start() + 0.3 * rng.normal(size=len(problem.start()))
    _, gradient = problem.objective(z)
    central = [
        (problem.objective(z + h)[0] - problem.objective(z - h)[0]) / 2e-5
        for h in 1e-5 * np.eye(len(z))
    ]
    np.testing.assert_allclose(gradient, central, atol=1e-7 * np.abs(gradient).max())


def test_parameters_far_from_their_start_have_an_infinite_objective() -> None:
    rows = made_rows()
    n = len(rows.X)
    problem = Problem(rows, np.ones((n, 1)), np.ones(n), 0.0, 1.0, np.zeros(0))
    z = problem.start()
    z[0] = 1e3
    assert problem.objective(z)[0] == math.inf


@pytest.mark.parametrize("task", [2, -1])
def test_blocks_with_all_rows_inducing_give_the_exact_answer(task, monkeypatch) -> None:
    rows = made_rows(n_tasks=5, n=30)
    theta = theta_of()
    y = np.random.default_rng(1).normal(size=(len(rows.X), 2))
    noise = np.full(len(y), theta.noise)
    Z = np.random.default_rng(2).normal(size=(10, 3))
    m, v = exact(rows, theta, y, noise, Z, task)

    monkeypatch.setattr(posterior_module, "PIVOT_TOLERANCE", 1e-13)
    monkeypatch.setattr(posterior_module, "MAX_INDUCING", len(y))
    for max_exact, atol in ((1000, 1e-9), (10, 1e-4)):  # inducing rows have a jitter of 1e-8
        layout = Layout.of(rows, theta, max_exact=max_exact)
        solution = solve(layout, y, noise)
        means = mean(layout, solution.alpha, solution.feature_weights, Z, task)
        np.testing.assert_allclose(means, m, atol=atol)
        np.testing.assert_allclose(variance(layout, solution, Z, task), v, atol=atol)


def test_few_inducing_rows_are_close_to_the_exact_answer() -> None:
    tasks = made_tasks(n_tasks=5, n=30)
    whole, blocks = fit(tasks), fit(tasks, evidence_rows=100)
    X = np.random.default_rng(1).normal(size=(50, 3))
    deviation = np.concatenate([one.y for one in tasks]).std()
    for task in tasks.names:
        difference = whole.predict(X, task=task) - blocks.predict(X, task=task)
        assert np.sqrt(np.mean(difference**2)) < 0.2 * deviation


def test_a_task_of_very_many_rows_is_divided(monkeypatch) -> None:
    monkeypatch.setattr(posterior_module, "MAX_BLOCK", 40)
    tasks = made_tasks(n_tasks=2, n=80)
    model, whole = fit(tasks, evidence_rows=50), fit(tasks)
    X = np.random.default_rng(1).normal(size=(50, 3))
    for task in tasks.names:
        assert np.corrcoef(model.predict(X, task=task), whole.predict(X, task=task))[0, 1] > 0.95
        assert (model.variance(X, task=task) > 0).all()


def test_units_of_targets_do_not_matter() -> None:
    tasks = made_tasks()
    X = np.random.default_rng(1).normal(size=(5, 3))
    before = fit(tasks, logarithms="never")
    for scale, shift in ((1e9, 0.0), (1e-9, 0.0), (1.0, 1e6), (-3.0, 7.0)):
        moved = with_targets(tasks, lambda y, a=scale, b=shift: a * y + b)
        after = fit(moved, logarithms="never")
        expected = scale * before.predict(X, task="t00") + shift
        np.testing.assert_allclose(
            after.predict(X, task="t00"), expected, atol=1e-3 * abs(scale), rtol=1e-6
        )


def test_the_order_of_tasks_rows_and_columns_does_not_matter() -> None:
    tasks = made_tasks()
    rng = np.random.default_rng(1)
    X = rng.normal(size=(5, 3))
    columns = np.array([2, 0, 1])
    turned = []
    for one in reversed(tasks.tasks):
        rows = rng.permutation(one.n_samples)
        turned.append(Task.from_rows(one.name, one.X[rows][:, columns], y=one.y[rows]))
    before, after = fit(tasks), fit(TaskSet(tuple(turned)))
    for name in tasks.names:
        np.testing.assert_allclose(
            after.predict(X[:, columns], task=name), before.predict(X, task=name), atol=1e-2
        )


def test_a_new_task_has_the_answer_of_its_rows_among_all_rows() -> None:
    *old, new = made_tasks().tasks
    model = fit(TaskSet(tuple(old)))
    adapted = GP.adapt(model, new)
    X = np.random.default_rng(1).normal(size=(5, 3))
    theta = Hyperparameters.of(adapted.logarithms)
    rows = Rows(adapted.X, adapted.task, adapted.group, adapted.units.size)
    noise = np.full(len(rows.X), theta.noise)
    m, _ = exact(rows, theta, adapted.targets, noise, adapted.units.standardise(X), len(old))
    expected = adapted.units.centre + adapted.units.unit * adapted.scales[-1] * m
    np.testing.assert_allclose(adapted.predict(X, task=new.name), expected[:, 0], rtol=1e-8)
    assert np.array_equal(adapted.predict(X, task="t00"), model.predict(X, task="t00"))
    assert np.array_equal(adapted.variance(X, task="t00"), model.variance(X, task="t00"))


def test_a_task_without_rows_has_the_common_part_and_the_variance_of_its_own() -> None:
    model = fit(made_tasks(), logarithms="never")
    theta = Hyperparameters.of(model.logarithms)
    rows = Rows(model.X, model.task, model.group, model.units.size)
    X = np.random.default_rng(1).normal(size=(5, 3))
    noise = np.full(len(rows.X), theta.noise)
    m, v = exact(rows, theta, model.targets, noise, model.units.standardise(X), -1)

    new = with_new_tasks(model, ("first", "second"))

    for task in ("first", "second"):
        expected = model.units.centre + model.units.unit * m[:, 0]
        np.testing.assert_allclose(new.predict(X, task=task), expected, rtol=1e-8)
        variances = model.units.unit**2 * (v + theta.noise)
        np.testing.assert_allclose(new.variance(X, task=task), variances, rtol=1e-6)
    assert np.array_equal(new.predict(X, task="t00"), model.predict(X, task="t00"))
    blocks = fit(made_tasks(), evidence_rows=50)
    assert np.isfinite(with_new_tasks(blocks, ("first",)).predict(X, task="first")).all()


def test_adapted_models_are_stored(tmp_path) -> None:
    tasks = made_tasks()
    model = fit(TaskSet(tasks.tasks[:-2]), evidence_rows=50)
    for task in tasks.tasks[-2:]:
        model = GP.adapt(model, task)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    X = np.random.default_rng(1).normal(size=(5, 3))
    for name in tasks.names:
        assert np.array_equal(loaded.predict(X, task=name), model.predict(X, task=name))
        assert np.array_equal(loaded.variance(X, task=name), model.variance(X, task=name))


def test_variances_cover_new_targets() -> None:
    """Of processes drawn with known parameters, 90 % intervals have 90 % of the targets."""
    theta = theta_of()
    covered = []
    for seed in range(25):
        rows = made_rows(n_tasks=20, n=6, seed=seed)
        rng = np.random.default_rng(1000 + seed)
        f = rng.multivariate_normal(np.zeros(len(rows.X)), Parts.of(rows, theta).matrix())
        y = f + math.sqrt(theta.noise) * rng.normal(size=len(f))
        is_new = np.arange(len(f)) % 6 == 0
        known = Rows(rows.X[~is_new], rows.task[~is_new], rows.group, rows.size)
        layout = Layout.of(known, theta, max_exact=1000)
        solution = solve(layout, y[~is_new, None], np.full((~is_new).sum(), theta.noise))
        for t in range(20):
            Z = rows.X[is_new][[t]]
            m = mean(layout, solution.alpha, solution.feature_weights, Z, t)[0, 0]
            v = variance(layout, solution, Z, t)[0] + theta.noise
            covered.append(abs(y[is_new][t] - m) <= norm.ppf(0.95) * math.sqrt(v))
    assert 0.87 <= np.mean(covered) <= 0.93


def test_shares_of_variance_tell_what_tasks_share() -> None:
    same, unrelated = made_tasks(own=0.0, noise=0.2), made_tasks(own=5.0, noise=0.2)
    assert fit(same).fit_info["shares_of_variance"]["common"] > 0.8
    shares = fit(unrelated).fit_info["shares_of_variance"]
    assert shares["own_slopes"] > 0.6
    assert sum(shares.values()) == pytest.approx(1.0)


def test_relations_are_shares_of_variance() -> None:
    model = fit(made_tasks(own=1.0))
    shares, relations = model.fit_info["shares_of_variance"], model.relations()
    strength = shares["common"] / (1.0 - shares["noise"])
    assert relations.strength[0, 1:] == pytest.approx(strength)
    assert f"share {shares['common']:.0%}" in relations.sentence
    assert len(GP.adapt(model, replace(made_tasks().tasks[0], name="new")).relations().names) == 9
    assert "only output" in fit(made_tasks(n_tasks=1)).relations().sentence


def test_integer_weights_are_repeated_rows() -> None:
    """Given the hyperparameters: the evidence of repeated rows says more about the noise."""
    rows, theta = made_rows(), theta_of()
    counts = np.arange(len(rows.X)) % 3 + 1
    y = np.random.default_rng(1).normal(size=(len(rows.X), 1))
    Z = np.random.default_rng(2).normal(size=(10, 3))
    repeated = Rows(
        np.repeat(rows.X, counts, 0), np.repeat(rows.task, counts), rows.group, rows.size
    )
    answers = []
    for its_rows, targets, weights in (
        (rows, y, counts),
        (repeated, np.repeat(y, counts, 0), np.ones(counts.sum())),
    ):
        layout = Layout.of(its_rows, theta, max_exact=1000)
        solution = solve(layout, targets, theta.noise / weights)
        m = mean(layout, solution.alpha, solution.feature_weights, Z, 0)
        answers.append((m[:, 0], variance(layout, solution, Z, 0)))
    np.testing.assert_allclose(*answers, atol=1e-6)


def test_positive_targets_of_a_product_are_learned_as_logarithms() -> None:
    tasks = made_tasks(noise=0.1)
    powers = with_targets(tasks, lambda y: np.exp(2 * y))
    model = fit(powers)
    assert model.fit_info["logarithms"] is True
    logarithms = fit(with_targets(tasks, lambda y: 2 * y))
    X = np.random.default_rng(1).normal(size=(5, 3))
    np.testing.assert_allclose(
        np.log(model.predict(X, task="t00")), logarithms.predict(X, task="t00"), atol=0.05
    )
    assert fit(powers, logarithms="never").fit_info["logarithms"] is False
    with pytest.raises(InvalidData, match="above 0"):
        fit(tasks, logarithms="always")


def test_tasks_of_one_class_are_learned_with_the_others() -> None:
    tasks = made_tasks(labels=["no", "yes"])
    first = tasks.tasks[0]
    lone = Task.from_rows("lone", first.X[first.y == "no"], y=first.y[first.y == "no"])
    model = fit(TaskSet((*tasks.tasks, lone)))
    assert model.classes("lone") == ("no", "yes")
    assert len(set(model.decision_function(first.X, task="lone"))) > 1
    with pytest.raises(InvalidData, match="at least two classes"):
        fit(TaskSet((lone,)))


def test_tasks_whose_labels_are_not_known_yet_may_have_classes() -> None:
    summary = TaskSummary("t", 9, 2, target="classes", n_classes=3)
    GP.check([summary], GP.parse({}))


def test_several_classes_have_one_score_each() -> None:
    tasks = made_tasks(n=30, labels=["a", "b", "c"])
    model = fit(tasks)
    y = np.concatenate([one.y for one in tasks])
    predicted = np.concatenate([model.predict(one.X, task=one.name) for one in tasks])
    assert model.decision_function(tasks.tasks[0].X, task="t00").shape == (30, 3)
    assert np.mean(predicted == y) > 0.8


def test_classes_that_no_other_task_has_are_refused() -> None:
    tasks = made_tasks(labels=["no", "yes"])
    first = tasks.tasks[0]
    other = Task.from_rows("other", first.X, y=np.where(first.y == "no", "red", "blue"))
    with pytest.raises(InvalidData) as refused:
        fit(TaskSet((*tasks.tasks, other)))
    assert refused.value.task == "other"


def test_outliers_hardly_move_a_model_with_students_noise() -> None:
    tasks = made_tasks(n_tasks=12)
    rng = np.random.default_rng(1)
    dirty = with_targets(tasks, lambda y: y + 20.0 * (rng.uniform(size=len(y)) < 0.05))
    X = rng.normal(size=(200, 3))
    clean = fit(tasks)

    def distance(model) -> float:
        differences = [
            model.predict(X, task=name) - clean.predict(X, task=name) for name in tasks.names
        ]
        return float(np.sqrt(np.mean(np.square(differences))))

    assert distance(fit(dirty, noise="student")) < 0.5 * distance(fit(dirty))


def test_scales_of_tasks_are_learned() -> None:
    tasks = made_tasks(own=0.0, noise=0.1)
    units = dict(zip(tasks.names, np.geomspace(0.3, 3.0, len(tasks)), strict=True))
    scaled = TaskSet(tuple(replace(one, y=units[one.name] * one.y) for one in tasks))
    ratio = fit(scaled).scales / list(units.values())
    assert np.ptp(np.log(ratio)) < 0.4
    moments = ScaleMoments.of([np.arange(5.0), np.zeros(3), np.zeros(1)])
    assert moments.shrunken(np.zeros(1)) == 0.0


def test_original_columns_share_a_length_scale() -> None:
    tasks = made_tasks()
    grouped = TaskSet(tuple(replace(one, sources=(0, 1, 1)) for one in tasks))
    assert len(fit(grouped).fit_info["length_scales"]) == 2
    assert len(fit(tasks, max_lengths=2).fit_info["length_scales"]) == 1
    assert grouped.tasks[0].select_columns([2, 0]).sources == (1, 0)


def test_equal_targets_give_a_constant() -> None:
    X = np.random.default_rng(0).normal(size=(6, 2))
    tasks = TaskSet(tuple(Task.from_rows(f"t{t}", X, y=np.full(6, 3.0)) for t in range(3)))
    np.testing.assert_allclose(fit(tasks).predict(X, task="t0"), 3.0, atol=1e-6)
