"""A training job repeated by one call, such as on a dataset that has grown."""

import httpx
import numpy as np
import pytest

from service.storage.tables import JobRow
from sibling import Client, ServiceError

pytestmark = pytest.mark.slow  # many jobs

TABLE = [
    {"task": t, "age": float(a), "sex": s, "y": a / 10 + (s == "F")}
    for t in ("n", "s")
    for a in range(20, 60, 3)
    for s in "FM"
]


@pytest.fixture(scope="module")
def client(service):
    with Client(service.url) as made:
        yield made


@pytest.fixture(scope="module")
def http(service):
    with httpx.Client(base_url=service.url, timeout=240) as made:
        yield made


@pytest.fixture(scope="module")
def upload(client, tmp_path_factory):
    import json

    def send(records, name):
        path = tmp_path_factory.mktemp("tables") / f"{name}.json"
        path.write_text(json.dumps(records))
        return client.upload(path, target_column="y")

    return send


@pytest.fixture(scope="module")
def trained(client, upload):
    """A model with a search, an evaluation, limits, a seed and a preparation."""
    return client.submit(
        upload(TABLE[::2], "small"),
        "ridge",
        {},
        model="repeated",
        seed=5,
        limits={"priority": -1, "max_attempts": 4},
        search={"space": {"gamma": [0.1, 10.0]}, "n_folds": 2},
        evaluate={"splits": {"n_splits": 2}},
        preparation={"scale": "robust"},
    ).wait()


def test_a_model_is_retrained_on_a_grown_dataset_as_the_first_time(client, http, upload, trained):
    grown = upload(TABLE, "grown")
    again = client.retrain(trained, grown).wait()
    assert (again.name, again.version) == ("repeated", trained.version + 1)
    job = http.get(f"/v1/jobs/{again.info['lineage']['job_id']}").json()
    assert (job["seed"], job["priority"], job["max_attempts"]) == (5, -1, 4)
    fresh = client.submit(
        grown,
        "ridge",
        {},
        model="fresh",
        seed=5,
        search={"space": {"gamma": [0.1, 10.0]}, "n_folds": 2},
        evaluate={"splits": {"n_splits": 2}},
        preparation={"scale": "robust"},
    ).wait()
    assert again.info["preparation"] == fresh.info["preparation"]
    assert again.report()["search"]["candidates"] == fresh.report()["search"]["candidates"]
    rows = [{"age": 33, "sex": "M"}, {"age": None, "sex": "F"}]
    np.testing.assert_array_equal(again.predict(rows, task="n"), fresh.predict(rows, task="n"))


def test_a_dataset_grows_by_an_upload_and_the_model_is_retrained_on_it(client, upload, trained):
    grown = client.combine(
        trained.info["lineage"]["dataset_id"], upload(TABLE[1::2], "new"), name="grown by new"
    )
    assert grown.info["n_samples"] == len(TABLE)
    again = client.retrain(trained, grown).wait()
    assert again.info["lineage"]["dataset_id"] == grown.id
    rows = [{"age": 33, "sex": "M"}, {"age": None, "sex": "F"}]
    assert np.isfinite(again.predict(rows, task="n")).all()
    part = client.combine({"dataset_id": grown.id, "tasks": ["n"], "columns": ["age"]}, name="part")
    assert part.tasks == ("n",)
    with pytest.raises(ServiceError, match="no task 'x'"):
        client.combine({"dataset_id": grown.id, "tasks": ["x"]}, name="part")


def test_nothing_changes_without_changes(client, trained):
    again = client.retrain(trained, name="same").wait()
    rows = [{"age": 33, "sex": "F"}]
    np.testing.assert_array_equal(again.predict(rows, task="s"), trained.predict(rows, task="s"))


def test_a_repetition_is_repeated_with_its_changes(client, http, trained):
    first = client.retrain(trained, name="chain", seed=9)
    first.wait()
    second = http.post(f"/v1/jobs/{first.id}:repeat", json={}, params={"wait": 60}).json()
    assert (second["model"], second["seed"]) == ("chain", 9)


@pytest.mark.sql
def test_a_request_that_is_sent_twice_makes_one_job(http, trained):
    url = f"/v1/jobs/{trained.info['lineage']['job_id']}:repeat"
    headers = {"Idempotency-Key": "repeat-once"}
    one, two = (http.post(url, json={"model": "once"}, headers=headers).json() for _ in range(2))
    assert one["id"] == two["id"]
    other = http.post(url, json={"model": "twice"}, headers=headers)
    assert other.json()["code"] == "key-reused"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"dataset_id": "ds_none"}, 404, "not-found"),
        ({"params": {}}, 422, "invalid-request"),
        ({"seed": -1}, 422, "invalid-request"),
        ({"model": "no name"}, 422, "invalid-request"),
    ],
)
def test_invalid_changes_are_rejected(http, trained, body, status, code):
    url = f"/v1/jobs/{trained.info['lineage']['job_id']}:repeat"
    response = http.post(url, json=body)
    assert (response.status_code, response.json()["code"]) == (status, code)


def test_a_job_whose_model_name_has_become_invalid_is_repeated_under_another(
    service, client, http, trained
):
    job_id = client.retrain(trained, name="early").wait().info["lineage"]["job_id"]
    with service.open_database() as database, database.write() as session:
        row = session.get_one(JobRow, job_id)
        row.spec = {**row.spec, "model": "early.predict"}
    refused = http.post(f"/v1/jobs/{job_id}:repeat", json={})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-request")
    assert refused.json()["errors"][0]["pointer"] == "/model"
    again = http.post(f"/v1/jobs/{job_id}:repeat", json={"model": "late"}, params={"wait": 60})
    assert (again.status_code, again.json()["model"]) == (202, "late")


def test_only_training_jobs_of_their_own_are_repeated(client, http, upload, trained):
    unknown = http.post("/v1/jobs/job_none:repeat", json={})
    assert (unknown.status_code, unknown.json()["code"]) == (404, "not-found")
    job = client.infer(trained, "predict", upload(TABLE[:6:2], "few"))
    job.wait()
    parent = trained.info["lineage"]["job_id"]
    (child, *_) = http.get("/v1/jobs", params={"parent_id": parent}).json()["items"]
    for job_id in (job.id, child["id"]):
        refused = http.post(f"/v1/jobs/{job_id}:repeat", json={})
        assert (refused.status_code, refused.json()["code"]) == (409, "wrong-state")
        assert "no specification to repeat" in refused.json()["detail"]


def test_columns_that_the_new_dataset_lacks_are_reported(client, upload):
    orders = client.submit(
        upload(TABLE, "ordered"),
        "ridge",
        {},
        model="ordered",
        preparation={"orders": {"sex": ["M", "F"]}},
    ).wait()
    lacking = upload([{k: v for k, v in r.items() if k != "sex"} for r in TABLE], "lacking")
    with pytest.raises(ServiceError, match="no category 'sex'"):
        client.retrain(orders, lacking)
