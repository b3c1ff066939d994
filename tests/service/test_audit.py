"""Every change, and every refused one, leaves one audit event; reading and inference leave none."""

import asyncio
import json
import re
import threading
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from algorithms.interface.methods import METHODS
from service.access import store as key_store
from service.access.keys import new_key, parse_key
from service.audit import store
from service.audit.events import MAX_REFUSED_AT_ONCE, AuditEvent, RefusalLimit
from service.audit.recorder import AuditRecorder
from service.audit.store import AuditFilter
from service.observability.metrics import Metrics
from service.retention import store as retention
from service.storage.tables import AuditRow
from service.ui.views.audit import ACTIONS
from sibling import Client, ServiceError

pytestmark = pytest.mark.sql

ROOT = Path(__file__).parents[2]
ROWS = {"a": np.arange(20.0).reshape(5, 4) ** 1.5, "b": np.arange(20.0).reshape(5, 4) ** 1.2}
CSV = b"task,x,y\na,1,2\na,3,5\nb,5,6\nb,8,8\n"
NEW = {"c": np.arange(20.0).reshape(5, 4) ** 1.3}
#: Ends of the paths whose POST leaves no event: inference, the index of models, and files before an
#: upload.
READS = (
    *("/infer", "/index", ":inspect", "/predictions"),
    *("/" + method.replace("_", "-") for method in METHODS),
)
READING = {"get", "head", "options"}
request = partial(httpx.request, timeout=240)  # the machine may be busy


def make_key(service, owner, *scopes):
    key = new_key()
    with service.open_database() as database, database.write() as session:
        key_store.create(session, key, owner=owner, scopes=scopes, expires_at=None)
    return key.text()


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def read_events(service, **where):
    """Return the stored events, oldest first."""
    with service.open_database() as database, database.read() as session:
        rows = store.list_page(session, AuditFilter(**where), after=None, limit=10_000)
    return rows[::-1]


def of_request(service, request_id):
    return [event for event in read_events(service) if event.request_id == request_id]


@pytest.fixture(scope="module")
def guarded(launch_service):
    key = new_key().text()
    settings = {"REQUIRE_KEYS": "true", "BOOTSTRAP_KEY": key}
    settings["INGEST_WAIT_S"] = 240  # an upload is 201, also on a busy machine
    with launch_service(**{f"SIBLING_{k}": v for k, v in settings.items()}) as running:
        yield running


@pytest.fixture(scope="module")
def admin_key(guarded):
    return make_key(guarded, "ada", "admin")


@pytest.fixture(scope="module")
def ada(guarded, admin_key):
    with Client(guarded.url, api_key=admin_key) as client:
        yield client


@pytest.fixture(scope="module")
def changing(guarded):
    """Operation id and template of every request of the document that may change something."""
    document = request("GET", f"{guarded.url}/openapi.json").json()
    found = [
        (method.upper(), path, operation["operationId"])
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
        if method not in READING and not path.endswith(READS)
    ]
    assert len(found) >= 10
    return found


def test_the_page_has_words_for_every_operation(changing):
    assert {operation for *_, operation in changing} <= ACTIONS.keys()


IDS = {"name": "mïne", "version": "7", "dataset_id": "ds_0", "job_id": "job_0", "alias": "live"}
IDS["upload_id"] = "up_0"
IDS["plot"] = "relations"
IDS["key_id"] = "0" * 12
IDS |= {"webhook_id": "wh_0", "delivery_id": "1"}


def filled(path):
    return re.sub(r"{(\w+)}", lambda match: IDS[match[1]], path)


def object_of(path):
    """Return the path up to its last parameter."""
    return filled(path[: path.rfind("}") + 1]) or None


@pytest.mark.parametrize(
    ("scopes", "status", "code"),
    [(None, 401, "unauthenticated"), ("audit:read", 403, "forbidden"), ("admin", None, None)],
)
def test_every_request_that_may_change_something_leaves_one_event(
    guarded, changing, scopes, status, code
):
    key = None if scopes is None else make_key(guarded, "eve", scopes)
    for number, (method, path, operation) in enumerate(changing):
        request_id = f"walk-{scopes}-{number}"
        response = request(
            method,
            guarded.url + filled(path),
            headers={"X-Request-ID": request_id, **({} if key is None else bearer(key))},
        )
        assert response.status_code == (status or response.status_code)
        (event,) = of_request(guarded, request_id)
        assert (event.operation, event.object) == (operation, object_of(path))
        assert event.status == response.status_code
        expected = code or (response.json()["code"] if response.is_error else None)
        assert event.code == expected
        assert event.owner == (None if key is None else "eve")
        assert event.key_id == (None if key is None else parse_key(key).id)
        assert event.source == "127.0.0.1"
        assert datetime.now(UTC) - event.created_at < timedelta(minutes=5)


def test_reading_and_inference_leave_no_events(guarded, admin_key):
    document = request("GET", f"{guarded.url}/openapi.json").json()
    requests = [
        (method.upper(), filled(path))
        for path, operations in document["paths"].items()
        for method in operations
        if method in READING or path.endswith(READS)
    ]
    requests += [("POST", "/nothing/here"), ("DELETE", "/v1/jobs"), ("OPTIONS", "/v1/jobs")]
    for method, path in requests:
        headers = {"X-Request-ID": "reading", **bearer(admin_key)}
        request(method, guarded.url + path, headers=headers)
    assert of_request(guarded, "reading") == []


def test_events_name_what_a_request_created_changed_and_deleted(guarded, ada):
    start = len(read_events(guarded, owner="ada"))
    dataset = ada.upload(ROWS, name="rows")
    model = ada.train(dataset, "pca", model="mine", k=1).wait()
    model.set_alias("live")
    ada.delete_alias("mine", "live")
    job = ada.infer("mine", "transform", dataset, makes_dataset=False)
    job.wait()
    sent = {"headers": bearer(ada_key(ada))}
    paths = [
        ("DELETE", f"/v1/jobs/{job.id}/output"),
        ("POST", "/v2/repository/models/mine/load"),
        ("POST", "/v2/repository/models/mine/unload"),
        ("POST", f"/v1/jobs/{job.id}:cancel"),
        ("DELETE", f"/v1/datasets/{dataset.id}"),
        ("DELETE", "/v1/models/mine/versions/1"),
        ("DELETE", f"/v1/datasets/{dataset.id}"),
    ]
    for method, path in paths:
        request(method, guarded.url + path, **sent)
    found = [
        (event.operation, event.object, event.status, event.code)
        for event in read_events(guarded, owner="ada")[start:]
    ]
    alias = "/v1/models/mine/aliases/live"
    trained = found[1][1]
    assert re.fullmatch("/v1/jobs/job_[0-9a-z]+", trained)
    assert found == [
        ("upload_dataset", f"/v1/datasets/{dataset.id}", 201, None),
        ("submit_job", trained, 202, None),
        ("put_alias", alias, 201, None),
        ("delete_alias", alias, 204, None),
        ("submit_inference", f"/v1/jobs/{job.id}", 202, None),
        ("delete_output", f"/v1/jobs/{job.id}", 204, None),
        ("v2_load", "/v2/repository/models/mine", 200, None),
        ("v2_unload", "/v2/repository/models/mine", 200, None),
        ("cancel_job", f"/v1/jobs/{job.id}", 409, "wrong-state"),
        ("delete_dataset", f"/v1/datasets/{dataset.id}", 409, "in-use"),
        ("delete_version", "/v1/models/mine/versions/1", 204, None),
        ("delete_dataset", f"/v1/datasets/{dataset.id}", 204, None),
    ]


def ada_key(client):
    return client._http._transport._client.headers["Authorization"].removeprefix("Bearer ")


def test_sessions_begin_and_end_with_the_key_and_its_owner(guarded, admin_key):
    own = {"Origin": guarded.url}
    key_id = parse_key(admin_key).id
    opened = request("POST", f"{guarded.url}/login", data={"key": admin_key}, headers=own)
    cookie = opened.headers["set-cookie"].partition(";")[0]
    ended = request("POST", f"{guarded.url}/logout", headers={**own, "Cookie": cookie})
    unknown = new_key()
    form = {"key": unknown.text()}
    refused = request("POST", f"{guarded.url}/login", data=form, headers=own)
    for answer, event, caller in (
        (opened, ("login", 303), ("ada", key_id)),
        (ended, ("logout", 303), ("ada", key_id)),
        (refused, ("login", 401), (None, unknown.id)),
    ):
        (found,) = of_request(guarded, answer.headers["x-request-id"])
        assert (found.operation, found.status) == event
        assert (found.owner, found.key_id) == caller


def test_a_request_of_another_site_leaves_an_event(guarded, admin_key):
    headers = {"X-Request-ID": "forged", "Origin": "http://evil.example", **bearer(admin_key)}
    request("POST", f"{guarded.url}/v1/jobs/job_0:cancel", headers=headers)
    (event,) = of_request(guarded, "forged")
    assert (event.operation, event.object, event.status, event.code) == (
        "cancel_job",
        "/v1/jobs/job_0",
        403,
        "foreign-origin",
    )
    request(
        "POST", f"{guarded.url}/v1/models/x/predict", headers={**headers, "X-Request-ID": "forged2"}
    )
    assert of_request(guarded, "forged2") == []


def test_events_have_no_secrets_and_no_bodies(guarded, admin_key):
    headers = {"Content-Type": "application/json", **bearer(admin_key)}
    body = json.dumps({"dataset_id": "never-in-the-log", "algorithm": "pca", "model": "m"})
    request("POST", f"{guarded.url}/v1/jobs", headers=headers, content=body)
    revoked = "sib_" + "z" * 12 + "_" + "never-in-the-log" * 3
    request("POST", f"{guarded.url}/v1/jobs", headers=bearer(revoked))
    assert read_events(guarded)[-1].key_id == "z" * 12
    with guarded.open_database() as database, database.read() as session:
        text = str(session.execute(sa.select(AuditRow.__table__)).all())
    for secret in ("never-in-the-log", parse_key(admin_key).secret):
        assert secret not in text
        assert secret not in "\n".join(audit_lines(guarded))


def audit_lines(service):
    lines = service.log().splitlines()
    return [line for line in lines if json.loads(line)["event"].startswith("audit")]


def test_each_event_is_also_a_line_of_the_log(guarded, admin_key):
    headers = {"X-Request-ID": "logged", **bearer(admin_key)}
    request("DELETE", f"{guarded.url}/v1/datasets/ds_none", headers=headers)
    (event,) = of_request(guarded, "logged")
    (line,) = [json.loads(line) for line in audit_lines(guarded) if '"logged"' in line]
    for name in ("operation", "object", "status", "code", "owner", "key_id", "source"):
        assert line[name] == getattr(event, name)


def test_very_long_texts_are_shortened(guarded, admin_key):
    url = f"{guarded.url}/v1/datasets/{'x' * 3000}"
    request("DELETE", url, headers={"X-Request-ID": "long", **bearer(admin_key)})
    (event,) = of_request(guarded, "long")
    assert len(event.object) == 500


def test_events_are_listed_by_pages_and_filters(guarded, ada, admin_key):
    for _ in range(3):
        request("DELETE", f"{guarded.url}/v1/datasets/ds_paged", headers=bearer(admin_key))
    auditor = bearer(make_key(guarded, "ben", "audit:read"))
    url = f"{guarded.url}/v1/audit"
    query = {"object": "/v1/datasets/ds_paged", "page_size": 2}
    first = request("GET", url, params=query, headers=auditor).json()
    second = request(
        "GET", url, params={**query, "page_token": first["next_page_token"]}, headers=auditor
    ).json()
    ids = [event["id"] for event in first["items"] + second["items"]]
    assert len(ids) == 3
    assert ids == sorted(ids, reverse=True)
    assert second["next_page_token"] is None
    assert [e["id"] for e in ada.audit(object="/v1/datasets/ds_paged")] == ids
    key_id = parse_key(admin_key).id
    assert {e["owner"] for e in ada.audit(key_id=key_id)} == {"ada"}
    assert {e["owner"] for e in ada.audit(owner="ada")} == {"ada"}
    assert {e["operation"] for e in ada.audit(operation="delete_dataset")} == {"delete_dataset"}
    third = read_events(guarded, object="/v1/datasets/ds_paged")[-1]
    later = ada.audit(object="/v1/datasets/ds_paged", since=third.created_at)
    assert [e["id"] for e in later] == ids[:1]
    before = ada.audit(object="/v1/datasets/ds_paged", until=third.created_at)
    assert [e["id"] for e in before] == ids[1:]
    refused = request("GET", url, params={"since": "2026-01-01T00:00:00"}, headers=auditor)
    assert refused.status_code == 422  # no time zone
    assert request("GET", url, params={"page_token": "x"}, headers=auditor).status_code == 400


def test_the_audit_log_needs_its_scope(guarded):
    for scopes, status in (("metrics:read", 403), ("audit:read", 200), ("admin", 200)):
        headers = bearer(make_key(guarded, "eve", scopes))
        assert request("GET", f"{guarded.url}/v1/audit", headers=headers).status_code == status
    with Client(guarded.url, api_key=make_key(guarded, "eve", "jobs:read")) as client:
        with pytest.raises(ServiceError) as caught:
            list(client.audit())
        assert caught.value.code == "forbidden"


@pytest.fixture
def run(command):
    """``run(service, *arguments)``: the output of ``sibling`` on the data of a service."""

    def on_data(service, *arguments, **env):
        return command(*arguments, check=True, **service.command_env() | env).stdout

    return on_data


def test_commands_of_operators_leave_events(run, guarded, admin_key):
    key = parse_key(run(guarded, "keys", "create", "--owner", "zoe").strip())
    run(guarded, "keys", "revoke", key.id)
    path = f"/v1/keys/{key.id}"
    found = read_events(guarded, object=path)
    assert [event.operation for event in found] == ["keys create", "keys revoke"]
    assert "@" in found[0].source
    assert read_events(guarded)[0].operation == "bootstrap key"
    shown = run(
        guarded,
        *("audit", "--object", path, "--url", guarded.url, "--since", "2026-01-01"),
        SIBLING_API_KEY=admin_key,
    )
    assert shown.count(path) == 2


@contextmanager
def without_table(service):
    """Have no event be stored until the end of the block."""
    with service.open_database() as database:
        execute(database, "ALTER TABLE audit_events RENAME TO gone")
        yield
        execute(database, "ALTER TABLE gone RENAME TO audit_events")


def execute(database, statement):
    with database.write() as session:
        session.execute(sa.text(statement))


def failed_events(service, key):
    text = request("GET", f"{service.url}/metrics", headers=bearer(key)).text
    found = re.search(r'sibling_audit_events_total{result="failed"} ([0-9.]+)', text)
    return 0 if found is None else float(found[1])


def test_nothing_is_changed_whose_event_cannot_be_stored(guarded, ada):
    dataset = ada.upload(NEW, name="before")
    n_jobs = len(list(ada.jobs))
    headers = bearer(ada_key(ada))
    spec = {"dataset_id": dataset.id, "algorithm": "pca", "model": "unrecorded"}
    with without_table(guarded):
        for method, path, parts in (
            ("POST", "/v1/datasets", {"params": {"name": "after"}, "content": CSV}),
            ("POST", "/v1/jobs", {"json": spec}),
            ("DELETE", f"/v1/datasets/{dataset.id}", {}),
        ):
            sent = {**headers, "Content-Type": "text/csv"} if "content" in parts else headers
            failed = request(method, guarded.url + path, headers=sent, **parts)
            assert failed.status_code >= 500
    assert [one["name"] for one in ada.datasets(text="before")] == ["before"]
    assert not list(ada.datasets(text="after"))
    assert len(list(ada.jobs)) == n_jobs
    ada.delete_dataset(dataset.id)  # and events are stored again
    assert read_events(guarded)[-1].operation == "delete_dataset"


def test_a_refusal_whose_event_cannot_be_stored_is_logged(guarded, admin_key):
    before = failed_events(guarded, admin_key)
    headers = {"X-Request-ID": "unstored", **bearer(admin_key)}
    with without_table(guarded):
        refused = request("DELETE", f"{guarded.url}/v1/datasets/ds_none", headers=headers)
        assert refused.status_code == 404
    assert failed_events(guarded, admin_key) == before + 1
    lines = [line for line in audit_lines(guarded) if "audit.failed" in line]
    (line,) = [line for line in lines if '"unstored"' in line]
    event = json.loads(line)
    assert (event["operation"], event["object"]) == ("delete_dataset", "/v1/datasets/ds_none")
    assert "audit_events" in event["error"]


def test_a_response_does_not_wait_long_for_its_event(guarded, ada, admin_key, wait_until):
    """A refused request needs no write of its own, so only its event waits for the lock."""
    headers = {"X-Request-ID": "locked", **bearer(admin_key)}
    list(ada.audit(operation="none"))  # caches the key
    with guarded.open_database() as database, database.write() as session:
        lock = "SELECT 1" if database.is_sqlite else "LOCK TABLE audit_events IN EXCLUSIVE MODE"
        session.execute(sa.text(lock))  # a writer locks the whole of SQLite
        refused = request("POST", f"{guarded.url}/v1/jobs", headers=headers, content=b"{")
        assert of_request(guarded, "locked") == []
    assert refused.status_code == 415
    wait_until(lambda: len(of_request(guarded, "locked")) == 1)


def test_a_response_does_not_wait_for_its_event_once_the_service_stops(database):
    metrics = Metrics()

    def failed():
        found = (one for one in metrics.samples() if one.labels.get("result") == "failed")
        return sum(one.value for one in found)

    recorder = AuditRecorder(database, metrics)
    asyncio.run(recorder.record(AuditEvent("submit_job", status=202)))
    recorder.close()
    assert failed() == 0
    # the loop ends at once, with whatever a task still waits for
    recording = recorder.record(AuditEvent("submit_job", status=503))
    with pytest.raises(StopIteration):
        recording.send(None)
    assert failed() == 1
    with database.read() as session:
        assert session.scalars(sa.select(AuditRow.status)).all() == [202]


def test_refused_requests_cannot_fill_the_database():
    seconds = [0.0]
    limit = RefusalLimit(lambda: seconds[0])
    refused = AuditEvent("submit_job", status=401)
    admitted = [limit.admits(refused) for _ in range(2 * MAX_REFUSED_AT_ONCE)]
    assert admitted == [True] * MAX_REFUSED_AT_ONCE + [False] * MAX_REFUSED_AT_ONCE
    assert not limit.admits(AuditEvent("logout", status=303))  # it changes nothing without a key
    assert not limit.admits(AuditEvent("login"))
    assert limit.admits(AuditEvent("submit_job", status=202, owner="ada"))
    assert limit.admits(AuditEvent("submit_job", status=403, owner="ada"))
    seconds[0] += 2
    assert [limit.admits(refused) for _ in range(3)] == [True, True, False]
    for _ in range(8):  # requests that are not stored do not prolong the limit
        seconds[0] += 0.5
        admitted.append(limit.admits(refused))
    assert admitted[-8:].count(True) == 4


def test_many_owners_do_not_reset_the_limit_of_another():
    limit = RefusalLimit(lambda: 0.0)
    for number in range(9_998):
        limit.admits(AuditEvent("submit_job", status=403, owner=f"early {number}"))
    refused = AuditEvent("submit_job", status=403, owner="ada")
    assert sum(limit.admits(refused) for _ in range(500)) == MAX_REFUSED_AT_ONCE
    for number in range(100):
        assert limit.admits(AuditEvent("submit_job", status=403, owner=f"late {number}"))
    assert not limit.admits(refused)


def test_old_events_are_deleted_in_batches(database, monkeypatch):
    monkeypatch.setattr(retention, "BATCH_SIZE", 2)
    moment = datetime.now(UTC)
    with database.write() as session:
        for age in (0, 1, 9, 10.5, 11, 12):
            created_at = moment - timedelta(days=age)
            store.add(session, AuditEvent("submit_job", f"/v1/jobs/{age}", created_at=created_at))
    assert list(retention.expire_audit_events(database, moment - timedelta(days=10))) == [2, 1]
    with database.read() as session:
        left = store.list_page(session, AuditFilter(), after=None, limit=10)
    assert [event.object for event in left] == ["/v1/jobs/9", "/v1/jobs/1", "/v1/jobs/0"]


def test_concurrent_requests_leave_one_event_each(guarded, admin_key):
    def send(number):
        with httpx.Client(base_url=guarded.url, headers=bearer(admin_key), timeout=240) as http:
            for turn in range(10):
                http.delete("/v1/datasets/ds_x", headers={"X-Request-ID": f"c-{number}-{turn}"})

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = [e.request_id for e in read_events(guarded) if (e.request_id or "").startswith("c-")]
    assert sorted(found) == sorted(f"c-{n}-{turn}" for n in range(8) for turn in range(10))


def test_a_time_that_utc_cannot_express_is_refused(guarded, admin_key):
    for name, time in (
        ("since", "0001-01-01T00:00:00+05:00"),
        ("until", "9999-12-31T23:59:59-05:00"),
    ):
        url = f"{guarded.url}/v1/audit"
        refused = request("GET", url, params={name: time}, headers=bearer(admin_key))
        assert refused.status_code == 422
        assert "years 1 to 9999" in refused.json()["detail"]


def test_a_path_with_nul_can_be_stored(database):
    with database.write() as session:
        store.add(session, AuditEvent("delete_dataset", "/v1/datasets/a\0b", status=400))
    with database.read() as session:
        (event,) = store.list_page(session, AuditFilter(), after=None, limit=10)
    assert event.object == "/v1/datasets/a\N{REPLACEMENT CHARACTER}b"


def test_an_event_has_the_owner_whose_key_was_valid_at_the_beginning(guarded, wait_until):
    key = make_key(guarded, "max", "admin")
    headers = {"X-Request-ID": "revoked", **bearer(key)}

    def delete():
        url = f"{guarded.url}/v1/datasets/ds_none"
        return request("DELETE", url, headers=headers).status_code

    def content():
        yield b"task,x,y\n"
        assert delete() == 404
        with guarded.open_database() as database, database.write() as session:
            key_store.revoke(session, parse_key(key).id)
        wait_until(lambda: delete() == 401, seconds=240)
        yield b"a,1,2\na,2,3\nb,1,4\nb,2,5\n"

    request(
        "POST",
        f"{guarded.url}/v1/datasets?name=slow",
        headers={"Content-Type": "text/csv", **bearer(key), "X-Request-ID": "long-upload"},
        content=content(),
    )
    (upload,) = of_request(guarded, "long-upload")
    assert upload.owner == "max"
    statuses = {event.status: event.owner for event in of_request(guarded, "revoked")}
    assert statuses == {404: "max", 401: None}
