"""Operators: keys, jobs and quotas of all owners, for keys with the scope ``operator`` only."""

import httpx
import numpy as np
import pytest

from service.access import store
from service.access.keys import Key, new_key
from sibling import Client, ServiceError

ROWS = {"a": np.arange(20.0).reshape(5, 4) ** 1.5, "b": np.arange(20.0).reshape(5, 4) ** 1.2}


@pytest.fixture(scope="module")
def guarded(launch_service):
    first = Key("a" * 12, "s" * 40).text()
    env = {"SIBLING_BOOTSTRAP_KEY": first, "SIBLING_MAX_DATASETS": "7", "SIBLING_MAX_MODELS": "0"}
    with launch_service(SIBLING_REQUIRE_KEYS="true", **env) as running:
        yield running


@pytest.fixture(scope="module")
def client_of(guarded):
    """``client_of(owner, scopes)``: a client with a new key."""
    opened = []

    def open_one(owner, *scopes):
        key = new_key()
        with guarded.open_database() as database, database.write() as session:
            store.create(session, key, owner=owner, scopes=scopes, expires_at=None)
        opened.append(Client(guarded.url, api_key=key.text()))
        opened[-1].key = key
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()


@pytest.fixture(scope="module")
def job_of_ada(client_of):
    ada = client_of("ada", "admin")
    job = ada.train(ada.upload(ROWS, name="mine"), "pca", model="mine", k=1)
    job.wait()
    return job


def refusal(call):
    with pytest.raises(ServiceError) as caught:
        call()
    return caught.value.status, caught.value.code


@pytest.mark.sql
def test_an_operator_sees_the_jobs_of_all_owners_and_their_data_stay_private(
    client_of, job_of_ada
) -> None:
    operator = client_of("root", "admin", "operator")
    assert list(operator.jobs) == []
    assert [job["owner"] for job in operator.jobs(owner="*")] == ["ada"]
    assert [job["id"] for job in operator.jobs(owner="ada")] == [job_of_ada.id]
    assert operator.job(job_of_ada.id).info["owner"] == "ada"
    assert list(operator.job(job_of_ada.id).events())
    assert refusal(operator.job(job_of_ada.id).cancel) == (409, "wrong-state")
    assert refusal(lambda: operator.dataset(job_of_ada.info["dataset_id"])) == (404, "not-found")
    assert refusal(lambda: operator.model("mine")) == (404, "not-found")


@pytest.mark.sql
def test_an_administrator_of_one_owner_sees_no_others(client_of, job_of_ada) -> None:
    eve = client_of("eve", "admin")
    for call in (
        lambda: list(eve.jobs(owner="ada")),
        lambda: list(eve.jobs(owner="*")),
        lambda: list(eve.keys(owner="*")),
        lambda: list(eve.quotas(owner="*")),
        lambda: eve.create_key(["infer"], owner="ada"),
        lambda: eve.create_key(["operator"]),
    ):
        assert refusal(call) == (403, "forbidden")
    for call in (eve.job, eve.inference):
        assert refusal(lambda call=call: call(job_of_ada.id)) == (404, "not-found")
    assert [one["owner"] for one in eve.quotas()] == ["eve"]
    assert {key["owner"] for key in eve.keys} == {"eve"}


@pytest.mark.sql
def test_an_operator_makes_and_revokes_keys_of_others(client_of, guarded, job_of_ada) -> None:
    operator = client_of("root", "keys:read", "keys:write", "operator", "jobs:read")
    assert refusal(lambda: operator.create_key(["admin"], owner="ada")) == (403, "forbidden")
    assert refusal(lambda: operator.create_key(["jobs:read"], owner="*")) == (
        422,
        "invalid-request",
    )
    made = operator.create_key(["jobs:read"], owner="ada", name="for ada")
    assert (made["owner"], made["creator_id"]) == ("ada", operator.key.id)
    with Client(guarded.url, api_key=made["key"]) as client:
        assert [job["id"] for job in client.jobs] == [job_of_ada.id]
    assert made["id"] in {key["id"] for key in operator.keys(owner="*")}
    assert {key["owner"] for key in operator.keys(owner="ada")} == {"ada"}
    operator.revoke_key(made["id"])
    assert not operator.keys[made["id"]]["is_active"]


@pytest.mark.sql
@pytest.mark.usefixtures("job_of_ada")
def test_quotas_say_how_much_is_used(client_of) -> None:
    operator = client_of("root", "keys:read", "operator")
    by_owner = {one["owner"]: one for one in operator.quotas(owner="*")}
    assert {"ada", "root"} <= by_owner.keys()
    ada = by_owner["ada"]
    assert ada["datasets"] == {"used": 1, "maximum": 7}
    assert ada["models"] == {"used": 1, "maximum": None}
    assert ada["stored_bytes"]["used"] > 0
    assert ada["n_active_keys"] >= 1
    assert ada["n_unfinished_jobs"] == 0


def test_pages_of_an_operator_have_owners(client_of, guarded, job_of_ada) -> None:
    def page(client, path):
        headers = {"Authorization": f"Bearer {client.key.text()}"}
        response = httpx.get(guarded.url + path, headers=headers, timeout=60)
        assert response.status_code == 200
        return response.text

    operator, eve = client_of("root", "admin", "operator"), client_of("eve", "admin")
    assert "Quotas and their use" in page(eve, "/keys")
    for path in ("/jobs", "/keys"):
        assert 'name="owner"' not in page(eve, path)
        assert '<option value="ada"' in page(operator, path)
    assert job_of_ada.id in page(operator, "/jobs?owner=*")
    assert job_of_ada.id not in page(operator, "/jobs")
    assert "1 of 7" in page(operator, "/keys?owner=*")
    assert job_of_ada.id in page(operator, f"/jobs/{job_of_ada.id}")


def test_the_commands_list_quotas_and_jobs_of_owners(command, guarded, client_of, job_of_ada):
    listed = command("keys", "quotas", "--json", **guarded.command_env()).stdout
    assert '"owner": "ada"' in listed
    key = client_of("root", "admin", "operator").key.text()
    jobs = command("jobs", "list", "--owner", "ada", SIBLING_URL=guarded.url, SIBLING_API_KEY=key)
    assert job_of_ada.id in jobs.stdout
