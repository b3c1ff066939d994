"""Estimators take sparse rows where their algorithms do, and learn the same from them."""

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csc_matrix, csr_array, random_array
from sklearn.utils import get_tags

from algorithms.interface.errors import InvalidData
from sibling import MTFL, RMTPCA, Ridge
from sibling.estimators import ESTIMATORS
from sibling.estimators.kinds import kinds_of

#: Sums in another order: sparse products skip zeros. Iterative methods stop within a duality gap.
RTOL = 1e-3
N = 30
NAMES = np.repeat(["a", "b", "c"], 10)
SPARSE = sorted(name for name, cls in ESTIMATORS.items() if cls._algorithm.needs.sparse)
#: They fit every method.
RACES = ("Auto", "Ensemble")
DENSE = sorted(ESTIMATORS.keys() - set(SPARSE))


def rows(seed=0, n=N):
    return random_array((n, 12), density=0.3, rng=np.random.default_rng(seed), format="csr")


def targets(X):
    return X @ np.arange(12.0) + np.linspace(0, 1, X.shape[0])


def linear(cls):
    """Return an estimator of a linear model without selection, whose fits are fast."""
    wanted = {"kernel": "linear", "selection": "given"}
    known = cls().get_params()
    return cls(**{name: value for name, value in wanted.items() if name in known})


def given(cls, X):
    """Return targets of a kind that an algorithm can use."""
    y = targets(X)
    return y if "numbers" in kinds_of(cls._algorithm) else np.where(y > np.median(y), "hi", "lo")


@pytest.mark.filterwarnings("ignore::sibling.FitWarning")  # a few stop at max_iter
@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow if n in RACES else ()) for n in SPARSE],
)
def test_sparse_rows_give_the_predictions_of_their_dense_copy(name):
    cls, X, new = ESTIMATORS[name], rows(), rows(1)
    y = given(cls, X)
    if cls._algorithm.needs.shared_rows:
        X = csr_array(np.tile(X[:10].toarray(), (3, 1)))
    dense = linear(cls).fit(X.toarray(), y, tasks=NAMES)
    sparse = linear(cls).fit(X, y, tasks=NAMES)
    method = "decision_function" if hasattr(dense, "decision_function") else "predict"
    expected = getattr(dense, method)(new.toarray(), tasks=NAMES)
    for form in (csr_array, csc_matrix, coo_matrix):
        found = getattr(sparse, method)(form(new), tasks=NAMES)
        np.testing.assert_allclose(found, expected, rtol=RTOL, atol=RTOL * np.abs(expected).max())
    assert sparse.n_features_in_ == 12
    assert get_tags(sparse).input_tags.sparse


def test_sparse_rows_are_taken_by_task():
    X = {"a": rows(0), "b": csc_matrix(rows(1))}
    y = {name: targets(values) for name, values in X.items()}
    sparse = Ridge(selection="given").fit(X, y)
    dense = Ridge(selection="given").fit({name: X[name].toarray() for name in X}, y)
    for name, found in sparse.predict(X).items():
        np.testing.assert_allclose(found, dense.predict(X[name].toarray(), tasks=name), rtol=1e-9)


@pytest.mark.parametrize("name", DENSE)
def test_other_algorithms_name_themselves_and_the_size_of_a_dense_copy(name):
    cls, X = ESTIMATORS[name], rows()
    y = given(cls, X) if kinds_of(cls._algorithm) else None
    with pytest.raises(InvalidData, match=f"is sparse .* {cls._algorithm.name} needs a dense copy"):
        cls().fit(X, y, tasks=NAMES)
    assert not get_tags(cls()).input_tags.sparse


def test_a_kernel_that_needs_dense_rows_refuses_sparse_ones():
    X = rows()
    assert not get_tags(MTFL(kernel="rbf")).input_tags.sparse
    with pytest.raises(InvalidData, match="is sparse"):
        MTFL(kernel="rbf", selection="given").fit(X, targets(X), tasks=NAMES)


def test_models_that_take_no_sparse_rows_ask_for_an_array():
    X = rows()
    fitted = RMTPCA(k=1).fit(X.toarray(), tasks=NAMES)
    with pytest.raises(InvalidData, match=r"got sparse rows.* send them as an array"):
        fitted.transform(X, tasks=NAMES)


def test_a_preparation_and_an_adaptation_refuse_sparse_rows():
    X = rows()
    y = targets(X)
    prepared = Ridge(selection="given", preparation={"scale": "robust"})
    with pytest.raises(InvalidData, match="'a' has sparse rows, which cannot be prepared"):
        prepared.fit(X, y, tasks=NAMES)
    prepared.fit(X.toarray(), y, tasks=NAMES)
    with pytest.raises(InvalidData, match="'new' has sparse rows, which cannot be prepared"):
        prepared.adapt(X, y, task="new")
    with pytest.raises(InvalidData, match="the adaptation of a model of ridge needs a dense copy"):
        Ridge(selection="given").fit(X, y, tasks=NAMES).adapt(X, y, task="new")


def test_a_missing_sparse_value_is_named():
    X = rows()
    X.data[0] = np.nan
    with pytest.raises(InvalidData, match=r"task 'a', row 0, column \d+ is nan"):
        Ridge().fit(X, np.arange(N), tasks=NAMES)
