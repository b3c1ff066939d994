"""Latent variable models over HTTP: missing values, reconstruction, variance and labels."""

import httpx
import numpy as np
import pytest

from algorithms.registry import load_model
from sibling import ServiceError


@pytest.fixture(scope="module")
def written():
    """Rows of two writers near a plane, one with labels."""
    rng = np.random.default_rng(0)
    plane = rng.standard_normal((2, 6))
    X = {
        name: rng.standard_normal((n, 2)) @ plane + 0.1 * rng.standard_normal((n, 6))
        for name, n in (("ada", 24), ("bob", 9))
    }
    return X, {name: np.where(rows[:, 0] > 0, "left", "right") for name, rows in X.items()}


@pytest.fixture(scope="module")
def latent(client, written):
    dataset = client.upload(*written, name="written")
    return client.train(dataset, "tlvm", model="latent", L=2, r=12).wait()


@pytest.mark.parametrize("method", ["transform", "reconstruct", "variance", "predict"])
@pytest.mark.quick(2)
def test_missing_values_over_http_equal_the_offline_model(
    service, latent, written, method, tmp_path
):
    offline = load_model(latent.download(tmp_path / "model"))
    rows = written[0]["bob"].copy()
    rows[::2, 3] = np.nan
    expected = getattr(offline, method)(rows, task="bob")
    served = getattr(latent, method)(rows, task="bob")
    np.testing.assert_array_equal(served, expected)
    holes = [[None if np.isnan(x) else x for x in row] for row in rows.tolist()]
    response = httpx.post(
        f"{service.url}/v1/models/latent/{method}",
        json={"task": "bob", "inputs": holes},
        timeout=240,
    )
    assert response.json()["outputs"] == served.tolist()


def test_values_that_are_neither_numbers_nor_missing_are_located(service, latent):
    rows = [[1.0, None, 2.0, "x", 1.0, 1.0]]
    url = f"{service.url}/v1/models/{latent.name}"
    response = httpx.post(f"{url}/transform", json={"task": "bob", "inputs": rows}, timeout=240)
    assert response.status_code == 422
    assert "row 0, column 3 is a string" in response.json()["detail"]
    response = httpx.post(
        f"{url}/inverse-transform", json={"task": "bob", "inputs": [[None, 1.0]]}, timeout=240
    )
    assert "row 0, column 0 is null" in response.json()["detail"]
    response = httpx.post(
        f"{url}/transform", json={"task": "bob", "inputs": [[None] * 6]}, timeout=240
    )
    assert response.status_code == 422
    assert "row 0 has only missing values" in response.json()["detail"]


def test_a_model_without_labels_does_not_support_predict(client, written):
    dataset = client.upload(written[0], name="bare")
    model = client.train(dataset, "tlvm", model="bare", L=2, r=12).wait()
    assert "predict" not in model.info["methods"]
    with pytest.raises(ServiceError, match="does not support predict"):
        model.predict(written[0]["bob"], task="bob")


@pytest.mark.slow
def test_arrays_with_gaps_are_trained_and_called_without_any_option(client):
    rng = np.random.default_rng(1)
    X = {task: rng.standard_normal((20, 3)) for task in ("a", "b")}
    y = {task: rows @ [1.0, -2.0, 0.5] for task, rows in X.items()}
    X["a"][::5, 1] = np.nan
    y["b"][3] = np.nan
    job = client.train(client.upload(X, y, name="gaps"), "mtfl", model="gaps")
    model = job.wait()
    assert "1 row without a target: left out of the fit" in model.info["warnings"]
    known = np.concatenate([X["a"], np.delete(X["b"], 3, axis=0)])
    filled = np.where(np.isnan(X["a"]), np.nanmean(known, axis=0), X["a"])
    # a gap is filled with the mean, and tells by a column of its own that it was one
    change = model.predict(X["a"], task="a") - model.predict(filled, task="a")
    np.testing.assert_array_equal(change[~np.isnan(X["a"][:, 1])], 0)
    np.testing.assert_allclose(np.ptp(change[::5]), 0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "params"), [("pca", {}), ("tlvm", {"L": 2, "r": 12})])
def test_rows_without_a_target_train_methods_that_use_none(client, algorithm, params):
    rng = np.random.default_rng(2)
    X = {task: rng.standard_normal((20, 3)) for task in ("a", "b")}
    y = {task: rows @ [1.0, -2.0, 0.5] for task, rows in X.items()}
    y["a"][5:15] = np.nan
    dataset = client.upload(X, y, name="few targets")
    every = {**X, "a": np.concatenate([X["a"][:5], X["a"][15:], X["a"][5:15]])}
    models = [
        client.train(source, algorithm, model=f"{algorithm}-{name}", **params).wait()
        for source, name in ((dataset, "some"), (client.upload(every, name="none"), "all"))
    ]
    outputs = [model.transform(X["a"], task="a") for model in models]
    np.testing.assert_array_equal(*outputs)
    assert not any("left out" in warning for warning in models[0].info["warnings"])


def test_rows_without_a_target_are_left_out_of_supervised_fits(client):
    rng = np.random.default_rng(3)
    X = {task: rng.standard_normal((20, 3)) for task in ("a", "b")}
    y = {task: rows @ [1.0, -2.0, 0.5] for task, rows in X.items()}
    y["a"][5:15] = np.nan
    dataset = client.upload(X, y, name="few targets")
    few = {task: np.isfinite(labels) for task, labels in y.items()}
    known = {task: rows[few[task]] for task, rows in X.items()}
    labels = {task: y[task][few[task]] for task in y}
    models = [
        client.train(source, "ridge", model=name).wait()
        for source, name in ((dataset, "with"), (client.upload(known, labels, name="k"), "known"))
    ]
    outputs = [model.predict(X["a"], task="a") for model in models]
    np.testing.assert_array_equal(*outputs)
    assert "10 rows without a target: left out of the fit" in models[0].info["warnings"]
