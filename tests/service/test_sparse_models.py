"""Sparse tasks from the client through training to predictions."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.sparse import coo_matrix, csc_matrix, csr_array, random_array

from algorithms.registry import ALGORITHMS, load_model
from sibling import JobFailed, ServiceError
from tests.written import written

WIDTH = 400
NPZ = "application/x-npz"
#: Sums in another order: sparse products skip zeros.
RTOL = 1e-10


def rows_of(seed, n=12):
    rng = np.random.default_rng(seed)
    return random_array((n, WIDTH), density=0.05, rng=rng, format="csr")


def body_of(**arrays):
    return written(np.savez, **arrays)


def parts_of(X):
    arrays = {f"X.{part}": getattr(X, part) for part in ("data", "indices", "indptr")}
    return arrays | {"X.shape": np.array(X.shape)}


@pytest.fixture(scope="module")
def rows():
    return {"a": rows_of(0), "b": rows_of(1)}


@pytest.fixture(scope="module")
def sparse(client, rows):
    """A dataset of matrices, of which one has compressed columns."""
    data = {"a": rows["a"], "b": csc_matrix(rows["b"])}
    targets = {name: np.arange(12.0) / 7 for name in rows}
    return client.upload(data, targets, name="sparse tasks")


@pytest.fixture(scope="module")
def ridge(client, sparse):
    return client.train(sparse, "ridge", selection="given").wait()


@pytest.mark.parametrize(
    "name", ["ridge", "mtfl", pytest.param("kernel-mean", marks=pytest.mark.slow)]
)
def test_a_model_of_sparse_tasks_predicts_sparse_and_dense_rows(
    client, sparse, ridge, name, tmp_path
):
    params = {"selection": "given"} | ({"kernel": "linear"} if name == "kernel-mean" else {})
    model = ridge if name == "ridge" else client.train(sparse, name, **params).wait()
    local = load_model(model.download(tmp_path / "model"))
    new = rows_of(2, n=5)
    expected = local.predict(new, task="b")
    for form in (csr_array, csc_matrix, coo_matrix):
        np.testing.assert_array_equal(model.predict(form(new), task="b"), expected)
    dense = model.predict(new.toarray(), task="b")
    np.testing.assert_allclose(dense, expected, atol=RTOL * np.abs(expected).max())
    if name == "mtfl":
        latent = model.transform(new, task="b")
        np.testing.assert_array_equal(latent, local.transform(new, task="b"))


def test_sparse_and_dense_datasets_give_the_same_model(client, sparse, rows, ridge):
    dense = client.upload(
        {name: X.toarray() for name, X in rows.items()},
        {name: np.arange(12.0) / 7 for name in rows},
    )
    assert dense.id != sparse.id
    other = client.train(dense, "ridge", selection="given").wait()
    new = rows_of(3)
    expected = other.predict(new.toarray(), task="a")
    found = ridge.predict(new, task="a")
    np.testing.assert_allclose(found, expected, atol=RTOL * np.abs(expected).max())


def test_batch_inference_reads_sparse_rows(client, sparse, ridge, rows, tmp_path):
    outputs = client.infer(ridge, "predict", sparse).wait()
    table = pq.read_table(outputs.download(tmp_path / "outputs.parquet"))
    found = table["outputs"].to_numpy()[np.array(table["task"]) == "b"]
    np.testing.assert_allclose(found, ridge.predict(rows["b"], task="b"), rtol=RTOL)


@pytest.mark.slow
def test_a_comparison_holds_out_sparse_rows(client, sparse):
    job = client.train(
        sparse, "mtfl", selection="given", compare={"splits": {"n_folds": 2, "repeats": 1}}
    )
    report = job.wait().report()
    methods = {one["algorithm"] for one in report["comparison"]["methods"]}
    assert {"mtfl", "ridge", "mean-regularised"} <= methods


@pytest.mark.parametrize(
    ("algorithm", "options", "words"),
    [
        (
            "rmt-pca",
            {},
            "'a' is sparse (12 rows, 400 columns, 5.00% of the values stored); rmt-pca",
        ),
        ("rmt-pca", {}, "needs a dense copy, which takes 76.8 kB for all tasks"),
        ("fmtl", {"kernel": "rbf"}, "use kernel 'linear', or upload arrays"),
    ],
)
def test_other_algorithms_are_refused_at_submission(client, sparse, algorithm, options, words):
    with pytest.raises(ServiceError) as caught:
        client.train(sparse, algorithm, **options)
    assert words in str(caught.value)


def test_preparation_and_adaptation_are_refused_at_submission(client, sparse, ridge):
    with pytest.raises(ServiceError, match="task 'a' has sparse rows, which cannot be prepared"):
        client.train(sparse, "ridge", preparation={})
    new = client.upload({"new": rows_of(4)}, {"new": np.arange(12.0)})
    with pytest.raises(ServiceError, match="the adaptation of a model of ridge needs a dense copy"):
        client.adapt(ridge, new)


def test_a_model_of_another_kernel_refuses_sparse_rows(client, rows):
    dense = {name: X.toarray()[:, :5] for name, X in rows.items()}
    targets = {name: np.arange(12.0) for name in rows}
    data = client.upload(dense, targets, name="narrow")
    model = client.train(data, "kernel-ridge", selection="given").wait()
    with pytest.raises(ServiceError, match="sparse rows, which predict of this model"):
        model.predict(csr_array(dense["a"]), task="a")
    sparse = client.upload({name: csr_array(X) for name, X in dense.items()}, targets)
    with pytest.raises(JobFailed, match="sparse rows, which predict of this model"):
        client.infer(model, "predict", sparse).wait()


X = rows_of(5, n=3)


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"PK\x03\x04", 400, "not a valid file (NumPy .npz)"),
        (body_of(X=np.ones((2, WIDTH + 1))), 422, "got an array of shape (2, 401)"),
        (body_of(**parts_of(X) | {"X.indices": X.indices + WIDTH}), 400, "there are 400 columns"),
        (body_of(**parts_of(X) | {"X.data": X.data.astype(str)}), 400, "numbers are required"),
        (body_of(**parts_of(X) | {"X.data": np.full(X.nnz, 2**60)}), 422, "above 2**53"),
        (body_of(**parts_of(X[:, :7].tocsr())), 422, "got a sparse matrix of shape (3, 7)"),
        (body_of(**parts_of(X) | {"X.data": X.data * np.nan}), 422, "is nan; every stored value"),
        (body_of(**parts_of(csr_array((200_000, WIDTH)))), 413, "200000 rows, the maximum is"),
    ],
)
def test_broken_rows_are_refused_in_a_sentence(ridge, http, body, status, words):
    url = f"/v1/models/{ridge.name}/versions/{ridge.version}/predict?task=a"
    response = http.post(url, content=body, headers={"content-type": NPZ})
    assert response.status_code == status, response.text
    assert words in response.json()["detail"]


def test_every_linear_method_is_offered_for_sparse_tasks(client, sparse):
    preview = client.preview(sparse)
    trained = {one["algorithm"] for one in preview["algorithms"] if one["can_train"]}
    takes = {name for name, algorithm in ALGORITHMS.items() if algorithm.needs.sparse}
    assert {"ridge", "mean-regularised", "mtfl"} <= trained <= takes
