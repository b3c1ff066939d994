"""Adding tasks to a stored model without a new fit of the old ones."""

import numpy as np
import pytest

from algorithms.interface.tasks import Task
from algorithms.registry import ALGORITHMS, load_model
from sibling import JobFailed, ServiceError


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    basis = np.linalg.qr(rng.normal(size=(6, 2)))[0]
    return {n: rng.normal(size=(15, 2)) @ basis.T + 0.1 * rng.normal(size=(15, 6)) for n in "abcd"}


@pytest.fixture(scope="module")
def base(client, rows):
    old = {name: rows[name] for name in "abc"}
    return client.train(client.upload(old), "rmt-pca", model="base", k=2).wait()


def test_a_new_task_is_added_to_a_stored_model(client, rows, base, tmp_path):
    dataset = client.upload({"d": rows["d"]})
    adapted = client.adapt(base, dataset, name="adapted").wait()
    assert adapted.tasks == ("a", "b", "c", "d")
    assert adapted.info["lineage"]["base_id"] == base.info["id"]
    assert adapted.info["lineage"]["params"] == base.info["lineage"]["params"]
    offline = load_model(base.download(tmp_path / "base"))
    offline = ALGORITHMS["rmt-pca"].adapt(offline, Task.from_rows("d", rows["d"]))
    for name, X in rows.items():
        Z = adapted.transform(X, task=name)
        np.testing.assert_array_equal(Z, offline.transform(X, task=name))
    np.testing.assert_array_equal(
        adapted.transform(rows["a"], task="a"), base.transform(rows["a"], task="a")
    )


@pytest.mark.sql
def test_without_another_name_it_is_the_next_version(client, rows, base):
    adapted = client.adapt(base, client.upload({"e": rows["d"]})).wait()
    assert (adapted.name, adapted.version) == (base.name, base.version + 1)


def test_a_task_of_another_width_is_rejected(client, base):
    dataset = client.upload({"wide": np.random.default_rng(0).normal(size=(5, 7))})
    with pytest.raises(ServiceError, match="'wide' has 7 features, the model 6"):
        client.adapt(base, dataset)


def test_a_task_of_another_unit_is_rejected(client, tmp_path):
    def upload(task, unit, **options):
        rows = [f"{task},{i} {unit},{i % 3},{i % 3}" for i in range(1, 9)]
        (tmp_path / "t.csv").write_text("\n".join(["task,weight,size,y", *rows]))
        name = f"{task} in {unit}"
        return client.upload(tmp_path / "t.csv", name=name, target_column="y", **options)

    dataset = upload("a", "kg")
    model = client.train(dataset, "ridge", model="in-kg").wait()
    with pytest.raises(ServiceError, match="'weight' has the unit 'g', but the unit 'kg' in the"):
        client.adapt(model, upload("b", "g"))
    adapted = client.adapt(model, upload("c", "", missing_marker="-999")).wait()
    client.infer(adapted, "predict", dataset).wait()  # in kg, as at first
    with pytest.raises(ServiceError, match="'weight' has the unit 'g', but the unit 'kg' in the"):
        client.adapt(adapted, upload("d", "g"))


def test_values_that_are_too_large_fail_the_job_with_the_task(client, base):
    dataset = client.upload({"huge": np.full((5, 6), 1e200) * np.arange(1, 6)[:, np.newaxis]})
    with pytest.raises(JobFailed, match="huge"):
        client.adapt(base, dataset).wait()


@pytest.mark.slow  # a long job
def test_an_adaptation_has_a_history_and_progress_and_can_be_cancelled(client):
    rng = np.random.default_rng(8)
    # so many that the last one is cancelled in the middle, and so few that the others end soon
    options = {"r": 400, "L": 5, "max_iter": 100, "tolerance": 1e-12}
    source = client.upload({"source": rng.normal(size=(12, 30))})
    base = client.train(source, "tlvm", model="transfer", **options).wait()
    few = client.upload({name: rng.normal(size=(3, 30)) for name in ("few", "fewer")})
    history = client.adapt(base, few, name="adapted-transfer").wait().history()
    assert {"transfer to 'few'", "transfer to 'fewer'"} <= set(history["steps"]["loop"])
    many = client.upload({"many": rng.normal(size=(2000, 30))})
    job = client.adapt(base, many, name="never")
    while not (progress := job.refresh(wait_s=0.5).info["progress"]):
        assert job.state in ("queued", "submitted", "running")
    assert "'many'" in progress["loop"]
    job.cancel()
    with pytest.raises(JobFailed):
        job.wait()
    assert job.refresh().state == "cancelled"


@pytest.mark.sql
def test_a_model_that_another_was_adapted_from_cannot_be_deleted(client, rows):
    first = client.train(client.upload({"a": rows["a"]}), "rmt-pca", model="first", k=2).wait()
    job = client.adapt(first, client.upload({"b": rows["b"]}), name="second")
    second = job.wait()
    assert job.info["adapt"] == {
        "model": "first", "version": 1, "version_id": first.info["id"],
    }  # fmt: skip
    with pytest.raises(ServiceError, match=r"in-use: .*model second, version 1, adapted from it"):
        first.delete()
    assert client.model("second").info["lineage"]["base_id"] == first.info["id"]
    second.delete()
    first.delete()


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"adapt": {"model": "nobody"}}, "no model 'nobody'"),
        ({"adapt": {"model": "base", "version": 99}}, "with version 99"),
        ({"algorithm": "pca"}, "was trained by rmt-pca, not by pca"),
        ({"params": {"k": 1}}, "'params' cannot be combined"),
        ({"compare": True}, "'compare' cannot be combined"),
        ({"search": {"space": {"k": [1]}}}, "'search' cannot be combined"),
    ],
)
def test_an_invalid_adaptation_is_rejected(http, client, rows, base, change, detail):
    dataset = client.upload({"d": rows["d"]})
    spec = {
        "dataset_id": dataset.id,
        "algorithm": "rmt-pca",
        "model": "m",
        "adapt": {"model": base.name, "version": base.version},
        **change,
    }
    response = http.post("/v1/jobs", json=spec)
    assert 400 <= response.status_code < 500
    assert detail in response.json()["detail"]


def test_a_task_that_the_model_has_is_rejected(client, rows, base):
    with pytest.raises(ServiceError, match="already has a task 'a'"):
        client.adapt(base, client.upload({"a": rows["d"]}))


@pytest.mark.slow
def test_a_model_of_large_regularisation_is_trained_and_adapted(client):
    rng = np.random.default_rng(1)
    rows = {name: rng.normal(size=(80, 4)) for name in "abcd"}
    labels = {name: np.where(X[:, 0] + 0.5 * X[:, 1] > 0, "yes", "no") for name, X in rows.items()}

    def upload(names):
        return client.upload(
            {name: rows[name] for name in names}, targets={name: labels[name] for name in names}
        )

    # the start overflowed, and the job failed while its model was stored
    values = {"penalty": "exp", "loss": "logistic", "C": 100.0}
    base = client.train(upload("abc"), "fmtl", model="strong", **values).wait()
    gaps = base.metrics["duality_gap"]
    assert 0 < sum(gaps.values()) <= 1e-3
    adapted = client.adapt(base, upload("d"), name="strong-d").wait()
    assert 0 < adapted.metrics["duality_gap"]["d"] <= 1e-3
    assert adapted.info["warnings"] == base.info["warnings"]
    assert np.mean(adapted.predict(rows["d"], task="d") == labels["d"]) > 0.9
