"""Invalid jobs: each is rejected with the place of the error, and nothing is queued."""

import numpy as np
import pytest

from algorithms.interface.methods import METHODS
from sibling import ServiceError


@pytest.fixture(scope="module")
def bad_jobs(client):
    rng = np.random.default_rng(0)
    fitting = client.upload({t: rng.normal(size=(6, 4)) for t in "ab"}, name="fitting")
    one_row = client.upload(
        {"a": rng.normal(size=(6, 4)), "alone": rng.normal(size=(1, 4))}, name="one row"
    )
    rows, targets = {t: np.ones((1, 3)) for t in "ab"}, {"a": [0.5], "b": [1.5]}
    single = client.upload(rows, targets, name="one row each")
    return {"fitting": fitting, "one row": one_row, "one row each": single}


@pytest.mark.parametrize(
    ("dataset", "algorithm", "params", "code", "place"),
    [
        ("fitting", "rmt-pca", {"k": 5}, "invalid-params", {"pointer": "/params/k"}),
        ("fitting", "pca", {"k": 9}, "invalid-params", {"pointer": "/params/k"}),
        ("fitting", "rmt-pca", {"k": 0}, "invalid-params", {"pointer": "/params/k"}),
        ("fitting", "rmt-pca", {"lambda": 1}, "invalid-params", {"pointer": "/params/lambda"}),
        ("one row", "rmt-pca", {"k": 2}, "invalid-data", {"task": "alone"}),
        ("one row each", "mtfl", {}, "invalid-data", {"task": "a"}),
        ("fitting", "magic", {}, "unknown-algorithm", {"pointer": "/algorithm"}),
    ],
)
def test_an_invalid_job_is_rejected(client, bad_jobs, dataset, algorithm, params, code, place):
    with pytest.raises(ServiceError) as caught:
        client.train(bad_jobs[dataset], algorithm, model="rejected", **params)
    assert (caught.value.status, caught.value.code) == (422, code)
    assert caught.value.errors[0].items() >= place.items()
    assert not [job for job in client.jobs if job["model"] == "rejected"]


@pytest.mark.parametrize("method", METHODS)
def test_no_model_is_named_like_a_call_of_another(client, http, bad_jobs, method):
    name = f"shops.{method}"
    job = {"dataset_id": bad_jobs["fitting"].id, "algorithm": "pca", "params": {"k": 1}}
    adapt = {"adapt": {"model": "shops"}}
    requests = [
        ("/v1/jobs", {**job, "model": name}),
        ("/v1/jobs?validate_only=true", {**job, "model": name}),
        ("/v1/jobs", {**job, **adapt, "model": name}),
        ("/v1/jobs/job_any:repeat", {"model": name}),
    ]
    for path, body in requests:
        refused = http.post(path, json=body)
        (error,) = refused.json()["errors"]
        assert (refused.status_code, error["code"], error["pointer"]) == (422, "reserved", "/model")
    valid = [f"shops-{method}", f"shops.{method}.2", method, f"shops.{method}s"]
    for other in valid:
        client.validate(bad_jobs["fitting"], "pca", {"k": 1}, model=other)
