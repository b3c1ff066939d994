"""Aliases: movable names of versions, accepted wherever a version is."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import sqlalchemy as sa

from service.models.resolver import ModelResolver
from service.storage.tables import AliasRow
from sibling import ServiceError

pytestmark = pytest.mark.usefixtures("versions")
needs_production = pytest.mark.usefixtures("production")
ROWS = np.arange(10.0).reshape(2, 5)
PATH = "/v1/models/aliased/aliases"


# session scope, as parallel runs may switch between modules
@pytest.fixture(scope="session")
def versions(client, dataset):
    """Three versions of one model with different numbers of output columns."""
    return [client.train(dataset, "pca", model="aliased", k=k).wait() for k in (1, 2, 3)]


@pytest.fixture
def production(http):
    """ETag of the alias production, which points at version 2."""
    there = http.get(f"{PATH}/production")
    condition = {"If-Match": there.headers["etag"]} if there.status_code == 200 else {}
    return move(http, 2, **condition).headers["etag"]


def move(http, version, alias="production", **headers):
    return http.put(f"{PATH}/{alias}", json={"version": version}, headers=headers)


def assert_rejected(response, status, code):
    assert (response.status_code, response.json()["code"]) == (status, code), response.text
    return response.json()


# --- creation and names --------------------------------------------------------------------------


@pytest.mark.sql
def test_an_alias_is_created_read_moved_and_deleted(http, versions):
    made = move(http, 1, "made")
    assert (made.status_code, made.headers["location"]) == (201, f"{PATH}/made")
    body = made.json()
    assert body["version_id"] == versions[0].info["id"]
    assert {"model": "aliased", "alias": "made", "version": 1}.items() <= body.items()
    read = http.get(f"{PATH}/made")
    assert (read.json(), read.headers["etag"]) == (body, made.headers["etag"])
    known = {"If-None-Match": read.headers["etag"]}
    assert http.get(f"{PATH}/made", headers=known).status_code == 304

    moved = move(http, 3, "made", **{"If-Match": read.headers["etag"]})
    assert (moved.status_code, moved.json()["version"]) == (200, 3)
    assert moved.json()["moved_at"] > body["moved_at"]
    assert http.get("/v1/models/aliased@made").json()["version"] == 3
    assert http.delete(f"{PATH}/made").status_code == 204
    assert_rejected(http.get(f"{PATH}/made"), 404, "not-found")
    assert_rejected(http.delete(f"{PATH}/made"), 404, "not-found")
    assert_rejected(http.get("/v1/models/aliased@made"), 404, "not-found")
    assert http.get("/v1/models/aliased/versions/3").status_code == 200


@pytest.mark.sql
def test_aliases_are_listed_in_pages_with_their_versions(http, client):
    for alias, version in (("b", 2), ("a", 2), ("c", 1)):
        move(http, version, alias, **{"If-None-Match": "*"})
    assert client.aliases("aliased").items() >= {("a", 2), ("b", 2), ("c", 1)}
    listed, query = [], {"page_size": 1}
    while True:
        body = http.get(PATH, params=query).json()
        listed += [item["alias"] for item in body["items"]]
        if body["next_page_token"] is None:
            break
        query["page_token"] = body["next_page_token"]
    assert listed == sorted(client.aliases("aliased"))
    of = {
        m["version"]: m["aliases"] for m in http.get("/v1/models/aliased/versions").json()["items"]
    }
    assert {"a", "b"} <= set(of[2])
    assert "c" in of[1]
    assert of[1] == sorted(of[1])
    assert http.get("/v1/models/aliased/versions/2").json()["aliases"] == of[2]
    for alias in "abc":
        client.delete_alias("aliased", alias)


def test_the_etag_of_a_version_changes_when_its_alias_moves_away(http, production):
    path = "/v1/models/aliased/versions/2"
    before = http.get(path).headers["etag"]
    move(http, 3, **{"If-Match": production})
    assert http.get(path).headers["etag"] != before
    assert_rejected(http.delete(path, headers={"If-Match": before}), 412, "precondition-failed")


@pytest.mark.parametrize(
    "alias", ["1", "v1", "V12", "latest", "a.b", "a b", "_a", "ä", "a@b", "a" * 65, "a%0A"]
)
def test_an_invalid_alias_name_is_422(http, alias):
    body = assert_rejected(move(http, 1, alias), 422, "invalid-request")
    assert body["errors"][0]["parameter"] == "path:alias"


def test_an_alias_of_maximum_length_is_accepted(http):
    assert move(http, 1, "a" * 64).status_code == 201
    assert http.get(f"/v1/models/aliased@{'a' * 64}").json()["version"] == 1
    assert http.delete(f"{PATH}/{'a' * 64}").status_code == 204


def test_names_of_maximum_length_can_be_called(client, http, dataset):
    name = "m" * 100
    client.train(dataset, "pca", model=name, k=1).wait().set_alias("a" * 64)
    body = {"task": "north", "inputs": ROWS.tolist()}
    path = f"/v1/models/{name}@{'a' * 64}/inverse-transform"
    assert http.post(path, json=body | {"inputs": [[1.0]]}).status_code == 200
    ready = f"/v2/models/{name}@{'a' * 64}.inverse_transform/versions/1/ready"
    assert http.get(ready).status_code == 200


@pytest.mark.parametrize("version", [0, -1, "1", True, 1.5, None, 2**31])
def test_a_version_that_is_not_a_number_is_422(http, version):
    body = assert_rejected(move(http, version), 422, "invalid-request")
    assert body["errors"][0]["pointer"] == "/version"


def test_an_unknown_version_or_model_is_404(http):
    body = assert_rejected(move(http, 99), 404, "not-found")
    assert body["errors"][0]["pointer"] == "/version"
    put = http.put("/v1/models/none/aliases/a", json={"version": 1})
    assert_rejected(put, 404, "not-found")


# --- moves and deletion --------------------------------------------------------------------------


def test_a_move_requires_if_match(http, production):
    problem = assert_rejected(move(http, 3), 428, "precondition-required")
    assert production in problem["detail"]
    assert_rejected(move(http, 3, **{"If-Match": '"stale"'}), 412, "precondition-failed")
    assert_rejected(move(http, 3, **{"If-None-Match": "*"}), 412, "precondition-failed")
    assert_rejected(move(http, 3, **{"If-Match": f"W/{production}"}), 412, "precondition-failed")
    assert http.get("/v1/models/aliased@production").json()["version"] == 2
    assert move(http, 3, **{"If-Match": "*"}).status_code == 200


def test_if_match_on_a_new_alias_is_412(http):
    assert_rejected(move(http, 1, "new", **{"If-Match": '"any"'}), 412, "precondition-failed")
    assert_rejected(http.get(f"{PATH}/new"), 404, "not-found")


@pytest.mark.sql
def test_moving_an_alias_away_and_back_changes_its_etag(http, production):
    away = move(http, 3, **{"If-Match": production}).headers["etag"]
    move(http, 2, **{"If-Match": away})
    assert_rejected(move(http, 1, **{"If-Match": production}), 412, "precondition-failed")


@pytest.mark.sql
def test_a_delete_with_a_stale_etag_is_412(http, production):
    assert_rejected(
        http.delete(f"{PATH}/production", headers={"If-Match": '"x"'}), 412, "precondition-failed"
    )
    path = f"{PATH}/production"
    assert http.delete(path, headers={"If-Match": production}).status_code == 204


@pytest.mark.sql
def test_only_one_of_many_concurrent_moves_succeeds(http, production):
    with ThreadPoolExecutor(12) as pool:
        ends = list(
            pool.map(lambda i: move(http, i % 3 + 1, **{"If-Match": production}), range(12))
        )
    won = [end for end in ends if end.status_code == 200]
    assert len(won) == 1
    assert {end.status_code for end in ends} == {200, 412}
    now = http.get(f"{PATH}/production")
    assert (now.json(), now.headers["etag"]) == (won[0].json(), won[0].headers["etag"])


@pytest.mark.sql
def test_only_one_of_many_concurrent_creations_succeeds(http):
    with ThreadPoolExecutor(8) as pool:
        ends = list(pool.map(lambda i: move(http, i % 3 + 1, "raced"), range(8)))
    assert sorted(end.status_code for end in ends) == [201, *[428] * 7]
    assert http.delete(f"{PATH}/raced").status_code == 204


@needs_production
def test_the_client_moves_an_alias_and_reports_a_conflict(http, client, versions, monkeypatch):
    versions[0].set_alias("production")
    assert client.model("aliased@production").version == 1
    versions[1].set_alias("fresh")
    assert client.aliases("aliased")["fresh"] == 2
    client.delete_alias("aliased", "fresh")
    send = versions[2]._http.send

    def raced(method, path, **request):
        if method == "PUT":  # another client is first
            assert move(http, 2, **{"If-Match": "*"}).status_code == 200
        return send(method, path, **request)

    monkeypatch.setattr(versions[2]._http, "send", raced)
    with pytest.raises(ServiceError) as caught:
        versions[2].set_alias("production")
    assert (caught.value.status, caught.value.code) == (412, "precondition-failed")
    assert client.model("aliased@production").version == 2


# --- protection of versions ----------------------------------------------------------------------


@pytest.mark.sql
def test_a_version_with_an_alias_cannot_be_deleted(client, http, dataset):
    doomed = client.train(dataset, "pca", model="protected", k=1).wait()
    doomed.set_alias("champion")
    doomed.set_alias("old")
    with pytest.raises(ServiceError, match="'champion' and 'old'") as caught:
        doomed.delete()
    assert (caught.value.status, caught.value.code) == (409, "in-use")
    client.delete_alias("protected", "old")
    client.delete_alias("protected", "champion")
    doomed.delete()
    assert_rejected(http.get("/v1/models/protected"), 404, "not-found")


@pytest.mark.sql
def test_a_version_is_not_deleted_if_it_gets_an_alias_at_the_same_time(client, http, dataset):
    for _ in range(5):
        found = client.train(dataset, "pca", model="contested", k=1).wait()
        path = f"/v1/models/contested/versions/{found.version}"
        alias = "/v1/models/contested/aliases/contested"
        with ThreadPoolExecutor(2) as pool:
            named = pool.submit(http.put, alias, json={"version": found.version})
            deleted = pool.submit(http.delete, path)
        ends = named.result().status_code, deleted.result().status_code
        assert ends in ((201, 409), (404, 204))
        if ends == (201, 409):
            assert http.delete(alias).status_code == 204
            assert http.delete(path).status_code == 204


# --- routes that accept aliases ------------------------------------------------------------------


@pytest.mark.parametrize("part", ["", "/history", "/artifact"])
@needs_production
def test_every_resource_of_a_version_is_available_by_its_alias(http, part):
    by_alias = http.get(f"/v1/models/aliased@production{part}")
    by_number = http.get(f"/v1/models/aliased/versions/2{part}")
    both = http.get(f"/v1/models/aliased@production/versions/2{part}")
    latest = http.get(f"/v1/models/aliased{part}")
    assert by_alias.content == by_number.content == both.content
    assert by_alias.headers["etag"] == by_number.headers["etag"]
    assert latest.content == http.get(f"/v1/models/aliased/versions/3{part}").content
    assert_rejected(http.get(f"/v1/models/aliased@production/versions/3{part}"), 404, "not-found")


@needs_production
def test_relations_and_their_plot_are_available_by_alias(http, client, dataset):
    model = client.train(dataset, "rmt-pca", model="aliased-relations", k=1).wait()
    model.set_alias("drawn")
    for part in ("relations", "plots", "plots/relations"):
        by_alias = http.get(f"/v1/models/aliased-relations@drawn/{part}")
        assert by_alias.status_code == 200
        for other in ("aliased-relations", "aliased-relations/versions/1"):
            assert http.get(f"/v1/models/{other}/{part}").content == by_alias.content
        assert_rejected(http.get(f"/v1/models/aliased-relations@none/{part}"), 404, "not-found")


@needs_production
def test_aliases_of_a_model_are_available_by_one_of_them(http):
    by_alias = "/v1/models/aliased@production/aliases"
    assert http.get(f"{by_alias}/production").json() == http.get(f"{PATH}/production").json()
    made = http.put(f"{by_alias}/by-alias", json={"version": 1})
    assert (made.status_code, made.json()["alias"]) == (201, "by-alias")
    assert http.get(f"{PATH}/by-alias").json()["version"] == 1
    assert http.delete(f"{by_alias}/by-alias").status_code == 204
    assert_rejected(http.get(f"{PATH}/by-alias"), 404, "not-found")
    for method in ("GET", "DELETE"):
        found = http.request(method, "/v1/models/aliased@nobody/aliases/production")
        assert_rejected(found, 404, "not-found")
    unknown = http.put("/v1/models/aliased@nobody/aliases/new", json={"version": 1})
    assert_rejected(unknown, 404, "not-found")


@needs_production
def test_versions_of_a_model_are_listed_by_one_of_its_aliases(http):
    versions = http.get("/v1/models/aliased/versions").json()
    assert len(versions["items"]) > 1
    assert http.get("/v1/models/aliased@production/versions").json() == versions
    first = http.get("/v1/models/aliased@production/versions?page_size=1").json()
    token = first["next_page_token"]
    rest = http.get(f"/v1/models/aliased@production/versions?page_token={token}").json()
    assert first["items"] + rest["items"] == versions["items"]
    assert_rejected(http.get("/v1/models/aliased@nobody/versions"), 404, "not-found")


@needs_production
def test_the_report_is_available_by_alias(http, client, dataset):
    assert_rejected(http.get("/v1/models/aliased@production/report"), 404, "no-report")
    evaluated = client.train(dataset, "pca", model="aliased-report", evaluate=True, k=1).wait()
    evaluated.set_alias("evaluated")
    report = http.get("/v1/models/aliased-report@evaluated/report").json()
    assert report == http.get("/v1/models/aliased-report/report").json() == evaluated.report()


@needs_production
def test_calls_use_the_new_version_as_soon_as_the_alias_has_moved(http, client, versions):
    body = {"task": "north", "inputs": ROWS.tolist()}
    for version in (1, 3, 2):
        move(http, version, **{"If-Match": "*"})
        result = http.post("/v1/models/aliased@production/transform", json=body).json()
        assert (result["model"], result["version"]) == ("aliased", version)
        expected = versions[version - 1].transform(ROWS, task="north")
        np.testing.assert_array_equal(result["outputs"], expected)
        Z = {"task": "north", "inputs": result["outputs"]}
        back = http.post("/v1/models/aliased%40production/inverse-transform", json=Z).json()
        assert back["version"] == version
        remote = client.model("aliased@production")
        assert remote.version == version
        np.testing.assert_array_equal(remote.transform(ROWS, task="north"), expected)


@needs_production
def test_the_inference_protocol_accepts_aliases_in_names(http, versions):
    flat = {"name": "rows", "shape": [2, 5], "datatype": "FP64", "data": ROWS.ravel().tolist()}
    body = {"inputs": [flat], "parameters": {"task": "north"}}
    for name in ("aliased@production", "aliased@production.transform"):
        for suffix in ("", "/versions/2"):
            result = http.post(f"/v2/models/{name}{suffix}/infer", json=body).json()
            assert (result["model_name"], result["model_version"]) == (name, "2")
            outputs = np.reshape(result["outputs"][0]["data"], result["outputs"][0]["shape"])
            np.testing.assert_array_equal(outputs, versions[1].transform(ROWS, task="north"))
        assert http.get(f"/v2/models/{name}").json()["versions"] == ["2"]
        stats = http.get(f"/v2/models/{name}/stats").json()["model_stats"]
        assert [(s["name"], s["version"]) for s in stats] == [(name, "2")]
        assert http.get(f"/v2/models/{name}/ready").json()["ready"] is True
        assert http.get(f"/v2/models/{name}/config").json()["output"][0]["dims"] == [-1, 2]
    for missing in ("aliased@production/versions/3", "aliased@none", "aliased@production.predict"):
        assert_rejected(http.get(f"/v2/models/{missing}/ready"), 404, "not-found")
    index = http.post("/v2/repository/index").json()
    named = {(e["name"], e["version"]) for e in index if "@production" in e["name"]}
    assert ("aliased@production", "2") in named
    assert ("aliased@production.transform", "2") in named


def test_adapt_resolves_an_alias_at_submission(http, client, dataset):
    rng = np.random.default_rng(1)
    first, second = (client.train(dataset, "rmt-pca", model="warm", k=k).wait() for k in (1, 2))
    first.set_alias("base")
    more = client.upload({"east": rng.standard_normal((12, 5))})
    spec = {
        "dataset_id": more.id,
        "algorithm": "rmt-pca",
        "model": "warmed",
        "adapt": {"model": "warm@base"},
    }
    job = client.job(http.post("/v1/jobs", json=spec).json()["id"])
    second.set_alias("base")  # too late
    assert job.wait().info["lineage"]["base_id"] == first.info["id"]
    spec["adapt"] = {"model": "warm@base", "version": first.version}
    assert_rejected(http.post("/v1/jobs", json=spec), 404, "not-found")
    spec["adapt"] = {"model": "warm@v1.2"}
    assert_rejected(http.post("/v1/jobs", json=spec), 422, "invalid-request")


# --- the resolver --------------------------------------------------------------------------------


@needs_production
@pytest.mark.sql
def test_the_resolver_follows_a_move_at_once(service, http):
    with service.open_database() as database:
        resolver = ModelResolver(database, single_process=True)
        with database.read() as session:
            owner = session.scalar(sa.text("SELECT owner FROM models WHERE name = 'aliased'"))
            assert session.scalar(sa.select(sa.func.count()).select_from(AliasRow)) > 0
        for version in (3, 1, 2):
            assert move(http, version, **{"If-Match": "*"}).status_code == 200
            assert resolver.find(owner, "aliased@production", None).version == version
            assert resolver.find_any(owner, "aliased@production", version).version == version
            assert resolver.find_any(owner, "aliased@production", version % 3 + 1) is None
