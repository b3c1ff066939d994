from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import httpx
import numpy as np
import pytest
import sqlalchemy as sa

from algorithms.interface.methods import METHODS
from service.access import store
from service.access.bootstrap import ensure_bootstrap_key
from service.access.keys import MEANINGS, PRESETS, SCOPES, Key, allows, new_key, parse_key
from service.settings import Settings
from service.storage.database import now
from service.storage.tables import Row
from sibling import Client, ServiceError
from tests.service.raw import Raw, head

ROWS = {"a": np.arange(20.0).reshape(5, 4) ** 1.5, "b": np.arange(20.0).reshape(5, 4) ** 1.2}
#: What anybody may see: that the service lives, and its pages, which hold no data.
OPEN = {"/", "/v2/health/live", "/v2/health/ready", "/docs", "/docs/try", "/openapi.json"}
OPEN |= {"/docs/oauth2-redirect", "/v2"}
#: What lists things of the caller under /v2.
LISTS = {"/v2/repository/index": [], "/v2/models/stats": {"model_stats": []}}
#: What is about everybody, and the scope that it needs.
ACROSS_OWNERS = {"/metrics": "metrics:read", "/v1/audit": "audit:read"}

#: Ends of the addresses that call a model.
CALLS = ("/predictions", *("/" + method.replace("_", "-") for method in METHODS))


@pytest.fixture
def run_keys(command):
    """``run_keys(service, *arguments)``: ``sibling keys`` on the data of a service."""

    def run(service, *arguments, check=True, **env):
        return command("keys", *arguments, check=check, **service.command_env() | env)

    return run


def make_key(service, owner, scopes) -> str:
    key = new_key()
    with service.open_database() as database, database.write() as session:
        store.create(session, key, owner=owner, scopes=scopes.split(","), expires_at=None)
    return key.text()


@pytest.fixture(scope="module")
def guarded(launch_service):
    """A service that requires keys, with a model and other data of its owner ada."""
    first = Key("a" * 12, "s" * 40).text()
    env = {"SIBLING_REQUIRE_KEYS": "true", "SIBLING_WEBHOOK_HOSTS": "localhost"}
    with launch_service(SIBLING_BOOTSTRAP_KEY=first, **env) as running:
        yield running


@pytest.fixture(scope="module")
def ada(guarded):
    with Client(guarded.url, api_key=make_key(guarded, "ada", "admin")) as client:
        job = client.train(client.upload(ROWS, name="mine"), "pca", model="mine", k=1)
        job.wait().set_alias("production")
        client.job_id = job.id
        yield client


def begin_upload(service):
    """Return the id of a resumable upload without any byte."""
    key = make_key(service, "ada", "datasets:write")
    headers = {"Upload-Length": "9", "Upload-Metadata": "filetype dGV4dC9jc3Y="}
    headers |= {"Authorization": f"Bearer {key}"}
    response = httpx.post(f"{service.url}/v1/uploads?name=parts", headers=headers, timeout=240)
    return response.json()["id"]


def requests_of(service, ids):
    """Return a request for every route of the document, with ids that exist."""
    document = httpx.get(f"{service.url}/openapi.json", timeout=240).json()
    for path, methods in document["paths"].items():
        filled = path
        for name, value in ids.items():
            filled = filled.replace("{" + name + "}", value)
        assert "{" not in filled, f"no id for {path}"
        for method in methods:
            yield method.upper(), filled


@pytest.fixture(scope="module")
def everything(guarded, ada):
    dataset = next(iter(ada.datasets))["id"]
    ids = {"name": "mine", "version": "1", "dataset_id": dataset, "job_id": ada.job_id}
    ids["alias"] = "production"
    ids["upload_id"] = begin_upload(guarded)
    ids["plot"] = "spectrum"
    ids["key_id"] = parse_key(make_key(guarded, "ada", "infer")).id
    ids["webhook_id"] = ada.create_webhook("http://localhost/")["id"]
    ids["delivery_id"] = str(ada.test_webhook(ids["webhook_id"])["id"])
    return list(requests_of(guarded, ids))


def test_a_key_is_read_back_and_nothing_else_is_one():
    key = new_key()
    assert parse_key(key.text()) == key
    for text in ("", "sib_", "sib_a_b", key.text() + "!", key.text().replace("sib", "sob")):
        assert parse_key(text) is None


def test_every_scope_has_a_meaning_and_presets_have_scopes():
    assert tuple(MEANINGS) == SCOPES
    assert all(set(scopes) <= set(SCOPES) for scopes in PRESETS.values())


def test_admin_allows_everything_but_other_owners_and_any_other_scope_only_itself():
    for scope in SCOPES:
        assert allows(["admin"], scope) == (scope != "operator")
        assert allows([scope], scope)
        assert [s for s in SCOPES if allows(["infer"], s)] == ["infer"]
    assert allows([], None)


def test_every_route_except_the_public_ones_requires_a_key(guarded, everything):
    for method, path in everything:
        response = httpx.request(method, guarded.url + path, timeout=240)
        if path in OPEN:
            assert response.status_code < 400
        else:
            assert (path, response.status_code) == (path, 401)
            assert response.headers["www-authenticate"] == "Bearer"
            assert response.json()["code"] == "unauthenticated"


@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Bearer",
        "Bearer x",
        "Basic YTpi",
        "Bearer sib_000000000000_" + "y" * 43,
        "Bearer sib_aaaaaaaaaaaa_" + "x" * 40,
    ],
)
def test_an_unknown_key_is_rejected(guarded, authorization):
    response = httpx.get(
        f"{guarded.url}/v1/jobs", headers={"Authorization": authorization}, timeout=240
    )
    assert response.status_code == 401


def test_every_route_rejects_a_key_without_its_scope(guarded, everything):
    for method, path in everything:
        if path in OPEN or path.startswith("/v1/algorithms"):
            continue
        needed = _scope_of(method, path)
        others = ",".join(s for s in SCOPES if s not in (needed, "admin"))
        key = _cached_key(guarded, others)
        response = httpx.request(
            method, guarded.url + path, headers={"Authorization": f"Bearer {key}"}, timeout=240
        )
        assert (method, path, response.status_code) == (method, path, 403)
        assert needed in response.json()["detail"]


def _scope_of(method, path):
    if path in ACROSS_OWNERS:
        return ACROSS_OWNERS[path]
    if path.startswith("/v2/repository/models"):
        return "admin"
    if path.startswith("/v2") or (path.endswith((*CALLS, "/feedback")) and method == "POST"):
        return "infer"
    collection = path.split("/")[2].partition(":")[0]
    collection = {"uploads": "datasets", "quotas": "keys"}.get(collection, collection)
    return f"{collection}:{'read' if method == 'GET' else 'write'}"


_keys: dict[tuple[str, str], str] = {}


def _cached_key(service, scopes):
    if (service.url, scopes) not in _keys:
        _keys[service.url, scopes] = make_key(service, "ada", scopes)
    return _keys[service.url, scopes]


def _contents_of(method, path, dataset):
    """Return the query, the headers and the body of a valid request."""
    body = {"version": 1} if method == "PUT" else None
    bodies = {
        **{end: {} for end in (":repeat", ":promote", ":put-back")},
        "/v1/datasets:combine": {"name": "theirs", "sources": [{"dataset_id": dataset}]},
        "/feedback": [{"row_id": "a", "target": 1}],
    }
    if method == "PUT":
        bodies |= {"/monitor": {"share": 1}, "/renewal": {"rows": 100}}
    bodies |= {end: {"task": "a", "inputs": [[1, 2, 3, 4]]} for end in CALLS}
    body = next((found for end, found in bodies.items() if path.endswith(end)), body)
    part = {}
    if method == "PATCH":
        part = {"Upload-Offset": "0", "Content-Type": "application/offset+octet-stream"}
    queries = {"/v1/models:plots": {"model": "mine"}, "/monitor/rows": {"row_id_prefix": "a"}}
    query = next((found for place, found in queries.items() if place in path), None)
    return query, part, body


@pytest.mark.sql
def test_resources_of_another_owner_are_not_found(guarded, ada, everything):
    headers = {"Authorization": f"Bearer {make_key(guarded, 'bob', 'admin')}"}
    dataset = next(iter(ada.datasets))["id"]
    for method, path in everything:
        no_resource = {"/v1/keys", "/v1/quotas", "/v1/jobs:changes", "/v1/datasets:inspect"}
        if path in {*OPEN, *ACROSS_OWNERS, *no_resource} or path.startswith("/v1/algorithms"):
            continue
        query, part, body = _contents_of(method, path, dataset)
        response = httpx.request(
            method, guarded.url + path, params=query, headers=headers | part, json=body, timeout=240
        )
        if path in LISTS:
            assert response.json() == LISTS[path]
            continue
        lists = {f"/v1/{name}" for name in ("jobs", "datasets", "models", "uploads", "webhooks")}
        if path in {*lists, "/v1/jobs:infer"}:
            if method == "GET":
                assert response.json()["items"] == []
            continue
        assert (method, path, response.status_code) == (method, path, 404)
    assert ada.model("mine").transform(ROWS["a"], task="a").shape == (5, 1)


@pytest.mark.sql
def test_a_key_manages_keys_of_its_owner_with_scopes_of_its_own(guarded):
    maker = make_key(guarded, "eve", "keys:write,keys:read,infer")
    make_key(guarded, "mallory", "admin")
    with httpx.Client(
        base_url=guarded.url, headers={"Authorization": f"Bearer {maker}"}, timeout=240
    ) as http:
        refused = http.post("/v1/keys", json={"scopes": ["infer", "admin"]})
        assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        assert "'admin'" in refused.json()["detail"]
        created = http.post("/v1/keys", json={"name": "nightly", "scopes": ["infer"], "days": 2})
        made = created.json()
        assert (created.status_code, made["name"], made["scopes"]) == (201, "nightly", ["infer"])
        read = http.get(created.headers["location"]).json()
        assert read == {name: value for name, value in made.items() if name != "key"}
        pages = [http.get("/v1/keys?page_size=1").json()]
        while pages[-1]["next_page_token"]:
            token = pages[-1]["next_page_token"]
            pages.append(http.get(f"/v1/keys?page_size=1&page_token={token}").json())
        found = [page["items"][0]["id"] for page in pages]
        assert found == [made["id"], parse_key(maker).id]
        mine = {"Authorization": f"Bearer {made['key']}"}
        assert (
            httpx.get(f"{guarded.url}/v1/algorithms", headers=mine, timeout=240).status_code == 200
        )
        assert httpx.get(f"{guarded.url}/v1/keys", headers=mine, timeout=240).status_code == 403
        assert http.delete(f"/v1/keys/{made['id']}").status_code == 204
        assert http.get(f"/v1/keys/{made['id']}").json()["is_active"] is False


def test_the_client_manages_keys(guarded, ada):
    created = ada.create_key(["models:read"], name="dashboard", days=1)
    with Client(guarded.url, api_key=created["key"]) as dashboard:
        assert "mine" in dashboard.models
        with pytest.raises(ServiceError, match="forbidden"):
            dashboard.create_key(["models:read"])
    assert ada.keys[created["id"]]["name"] == "dashboard"
    ada.revoke_key(created["id"])
    assert not ada.keys[created["id"]]["is_active"]
    assert created["id"] in [key["id"] for key in ada.keys]


@pytest.mark.sql
def test_a_key_does_not_outlive_the_key_that_creates_it(guarded):
    key = new_key()
    expires_at = now() + timedelta(days=3)
    with guarded.open_database() as database, database.write() as session:
        store.create(session, key, owner="eve", scopes=["admin"], expires_at=expires_at)
    for days, expected in ((1, 1), (9, 3), (None, 3)):
        created = httpx.post(
            f"{guarded.url}/v1/keys",
            json={"scopes": ["admin"], "days": days},
            headers={"Authorization": f"Bearer {key.text()}"},
            timeout=240,
        ).json()
        left = datetime.fromisoformat(created["expires_at"]) - now()
        assert timedelta(days=expected, minutes=-9) < left <= timedelta(days=expected)


@pytest.mark.sql
def test_another_owner_cannot_train_on_a_dataset_that_is_not_theirs(guarded, ada):
    with Client(guarded.url, api_key=make_key(guarded, "bob", "admin")) as bob:
        with pytest.raises(ServiceError) as caught:
            bob.train(next(iter(ada.datasets))["id"], "pca", k=1)
        assert caught.value.status == 404
        # the same bytes and the same model name are bob's own
        mine = bob.upload(ROWS, name="mine")
        assert mine.id != next(iter(ada.datasets))["id"]
        for source, model in ((next(iter(ada.datasets))["id"], "mine"), (mine, "mine")):
            with pytest.raises(ServiceError) as caught:  # neither is theirs yet
                bob.infer(model, "transform", source)
            assert caught.value.status == 404
        assert bob.train(mine, "pca", model="mine", k=1).wait().version == 1
        with pytest.raises(ServiceError) as caught:
            bob.infer("mine", "transform", next(iter(ada.datasets))["id"])
        assert caught.value.status == 404
        assert bob.infer("mine", "transform", mine).wait().report["rows"] == 10
        assert [m["version"] for m in ada.models] == [1]


def test_an_unauthenticated_request_is_rejected_before_the_body_is_read(guarded):
    about = ("Content-Type: text/csv", "Content-Length: 1000000000")
    with Raw(guarded.url) as connection:
        connection.send(head("POST", "/v1/datasets?name=x", *about))  # and not one byte of the body
        assert connection.response()[0] == 401


@pytest.mark.sql
def test_a_revoked_key_is_rejected_within_seconds(run_keys, guarded, wait_until):
    made = run_keys(guarded, "create", "--owner", "eve", "--scopes", "jobs:read")
    key = made.stdout.strip()
    headers = {"Authorization": f"Bearer {key}"}
    assert httpx.get(f"{guarded.url}/v1/jobs", headers=headers, timeout=240).status_code == 200
    run_keys(guarded, "revoke", parse_key(key).id)
    jobs = f"{guarded.url}/v1/jobs"
    wait_until(lambda: httpx.get(jobs, headers=headers, timeout=240).status_code == 401)
    again = run_keys(guarded, "revoke", parse_key(key).id, check=False)
    assert again.returncode == 1
    assert "no active key" in again.stderr


@pytest.mark.usefixtures("ada")
@pytest.mark.sql
def test_keys_are_listed_without_their_secrets(run_keys, guarded):
    done = run_keys(guarded, "list", COLUMNS="200")
    assert "ada" in done.stdout
    assert "s" * 40 not in done.stdout


@pytest.mark.sql
def test_no_secret_is_kept_anywhere(guarded):
    secret = "s" * 40
    folders = [guarded.data_dir]
    with guarded.open_database() as database, database.read() as session:
        for table in Row.metadata.sorted_tables:
            assert secret not in str(session.execute(sa.select(table)).all())
        if database.engine.dialect.name == "sqlite":
            folders.append(Path(database.engine.url.database).parent)
    for file in (file for folder in folders for file in folder.rglob("*") if file.is_file()):
        assert secret.encode() not in file.read_bytes(), file
    assert secret not in guarded.log()


def test_it_does_not_listen_to_others_without_keys(forked_command):
    done = forked_command("serve", "--host", "0.0.0.0", "--port", "0")
    assert done.returncode == 1
    assert "sibling keys create" in done.stderr


@pytest.mark.sql
def test_a_bootstrap_key_that_was_revoked_stays_revoked(database, forked_command):
    key = new_key()
    settings = Settings(bootstrap_key=key.text())
    assert ensure_bootstrap_key(database, settings)
    assert ensure_bootstrap_key(database, settings)  # another start
    with database.write() as session:
        assert store.revoke(session, key.id)
    assert not ensure_bootstrap_key(database, settings)
    done = forked_command(
        *("serve", "--port", "0"),
        SIBLING_DATABASE_URL=database.url,
        SIBLING_REQUIRE_KEYS="true",
        SIBLING_BOOTSTRAP_KEY=key.text(),
    )
    assert done.returncode == 1
    assert "SIBLING_BOOTSTRAP_KEY is revoked or expired" in done.stderr
    assert ensure_bootstrap_key(database, Settings(bootstrap_key=new_key().text()))


@pytest.mark.sql
def test_replicas_that_start_at_the_same_time_store_one_bootstrap_key(database):
    settings = Settings(bootstrap_key=new_key().text())
    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(lambda _: ensure_bootstrap_key(database, settings), range(8)))
    with database.read() as session:
        assert len(store.list_all(session)) == 1


def test_an_invalid_bootstrap_key_is_reported(forked_command):
    done = forked_command("serve", "--port", "0", SIBLING_BOOTSTRAP_KEY="secret")
    assert done.returncode == 1
    assert "SIBLING_BOOTSTRAP_KEY" in done.stderr
    assert "Traceback" not in done.stderr
