"""Whether tasks point the same way: exact under signs, and the score of a common function."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.stats import kstest, multivariate_normal

from algorithms.evaluation.choice.alignment import (
    N_DRAWS,
    WeightedRows,
    align,
    products_between,
    sign_p_value,
)
from algorithms.gp.alone import SeparateProblem, alignment_of, centred_targets
from algorithms.gp.data import Data
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace

#: Level of the tests of distributions below, which seeds make repeatable.
SMALL_P = 0.01


def tasks_of(rng, *, n_tasks=8, n=10, d=3, shared=0.0, classes=False) -> TaskSet:
    """Return linear tasks; ``shared`` is the share of coefficients' variance that is common."""
    common = rng.normal(size=d)
    tasks = []
    for t in range(n_tasks):
        w = np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.normal(size=d)
        X = rng.normal(size=(n, d))
        y = X @ w + 0.5 * rng.normal(size=n) + (0 if classes else 5 * rng.normal())
        tasks.append(Task.from_rows(f"t{t}", X, y=np.where(y > 0, "b", "a") if classes else y))
    return TaskSet(tuple(tasks))


def p_of(tasks) -> float:
    return alignment_of(tasks, np.random.default_rng(0), trace=Trace()).p_value


def with_signs(tasks, signs) -> TaskSet:
    pairs = zip(tasks, signs, strict=True)
    return TaskSet(tuple(replace(task, y=s * task.y) for task, s in pairs))


def random_products(rng, n_tasks):
    """Return symmetric G of independent tasks, none of which has a preferred sign."""
    a = rng.normal(size=(n_tasks, 4)) * np.exp(rng.normal(size=(n_tasks, 1)))
    return a @ a.T


def test_related_tasks_point_the_same_way_and_opposite_ones_do_not() -> None:
    tasks = tasks_of(np.random.default_rng(0), shared=1.0)
    assert p_of(tasks) == 1 / 2**7  # the smallest share of 2^8 signs, which come in pairs
    assert p_of(with_signs(tasks, [1, -1] * 4)) > 0.1


def test_all_signs_of_few_tasks_are_counted() -> None:
    G = random_products(np.random.default_rng(1), 8)
    off = G - np.diag(np.diag(G))
    every = [np.array(s) @ off @ np.array(s) for s in product([-1.0, 1.0], repeat=8)]
    expected = np.mean(np.array(every) >= off.sum() - 1e-9)
    assert sign_p_value(G, np.random.default_rng(0)) == pytest.approx(expected)
    assert 0.01 < expected < 0.99


def test_drawn_signs_agree_with_all_signs(monkeypatch) -> None:
    G = random_products(np.random.default_rng(2), 12)
    exact = sign_p_value(G, np.random.default_rng(0))
    monkeypatch.setattr("algorithms.evaluation.choice.alignment.MIN_DRAWN_TASKS", 2)
    drawn = sign_p_value(G, np.random.default_rng(0))
    assert abs(drawn - exact) < 4 * np.sqrt(exact * (1 - exact) / N_DRAWS)


def test_p_is_uniform_for_weights_without_a_preferred_sign() -> None:
    rng = np.random.default_rng(3)
    p_values = [sign_p_value(random_products(rng, 10), rng) for _ in range(1000)]
    assert kstest(p_values, "uniform").pvalue > SMALL_P


@pytest.mark.slow
def test_p_is_uniform_over_unrelated_tasks() -> None:
    p_values = [
        p_of(tasks_of(np.random.default_rng([seed, 10]), n_tasks=10, n=8)) for seed in range(1000)
    ]
    assert kstest(p_values, "uniform").pvalue > SMALL_P


@pytest.mark.slow
def test_few_unrelated_tasks_seldom_have_a_small_p() -> None:
    """Nominal is 1 %; verdicts take it as 4 %."""
    p_values = [
        p_of(tasks_of(np.random.default_rng([seed, 4]), n_tasks=4, n=8)) for seed in range(200)
    ]
    assert np.mean(np.array(p_values) < 0.01) < 0.07


def fitted(tasks):
    """Return a problem of separate tasks, and hyperparameters far from its start."""
    data = Data.of(tasks, max_lengths=30, rng=np.random.default_rng(0))
    Y = centred_targets(data)
    problem = SeparateProblem(data.rows, Y, data.weights, 1.0, 1.0, np.zeros(0))
    return problem, problem.start() + 0.3 * np.random.default_rng(1).normal(
        size=len(problem.start())
    )


def test_the_statistic_is_the_derivative_of_the_evidence_by_a_common_function() -> None:
    problem, z = fitted(tasks_of(np.random.default_rng(4), n_tasks=3, n=6))
    rows = problem.weighted_rows(z)
    sizes = [len(one.weights) for one in rows]
    k = problem.common_covariance(z)
    weights = np.concatenate([one.weights for one in rows])
    G = products_between(k, weights, sizes)
    own = np.zeros_like(k)
    between = k.copy()
    for one, start in zip(rows, np.cumsum([0, *sizes[:-1]]), strict=True):
        block = slice(start, start + len(one.weights))
        own[block, block] = one.root @ one.root.T
        between[block, block] = 0.0
    y = problem.Y[:, 0]
    step = 1e-5
    evidence = [multivariate_normal(cov=own + s * step * between).logpdf(y) for s in (-1.0, 1.0)]
    derivative = (evidence[1] - evidence[0]) / (2 * step)
    assert G.sum() - np.trace(G) == pytest.approx(2 * derivative, rel=1e-5)


def test_the_evidence_of_separate_tasks_is_the_product_and_has_its_gradient() -> None:
    problem, z = fitted(tasks_of(np.random.default_rng(5), n_tasks=3, n=6))
    value, gradient = problem.objective(z)
    step = 1e-5
    for j in range(len(z)):
        ends = [problem.objective(z + s * step * np.eye(len(z))[j])[0] for s in (-1.0, 1.0)]
        assert gradient[j] == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-5, abs=1e-6)
    each = sum(part.negative_log_evidence(z) for part in problem.parts)
    assert problem.negative_log_evidence(z) == pytest.approx(each)
    assert np.isfinite(value)


def test_the_statistics_of_all_signs_do_not_depend_on_the_signs_of_targets() -> None:
    tasks = tasks_of(np.random.default_rng(6), n_tasks=4)
    turned = with_signs(tasks, [1, -1, -1, 1])
    sizes, G = [10] * 4, []
    for one in (tasks, turned):
        problem, z = fitted(one)
        weights = np.concatenate([rows.weights for rows in problem.weighted_rows(z)])
        G.append(products_between(problem.common_covariance(z), weights, sizes))
    signs = np.array([1, -1, -1, 1])
    np.testing.assert_allclose(G[1], G[0] * np.outer(signs, signs), rtol=1e-9, atol=1e-12)
    assert p_of(with_signs(tasks, [-1] * 4)) == p_of(tasks)


def test_units_and_order_do_not_matter() -> None:
    tasks = tasks_of(np.random.default_rng(7), shared=0.5)
    scaled = TaskSet(
        tuple(replace(task, X=1e3 * task.X + 7, y=1e6 * task.y + 1e7) for task in tasks)
    )
    assert p_of(scaled) == pytest.approx(p_of(tasks))
    assert p_of(TaskSet(tasks.tasks[::-1])) == p_of(tasks)


def test_classes_are_tested_too() -> None:
    tasks = tasks_of(np.random.default_rng(8), n_tasks=9, n=16, shared=1.0, classes=True)
    assert p_of(tasks) < 0.01


def test_what_has_no_direction_is_left_out() -> None:
    tasks = tasks_of(np.random.default_rng(9), n_tasks=9, shared=1.0)
    flat = replace(tasks.tasks[0], y=np.full(10, 3.0))
    found = alignment_of(TaskSet((flat, *tasks.tasks[1:])), np.random.default_rng(0), trace=Trace())
    assert (found.n_tasks, found.n_rows, found.null) == (8, 80, "signs")


@pytest.mark.parametrize("n_flat", [1, 2])
def test_fewer_than_two_tasks_with_a_direction_have_no_test(n_flat) -> None:
    first, second = tasks_of(np.random.default_rng(10), n_tasks=2).tasks
    flat = [replace(task, y=np.ones(10)) for task in (second, first)][:n_flat]
    tasks = TaskSet((first, *flat)) if n_flat == 1 else TaskSet(tuple(flat))
    assert alignment_of(tasks, np.random.default_rng(0), trace=Trace()) is None


def test_rows_of_weight_zero_do_not_count() -> None:
    tasks = tasks_of(np.random.default_rng(13), shared=0.5)
    weights = np.where(np.arange(10) < 7, 2.0, 0.0)
    weighted = TaskSet(tuple(replace(task, weights=weights) for task in tasks))
    assert p_of(weighted) == p_of(TaskSet(tuple(task.take(np.arange(7)) for task in tasks)))


def test_tasks_of_different_columns_have_no_test() -> None:
    first, second = tasks_of(np.random.default_rng(11), n_tasks=2).tasks
    other = Task.from_rows("other", second.X[:, :2], y=second.y)
    found = alignment_of(TaskSet((first, other)), np.random.default_rng(0), trace=Trace())
    assert found is None


def test_many_rows_are_balanced_over_tasks(monkeypatch) -> None:
    monkeypatch.setattr("algorithms.gp.alone.MAX_ROWS", 150)
    rng = np.random.default_rng(12)
    tasks = tasks_of(rng, n_tasks=3, n=90, d=8, shared=1.0)
    found = alignment_of(tasks, np.random.default_rng(0), trace=Trace())
    assert found.n_rows == 150
    assert found.p_value < 0.01
    assert found.null == "rotations"


@pytest.mark.slow
def test_p_is_uniform_for_weights_of_unrelated_tasks(monkeypatch) -> None:
    monkeypatch.setattr("algorithms.evaluation.choice.alignment.N_DRAWS", 500)
    rng = np.random.default_rng(13)
    X = [rng.normal(size=(6, 2)) for _ in range(3)]
    roots = [np.linalg.cholesky(x @ x.T + np.eye(6)) for x in X]
    k = np.concatenate(X) @ np.concatenate(X).T
    p_values = []
    for _ in range(300):
        rows = [
            WeightedRows(np.linalg.solve(root.T, rng.normal(size=(6, 1))), root) for root in roots
        ]
        p_values.append(align(rows, k, rng).p_value)
    assert kstest(p_values, "uniform").pvalue > SMALL_P


def same_samples(rng, *, n_tasks=8, n=12, d=3) -> TaskSet:
    """Return unrelated functions of the same samples, whose noise is common to all targets."""
    X, noise = rng.normal(size=(n, d)), rng.normal(size=n)
    return TaskSet(
        tuple(
            Task.from_rows(f"t{t}", X, y=X @ rng.normal(size=d) + noise + 0.3 * rng.normal(size=n))
            for t in range(n_tasks)
        )
    )


def test_tasks_that_share_their_samples_have_no_test() -> None:
    """Of 20 such sets, 8 had p < .025."""
    tasks = same_samples(np.random.default_rng(2))
    assert alignment_of(tasks, np.random.default_rng(0), trace=Trace()) is None
    groups = tuple(
        replace(task, X=task.X + t, groups=np.arange(12)) for t, task in enumerate(tasks)
    )
    assert alignment_of(TaskSet(groups), np.random.default_rng(0), trace=Trace()) is None


def test_a_few_rows_in_common_do_not_prevent_the_test() -> None:
    first, *others = tasks_of(np.random.default_rng(16), n=15, shared=1.0).tasks
    X = first.X.copy()
    X[0] = others[0].X[0]
    tasks = TaskSet((replace(first, X=X), *others))
    assert alignment_of(tasks, np.random.default_rng(0), trace=Trace()).n_rows == 120


def test_rows_of_very_many_tasks_are_limited(monkeypatch) -> None:
    monkeypatch.setattr("algorithms.gp.alone.MAX_ROWS", 60)
    tasks = tasks_of(np.random.default_rng(15), n_tasks=30, n=7, d=1)
    found = alignment_of(tasks, np.random.default_rng(0), trace=Trace())
    assert (found.n_tasks, found.n_rows) == (10, 60)
