"""Sparse rows give the models of their dense copies, in bounded memory."""

import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array

from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet, check_magnitudes
from algorithms.interface.trace import Trace
from algorithms.numerics.row_hashes import hash_rows
from algorithms.numerics.sparse_rows import Span, StandardisedRows, column_statistics
from algorithms.registry import ALGORITHMS

#: Both solve the same convex problem; sparse rows by the eigenvalues of their Gram matrix.
RTOL = 1e-9
#: Where columns are not standardised, their squares lose more digits.
RAW_RTOL = 1e-6
#: Iterative methods stop within this duality gap of the same optimum.
TOLERANCE = 1e-6
#: Scores of points with that gap differ by up to its root.
GAP_RTOL = 2e-3
#: Mean of a column beside which the variation of all columns is small.
LARGE_MEAN = 1e4
SPARSE = sorted(name for name, algorithm in ALGORITHMS.items() if algorithm.needs.sparse)
DENSE = sorted(ALGORITHMS.keys() - set(SPARSE))
#: Interpreter, numpy, scipy, numba and the models of 100,000 columns; far below the 480 MB of
#: a dense copy beside them.
MAX_PEAK_MB = 350


def rows_of(rng, n, d):
    """Return rows, a tenth of them stored, with a constant, an empty and a large full column."""
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.1)
    X[:, 0], X[:, 1], X[:, 2] = 5.0, 0.0, 2000 + rng.standard_normal(n)
    return X


def made(n, d, *, target, is_shared=False, n_tasks=3):
    """Return the same tasks with dense and with sparse rows."""
    rng = np.random.default_rng(n * d)
    common, parts = rng.standard_normal(d - 3), []
    shared = rows_of(rng, n, d)
    for t in range(n_tasks):
        X = shared if is_shared else rows_of(rng, n, d)
        y = X[:, 3:] @ (common + 0.3 * rng.standard_normal(d - 3)) + 0.1 * rng.standard_normal(n)
        parts.append((f"t{t}", X, y if target == "numbers" else (y > np.median(y)).astype(int)))
    return tuple(
        TaskSet(tuple(Task.from_rows(name, form(X), y=y) for name, X, y in parts))
        for form in (np.asarray, csr_array)
    )


def params_of(algorithm, **values):
    """Return parameters of a linear form without selection, so that fits are fast."""
    fields = algorithm.Params.model_fields
    linear = {"kernel": "linear", "selection": "given", "gamma": 3.0} | values
    return algorithm.parse({name: value for name, value in linear.items() if name in fields})


def fit(algorithm, tasks, params):
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(1))


def difference(algorithm, dense, sparse, params):
    """Return how much the models differ, relative to the largest score."""
    ours, theirs = fit(algorithm, sparse, params), fit(algorithm, dense, params)
    worst = 0.0
    for task in dense:
        rows = task.X[::2] * 1.1
        method = (
            "decision_function" if "decision_function" in ours.available_methods() else "predict"
        )
        expected = getattr(theirs, method)(rows, task=task.name)
        for form in (np.asarray, csr_array):
            found = getattr(ours, method)(form(rows), task=task.name)
            worst = max(worst, np.abs(found - expected).max() / np.abs(expected).max())
    return worst


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [
        (name, target)
        for name in SPARSE
        for target in ("numbers", "classes")
        if target == "classes" or ALGORITHMS[name].needs.target != "classes"
        if (name, target) != ("mtrl", "classes")  # half a minute, with the machines of others
    ],
)
def test_sparse_rows_give_the_model_of_their_dense_copy(name, target) -> None:
    algorithm = ALGORITHMS[name]
    dense, sparse = made(
        9, 60, target=target, is_shared=algorithm.needs.shared_rows or "okl" in name
    )
    params = params_of(algorithm, tolerance=TOLERANCE, max_iter=3000)
    is_iterated = hasattr(params, "tolerance") or algorithm.is_combined
    rtol = GAP_RTOL if is_iterated else RTOL
    assert difference(algorithm, dense, sparse, params) < rtol


@pytest.mark.parametrize(
    "name", ["ridge", "logistic-regression", "mean-regularised", "mtfl", "fmtl"]
)
def test_raw_columns_give_the_model_of_the_dense_copy(name) -> None:
    algorithm = ALGORITHMS[name]
    target = "classes" if algorithm.needs.target == "classes" else "numbers"
    dense, sparse = made(9, 60, target=target)
    columns = [j for j in range(60) if j != 2]  # without the large one, which is to be standardised
    dense, sparse = (
        TaskSet(tuple(task.select_columns(columns) for task in tasks)) for tasks in (dense, sparse)
    )
    params = params_of(algorithm, standardise="none")
    assert difference(algorithm, dense, sparse, params) < RAW_RTOL


@pytest.mark.parametrize(
    ("name", "values"),
    [("logistic-regression", {}), ("mtfl", {"loss": "logistic"}), ("mtfl", {"loss": "hinge"})],
)
@pytest.mark.quick(2)
def test_classifiers_of_raw_columns_converge_with_large_means(name, values) -> None:
    algorithm = ALGORITHMS[name]
    shift = np.eye(1, 60, 2) * LARGE_MEAN
    dense = made(9, 60, target="classes")[0]
    forms = [
        TaskSet(tuple(Task.from_rows(one.name, form(one.X + shift), y=one.y) for one in dense))
        for form in (np.asarray, csr_array)
    ]
    params = params_of(algorithm, standardise="none", **values)
    for tasks in forms:
        trace = Trace()
        model = algorithm.fit(tasks, params, trace=trace, rng=np.random.default_rng(1))
        assert (trace.stop_reason, model.warnings) == ("converged", ())
    assert difference(algorithm, *forms, params) < GAP_RTOL


@pytest.mark.parametrize("name", ["ridge", "logistic-regression"])
def test_selection_and_pooling_are_those_of_the_dense_copy(name) -> None:
    algorithm = ALGORITHMS[name]
    target = "classes" if algorithm.needs.target == "classes" else "numbers"
    dense, sparse = made(10, 40, target=target)
    for values in ({}, {"form": "pooled"}, {"selection_scope": "task"}):
        params = algorithm.parse({"grid": [0.1, 1.0, 10.0], **values})
        models = [fit(algorithm, tasks, params) for tasks in (dense, sparse)]
        assert models[0].fit_info["gamma"] == models[1].fit_info["gamma"]
        assert difference(algorithm, dense, sparse, params) < RTOL


@pytest.mark.parametrize("name", ["ridge", "mtfl", "kernel-tasks"])
def test_with_fewer_columns_than_rows_the_model_has_the_same_bits(name) -> None:
    dense, sparse = made(20, 12, target="numbers")
    algorithm = ALGORITHMS[name]
    models = [fit(algorithm, tasks, params_of(algorithm)) for tasks in (dense, sparse)]
    arrays = [model.to_arrays() for model in models]
    for key, array in arrays[0].items():
        np.testing.assert_array_equal(arrays[1][key], array)


def test_learned_features_of_sparse_rows_are_those_of_the_dense_rows() -> None:
    dense, sparse = made(9, 60, target="numbers")
    model = fit(ALGORITHMS["mtfl"], sparse, params_of(ALGORITHMS["mtfl"]))
    expected = model.transform(dense.tasks[0].X, task="t0")
    found = model.transform(sparse.tasks[0].X, task="t0")
    np.testing.assert_allclose(found, expected, atol=RTOL * np.abs(expected).max())


def test_tasks_without_any_stored_value_train() -> None:
    tasks = TaskSet((Task.from_rows("a", csr_array((4, 9)), y=np.arange(4.0)),))
    model = fit(ALGORITHMS["ridge"], tasks, params_of(ALGORITHMS["ridge"]))
    np.testing.assert_allclose(model.predict(csr_array((2, 9)), task="a"), [1.5, 1.5])


@pytest.mark.parametrize("name", DENSE)
def test_other_algorithms_refuse_with_the_size_of_a_dense_copy(name) -> None:
    X = csr_array(([1.0], ([0], [7])), shape=(1000, 1_000_000))
    y = np.arange(1000.0)
    algorithm = ALGORITHMS[name]
    tasks = [Task.from_rows(n, X, y=y).summary() for n in ("a", "b")]
    with pytest.raises(InvalidData, match=r"'a' is sparse .*takes 16 GB for all tasks") as caught:
        algorithm.needs.check(tasks, algorithm=name)
    assert name in caught.value.message


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        (
            "fmtl",
            {"kernel": "rbf"},
            "fmtl with kernel 'rbf' needs a dense copy.*use kernel 'linear'",
        ),
        ("mtfl", {"kernel": "rbf"}, "mtfl with kernel 'rbf' .*use kernel 'linear'"),
        ("mtfl", {"features": "selected"}, "features 'selected' .*use features 'learned'"),
    ],
)
def test_options_without_a_sparse_form_are_refused(name, values, words) -> None:
    tasks = made(9, 60, target="numbers")[1]
    algorithm = ALGORITHMS[name]
    with pytest.raises(InvalidData, match=words):
        algorithm.check(tasks.summaries(), algorithm.parse(values))


def test_mixed_and_very_large_tasks_are_refused() -> None:
    dense, sparse = made(9, 60, target="numbers")
    ridge = ALGORITHMS["ridge"]
    mixed = [sparse.tasks[0].summary(), dense.tasks[1].summary()]
    with pytest.raises(InvalidData, match="'t0' is sparse, task 't1' is dense"):
        ridge.check(mixed, ridge.Params())
    X = csr_array(([1.0], ([0], [7])), shape=(5001, 10_000))
    large = Task.from_rows("a", X, y=np.arange(5001.0)).summary()
    with pytest.raises(InvalidData, match=r"5001 rows of 10000 columns .*at most 25000000"):
        ridge.check([large], ridge.Params())


def test_models_without_a_sparse_form_refuse_sparse_rows() -> None:
    dense = made(20, 12, target="numbers")[0]
    model = fit(ALGORITHMS["kernel-ridge"], dense, ALGORITHMS["kernel-ridge"].Params())
    with pytest.raises(InvalidData, match="sparse rows, which predict of this model of kernel-rid"):
        model.predict(csr_array(dense.tasks[0].X), task="t0")
    linear = fit(ALGORITHMS["ridge"], dense, ALGORITHMS["ridge"].Params())
    with pytest.raises(InvalidData, match=r"expects rows of 12 numbers .*\(2, 9\)"):
        linear.predict(csr_array((2, 9)), task="t0")
    bad = csr_array(([np.nan], ([1], [3])), shape=(2, 12))
    with pytest.raises(InvalidData, match="row 1, column 3 is nan"):
        linear.predict(bad, task="t0")


def test_a_model_is_not_adapted_to_a_sparse_task() -> None:
    dense, sparse = made(20, 12, target="numbers")
    model = fit(ALGORITHMS["ridge"], dense, ALGORITHMS["ridge"].Params())
    new = Task.from_rows("new", sparse.tasks[0].X, y=sparse.tasks[0].y)
    with pytest.raises(InvalidData, match="the adaptation of a model of ridge needs a dense copy"):
        ALGORITHMS["ridge"].adapt(model, new)
    adapted = ALGORITHMS["ridge"].adapt(model, new.dense())
    assert np.isfinite(adapted.predict(new.X, task="new")).all()


def test_a_task_is_stored_in_canonical_form_and_its_source_is_unchanged() -> None:
    source = coo_array(([1.0, 2.0, 0.0, 4.0], ([1, 1, 0, 0], [2, 2, 1, 0])), shape=(2, 3)).tocsr()
    before = source.data.copy()
    task = Task.from_rows("a", source)
    assert task.X.indices.tolist() == [0, 2]
    assert task.X.toarray().tolist() == [[4, 0, 0], [0, 0, 3]]
    assert task.n_stored == 2
    np.testing.assert_array_equal(source.data, before)
    with pytest.raises(InvalidData, match="row 1, column 2 is inf"):
        Task.from_rows("a", csr_array(([np.inf], ([1], [2])), shape=(2, 3)))
    with pytest.raises(InvalidData, match=re.escape("column 2 has values up to 1e+200")):
        check_magnitudes([Task.from_rows("a", csr_array(([1e200], ([1], [2])), shape=(2, 3)))])


@st.composite
def small_matrices(draw):
    n, d = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    values = st.sampled_from([0.0, 0.0, 0.0, -0.0, 1.0, -2.5, 1e3])
    entries = draw(st.lists(values, min_size=n * d, max_size=n * d))
    return np.array(entries).reshape(n, d)


@given(small_matrices())
def test_statistics_hashes_and_products_are_those_of_the_dense_rows(X) -> None:
    S = csr_array(X)
    np.testing.assert_array_equal(hash_rows(S), hash_rows(X))
    found = column_statistics(S)
    np.testing.assert_array_equal([found.low, found.high], [X.min(0), X.max(0)])
    np.testing.assert_allclose(found.mean, X.mean(0), atol=1e-12)
    np.testing.assert_allclose(found.deviation, X.std(0), atol=1e-12)
    np.testing.assert_array_equal(found.peak, np.abs(X).max(0))
    scale = np.where(found.deviation > 0, found.deviation, 1.0)
    rows, Z = StandardisedRows.of(S, found.mean, scale), (X - found.mean) / scale
    K = rows.gram()
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_allclose(K, Z @ Z.T, atol=1e-10)
    np.testing.assert_allclose(rows.transposed_times(K), Z.T @ K, atol=1e-9)
    span = Span.of(rows, K, rtol=1e-12)
    # directions that are left out have at most the root of ``rtol`` of the largest singular value
    bound = 1e-6 * np.linalg.norm(Z, 2) + 1e-12
    np.testing.assert_allclose(span @ span.coordinates.T, Z.T, rtol=0, atol=bound)


_CHILD = """
from pathlib import Path
import numpy as np
from scipy.sparse import random_array
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS

def peak_kb():  # of this program only; getrusage counts the process that started it too
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])

rng = np.random.default_rng(0)
tasks = []
for name in "abc":
    X = random_array((200, 100_000), density=1e-3, rng=rng, format="csr")
    tasks.append(Task.from_rows(name, X, y=(rng.random(200) < 0.5).astype(int)))
tasks = TaskSet(tuple(tasks))
for name in ("ridge", "logistic-regression", "mean-regularised", "mtfl", "kernel-mean"):
    algorithm = ALGORITHMS[name]
    given = {"kernel": "linear", "selection": "given", "max_iter": 20}
    fields = algorithm.Params.model_fields
    params = algorithm.parse({key: value for key, value in given.items() if key in fields})
    before = peak_kb()
    model = algorithm.fit(tasks, params, trace=Trace(), rng=rng)
    assert len(model.predict(tasks["a"].X, task="a")) == 200
    print(name, (peak_kb() - before) // 1024)
print("all", peak_kb() // 1024)
"""


@pytest.mark.slow
def test_memory_is_bounded_where_a_dense_copy_is_large() -> None:
    child = subprocess.run(
        [sys.executable, "-c", _CHILD], capture_output=True, text=True, check=True
    )
    peaks = dict(line.split() for line in child.stdout.splitlines())
    assert int(peaks["all"]) < MAX_PEAK_MB, peaks
