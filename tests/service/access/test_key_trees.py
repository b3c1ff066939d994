"""Keys that keys create: none after a revocation, and all of them revoked together."""

import json
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from datetime import timedelta
from threading import Event

import httpx
import pytest
import sqlalchemy as sa

from service.access import sessions, store
from service.access.authenticator import Authenticator
from service.access.keys import new_key, parse_key
from service.audit import store as audit
from service.audit.store import AuditFilter
from service.errors.problems import Problem
from service.storage.database import now
from service.storage.tables import KeyRow
from sibling import Client
from tests.service.raw import Raw, head

pytestmark = pytest.mark.sql

N_RACES = 6
N_WRITERS = 4


@pytest.fixture(scope="module")
def replicas(launch_service, keyed_service):
    """Two services that require keys, on one database; each of them has a cache of its own."""
    with launch_service(keyed_service.data_dir, SIBLING_REQUIRE_KEYS="true") as other:
        yield keyed_service, other


@pytest.fixture
def guarded(keyed_service):
    return keyed_service


@pytest.fixture
def make(guarded):
    """``make(*scopes)``: the text of a new key of ada."""

    def run(*scopes, expires_at=None):
        key = new_key()
        with guarded.open_database() as database, database.write() as session:
            store.create(
                session, key, owner="ada", scopes=scopes or ["admin"], expires_at=expires_at
            )
        return key.text()

    return run


def ask(service, key, method, path, **options):
    headers = {"Authorization": f"Bearer {key}", **options.pop("headers", {})}
    return httpx.request(method, service.url + path, headers=headers, timeout=240, **options)


def create(service, key, **spec):
    return ask(service, key, "POST", "/v1/keys", json={"scopes": ["infer"], **spec})


def end(service, key, *, expires):
    """Revoke a key, or have it expire, without a request."""
    with service.open_database() as database, database.write() as session:
        if expires:
            store.get(session, parse_key(key).id).expires_at = now() - timedelta(seconds=1)
        else:
            store.revoke(session, parse_key(key).id)


@pytest.mark.parametrize("expires", [False, True])
def test_a_key_that_is_revoked_or_expired_makes_no_successor(replicas, make, expires):
    key = make()
    for service in replicas:
        assert ask(service, key, "GET", "/v1/keys").status_code == 200  # cached from now on
    end(replicas[0], key, expires=expires)
    for service in replicas:
        refused = create(service, key)
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        assert ask(service, key, "GET", "/v1/keys").status_code == 401  # and is in no cache


@pytest.mark.slow
def test_a_revoked_key_moves_no_alias_and_revokes_no_key(guarded, make):
    admin, key = make(), make()
    with Client(guarded.url, api_key=admin) as client:
        rows = {"a": [[1.0, 2.0], [2.0, 3.5], [4.0, 1.0]]}
        client.train(client.upload(rows), "pca", model="m", k=1).wait().set_alias("production")
    requests = [
        ("PUT", "/v1/models/m/aliases/other", {"json": {"version": 1}}),
        ("DELETE", "/v1/models/m/aliases/production", {}),
        ("DELETE", f"/v1/keys/{parse_key(admin).id}", {}),
    ]
    for method, path, options in requests:
        key = make()
        assert ask(guarded, key, "GET", "/v1/keys").status_code == 200
        end(guarded, key, expires=False)
        assert ask(guarded, key, method, path, **options).status_code == 401
    aliases = ask(guarded, admin, "GET", "/v1/models/m/aliases").json()["items"]
    assert [alias["alias"] for alias in aliases] == ["production"]


@pytest.mark.slow
def test_a_key_is_revoked_while_it_makes_others_without_one_that_is_left(replicas, make):
    """In each race, requests to two processes make keys while the command revokes the first."""
    guarded, other = replicas
    with ThreadPoolExecutor(N_WRITERS) as pool, guarded.open_database() as database:
        for _ in range(N_RACES):
            key, has_begun = make(), Event()

            def write(service, key=key, has_begun=has_begun):
                while (last := create(service, key).status_code) != 401:
                    if last == 201:  # at times the owner has as many keys as are allowed
                        has_begun.set()

            writers = [pool.submit(write, (guarded, other)[i % 2]) for i in range(N_WRITERS)]
            assert has_begun.wait(240)
            key_id = parse_key(key).id
            with database.write() as session:
                store.revoke(session, key_id, with_descendants=True)
            for writer in writers:
                writer.result()
            with database.read() as session:
                made = session.scalars(sa.select(KeyRow).where(KeyRow.creator_id == key_id)).all()
                revoked_at = store.get(session, key_id).revoked_at
            assert made
            assert [row.id for row in made if row.revoked_at is None] == []
            assert [row.id for row in made if row.created_at > revoked_at] == []


def test_a_key_of_another_owner_that_is_created_during_the_revocation_is_revoked(database):
    key, made = new_key(), new_key()
    with database.write() as session:
        store.create(session, key, owner="ada", scopes=["operator"], expires_at=None)

    def revoke():
        with database.write() as session:
            return store.revoke(session, key.id, with_descendants=True)

    with ThreadPoolExecutor(1) as pool:
        with database.write() as session:
            store.get(session, key.id, is_locked=True)  # as a request that creates a key does
            revoking = pool.submit(revoke)
            wait([revoking], timeout=1)  # until it waits for the key
            store.create(
                session, made, owner="bob", scopes=["infer"], expires_at=None, creator_id=key.id
            )
        assert revoking.result() == [key.id, made.id]


def test_the_oldest_key_takes_its_descendants_along(guarded, make):
    root, apart = make(), make()
    chain = [root]
    for _ in range(3):
        chain.append(create(guarded, chain[-1], scopes=["admin"]).json()["key"])
    ids = [parse_key(key).id for key in chain]
    listed = {key["id"]: key for key in ask(guarded, apart, "GET", "/v1/keys").json()["items"]}
    assert [listed[i]["creator_id"] for i in ids] == [None, *ids[:-1]]
    assert [listed[i]["n_active_descendants"] for i in ids] == [3, 2, 1, 0]
    assert ask(guarded, apart, "DELETE", f"/v1/keys/{ids[1]}").status_code == 204
    found = [ask(guarded, apart, "GET", f"/v1/keys/{i}").json() for i in ids]
    assert [key["is_active"] for key in found] == [True, False, True, True]
    assert [key["n_active_descendants"] for key in found] == [2, 2, 1, 0]
    with Client(guarded.url, api_key=apart) as client:
        client.revoke_key(ids[1], descendants=True)  # it is revoked itself already
        assert [client.keys[i]["is_active"] for i in ids] == [True, False, False, False]
        assert client.keys[parse_key(apart).id]["is_active"]


def test_the_command_shows_who_made_a_key_and_revokes_its_descendants(guarded, make, command):
    key = make()
    key_id, made = parse_key(key).id, create(guarded, key).json()["id"]
    env = guarded.command_env()
    listed = command("keys", "list", "--json", check=True, **env).stdout
    assert f'"creator_id": "{key_id}"' in listed
    shown = {key["id"]: key["n_active_descendants"] for key in json.loads(listed)}
    assert (shown[key_id], shown[made]) == (1, 0)
    done = command("keys", "revoke", key_id, "--descendants", check=True, **env)
    assert made in done.stdout
    assert ask(guarded, make(), "GET", f"/v1/keys/{made}").json()["is_active"] is False
    again = command("keys", "revoke", key_id, "--descendants", **env)
    assert again.returncode == 1


def test_the_page_shows_who_made_a_key_and_offers_to_revoke_its_descendants(guarded, make):
    admin, key = make(), make()
    key_id, made = parse_key(key).id, create(guarded, key).json()["id"]
    page = ask(guarded, admin, "GET", "/keys", headers={"Accept": "text/html"}).text
    assert f'data-path="/v1/keys/{key_id}?descendants=true"' in page
    assert f'data-path="/v1/keys/{made}?descendants=true"' not in page
    assert page.count(f"sib_{key_id}_") == 2  # of the key, and of who made the other


def test_a_key_revoked_during_the_sign_in_gets_no_session(database):
    key = new_key()
    with database.write() as session:
        store.create(session, key, owner="ada", scopes=["jobs:read"], expires_at=None)
    authenticator = Authenticator(database, is_open=False, session_lifetime=timedelta(hours=1))
    authenticator.authenticate(f"Bearer {key.text()}", None)
    with database.write() as session:
        store.revoke(session, key.id)
    with database.write() as session, pytest.raises(Problem, match="revoked"):
        authenticator.confirm(session, f"Bearer {key.text()}", None)
    assert authenticator.cached_owner(f"Bearer {key.text()}", None) is None
    authenticator.close()


def test_a_session_that_has_ended_makes_no_key(database):
    key = new_key()
    with database.write() as session:
        store.create(session, key, owner="ada", scopes=["admin"], expires_at=None)
    authenticator = Authenticator(database, is_open=False, session_lifetime=timedelta(hours=1))
    token = authenticator.sign_in(key.text())
    authorization = f"Session {token}"
    with database.write() as session:
        assert authenticator.confirm(session, authorization, "keys:write").id == key.id
        sessions.end(session, token)
    with database.write() as session, pytest.raises(Problem, match="the session has ended"):
        authenticator.confirm(session, authorization, "keys:write")
    authenticator.close()


def test_each_key_that_is_revoked_leaves_an_audit_event(guarded, make, command):
    """Over HTTP as by the command, also where the first key was revoked before."""
    admin = make()
    for way in ("http", "command"):
        keys = [make()]
        for _ in range(2):
            keys.append(create(guarded, keys[-1], scopes=["admin"]).json()["key"])
        ids = [parse_key(key).id for key in keys]
        for first, expected in ((ids[2], ids[2:]), (ids[0], ids[:2])):
            if way == "http":
                path = f"/v1/keys/{first}?descendants=true"
                assert ask(guarded, admin, "DELETE", path).status_code == 204
            else:
                env = guarded.command_env()
                command("keys", "revoke", first, "--descendants", check=True, **env)
            with guarded.open_database() as database, database.read() as session:
                events = audit.list_page(session, AuditFilter(), after=None, limit=len(expected))
            assert {event.object for event in events} == {f"/v1/keys/{one}" for one in expected}
            revokes = {"http": "revoke_key", "command": "keys revoke"}
            assert {event.operation for event in events} == {revokes[way]}
            assert len({(event.request_id, event.key_id, event.status) for event in events}) == 1


@pytest.mark.slow
def test_a_body_that_ends_after_its_key_was_revoked_changes_nothing(guarded, make, wait_until):
    """A body may take hours: its key is read again at its end."""
    admin, key = make(), make()
    table = b"task,x\na,1\na,2\n"
    begin = {"Upload-Length": str(len(table)), "Upload-Metadata": "filetype dGV4dC9jc3Y="}
    begun = ask(guarded, key, "POST", "/v1/uploads?name=parts", headers=begin)
    combined = json.dumps({"name": "late", "sources": [{"dataset_id": "ds_1"}]}).encode()
    part = {"Content-Type": "application/offset+octet-stream", "Upload-Offset": "0"}
    requests = [
        ("POST", "/v1/datasets?name=whole", {"Content-Type": "text/csv"}, table),
        ("PATCH", begun.headers["location"], part, table),
        ("POST", "/v1/datasets:combine", {"Content-Type": "application/json"}, combined),
    ]
    with ExitStack() as stack:
        waiting = []
        for method, path, headers, body in requests:
            connection = stack.enter_context(Raw(guarded.url))
            about = {"Expect": "100-continue", "Authorization": f"Bearer {key}"}
            about |= headers | {"Content-Length": len(body), "Connection": "close"}
            connection.send(head(method, path, *(f"{k}: {v}" for k, v in about.items())))
            assert connection.response()[0] == 100  # the key has been accepted
            connection.send(body[:-1])
            waiting.append((connection, body[-1:]))
        end(guarded, key, expires=False)
        wait_until(lambda: ask(guarded, key, "GET", "/v1/keys").status_code == 401)
        for connection, rest in waiting:
            connection.send(rest)
            status, _, content = connection.response()
            assert (status, json.loads(content)["code"]) == (401, "unauthenticated")
    names = {item["name"] for item in ask(guarded, admin, "GET", "/v1/datasets").json()["items"]}
    assert not names & {"whole", "parts", "late"}
    (upload,) = ask(guarded, admin, "GET", "/v1/uploads").json()["items"]
    assert upload["dataset_id"] is None
