"""Lists in an order of choice, forwards and backwards, with filters and the total."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import httpx
import numpy as np
import pytest

from sibling import Client

ORDERS = {
    "jobs": ["created_at", "model", "state", "algorithm"],
    "datasets": ["created_at", "name", "state", "size_bytes"],
    "models": ["created_at", "name", "algorithm"],
}
N_EACH = 5


@pytest.fixture(scope="module")
def listed(launch_service):
    """A service with a few jobs, datasets and models, of which some have equal properties."""
    rng = np.random.default_rng(0)
    with launch_service() as service, Client(service.url) as client:
        for i in range(N_EACH):
            rows = {name: rng.normal(size=(6 + i % 2, 3)) for name in ("a", "b")}
            dataset = client.upload(rows, name=f"data {i % 3}")
            algorithm = ("pca", "common-pca")[i % 2]
            client.train(dataset, algorithm, model=f"m{(7 * i) % N_EACH}", k=1).wait()
        with httpx.Client(base_url=service.url, timeout=240) as http:
            yield http


def walk(http, path, direction, **query):
    """Yield the pages of a list until there is none in a direction."""
    while True:
        page = http.get(path, params=query).json()
        yield page
        if page[f"{direction}_page_token"] is None:
            return
        query["page_token"] = page[f"{direction}_page_token"]


@pytest.mark.parametrize("collection", ORDERS)
@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.sql
def test_every_item_is_met_once_in_every_order_forwards_and_backwards(listed, collection, sign):
    path = f"/v1/{collection}"
    for order in ORDERS[collection]:
        query = {"order_by": f"{sign}{order}", "page_size": 2, "total": True}
        pages = list(walk(listed, path, "next", **query))
        items = [item for page in pages for item in page["items"]]
        values = [item[order] for item in items]
        assert values == sorted(values, reverse=bool(sign))
        assert len({item["id"] for item in items}) == len(items) == N_EACH
        assert {page["total"] for page in pages} == {N_EACH}
        assert pages[0]["previous_page_token"] is None
        token = pages[-1]["previous_page_token"]
        back = list(walk(listed, path, "previous", **query, page_token=token))
        assert [page["items"] for page in back[::-1]] == [page["items"] for page in pages[:-1]]


@pytest.mark.parametrize("collection", ORDERS)
@pytest.mark.sql
def test_a_list_has_the_items_of_a_time_and_no_total_unless_asked(listed, collection):
    path = f"/v1/{collection}"
    assert listed.get(path).json()["total"] is None
    now = datetime.now(UTC)
    for query, n in (
        ({"since": now - timedelta(days=1)}, N_EACH),
        ({"since": now + timedelta(days=1)}, 0),
        ({"until": now - timedelta(days=1)}, 0),
        ({"until": now + timedelta(days=1)}, N_EACH),
    ):
        given = {name: time.isoformat() for name, time in query.items()}
        page = listed.get(path, params={**given, "total": True}).json()
        assert (len(page["items"]), page["total"]) == (n, n)


def test_a_token_of_another_order_is_refused(listed):
    query = {"page_size": 2, "order_by": "size_bytes"}
    token = listed.get("/v1/datasets", params=query).json()["next_page_token"]
    refused = listed.get("/v1/datasets", params={"order_by": "name", "page_token": token})
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid-page-token")
    refused = listed.get("/v1/jobs", params={"order_by": "priority"})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid-request")


@pytest.mark.parametrize("letter", ["я", "😀", '"'])
def test_a_token_of_the_longest_name_is_accepted(http, client, letter):
    names = [letter * 199 + digit for digit in "01"]
    for name in names:
        client.upload({"a": np.ones((3, 2))}, name=name)
    query = {"order_by": "name", "text": letter * 100, "page_size": 1}
    pages = list(walk(http, "/v1/datasets", "next", **query))
    assert [page["items"][0]["name"] for page in pages] == names


def test_models_are_found_by_the_dataset_of_their_latest_version(listed):
    jobs = listed.get("/v1/jobs").json()["items"]
    (job,) = (job for job in jobs if job["model"] == "m0")
    models = listed.get("/v1/models", params={"dataset_id": job["dataset_id"]}).json()["items"]
    assert [model["name"] for model in models] == ["m0"]


def test_a_page_of_a_list_has_total_order_and_boxes_to_select(listed):
    page = listed.get("/jobs?order_by=model&since=2020-01-01&until=2999-01-01").text
    assert f"{N_EACH} jobs" in page
    assert 'aria-sort="ascending"' in page
    assert page.count('data-path="/v1/jobs/') == N_EACH
    assert 'type="date" name="since" value="2020-01-01"' in page
    assert listed.get("/datasets?until=2020-01-01").text.count('data-path="') == 0
    models = listed.get("/models").text
    assert models.count('data-path="/v1/models/m') == N_EACH
    assert 'data-path="/v1/models/m0/versions/1"' in models
    assert listed.get("/models/m0").text.count('data-path="/v1/models/m0/versions/1"') == 1


def test_a_refused_deletion_names_the_models_that_hold_a_dataset(listed):
    job = listed.get("/v1/jobs").json()["items"][0]
    refused = listed.delete(f"/v1/datasets/{job['dataset_id']}")
    assert (refused.status_code, refused.json()["code"]) == (409, "in-use")
    assert f"model {job['model']}, version 1" in refused.json()["detail"]


@pytest.mark.slow
@pytest.mark.sql
def test_the_audit_log_names_resources_selects_outcomes_and_is_exported(listed):
    job = listed.get("/v1/jobs").json()["items"][0]
    listed.delete(f"/v1/datasets/{job['dataset_id']}")
    found = {
        outcome: listed.get("/v1/audit", params={"outcome": outcome, "page_size": 200}).json()
        for outcome in ("done", "refused")
    }
    refused = found["refused"]["items"]
    assert all(event["status"] >= 400 for event in refused)
    assert refused[0]["name"].startswith("data ")
    assert all((event["status"] or 0) < 400 for event in found["done"]["items"])
    exported = listed.get("/audit/export", params={"outcome": "refused"})
    assert "attachment" in exported.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(exported.text)))
    assert [row["request_id"] for row in rows] == [event["request_id"] for event in refused]
    assert json.loads(rows[0]["status"]) == 409
