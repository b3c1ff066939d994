"""Folds that are prepared once give the models of separate fits."""

import numpy as np
import pytest

from algorithms.evaluation import fold_splits, grid_candidates, held_out_loss, select_params
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import Cancelled
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Checkpoint, Trace
from algorithms.numerics.least_squares import compress
from algorithms.numerics.leave_one_out import RidgePath, units_by_size
from algorithms.numerics.ridge import ridge_regression
from algorithms.numerics.stacks import Block
from algorithms.registry import ALGORITHMS

#: Predictions of two fits: the error is about the root of the relative duality gap, given below.
PREDICTION_RTOL = 1e-4
#: The same matrices by two decompositions.
ROUNDING_RTOL = 1e-10

#: Algorithms whose candidates share a prepared fold, with a kind of targets and a tight tolerance.
SHARED = [
    ("mtda", "classes", {"gamma_grid": (0.01, 1.0), "d_grid": (1, 2, 5, 64)}),
    ("mtda", "classes", {"gamma_grid": (0.0, 0.1), "d_grid": (2, 5), "null": "exclude"}),
    ("mtda", "classes", {"solver": "alternating", "d_grid": (1, 3), "standardise": "features"}),
    ("lda-tr", "classes", {"gamma_grid": (0.0, 1.0), "d_grid": (1, 2, 64)}),
    ("lda-rt", "classes", {"gamma_grid": (0.0, 1.0), "d_grid": (1, 2, 64)}),
    ("lda-rt", "classes", {"form": "fisherface", "d_grid": (1, 2)}),
    ("lda-null", "classes", {"d_grid": (1, 2, 64)}),
    ("pca-classifier", "classes", {"d_grid": (1, 2, 64), "classifier": "nearest-centroid"}),
    ("aggregate", "classes", {"d_grid": (1, 2), "d_prime_grid": (3, 30)}),
    ("kernel-tasks", "classes", {"tolerance": 1e-9}),
    ("fmtl", "numbers", {"tolerance": 1e-9}),
    ("logistic-regression", "two", {"rtol": 1e-12}),
    ("logistic-regression", "two", {"rtol": 1e-12, "form": "pooled", "fit_intercept": False}),
    ("shared-lasso", "numbers", {"tolerance": 1e-11}),
    ("cmtl", "numbers", {"tolerance": 1e-11}),
    ("gmtl", "numbers", {"tolerance": 1e-11}),
    ("nearest-neighbours", "numbers", {}),
]


def made(kind, *, n=40, d=6, n_tasks=3, is_weighted=False) -> TaskSet:
    """Return tasks with numbers, two classes or four classes; the columns have own scales."""
    rng = np.random.default_rng(0)
    tasks = []
    for t in range(n_tasks):
        X = rng.standard_normal((n, d)) * rng.uniform(0.5, 2, d)
        f = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)
        y = {"numbers": f, "two": f > 0, "classes": np.digitize(f, np.quantile(f, (0.2, 0.5, 0.8)))}
        weights = rng.uniform(0.2, 3.0, n) if is_weighted else None
        tasks.append(Task.from_rows(f"t{t}", X, y=y[kind] + 0, weights=weights))
    return TaskSet(tuple(tasks))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind", "values"), SHARED)
@pytest.mark.parametrize("is_wide", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_a_prepared_fold_gives_the_models_of_separate_fits(
    name, kind, values, is_wide, is_weighted
) -> None:
    algorithm = ALGORITHMS[name]
    tasks = made(kind, d=50 if is_wide else 6, is_weighted=is_weighted and algorithm.needs.weights)
    params = algorithm.Params(selection="cv", **values)
    split = fold_splits(tasks, n_folds=3, seed=1)[0]
    candidates = grid_candidates(params)
    candidates = candidates[:: max(len(candidates) // 4, 1)]
    shared, separate = (
        prepare(split.train, split.test, candidates[0], rng=np.random.default_rng(0))
        for prepare in (
            algorithm.prepare_fold,
            lambda *args, **rest: Algorithm.prepare_fold(algorithm, *args, **rest),
        )
    )
    for one in candidates:
        ours, plain = shared.fit(one, Trace()), separate.fit(one, Trace())
        for here, there in zip(shared.test, separate.test, strict=True):
            found = ours.predict(here.X, task=here.name)
            expected = plain.predict(there.X, task=there.name)
            if kind == "numbers":
                scale = np.abs(expected).max()
                np.testing.assert_allclose(found, expected, atol=PREDICTION_RTOL * scale)
            else:
                np.testing.assert_array_equal(found, expected)


def test_a_selection_resumed_inside_a_fold_has_the_same_losses(tmp_path) -> None:
    algorithm, tasks = ALGORITHMS["shared-lasso"], made("numbers")
    candidates = grid_candidates(algorithm.Params(), prefer_large=("share",))

    def select(trace) -> tuple[float, ...]:
        return select_params(
            algorithm, tasks, candidates, n_folds=3, trace=trace, rng=np.random.default_rng(0),
            loss=held_out_loss({}),
        ).losses  # fmt: skip

    whole, steps = select(Trace()), []
    checkpoint = Checkpoint(tmp_path / "state", every_s=0.0)
    broken = Trace(
        on_step=steps.append, is_cancelled=lambda: len(steps) > 10, checkpoint=checkpoint
    )
    with pytest.raises(Cancelled):
        select(broken)
    assert select(Trace(checkpoint=checkpoint)) == whole


@pytest.mark.parametrize("shape", [(30, 5), (8, 20), (6, 6)])
@pytest.mark.parametrize("has_intercept", [True, False])
@pytest.mark.parametrize("is_grouped", [True, False])
@pytest.mark.parametrize("is_weighted", [True, False])
def test_one_decomposition_gives_all_leave_one_out_errors(
    shape, has_intercept, is_grouped, is_weighted
) -> None:
    rng = np.random.default_rng(0)
    A, Y = 1.0 + rng.standard_normal(shape), rng.standard_normal((shape[0], 2))
    unit = np.arange(shape[0]) // (2 if is_grouped else 1)
    weights = rng.uniform(0.2, 3.0, shape[0]) if is_weighted else np.ones(shape[0])
    path = RidgePath.of(A, Y, has_intercept=has_intercept, weights=weights)
    for ridge in (0.01, 1.0, 100.0):
        expected = np.empty_like(Y)
        for which in unit:
            left, rest = unit == which, unit != which
            W, b = ridge_regression(
                A[rest], Y[rest], ridge=ridge, has_intercept=has_intercept, weights=weights[rest]
            )
            expected[left] = np.sqrt(weights[left, np.newaxis]) * (Y[left] - A[left] @ W - b)
        # relative to the size of the errors, because a single one may nearly cancel
        atol = ROUNDING_RTOL * np.abs(expected).max()
        found = path.errors(ridge, units=units_by_size(unit))
        np.testing.assert_allclose(found, expected, rtol=0.0, atol=atol)


@pytest.mark.parametrize("kind", ["tall", "ill-conditioned", "without noise", "singular"])
def test_a_tall_block_has_the_same_least_squares_problem_after_compression(kind) -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 10))
    if kind == "ill-conditioned":
        X = X * np.logspace(0, -7, 10)
    if kind == "singular":
        X[:, 1] = X[:, 0]
    noise = 0.0 if kind == "without noise" else 1.0
    Y = X @ rng.standard_normal((10, 2)) + noise * rng.standard_normal((200, 2))
    small, rest = compress(Block(X, Y, np.arange(2)))
    assert len(small.X) <= 10
    for _ in range(5):
        W = rng.standard_normal((10, 2))
        expected = np.sum((Y - X @ W) ** 2)
        found = np.sum((small.Y - small.X @ W) ** 2) + rest
        assert found == pytest.approx(expected, rel=ROUNDING_RTOL)
    exact = np.linalg.qr(X)[0]
    constant = np.sum((Y - exact @ (exact.T @ Y)) ** 2)
    assert rest == pytest.approx(constant, rel=ROUNDING_RTOL, abs=1e-20 * np.sum(Y**2))
