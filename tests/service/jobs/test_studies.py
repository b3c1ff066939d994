"""Evaluations over HTTP: rejected jobs, values, and the rows they are computed from."""

import httpx
import numpy as np
import pytest

from service.client import ServiceError

OPTIONS = {"splits": {"n_folds": 2, "repeats": 1}}


def test_groups_are_never_divided_and_follow_outputs(client, service) -> None:
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(12, 3)) for name in ("a", "b")}
    targets = {name: X[:, 0] for name, X in rows.items()}
    groups = {"a": np.repeat(["p", "q", "r"], 4), "b": np.repeat(["p", "s", "t", "u"], 3)}
    dataset = client.upload(rows, targets, groups=groups, name="patients")
    manifest = httpx.get(f"{service.url}/v1/datasets/{dataset.id}/manifest").json()
    assert manifest["groups"] == ["p", "q", "r", "s", "t", "u"]
    assert all(task["has_groups"] for task in manifest["tasks"])
    job = client.train(dataset, "ridge", model="grouped", evaluate={"splits": {"n_folds": 3}})
    found = job.wait().report()["evaluation"]
    assert found["rows"] == {
        "n_rows": 24,
        "n_units": 6,
        "largest_unit": 7,
        "n_never_held_out": 0,
        "warnings": [],
    }
    assert found["without_value"] == {}
    outputs = client.infer("grouped", "predict", dataset).wait()
    after = httpx.get(f"{service.url}/v1/datasets/{outputs.dataset_id}/manifest").json()
    assert after["groups"] == manifest["groups"]
    assert all(task["has_groups"] for task in after["tasks"])
    named = {"splits": {"given": [{"a": [0]}]}}
    job = client.train(outputs.dataset_id, "ridge", model="named", evaluate=named)
    (warning,) = job.wait().report()["evaluation"]["rows"]["warnings"]
    assert "tests on row 0 of task 'a' and trains on row 1 of task 'a'" in warning


def test_an_evaluation_has_values_or_is_rejected_with_the_job(client) -> None:
    rng = np.random.default_rng(0)
    rows = {name: rng.normal(size=(10, 4)) for name in ("a", "b")}
    numbers = {name: X[:, 0] for name, X in rows.items()}
    params = {"L": 1, "r": 4, "max_iter": 3}
    job = client.train(client.upload(rows, numbers), "tlvm", model="t", evaluate=OPTIONS, **params)
    found = job.wait().report()["evaluation"]
    assert set(found["mean"]) == {"reconstruction_error", "retained_variance"}
    permuted = {"a": rows["a"], "b": rows["a"][::-1]}
    with pytest.raises(ServiceError, match="'b' has other rows than task 'a'"):
        client.train(client.upload(permuted, numbers), "okl", evaluate=OPTIONS)
    one = client.upload({name: X[:1] for name, X in rows.items()}, {"a": [1.0], "b": [2.0]})
    with pytest.raises(ServiceError, match="one row, which leaves none to choose") as rejected:
        client.train(one, "ridge", evaluate=OPTIONS)
    assert rejected.value.status == 422
