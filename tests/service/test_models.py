"""Models: metadata, artifacts and pages."""

import hashlib
import json

import numpy as np
import pytest
from safetensors import safe_open

from algorithms.registry import ALGORITHMS, load_model
from service.models.report_schemas import Report
from sibling import ServiceError

#: Algorithms that need other tasks: shared rows, or two classes.
OTHER_TASKS = {"okl", "convex-okl", "mean-regularised", "mixed-model"}


@pytest.mark.parametrize("algorithm", sorted(set(ALGORITHMS) - OTHER_TASKS))
@pytest.mark.quick(1)
def test_a_model_has_its_lineage(client, dataset, algorithm):
    job = client.train(dataset, algorithm, model=f"lineage-{algorithm}", seed=11)
    model = job.wait()
    lineage = model.info["lineage"]
    assert lineage.keys() == {
        "job_id", "base_id", "dataset_id", "dataset_sha256", "algorithm", "params", "seed",
        "software",
    }  # fmt: skip
    assert lineage["base_id"] is None
    assert (lineage["job_id"], lineage["dataset_id"]) == (job.id, dataset.id)
    assert lineage["dataset_sha256"] == dataset.info["content_sha256"]
    assert (lineage["algorithm"], lineage["seed"]) == (algorithm, 11)
    full = ALGORITHMS[algorithm].Params().model_dump(mode="json")
    assert lineage["params"] == full
    assert {"python", "numpy", "scipy", "sibling"} <= lineage["software"].keys()
    # bits also depend on the environment, which is equal for all attempts
    assert lineage["software"]["threads"] == str(job.info["threads"])
    assert model.tasks == dataset.tasks
    # some algorithms need more than these tasks have, such as labels
    assert {"transform", "predict"} & set(model.info["methods"])
    assert set(model.info["methods"]) <= set(ALGORITHMS[algorithm].Model.methods())
    for by_task in model.metrics.values():
        assert by_task.keys() == set(dataset.tasks)
        assert all(np.isfinite(list(by_task.values())))


def test_the_same_lineage_produces_the_same_bytes(client, dataset):
    first, second = (
        client.train(dataset, "rmt-pca", model="again", seed=5, k=2).wait() for _ in range(2)
    )
    assert first.info["artifact_sha256"] == second.info["artifact_sha256"]
    assert (first.version, second.version) == (1, 2)


@pytest.mark.slow
def test_versions_with_the_same_bytes_have_different_etags(client, http, dataset):
    for _ in range(2):
        client.train(dataset, "pca", model="twins", k=1).wait()
    one, two = (http.get(f"/v1/models/twins/versions/{n}") for n in (1, 2))
    assert one.json()["artifact_sha256"] == two.json()["artifact_sha256"]
    stale = http.get("/v1/models/twins", headers={"If-None-Match": one.headers["etag"]})
    assert (stale.status_code, stale.json()["version"]) == (200, 2)
    # the bytes are shared: deleting one version keeps those of the other
    path = "/v1/models/twins/versions/1"
    assert http.delete(path, headers={"If-Match": one.headers["etag"]}).status_code == 204
    artifact = http.get("/v1/models/twins/versions/2/artifact")
    assert hashlib.sha256(artifact.content).hexdigest() == two.json()["artifact_sha256"]


def test_the_history_has_every_step_and_the_stop_reason(client, dataset):
    model = client.train(dataset, "rmt-pca", model="history", k=1).wait()
    history = model.history()
    assert history["stop_reason"] == model.info["stop_reason"]
    assert set(history["stop_reasons"]) == set(history["steps"]["loop"])
    assert len({len(column) for column in history["steps"].values()}) == 1
    assert history["fit_s"] > 0
    assert history["peak_memory_mb"] > 1
    assert history["steps"]["elapsed_s"] == sorted(history["steps"]["elapsed_s"])


def test_the_artifact_has_its_hash_and_loads_without_the_service(http, model, tmp_path):
    response = http.get("/v1/models/shared/versions/1/artifact")
    sha256 = hashlib.sha256(response.content).hexdigest()
    assert sha256 == model.info["artifact_sha256"]
    assert response.headers["etag"] == f'"{sha256}"'
    assert int(response.headers["content-length"]) == len(response.content)
    assert model.info["artifact_bytes"] == len(response.content)
    assert 'filename="shared-1.safetensors"' in response.headers["content-disposition"]
    path = tmp_path / "model.safetensors"
    path.write_bytes(response.content)
    assert load_model(path).tasks == model.tasks
    with safe_open(path, framework="numpy") as file:
        assert file.metadata().keys() == {"sibling"}


def test_a_stored_model_that_cannot_be_read_is_an_error_of_the_service(client, service):
    rows = np.random.default_rng(77).standard_normal((9, 5))  # another model would be in memory
    model = client.train(client.upload({"north": rows}), "pca", model="unreadable", k=1).wait()
    copy = service.data_dir / "cache" / model.info["artifact_sha256"]
    copy.write_bytes(b"x" * model.info["artifact_bytes"])  # of another size it is fetched again
    with pytest.raises(ServiceError, match="a stored file cannot be read") as caught:
        model.transform([[0.0] * 5], task="north")
    assert (caught.value.status, caught.value.code) == (500, "internal")
    events = [json.loads(line) for line in service.log().splitlines() if line.startswith("{")]
    (event,) = [event for event in events if event["event"] == "artifact.invalid"]
    assert "is not a readable Sibling file" in event["exception"][0]["exc_value"]
    copy.unlink()
    assert model.transform([[0.0] * 5], task="north").shape == (1, 1)


@pytest.mark.slow  # trains many models
@pytest.mark.sql
def test_pages_list_every_model_and_every_version_once(client, http, dataset):
    names = [f"page-{letter}" for letter in "abc"]
    for name in names:
        client.train(dataset, "pca", model=name, k=1).wait()
    for k in (2, 3):
        client.train(dataset, "pca", model="page-b", k=k).wait()
    listed = read_all(http, "/v1/models")
    assert [item["name"] for item in listed if item["name"] in names] == names
    assert [item["name"] for item in listed] == sorted({item["name"] for item in listed})
    assert next(item for item in listed if item["name"] == "page-b")["version"] == 3
    versions = read_all(http, "/v1/models/page-b/versions")
    assert [item["version"] for item in versions] == [3, 2, 1]


def read_all(http, path):
    items, query = [], {"page_size": 1}
    while True:
        body = http.get(path, params=query).json()
        assert len(body["items"]) <= 1
        items += body["items"]
        if body["next_page_token"] is None:
            return items
        query["page_token"] = body["next_page_token"]


@pytest.mark.sql
def test_jobs_with_one_model_name_create_consecutive_versions(client, dataset):
    jobs = [client.train(dataset, "pca", model="in-a-row", k=1) for _ in range(6)]
    assert sorted(job.wait().version for job in jobs) == [1, 2, 3, 4, 5, 6]


@pytest.mark.sql
def test_a_version_number_is_never_reused(client, dataset):
    first = client.train(dataset, "pca", model="numbers", k=1).wait()
    client.train(dataset, "pca", model="numbers", k=2).wait().delete()
    third = client.train(dataset, "pca", model="numbers", k=3).wait()
    assert (first.version, third.version) == (1, 3)
    assert client.model("numbers").version == 3
    third.delete()
    assert client.model("numbers").version == 1


@pytest.mark.sql
def test_a_deleted_version_is_404_and_its_job_remains(client, dataset):
    job = client.train(dataset, "pca", model="deleted", k=1)
    model = job.wait()
    model.delete()
    for act in (model.history, model.delete, lambda: client.model("deleted")):
        with pytest.raises(ServiceError, match="not-found"):
            act()
    assert job.refresh().state == "succeeded"
    assert job.info["version"] is None


def test_a_report_with_the_names_of_earlier_versions_is_read() -> None:
    gain = {"gain": 0.1, "low": 0.0, "high": 0.2, "p_value": 0.04}
    method = {"params": {}, "value": 1.0, "mean": {}, "over_rows": {}, "by_task": {}}
    former = {
        "verdict": "helps",
        "sentences": ["Sharing helps."],
        "metric": "rmse",
        "title": "RMSE",
        "larger_is_better": False,
        "average": "tasks",
        "splits": {"scheme": "kfold"},
        "n_splits": 10,
        "methods": [
            {"algorithm": "rmt-pca", "role": "itself", **method},
            {"algorithm": "pca", "role": "apart", **method},
            {"algorithm": "gp-lvm", "role": "other", **method},
        ],
        "overall": [{"rival": "pca", "role": "apart", **gain}],
        "tasks": {"t": {"verdict": "unclear", "sentence": "t: unclear."}},
        "by_task": {"t": [{"rival": "pca", "role": "apart", **gain}]},
        "left_out": [{"rival": "gp-lvm", "reason": "too few rows"}],
    }
    found = Report.model_validate({"comparison": former}).model_dump(mode="json")["comparison"]
    assert [method["role"] for method in found["methods"]] == [
        "candidate",
        "single_task",
        "multi_task",
    ]
    (entry,) = found["overall"]
    assert entry == {
        "baseline": "pca",
        "role": "single_task",
        "variant": "",
        "p_adjusted": None,
        **gain,
    }
    assert found["by_task"]["t"][0]["baseline"] == "pca"
    assert found["left_out"] == [{"baseline": "gp-lvm", "roles": [], "reason": "too few rows"}]
    assert found["tasks"]["t"]["gain"] is None
