"""Warnings about a dataset are on the dataset, the job and the model."""

import httpx
import numpy as np
import pytest

ADVICE = "upload with target_kind=classes"


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(2)
    X = {name: rng.normal(size=(12, 3)) for name in ("a", "b")}
    return X, {name: (rows[:, 0] > 0).astype(float) for name, rows in X.items()}


@pytest.fixture(scope="module")
def codes(client, data):
    return client.upload(*data, name="codes as numbers")


def spec_of(dataset, algorithm, **more):
    return {"dataset_id": dataset.id, "algorithm": algorithm, "model": "warned", **more}


def test_dataset_job_and_model_warn_of_integer_targets_that_may_be_classes(client, service, codes):
    (warning,) = codes.info["warnings"]
    assert "2 distinct values (0, 1)" in warning
    assert ADVICE in warning
    manifest = httpx.get(f"{service.url}/v1/datasets/{codes.id}/manifest", timeout=240).json()
    assert manifest["warnings"] == [warning]
    validated = httpx.post(
        f"{service.url}/v1/jobs?validate_only=true", json=spec_of(codes, "ridge"), timeout=240
    )
    assert validated.json()["warnings"] == [warning]
    job = client.train(codes, "ridge", model="warned")
    assert job.info["warnings"] == [warning]
    model = job.wait()
    assert warning in model.info["warnings"]
    # a new task with such targets causes the same warning
    rng = np.random.default_rng(3)
    new = client.upload({"c": rng.normal(size=(12, 3))}, {"c": np.tile([0.0, 1.0], 6)})
    adapted = client.adapt(model, new)
    assert ADVICE in adapted.info["warnings"][0]
    assert adapted.wait().info["warnings"][0] == adapted.info["warnings"][0]


def test_a_job_with_child_jobs_and_its_model_have_the_warning(client, codes):
    job = client.train(codes, "ridge", model="warned-search", evaluate=True)
    assert ADVICE in job.info["warnings"][0]
    assert ADVICE in job.wait().info["warnings"][0]


def test_no_warning_without_use_of_targets_or_with_an_explicit_kind(client, data, codes):
    job = client.train(codes, "pca", model="unwarned", k=1)
    assert job.info["warnings"] == []
    assert job.wait().info["warnings"] == []
    for kind, algorithm in (("numbers", "ridge"), ("classes", "logistic-regression")):
        dataset = client.upload(*data, name=kind, target_kind=kind)
        assert dataset.info["warnings"] == []
        job = client.train(dataset, algorithm, model=f"explicit-{kind}")
        assert job.info["warnings"] == []
        assert not any(ADVICE in warning for warning in job.wait().info["warnings"])


def test_outputs_with_the_targets_of_a_dataset_have_its_warning(client, codes):
    model = client.train(codes, "pca", model="projected", k=1).wait()
    made = client.dataset(client.infer(model, "transform", codes).wait().dataset_id)
    assert made.info["warnings"] == codes.info["warnings"]
