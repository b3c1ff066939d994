"""Webhooks over HTTP, of a server that sends to a receiver of the tests."""

import asyncio
import json

import httpx
import numpy as np
import pytest

from service.webhooks.events import TYPES
from sibling import AsyncClient, Client, ServiceError

ALLOWED = {"SIBLING_WEBHOOK_HOSTS": "localhost", "SIBLING_WEBHOOK_NETWORKS": "127.0.0.0/8,::1/128"}
LONG = {"k": 10, "selection": "cv", "n_folds": 20, "starts": "many", "rtol": 1e-13}
CSV = b"task,a,b\ns,1,2\ns,3,5\ns,2,2\nt,5,6\nt,8,8\nt,7,9\n"


@pytest.fixture(scope="module")
def sending(launch_service):
    """A server whose operator allows webhooks to localhost."""
    with launch_service(**ALLOWED, SIBLING_INGEST_WAIT_S=40) as running:
        yield running


@pytest.fixture
def events_client(sending):
    with Client(sending.url) as client:
        yield client
        for webhook in client.webhooks:
            client.delete_webhook(webhook["id"])


def problem_of(response, status, code):
    assert (response.status_code, response.json()["code"]) == (status, code), response.text
    return response.json()


@pytest.mark.sql
@pytest.mark.seconds("trains models")
def test_events_of_jobs_versions_and_aliases_arrive_in_order_and_signed(
    events_client, receiver, wait_until, tmp_path
):
    webhook = events_client.create_webhook(receiver.url, name="all")
    (tmp_path / "d.csv").write_bytes(CSV)
    dataset = events_client.upload(tmp_path / "d.csv", name="d")
    job = events_client.train(dataset, "pca", model="told", k=1)
    model = job.wait()
    second = events_client.train(dataset, "pca", model="told", k=1).wait()
    model.set_alias("production")
    second.set_alias("production")
    events_client.delete_alias("told", "production")
    rng = np.random.default_rng(0)
    large = events_client.upload({f"task {t}": rng.normal(size=(40, 24)) for t in range(60)})
    ended_early = events_client.train(large, "rmt-pca", model="told", **LONG)
    ended_early.cancel()
    assert ended_early.wait_for_end().info["state"] == "cancelled"
    wait_until(lambda: len(receiver.received) == 8)

    assert all(request.is_signed(webhook["secret"]) for request in receiver.received)
    of_model = [e for e in receiver.events() if e["source"] == "/v1/models/told"]
    assert [(e["type"], e["subject"]) for e in of_model] == [
        ("version.created", "/v1/models/told/versions/1"),
        ("version.created", "/v1/models/told/versions/2"),
        ("alias.moved", "/v1/models/told/aliases/production"),
        ("alias.moved", "/v1/models/told/aliases/production"),
        ("alias.deleted", "/v1/models/told/aliases/production"),
    ]
    assert of_model[0]["data"]["job_id"] == job.id
    moved = {"model": "told", "alias": "production", "version": 2, "previous_version": 1}
    assert of_model[3]["data"] == moved
    assert of_model[2]["data"]["previous_version"] is None
    of_jobs = [e for e in receiver.events() if e["source"].startswith("/v1/jobs/")]
    assert sorted(e["type"] for e in of_jobs) == ["job.cancelled", "job.succeeded", "job.succeeded"]
    ended = next(e for e in of_jobs if e["subject"] == f"/v1/jobs/{job.id}")
    assert ended["data"] == {
        "id": job.id,
        "state": "succeeded",
        "algorithm": "pca",
        "model": "told",
        "dataset_id": dataset.id,
        "error": None,
        "created_at": ended["data"]["created_at"],
        "finished_at": ended["data"]["finished_at"],
    }

    def log():
        return list(events_client.webhook_deliveries(webhook["id"]))

    wait_until(lambda: {row["state"] for row in log()} == {"delivered"})  # stored after the answer
    assert {row["event_id"] for row in log()} == {e["id"] for e in receiver.events()}


@pytest.mark.sql
def test_a_webhook_is_made_listed_tested_and_deleted(events_client, sending, receiver):
    with httpx.Client(base_url=sending.url, timeout=240) as http:
        made = http.post("/v1/webhooks", json={"url": receiver.url, "types": ["job.failed"]})
        body = made.json()
        assert (made.status_code, made.headers["location"]) == (201, f"/v1/webhooks/{body['id']}")
        secret = body.pop("secret")
        assert secret.startswith("whsec_")
        assert http.get(made.headers["location"]).json() == body
        assert http.get("/v1/webhooks").json()["items"] == [body]
        assert secret not in sending.log()

        tested = http.post(f"{made.headers['location']}:test")
        assert (tested.status_code, tested.json()["type"]) == (202, "webhook.test")
        assert http.get(tested.headers["location"]).json()["id"] == tested.json()["id"]
        delivery = events_client.test_webhook(body["id"])
        assert (delivery["state"], delivery["status"], delivery["n_attempts"]) == (
            "delivered",
            204,
            1,
        )
        assert receiver.received[-1].is_signed(secret)
        log = http.get(f"{made.headers['location']}/deliveries").json()["items"]
        assert [row["id"] for row in log] == [delivery["id"], tested.json()["id"]]
        pages, query = [], {"page_size": 1, "state": "delivered"}
        while True:
            page = http.get(f"{made.headers['location']}/deliveries", params=query).json()
            pages += page["items"]
            if page["next_page_token"] is None:
                break
            query["page_token"] = page["next_page_token"]
        assert pages == log
        failed = {"state": "failed"}
        assert http.get(f"{made.headers['location']}/deliveries", params=failed).json() == {
            "items": [],
            "next_page_token": None,
            "previous_page_token": None,
            "total": None,
        }
        assert http.delete(made.headers["location"]).status_code == 204
        for method, path in (
            ("GET", ""),
            ("DELETE", ""),
            ("POST", ":test"),
            ("GET", "/deliveries"),
            ("GET", f"/deliveries/{delivery['id']}"),
        ):
            problem_of(http.request(method, made.headers["location"] + path), 404, "not-found")


@pytest.mark.parametrize(
    ("spec", "pointer"),
    [
        ({"url": "https://elsewhere.example.com/"}, "/url"),
        ({"url": "ftp://localhost/"}, "/url"),
        ({"url": "http://u:p@localhost/"}, "/url"),
        ({"url": "http://localhost:99999999/"}, "/url"),
        ({"url": "http://[::1"}, "/url"),
        ({"url": ""}, "/url"),
        ({"url": "http://localhost/", "types": []}, "/types"),
        ({"url": "http://localhost/", "types": ["job.begun"]}, "/types/0"),
        ({"url": "http://localhost/", "name": "a\nb"}, "/name"),
        ({"url": "http://localhost/", "secret": "whsec_AAAA"}, "/secret"),
        ({}, "/url"),
    ],
)
def test_a_specification_that_is_wrong_is_refused_at_its_place(sending, spec, pointer):
    response = httpx.post(f"{sending.url}/v1/webhooks", json=spec, timeout=240)
    body = problem_of(response, 422, "invalid-request")
    assert [error["pointer"] for error in body["errors"]] == [pointer]


def test_an_owner_has_ten_webhooks_at_most(events_client):
    for i in range(10):
        events_client.create_webhook(f"http://localhost/{i}")
    with pytest.raises(ServiceError) as caught:
        events_client.create_webhook("http://localhost/10")
    assert caught.value.code == "quota-exceeded"


def test_without_allowed_hosts_there_are_no_webhooks(http):
    """The shared server has the default settings."""
    body = problem_of(
        http.post("/v1/webhooks", json={"url": "https://example.com"}), 409, "wrong-state"
    )
    assert "SIBLING_WEBHOOK_HOSTS" in body["detail"]
    problem_of(http.post("/v1/webhooks/wh_1:test"), 409, "wrong-state")
    assert http.get("/v1/webhooks").json()["items"] == []


@pytest.mark.sql
def test_a_webhook_belongs_to_its_owner_and_needs_the_scopes_of_its_events(
    keyed_service, first_key, receiver, command
):
    service, first = keyed_service, first_key

    def ask(key, method, path, **request):
        headers = {"Authorization": f"Bearer {key}"}
        url = f"{service.url}/v1/{path}"
        return httpx.request(method, url, headers=headers, timeout=240, **request)

    def key_with(*scopes, owner=None):
        if owner is None:
            return ask(first, "POST", "keys", json={"scopes": list(scopes)}).json()["key"]
        made = command(
            *("keys", "create", "--owner", owner, "--scopes", ",".join(scopes)),
            check=True,
            **service.command_env(),
        )
        return made.stdout.strip()

    url = {"url": receiver.url}
    writer = key_with("webhooks:write", "jobs:read")
    problem_of(ask(key_with("jobs:read"), "POST", "webhooks", json=url), 403, "forbidden")
    refused = problem_of(ask(writer, "POST", "webhooks", json=url), 403, "forbidden")
    assert "models:read" in refused["detail"]
    made = ask(writer, "POST", "webhooks", json={**url, "types": ["job.failed"]})
    assert made.status_code == 201, made.text
    problem_of(ask(writer, "GET", "webhooks"), 403, "forbidden")
    reader = key_with("webhooks:read")
    seen = [item["id"] for item in ask(reader, "GET", "webhooks").json()["items"]]
    assert made.json()["id"] in seen  # beside those of other tests
    stranger = key_with("admin", owner="bob")
    assert ask(stranger, "GET", "webhooks").json()["items"] == []
    path = f"webhooks/{made.json()['id']}"
    for method, one in (("GET", path), ("DELETE", path), ("POST", f"{path}:test")):
        problem_of(ask(stranger, method, one), 404, "not-found")
    problem_of(ask(stranger, "GET", f"{path}/deliveries"), 404, "not-found")
    audit = ask(first, "GET", "audit", params={"operation": "create_webhook"}).json()["items"]
    assert {(item["status"], item["object"]) for item in audit} >= {(201, f"/v1/{path}")}


@pytest.mark.slow
def test_the_async_client_makes_lists_tests_and_deletes_webhooks(sending, receiver):
    async def use():
        async with AsyncClient(sending.url) as client:
            made = await client.create_webhook(receiver.url, ["alarm.raised"], name="later")
            assert [w["id"] async for w in client.webhooks] == [made["id"]]
            assert (await client.webhooks[made["id"]])["types"] == ["alarm.raised"]
            delivery = await client.test_webhook(made["id"])
            listed = [d async for d in client.webhook_deliveries(made["id"], state="delivered")]
            assert listed == [delivery]
            await client.delete_webhook(made["id"])

    asyncio.run(use())
    assert [event["type"] for event in receiver.events()] == ["webhook.test"]


def test_commands_make_test_list_and_delete_webhooks(sending, receiver, command):
    def run(*arguments, **options):
        return command("webhooks", *arguments, "--url", sending.url, **options)

    made = json.loads(
        run("create", receiver.url, "--type", "job.failed", "--json", check=True).stdout
    )
    assert made["types"] == ["job.failed"]
    assert made["secret"].startswith("whsec_")
    assert made["id"] in run(check=True).stdout
    assert "delivered" in run("test", made["id"], check=True).stdout
    receiver.respond = lambda _: 500
    failed = run("test", made["id"])
    assert (failed.returncode, "500" in failed.stderr) == (1, True)
    log = json.loads(run("deliveries", made["id"], "--json", check=True).stdout)
    assert [row["state"] for row in log] == ["failed", "delivered"]
    run("delete", made["id"], check=True)
    assert made["id"] not in run(check=True).stdout
    unknown = run("create", receiver.url, "--type", "job.begun")
    assert unknown.returncode != 0


@pytest.mark.slow
def test_the_client_takes_the_types_that_the_service_has(sending):
    document = httpx.get(f"{sending.url}/openapi.json", timeout=240).json()
    spec = document["components"]["schemas"]["WebhookSpec"]["properties"]["types"]
    assert tuple(spec["anyOf"][0]["items"]["enum"]) == TYPES
