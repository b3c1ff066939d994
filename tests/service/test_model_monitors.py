"""Monitors of aliases: which rows are kept, their targets, and the report."""

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa

from service.storage.tables import MonitoredRow

MODEL = "watched"
ALIAS = f"/v1/models/{MODEL}/aliases/production"
MONITOR = f"{ALIAS}/monitor"
TIMEOUT_S = 60


def made_rows(seed: int, n: int = 40) -> list[dict[str, object]]:
    """Rows of three shops, whose sales depend on the price, the weather and the town."""
    rng = np.random.default_rng(seed)
    rows = []
    for shop in ("a", "b", "c"):
        for _ in range(n):
            price, town = rng.normal(), str(rng.choice(["north", "south"]))
            sales = 2 * price + (town == "north") + 0.1 * rng.standard_normal()
            rows.append({"shop": shop, "price": price, "town": town, "sales": sales})
    return rows


def without(rows, *names):
    return [{n: v for n, v in row.items() if n not in names} for row in rows]


@pytest.fixture(scope="session")
def watched(client):
    """Version 1 of a calibrated model, with the alias production."""
    table = pa.Table.from_pylist(made_rows(0))
    dataset = client.upload(table, task_column="shop", target_column="sales", name="sales")
    model = client.train(dataset, "ridge", model=MODEL, calibration=True, evaluate=True).wait()
    model.set_alias("production")
    return model


@pytest.fixture
def monitor(http, watched):  # noqa: ARG001
    """A new monitor of the alias production, which keeps all rows."""
    http.delete(MONITOR)
    created = http.put(MONITOR, json={"share": 1})
    assert created.status_code == 201, created.text
    yield created.json()
    http.delete(MONITOR)


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline, "the state did not come"
        time.sleep(0.05)


def wait_for_rows(http, n):
    wait_for(lambda: http.get(MONITOR).json()["n_rows"] >= n)
    assert http.get(MONITOR).json()["n_rows"] == n


def predict(http, rows, name=f"{MODEL}@production", ids=None, method="predict"):
    headers = {} if ids is None else {"Sibling-Row-Ids": ids}
    response = http.post(f"/v1/models/{name}/{method}", json={"inputs": rows}, headers=headers)
    assert response.status_code == 200, response.text
    return response


def stored(service):
    with service.open_database() as database, database.read() as session:
        return session.scalars(sa.select(MonitoredRow).order_by(MonitoredRow.row_id)).all()


def assert_rejected(response, status, code):
    assert (response.status_code, response.json()["code"]) == (status, code), response.text
    return response.json()


# --- the monitor ---------------------------------------------------------------------------------


@pytest.mark.sql
@pytest.mark.usefixtures("watched")
def test_a_monitor_is_created_read_changed_and_deleted(http):
    assert_rejected(http.get(MONITOR), 404, "not-found")
    body = {"share": 0.5, "days": 30, "never_keep": ["price"]}
    created = http.put(MONITOR, json=body)
    assert created.status_code == 201
    assert created.json().items() >= body.items()
    assert http.get(MONITOR).json() == created.json()
    tag = {"If-Match": created.headers["etag"]}
    assert http.put(MONITOR, json={"share": 1}, headers=tag).status_code == 200
    assert_rejected(http.put(MONITOR, json={}, headers=tag), 412, "precondition-failed")
    assert http.get(MONITOR).json()["share"] == 1
    assert http.delete(MONITOR).status_code == 204
    assert_rejected(http.get(MONITOR), 404, "not-found")
    assert_rejected(http.delete(MONITOR), 404, "not-found")


@pytest.mark.parametrize(
    "body", [{"share": 1.5}, {"share": -1}, {"days": 1}, {"never_keep": [""]}, {"shares": 1}]
)
@pytest.mark.usefixtures("watched")
def test_a_monitor_with_invalid_options_is_refused(http, body):
    problem = assert_rejected(http.put(MONITOR, json=body), 422, "invalid-request")
    assert problem["errors"][0]["pointer"].startswith(f"/{next(iter(body))}")


@pytest.mark.usefixtures("watched")
def test_a_monitor_needs_an_alias_that_exists(http):
    url = f"/v1/models/{MODEL}/aliases/absent/monitor"
    assert_rejected(http.put(url, json={}), 404, "not-found")


def test_a_monitor_ends_with_its_alias(http, watched):
    watched.set_alias("staging")
    url = f"/v1/models/{MODEL}/aliases/staging"
    assert http.put(f"{url}/monitor", json={}).status_code == 201
    assert http.delete(url).status_code == 204
    watched.set_alias("staging")
    assert_rejected(http.get(f"{url}/monitor"), 404, "not-found")
    http.delete(url)


# --- recorded rows -------------------------------------------------------------------------------


@pytest.mark.sql
@pytest.mark.usefixtures("monitor")
def test_rows_are_kept_with_prediction_interval_and_encoded_values(http, service):
    rows = without(made_rows(1, n=2), "sales")
    rows[5]["town"] = "east"
    response = predict(http, rows, ids="r0,r1,r2,r3,r4,r5")
    wait_for_rows(http, 6)
    kept = stored(service)
    assert [row.row_id for row in kept] == [f"r{i}" for i in range(6)]
    assert [row.task for row in kept] == list("aabbcc")
    assert [row.prediction for row in kept] == response.json()["outputs"]
    assert all(row.low < row.prediction < row.high for row in kept)
    values = np.array([np.frombuffer(row.values) for row in kept])
    assert values[:, 0].tolist() == [row["price"] for row in rows]
    assert values[5, 1] == -1
    assert [row.unknown for row in kept] == [None] * 5 + [{"town": "east"}]
    assert http.get(MONITOR).json()["n_bytes"] == sum(row.size_bytes for row in kept)


@pytest.mark.usefixtures("watched")
def test_ids_are_made_and_returned_only_where_a_monitor_keeps_the_rows(http, service):
    rows = without(made_rows(1, n=1), "sales")
    assert "sibling-row-ids" not in predict(http, rows).headers
    http.put(MONITOR, json={})
    made = predict(http, rows).headers["sibling-row-ids"]
    wait_for_rows(http, 3)
    assert [row.row_id for row in stored(service)] == [f"{made}-{i}" for i in range(3)]
    http.delete(MONITOR)


@pytest.mark.parametrize("ids", ["a,b", "a,,b", "a,b,a", "a,b," + "c" * 201, "a,b,%00"])
@pytest.mark.usefixtures("watched")
def test_ids_that_do_not_fit_the_rows_are_refused(http, ids):
    rows = without(made_rows(1, n=1), "sales")
    url = f"/v1/models/{MODEL}/predict"
    response = http.post(url, json={"inputs": rows}, headers={"Sibling-Row-Ids": ids})
    problem = assert_rejected(response, 422, "invalid-request")
    assert problem["errors"][0]["parameter"] == "header:sibling-row-ids"


@pytest.mark.usefixtures("monitor")
def test_rows_are_kept_under_every_name_of_the_version(http, service):
    (row, *_) = without(made_rows(1, n=1), "sales")
    predict(http, [row], ids="alias")
    predict(http, [row], name=MODEL, ids="latest")
    predict(http, [row], name=f"{MODEL}/versions/1", ids="number")
    predict(http, [row], ids="table", method="predictions")
    values = {"price": (row["price"], "FP64"), "town": (row["town"], "BYTES")}
    inputs = [
        {"name": name, "shape": [1, 1], "datatype": kind, "data": [value]}
        for name, (value, kind) in values.items()
    ]
    body = {"inputs": inputs, "parameters": {"task": "a"}}
    response = http.post(f"/v2/models/{MODEL}/infer", json=body, headers={"Sibling-Row-Ids": "v2"})
    assert response.status_code == 200, response.text
    csv = f"shop,price,town\na,{row['price']},{row['town']}\n"
    headers = {"Content-Type": "text/csv", "Sibling-Row-Ids": "caf%C3%A9"}
    assert http.post(f"/v1/models/{MODEL}/predict", content=csv, headers=headers).is_success
    wait_for_rows(http, 6)
    kept = {r.row_id: (r.task, r.prediction, r.values) for r in stored(service)}
    assert kept.keys() == {"alias", "latest", "number", "table", "v2", "café"}
    assert len(set(kept.values())) == 1


@pytest.mark.usefixtures("monitor")
def test_a_row_that_is_sent_again_is_kept_once(http, service):
    (row, *_) = without(made_rows(1, n=1), "sales")
    predict(http, [row], ids="one")
    wait_for_rows(http, 1)
    predict(http, [{**row, "price": 7.0}], ids="one")
    predict(http, [row], ids="two")
    wait_for_rows(http, 2)
    assert np.frombuffer(stored(service)[0].values)[0] == 7.0


@pytest.mark.usefixtures("watched")
def test_the_share_that_is_kept_depends_on_the_ids_only(http, service):
    http.put(MONITOR, json={"share": 0.5})
    rows = without(made_rows(1, n=100), "sales")
    predict(http, rows, ids="x")
    wait_for(lambda: http.get(MONITOR).json()["n_rows"] > 100)
    first = {row.row_id for row in stored(service)}
    assert 110 < len(first) < 190
    http.delete(MONITOR)
    http.put(MONITOR, json={"share": 0.5})
    predict(http, rows, ids="x")
    wait_for_rows(http, len(first))
    assert {row.row_id for row in stored(service)} == first
    http.delete(MONITOR)


@pytest.mark.usefixtures("monitor")
def test_columns_that_are_never_kept_are_removed_from_earlier_rows(http, service):
    rows = without(made_rows(1, n=1), "sales")
    rows[0]["town"] = "east"
    predict(http, rows, ids="early")
    wait_for_rows(http, 3)
    changed = http.put(MONITOR, json={"never_keep": ["town"]})
    assert changed.status_code == 200
    predict(http, rows, ids="later")
    wait_for_rows(http, 6)
    for row in stored(service):
        price, town = np.frombuffer(row.values)
        assert (np.isfinite(price), town, row.unknown) == (True, np.inf, None)
        assert row.low < row.high


@pytest.mark.sql
@pytest.mark.usefixtures("monitor")
def test_rows_are_deleted_by_the_prefix_of_their_ids(http, service):
    rows = without(made_rows(1, n=1), "sales")
    for ids in ("Ann%", "ann%25", "an_"):
        predict(http, rows, ids=ids)
    wait_for_rows(http, 9)
    deleted = http.delete(f"{MONITOR}/rows", params={"row_id_prefix": "ann%"})
    assert (deleted.status_code, deleted.json()) == (200, {"n_deleted": 3})
    assert {row.row_id[:3] for row in stored(service)} == {"Ann", "an_"}
    assert_rejected(http.delete(f"{MONITOR}/rows"), 422, "invalid-request")


@pytest.mark.usefixtures("monitor")
def test_calls_of_another_version_are_not_kept(http, client, watched):
    dataset = watched.info["lineage"]["dataset_id"]
    other = client.train(dataset, "ridge", model=MODEL).wait()
    (row, *_) = without(made_rows(1, n=1), "sales")
    assert "sibling-row-ids" not in predict(http, [row], name=MODEL).headers
    other.set_alias("production")
    assert "sibling-row-ids" in predict(http, [row], name=MODEL).headers
    watched.set_alias("production")
    wait_for_rows(http, 1)
    other.delete()
