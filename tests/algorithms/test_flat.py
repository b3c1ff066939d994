"""What does not vary has no variance to explain, whatever rounding makes of it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from algorithms.evaluation.scores.metrics import METRICS, metrics_for
from algorithms.evaluation.selection.paths import fit_candidates
from algorithms.evaluation.selection.validation import mean_score, score_splits
from algorithms.families.linear.targets import Targets, training_scores
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.numerics.centering import centre_columns
from algorithms.registry import ALGORITHMS
from algorithms.splits.splits import Splits

flat_values = st.floats(-1e6, 1e6).filter(lambda v: v == 0 or abs(v) > 1e-6)


@given(value=flat_values, n=st.integers(1, 200), n_ulps=st.integers(0, 3), seed=st.integers(0, 9))
@settings(max_examples=100, deadline=None)
def test_a_constant_has_no_explained_variance_and_no_r2(value, n, n_ulps, seed) -> None:
    rng = np.random.default_rng(seed)
    truth = np.full(n, value) + rng.integers(0, n_ulps + 1, size=n) * np.spacing(value)
    answer = truth + rng.normal(size=n)
    assert np.isnan(METRICS["r2"].measure(truth, answer))
    assert np.isnan(METRICS["explained_variance"].measure(truth, answer))


@given(scale=st.floats(1e-8, 1e8), offset=st.floats(-1e5, 1e5), seed=st.integers(0, 9))
@settings(max_examples=50, deadline=None)
def test_a_small_variance_is_not_zero(scale, offset, seed) -> None:
    # a deviation of a part in ten million of the values is far above rounding
    rng = np.random.default_rng(seed)
    z, e = rng.normal(size=(2, 50))
    unit = max(scale, 1e-7 * abs(offset))
    truth, answer = offset + unit * z, offset + unit * (z + 0.1 * e)
    expected = 1 - np.sum(e**2) / 100 / np.sum((z - z.mean()) ** 2)
    assert METRICS["r2"].measure(truth, answer) == pytest.approx(expected, abs=1e-4)


def regression(*, flat: float | None, n_tasks=5) -> TaskSet:
    rng = np.random.default_rng(0)
    w = rng.normal(size=3)
    tasks = []
    for t in range(n_tasks):
        X = rng.normal(size=(20, 3))
        y = 3 * X @ w + 0.3 * rng.normal(size=20)
        tasks.append(Task.from_rows(f"t{t}", X, y=np.full(20, flat) if flat and t == 0 else y))
    return TaskSet(tuple(tasks))


@pytest.mark.parametrize("metric", ["explained_variance", "r2"])
def test_a_flat_task_is_left_out_of_the_mean_over_tasks(metric) -> None:
    algorithm = ALGORITHMS["ridge"]
    tasks = regression(flat=0.1)
    (scores,) = score_splits(
        fit_candidates(algorithm, [{}]),
        tasks,
        Splits(repeats=1),
        range(5),
        metrics=metrics_for([algorithm], tasks.tasks),
        seed=0,
        trace=Trace(),
    )
    by_task = scores["by_task"][metric]
    assert by_task["t0"] == [None] * 5
    others = np.mean([np.mean(by_task[f"t{t}"]) for t in range(1, 5)])
    assert mean_score(scores, metric, "tasks") == pytest.approx(others)
    assert others > 0.5


def test_constant_rows_have_no_retained_variance() -> None:
    class Mean:
        def transform(self, X, *, task):  # noqa: ARG002
            return np.zeros((len(X), 1))

        def inverse_transform(self, Z, *, task):  # noqa: ARG002
            return np.tile([0.1, 0.3], (len(Z), 1)) + 1e-3

    flat = Task.from_rows("t", np.tile([0.1, 0.3], (7, 1)))
    assert np.isnan(METRICS["retained_variance"].score(Mean(), flat))
    # one flat column among others counts as what it is
    varied = Task.from_rows("t", np.column_stack([np.full(7, 0.1), np.arange(7.0)]))
    assert np.isfinite(METRICS["retained_variance"].score(Mean(), varied))


@pytest.mark.parametrize(("fitted", "score"), [(0.1, 1.0), (0.2, 0.0)])
def test_constant_targets_are_scored_by_whether_they_are_predicted(fitted, score) -> None:
    Y = np.full((7, 1), 0.1)
    assert Y.var() > 0  # by rounding
    found = training_scores(["t"], [Targets(Y, None)], [np.full((7, 1), fitted) + 1e-17])
    assert found == {"r2": {"t": score}}


@pytest.mark.parametrize("name", ["pca", "common-pca", "rmt-pca", "transfer-pca", "ppca"])
def test_constant_rows_beside_others_are_fully_retained(name) -> None:
    algorithm = ALGORITHMS[name]
    rng = np.random.default_rng(0)
    flat = Task.from_rows("flat", np.tile(rng.normal(size=4) / 3, (7, 1)))
    assert flat.X.var(axis=0).max() > 0  # by rounding
    tasks = TaskSet((Task.from_rows("other", rng.normal(size=(9, 4))), flat))
    model = algorithm.fit(
        tasks, algorithm.parse({"k": 2}), trace=Trace(), rng=np.random.default_rng(0)
    )
    (values,) = model.metrics.values()
    assert values["flat"] == 1.0


def test_constant_columns_do_not_change_the_unit_of_a_kernel() -> None:
    from algorithms.families.kernel_machines.input_kernels import relative_gamma

    flat = np.full((7, 3), 0.1)
    assert relative_gamma("rbf", flat) == relative_gamma("laplacian", flat) == 1.0
    X = np.random.default_rng(0).normal(size=(7, 2))
    assert relative_gamma("rbf", np.hstack([X, flat])) == pytest.approx(relative_gamma("rbf", X))


@pytest.mark.parametrize("scale", [1e-200, 1e-160, 1.0, 1e160, 1e200])
def test_columns_are_centred_at_any_scale_of_numbers(scale) -> None:
    rows = np.random.default_rng(3).standard_normal((20, 3)) + 0.1
    rows[:, 1] = 0.3
    found = centre_columns(scale * rows)
    np.testing.assert_allclose(found, scale * centre_columns(rows), rtol=1e-9)
    np.testing.assert_allclose(found[:, 0], scale * (rows[:, 0] - rows[:, 0].mean()), rtol=1e-9)
    assert not found[:, 1].any()
