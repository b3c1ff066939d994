"""The same model by estimator, by job and by remote call: the same file, the same bits."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import sibling

RNG = np.random.default_rng(0)
NAMES = ("south", "north", "west")
ROWS = {name: RNG.standard_normal((25, 5)) + t for t, name in enumerate(NAMES)}
NUMBERS = {name: X @ [1.0, 2.0, -1.0, 0.0, 0.0] + X[:, 3] ** 2 for name, X in ROWS.items()}
LABELS = {name: np.where(y > np.median(y), "high", "low") for name, y in NUMBERS.items()}
GAPPY = {name: np.where(RNG.random((25, 5)) < 0.1, np.nan, X) for name, X in ROWS.items()}
#: Columns of all kinds, with gaps.
TABLES = {
    name: pd.DataFrame(
        {
            "size": X[:, 0],
            "colour": np.where(X[:, 1] > t, "red", np.where(X[:, 2] > t, "blue", None)),
            "is_new": X[:, 3] > t,
            "seen": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(25), "D"),
        }
    )
    for t, (name, X) in enumerate(GAPPY.items())
}

CASES = {
    "mtfl": (sibling.MTFL(random_state=5), ROWS, NUMBERS),
    "fmtl": (sibling.FMTL(C=0.5), ROWS, LABELS),
    "mtda": (sibling.MTDA(selection="cv", d_grid=(1, 2), random_state=7), ROWS, LABELS),
    "rmt-pca": (sibling.RMTPCA(k=3, starts="many"), ROWS, None),
    "tlvm": (sibling.TLVM(L=2, r=10, random_state=1), ROWS, LABELS),
    "mean-regularised": (sibling.MeanRegularised(), TABLES, NUMBERS),
    "auto": (sibling.Auto(algorithms=["ridge", "mean-regularised"], random_state=3), GAPPY, LABELS),
    "ridge": (sibling.Ridge(preparation={"scale": "robust"}), GAPPY, NUMBERS),
}


def params_of(estimator):
    """Return the parameters of the algorithm that are not the default, as a job has them."""
    fields, plain = estimator._algorithm.Params.model_fields, type(estimator)()
    given = {name: getattr(estimator, name) for name in fields}
    return {name: value for name, value in given.items() if value != getattr(plain, name)}


@pytest.mark.filterwarnings("ignore::sibling.FitWarning")
@pytest.mark.parametrize(
    ("estimator", "X", "y"),
    [
        pytest.param(*case, id=name, marks=pytest.mark.slow if name in ("mtfl", "fmtl") else ())
        for name, case in CASES.items()
    ],
)
@pytest.mark.quick(2)
def test_an_estimator_makes_the_file_of_the_job_and_gives_the_bits_of_remote_calls(
    client, tmp_path, estimator, X, y
):
    algorithm = estimator._algorithm
    remote = client.submit(
        client.upload(X, y),
        algorithm.name,
        params_of(estimator),
        model=f"estimator-{algorithm.name}",
        seed=estimator.random_state,
        preparation=estimator.preparation,
    ).wait()
    estimator.fit(X, y)
    estimator.save(tmp_path / "local")
    remote.download(tmp_path / "remote")
    assert (tmp_path / "local").read_bytes() == (tmp_path / "remote").read_bytes()
    loaded = type(estimator).load(tmp_path / "remote")
    for method in remote.info["methods"]:
        if method == "inverse_transform" or not hasattr(estimator, method):
            continue
        outputs = getattr(estimator, method)(X)
        for name, rows in X.items():
            theirs = getattr(remote, method)(rows, task=name)
            np.testing.assert_array_equal(outputs[name], theirs)
            np.testing.assert_array_equal(getattr(loaded, method)(rows, tasks=name), theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mtfl", "mtda", "mean-regularised"])
@pytest.mark.filterwarnings("ignore::sibling.FitWarning")
@pytest.mark.quick(1)
def test_a_task_added_to_an_estimator_makes_the_file_of_the_job(client, tmp_path, name):
    estimator, X, y = CASES[name]
    old = {task: X[task] for task in NAMES[:2]}
    local = clone(estimator).fit(old, {task: y[task] for task in old})
    local.save(tmp_path / "local")
    base = client.submit(
        client.upload(old, {task: y[task] for task in old}),
        estimator._algorithm.name,
        params_of(estimator),
        model=f"adapted-{name}",
        seed=estimator.random_state,
    )
    adapted = client.adapt(base.wait(), client.upload({"west": X["west"]}, {"west": y["west"]}))
    adapted.wait().download(tmp_path / "remote")
    local.adapt(X["west"], y["west"], task="west").save(tmp_path / "local")
    assert (tmp_path / "local").read_bytes() == (tmp_path / "remote").read_bytes()
