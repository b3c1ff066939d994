"""Monitors of aliases: which rows are kept, their targets, and the report."""

import asyncio
import io
import json
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import httpx
import numpy as np
import pyarrow as pa
import pytest
import sqlalchemy as sa

from service.storage.database import now
from service.storage.tables import AuditRow, ModelRow, MonitoredRow, MonitoredTarget, MonitorRow
from sibling import AsyncClient, Client, ServiceError
from tests.waiting import wait_for

MODEL = "watched"
ALIAS = f"/v1/models/{MODEL}/aliases/production"
MONITOR = f"{ALIAS}/monitor"


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


def wait_for_rows(http, n):
    wait_for(lambda: http.get(MONITOR).json()["n_rows"] >= n)
    assert http.get(MONITOR).json()["n_rows"] == n


def predict(http, rows, name=f"{MODEL}@production", ids=None, method="predict"):
    headers = {} if ids is None else {"Sibling-Row-Ids": ids}
    response = http.post(f"/v1/models/{name}/{method}", json={"inputs": rows}, headers=headers)
    assert response.status_code == 200, response.text
    return response


def watched_monitors():
    """Return a query of the ids of the monitors of the model, beside which others may have some."""
    joined = sa.select(MonitorRow.id).join(ModelRow, ModelRow.id == MonitorRow.model_id)
    return joined.where(ModelRow.name == MODEL)


def watched_rows():
    """Return a query of the rows of the monitors of the model."""
    return sa.select(MonitoredRow).where(MonitoredRow.monitor_id.in_(watched_monitors()))


def stored(service):
    with service.open_database() as database, database.read() as session:
        return session.scalars(watched_rows().order_by(MonitoredRow.row_id)).all()


def spread_over_days(service, n_days):
    """Have the rows of each task come on several days until today, as many on each."""
    with service.open_database() as database, database.write() as session:
        session.execute(sa.update(MonitorRow).values(created_at=now() - timedelta(n_days)))
        in_order = watched_rows().order_by(MonitoredRow.task, MonitoredRow.row_id)
        for i, row in enumerate(session.scalars(in_order)):
            row.created_at = now() - timedelta(i % n_days)


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
    read = http.get(MONITOR)
    assert (read.json(), read.headers["etag"]) == (created.json(), created.headers["etag"])
    tag = {"If-Match": read.headers["etag"]}
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
def test_columns_to_exclude_are_those_of_the_version(http):
    """A name with a mistake would leave the values of the column it means."""
    response = http.put(MONITOR, json={"never_keep": ["town", "prise"]})
    problem = assert_rejected(response, 422, "invalid-request")
    assert problem["errors"][0]["pointer"] == "/never_keep"
    assert "did you mean 'price'" in problem["detail"]
    assert_rejected(http.get(MONITOR), 404, "not-found")


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
def test_a_file_to_predict_may_have_the_ids_of_its_rows_in_a_column(http, service):
    ids = ["50%", "2", "ü"]
    rows = [{"row_id": name, **row} for name, row in zip(ids, made_rows(1, n=1), strict=True)]
    url, headers = f"/v1/models/{MODEL}/predictions", {"Content-Type": "text/csv"}
    body = as_csv(rows)
    response = http.post(url, content=body, headers=headers)
    assert response.status_code == 200, response.text
    found = response.json()
    assert [row[found["columns"].index("row_id")] for row in found["rows"]] == ids
    assert "sibling-row-ids" not in response.headers  # a header cannot have those of many rows
    wait_for_rows(http, 3)
    assert {row.row_id for row in stored(service)} == set(ids)
    outcomes = [{"row_id": row["row_id"], "sales": row["sales"]} for row in rows]
    assert send(http, as_csv(outcomes), "text/csv") == {"n_rows": 3, "n_new": 3}


@pytest.mark.usefixtures("monitor")
def test_rows_of_every_kind_may_have_their_ids_in_a_column(http, service, watched, tmp_path):
    rows = [{"row_id": i, **row} for i, row in enumerate(without(made_rows(1, n=4), "sales"))]
    expected = watched.predict(without(rows, "row_id"), row_ids="in-header").tolist()
    (tmp_path / "rows.csv").write_text(as_csv(rows[:3]))
    # sums of several rows at once may differ in the last digit
    assert watched.predict(tmp_path / "rows.csv") == pytest.approx(expected[:3])
    assert watched.predict(pa.Table.from_pylist(rows[3:6])) == pytest.approx(expected[3:6])
    assert watched.predict(rows[6:9]) == pytest.approx(expected[6:9])
    columns = {"columns": [*rows[0]], "inputs": [[*row.values()] for row in rows[9:]]}
    response = http.post(f"/v1/models/{MODEL}/predict", json=columns)
    assert response.json()["outputs"] == pytest.approx(expected[9:])
    wait_for_rows(http, 24)
    ids = {row.row_id for row in stored(service)}
    assert ids == {f"in-header-{i}" for i in range(12)} | {str(i) for i in range(12)}


def test_a_column_of_the_model_is_not_one_of_ids(client, http):
    rows = {"row_id": [1.0, 2.0, 2.0, 5.0], "y": [2.0, 4.0, 4.0, 10.0]}
    data = client.upload(pa.table(rows), target_column="y", name="numbered")
    model = client.train(data, "ridge", model="numbered").wait()
    body = {"columns": ["row_id"], "inputs": [[2.0], [2.0]]}
    outputs = http.post("/v1/models/numbered/predict", json=body).json()["outputs"]
    assert outputs == model.predict([[2.0], [2.0]]).tolist()


@pytest.mark.parametrize(
    ("ids", "headers", "detail"),
    [
        ("xyx", {}, "column 'row_id' has 'x' 2 times; give each row an id of its own"),
        (["x", "", "z"], {}, "row 1 has no id; expected text or an integer in every row of column"),
        (["x", "y", "z" * 201], {}, "row 2 has the id"),
        ("xyz", {"Sibling-Row-Ids": "r"}, "in the header or in the column 'row_id', got both"),
    ],
)
@pytest.mark.usefixtures("watched")
def test_ids_in_a_column_that_do_not_fit_the_rows_are_refused(http, ids, headers, detail):
    rows = without(made_rows(1, n=1), "sales")
    body = as_csv([{"row_id": name, **row} for name, row in zip(ids, rows, strict=True)])
    url, headers = f"/v1/models/{MODEL}/predictions", {"Content-Type": "text/csv", **headers}
    response = http.post(url, content=body, headers=headers)
    assert response.status_code == 422
    assert detail in response.json()["detail"]


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


@pytest.mark.slow
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
    for i in range(40):  # calls of one row, of which only those that are kept are queued
        predict(http, [row for row in rows if row["shop"] == "a"][i : i + 1], ids=f"x-{i}")
    predict(http, rows, ids="y")
    wait_for(lambda: any(row.row_id.startswith("y") for row in stored(service)))
    assert {row.row_id for row in stored(service) if row.row_id.startswith("x")} == first
    http.delete(MONITOR)


@pytest.mark.slow
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


@pytest.mark.usefixtures("monitor")
def test_rows_that_wait_to_be_stored_keep_no_column_that_is_excluded_meanwhile(http, service):
    predict(http, without(made_rows(1, n=10), "sales"), ids="waiting")
    assert http.put(MONITOR, json={"never_keep": ["town"]}).status_code == 200

    def all_came():
        kept = http.get(MONITOR).json()
        return kept["n_rows"] + kept["n_dropped"] == 30

    wait_for(all_came)
    assert all(np.frombuffer(row.values)[1] == np.inf for row in stored(service))


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


@pytest.mark.slow
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


# --- feedback ------------------------------------------------------------------------------------


def send(http, rows, media_type="application/json"):
    body = {"json": rows} if media_type == "application/json" else {"content": rows}
    headers = {"Content-Type": media_type}
    response = http.post(f"{MONITOR}/feedback", headers=headers, **body)
    assert response.status_code == 200, response.text
    return {name: n for name, n in response.json().items() if n}


def targets(service):
    with service.open_database() as database, database.read() as session:
        query = sa.select(MonitoredTarget.row_id, MonitoredTarget.target)
        found = query.where(MonitoredTarget.monitor_id.in_(watched_monitors()))
        return dict(session.execute(found).all())


@pytest.mark.slow
@pytest.mark.sql
@pytest.mark.usefixtures("monitor")
def test_targets_may_come_late_again_corrected_and_before_their_rows(http, service):
    rows = without(made_rows(1, n=1), "sales")
    predict(http, rows, ids="r")
    wait_for_rows(http, 3)
    first = [{"row_id": "r-0", "target": 1.5}, {"row_id": "r-1", "target": None}]
    assert send(http, first) == {"n_rows": 2, "n_new": 1, "n_empty": 1}
    again = [{"row_id": "r-0", "target": 1.5}, {"row_id": "r-1", "target": 2}]
    assert send(http, again) == {"n_rows": 2, "n_new": 1, "n_repeated": 1}
    corrected = [{"row_id": "r-0", "target": 3}, {"row_id": "r-0", "target": 4}]
    assert send(http, corrected) == {"n_rows": 2, "n_corrected": 1, "n_repeated": 1}
    early = [{"row_id": "s", "target": 5}]
    assert send(http, early) == {"n_rows": 1, "n_new": 1, "n_unknown": 1, "unknown": ["s"]}
    predict(http, rows[:1], ids="s")
    wait_for_rows(http, 4)
    assert send(http, early) == {"n_rows": 1, "n_repeated": 1}
    assert targets(service) == {"r-0": 4.0, "r-1": 2.0, "s": 5.0}
    assert http.get(MONITOR).json()["n_targets"] == 3


@pytest.mark.usefixtures("monitor")
def test_targets_are_read_from_every_format_of_rows(http, client, service):
    rows = without(made_rows(1, n=2), "sales")
    predict(http, rows, ids="1,2,3,4,5,6")
    wait_for_rows(http, 6)
    send(http, "row_id;sales\n1;1,5\n2;\n", "text/csv")
    send(http, b'{"row_id": 3, "target": 3}\n', "application/x-ndjson")
    sink = io.BytesIO()
    table = pa.table({"row_id": [4], "sales": [4.0]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    send(http, sink.getvalue(), "application/vnd.apache.arrow.stream")
    send(http, {"inputs": [["5", 5.0]], "columns": ["row_id", "target"]})
    truth = pa.table({"shop": ["c", "a"], "row_id": ["6", "7"], "sales": [6.0, 7.0]})
    dataset = client.upload(truth, task_column="shop", target_column="sales", name="truth")
    assert send(http, {"dataset_id": dataset.id})["unknown"] == ["7"]
    expected = {"1": 1.5, "3": 3.0, "4": 4.0, "5": 5.0, "6": 6.0, "7": 7.0}
    assert targets(service) == expected


@pytest.mark.usefixtures("monitor")
def test_labelled_rows_that_were_never_predicted_are_kept(http, client, service):
    rows = made_rows(2, n=1)
    named = [{**row, "row_id": f"new-{i}", "note": "seen"} for i, row in enumerate(rows)]
    assert send(http, named) == {"n_rows": 3, "n_new": 3, "n_unpredicted": 3}
    outputs = predict(http, without(rows, "sales")).json()["outputs"]
    dataset = client.upload(
        pa.Table.from_pylist(rows), task_column="shop", target_column="sales", name="more"
    )
    assert send(http, {"dataset_id": dataset.id}) == {"n_rows": 3, "n_new": 3, "n_unpredicted": 3}
    wait_for_rows(http, 9)
    kept = [row for row in stored(service) if row.row_id.startswith(("new-", "file-"))]
    values = {(row.row_id[:4], row.task): row for row in kept}
    for row, output in zip(rows, outputs, strict=True):
        for way in ("new-", "file"):
            found = values[way, row["shop"]]
            assert np.frombuffer(found.values)[0] == row["price"]
            assert found.prediction == pytest.approx(output)
            assert found.low < found.prediction < found.high


def as_csv(rows, *more):
    names = list(rows[0])
    lines = [",".join("" if row[n] is None else str(row[n]) for n in names) for row in rows]
    return "\n".join([",".join(names), *lines, *more]) + "\n"


@pytest.mark.sql
@pytest.mark.usefixtures("monitor")
def test_a_file_as_for_predictions_with_its_outcomes_counts_once(http, client):
    rows = [{**row, "cashier": "Kim"} for row in made_rows(2, n=20)]
    rows[3]["sales"] = rows[45]["sales"] = None
    file = as_csv(rows, "Mars,0.5,north,2,Kim", "a,0.25,north,1,Kim", "a,0.25,north,1,Kim")
    first = {"n_rows": 63, "n_new": 60, "n_unpredicted": 60, "n_empty": 2}
    assert send(http, file, "text/csv") == {**first, "unknown_tasks": {"Mars": 1}}
    rows[3]["sales"], rows[4]["sales"] = 1.0, 7.5
    later = client.upload(
        pa.Table.from_pylist(rows[:10]), task_column="shop", target_column="sales", name="later"
    )
    again = send(http, {"dataset_id": later.id})
    assert again == {
        "n_rows": 10,
        "n_new": 1,
        "n_unpredicted": 1,
        "n_corrected": 1,
        "n_repeated": 8,
    }
    table = pa.Table.from_pylist(rows[:10])
    assert client.monitor(f"{MODEL}@production").feedback(table)["n_repeated"] == 10
    report = http.get(REPORT).json()
    assert {s["task"]: s["error"]["n_rows"] for s in report["tasks"]} == {"a": 22, "b": 20, "c": 19}
    assert report["overall"]["n_targets"] == 61


@pytest.mark.parametrize(
    ("file", "detail"),
    [
        ("shop,price,town\na,1,north\n", "expected a column 'sales' or 'target' with the true"),
        ("price,town,sales\n1,north,2\n", "expected a column 'shop' with the task of each row"),
        ("shop,prize,town,sales\na,1,north,2\n", "price"),
        ("shop,price,town,sales\na,cheap,north,2\n", "price"),
    ],
)
@pytest.mark.usefixtures("monitor")
def test_a_file_that_cannot_be_predicted_is_refused_whole(http, file, detail):
    headers = {"Content-Type": "text/csv"}
    response = http.post(f"{MONITOR}/feedback", content=file, headers=headers)
    assert response.status_code == 422, response.text
    assert detail in response.json()["detail"]
    assert http.get(MONITOR).json()["n_targets"] == 0


@pytest.mark.usefixtures("monitor")
def test_an_error_in_a_file_names_the_row_of_the_file(http):
    rows = made_rows(2, n=2)
    rows[0]["sales"], rows[4]["price"] = None, "cheap"
    headers = {"Content-Type": "text/csv"}
    response = http.post(f"{MONITOR}/feedback", content=as_csv(rows), headers=headers)
    problem = assert_rejected(response, 422, "invalid-data")
    assert problem["detail"].startswith("row 4, column 'price'")
    assert problem["errors"][0]["row"] == 4


EXCLUDE = """
CREATE TRIGGER exclude AFTER INSERT ON monitored_targets
BEGIN UPDATE monitors SET never_keep = '["price"]' WHERE id = NEW.monitor_id; END
"""


@pytest.mark.usefixtures("monitor")
def test_rows_of_a_long_request_are_refused_once_more_columns_are_excluded(http, service):
    with service.open_database() as database:
        for statement in (EXCLUDE, "DROP TRIGGER exclude"):
            with database.write() as session:
                session.execute(sa.text(statement))
            if statement is EXCLUDE:
                headers = {"Content-Type": "text/csv"}
                file = as_csv(made_rows(2, n=200))
                response = http.post(f"{MONITOR}/feedback", content=file, headers=headers)
    problem = assert_rejected(response, 409, "wrong-state")
    assert "excludes more columns" in problem["detail"]
    assert http.get(MONITOR).json()["n_rows"] == 500


@pytest.mark.usefixtures("monitor")
def test_feedback_leaves_an_audit_event(http, service):
    def events():
        query = sa.select(AuditRow.object, AuditRow.status)
        with service.open_database() as database, database.read() as session:
            return session.execute(query.where(AuditRow.operation == "send_feedback")).all()

    n_before = len(events())
    send(http, [{"row_id": f"r{i}", "target": 1.0} for i in range(1001)])
    assert events()[n_before:] == [(ALIAS, 200)]


@pytest.mark.usefixtures("monitor")
def test_classes_are_no_targets_of_a_model_of_numbers(http, client):
    table = pa.table({"shop": ["a", "b"], "row_id": ["1", "2"], "sales": ["much", "little"]})
    dataset = client.upload(table, task_column="shop", target_column="sales", name="words")
    response = http.post(f"{MONITOR}/feedback", json={"dataset_id": dataset.id})
    assert "predicts numbers" in assert_rejected(response, 422, "invalid-request")["detail"]


@pytest.mark.usefixtures("watched")
def test_targets_outside_of_the_share_are_counted_and_not_kept(http, service):
    http.put(MONITOR, json={"share": 0.5})
    rows = [{"row_id": f"r{i}", "target": 1.0} for i in range(100)]
    answer = send(http, rows)
    assert answer["n_not_kept"] + answer["n_new"] == 100
    assert 25 < answer["n_new"] == len(targets(service)) < 75
    http.delete(MONITOR)
    assert targets(service) == {}


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ([{"row_id": "a"}], "invalid-request"),
        ([{"target": 1}], "invalid-request"),
        ([{"row_id": None, "target": 1}], "invalid-data"),
        ([{"row_id": "a", "target": "much"}], "invalid-data"),
        ({"dataset_id": 3}, "invalid-request"),
        ({"dataset_id": "ds_absent"}, "not-found"),
    ],
)
@pytest.mark.usefixtures("monitor")
def test_feedback_that_is_not_valid_is_refused(http, body, code):
    status = 404 if code == "not-found" else 422
    assert_rejected(http.post(f"{MONITOR}/feedback", json=body), status, code)


# --- the report ----------------------------------------------------------------------------------

REPORT = f"{MONITOR}/report"


def predict_and_label(http, rows, prefix, scale=1.0):
    """Predict rows, and send their targets, whose distances from the predictions are scaled."""
    for first in range(0, len(rows), 500):
        part = rows[first : first + 500]
        name = f"{prefix}-{first}"
        outputs = predict(http, without(part, "sales"), ids=name).json()["outputs"]
        factors = [scale if row["shop"] == "b" else 1.0 for row in part]
        named = [
            {"row_id": f"{name}-{i}", "target": y + factor * (row["sales"] - y)}
            for i, (row, y, factor) in enumerate(zip(part, outputs, factors, strict=True))
        ]
        send(http, named)
    return len(rows)


def test_a_report_without_rows_says_so(http, monitor):
    report = http.get(REPORT).json()
    assert report["verdict"] == "nothing"
    assert report["overall"]["n_rows"] == 0
    assert report["since"] == monitor["created_at"]


@pytest.mark.sql
@pytest.mark.usefixtures("monitor")
def test_a_model_that_does_as_promised_is_quiet(http):
    wait_for_rows(http, predict_and_label(http, made_rows(3, n=100), "q"))
    report = http.get(REPORT).json()
    assert report["verdict"] == "quiet", report["sentences"]
    assert [task["task"] for task in report["tasks"]] == ["a", "b", "c"]
    for state in (report["overall"], *report["tasks"]):
        error, coverage = state["error"], state["coverage"]
        assert error["low"] < error["value"] < error["high"]
        assert error["alarm_since"] is None
        assert 0.5 < error["value"] / error["promised"] < 1.5
        assert (coverage["level"], coverage["high"] > 0.9) == (0.9, True)
        assert state["estimated_error"] is None
    assert all(column["alarm_since"] is None for column in report["columns"])
    assert {column["column"] for column in report["columns"]} == {"price", "town"}
    assert "sibling_monitor_alarms" in http.get("/metrics").text


@pytest.mark.usefixtures("monitor")
def test_a_huge_target_is_reported(http):
    wait_for_rows(http, predict_and_label(http, made_rows(3, n=20), "h"))
    send(http, [{"row_id": "h-0-0", "target": 1e100}, {"row_id": "h-0-1", "target": -1.7e308}])
    report = http.get(REPORT)
    assert report.status_code == 200, report.text
    assert report.json()["overall"]["error"]["alarm_since"] is None
    assert http.get(PAGE).status_code == 200


@pytest.mark.usefixtures("monitor")
def test_a_task_that_breaks_is_told_from_all(http):
    wait_for_rows(http, predict_and_label(http, made_rows(4, n=150), "b", scale=4.0))
    report = http.get(REPORT).json()
    assert (report["verdict"], report["changed_tasks"]) == ("tasks", ["b"]), report["sentences"]
    first = report["tasks"][0]
    assert first["task"] == "b"
    assert first["error"]["alarm_since"] is not None
    assert first["own_change"] > 2
    assert first["coverage"]["high"] < 0.9
    assert "'b'" in report["sentences"][0]


def alarms_in_metrics(http):
    text = http.get("/metrics").text
    (n,) = re.findall(rf'^sibling_monitor_alarms{{.*model="{MODEL}".*}} (.*)$', text, re.MULTILINE)
    return float(n)


@pytest.mark.usefixtures("monitor")
def test_alarms_in_metrics_are_those_of_the_version_of_the_alias(http, client, watched):
    wait_for_rows(http, predict_and_label(http, made_rows(4, n=150), "b", scale=4.0))
    assert http.get(REPORT).json()["verdict"] == "tasks"
    assert alarms_in_metrics(http) > 0
    other = client.train(watched.info["lineage"]["dataset_id"], "ridge", model=MODEL).wait()
    assert http.get(REPORT, params={"version": other.version}).json()["verdict"] == "nothing"
    assert alarms_in_metrics(http) > 0
    other.delete()
    http.delete(MONITOR)
    assert alarms_in_metrics(http) == 0


@pytest.mark.usefixtures("monitor")
def test_columns_that_move_unknown_categories_and_late_targets_are_told(http, service):
    rows = without(made_rows(5, n=100), "sales")
    for row in rows:
        row["price"] += 2
        if row["shop"] == "c":
            row["town"] = "east"
    predict(http, rows, ids="m")
    wait_for_rows(http, 300)
    spread_over_days(service, 20)
    report = http.get(REPORT).json()
    assert report["verdict"] == "columns"
    moved = {(c["task"], c["column"]) for c in report["columns"] if c["alarm_since"] is not None}
    assert moved >= {("a", "price"), ("b", "price"), ("c", "price"), ("c", "town"), (None, "price")}
    assert ("a", "town") not in moved
    assert report["unknown_categories"] == {"town": {"east": 100}}
    assert report["overall"]["error"] is None
    assert 0 < report["overall"]["estimated_error"] < 1
    town = next(c for c in report["columns"] if (c["task"], c["column"]) == ("c", "town"))
    assert dict(zip(town["bins"], town["now"], strict=True))["unknown"] == 1


@pytest.mark.slow
@pytest.mark.usefixtures("monitor")
def test_columns_that_are_never_kept_are_not_reported(http):
    http.put(MONITOR, json={"never_keep": ["price"]})
    predict(http, without(made_rows(5, n=10), "sales"), ids="m")
    wait_for_rows(http, 30)
    assert {column["column"] for column in http.get(REPORT).json()["columns"]} == {"town"}


@pytest.mark.slow
@pytest.mark.sql
def test_a_classifier_is_reported_by_its_rate_of_errors(http, client):
    rng = np.random.default_rng(0)

    def rows(n):
        x = rng.standard_normal((n, 2))
        label = np.where(x[:, 0] + 0.5 * rng.standard_normal(n) > 0, "ill", "well")
        return x, label

    tasks = {name: rows(80) for name in ("h1", "h2")}
    dataset = client.upload(
        {name: x for name, (x, _) in tasks.items()}, {n: y for n, (_, y) in tasks.items()}
    )
    model = client.train(
        dataset, "logistic-regression", model="wards", calibration=True, evaluate=True
    ).wait()
    model.set_alias("production")
    url = "/v1/models/wards/aliases/production/monitor"
    assert http.put(url, json={}).status_code == 201
    x, labels = rows(200)
    body = {"task": "h1", "inputs": x.tolist()}
    headers = {"Sibling-Row-Ids": "w"}
    assert http.post("/v1/models/wards/predict", json=body, headers=headers).is_success
    truth = [{"row_id": f"w-{i}", "target": str(label)} for i, label in enumerate(labels)]
    mistyped = [{**truth[i], "target": label} for i, label in enumerate(("Ill", "Ill", "dead"))]
    answer = http.post(f"{url}/feedback", json=[*mistyped, *truth[3:100]]).json()
    assert (answer["n_new"], answer["unknown_labels"]) == (100, {"Ill": 2, "dead": 1})
    answer = http.post(f"{url}/feedback", json=truth[:100]).json()
    assert (answer["n_corrected"], answer["unknown_labels"]) == (3, {})
    long = [{"row_id": "w-0", "target": "x" * 1001}]
    assert_rejected(http.post(f"{url}/feedback", json=long), 422, "invalid-request")
    wait_for(lambda: http.get(url).json()["n_rows"] == 200)
    report = http.get(f"{url}/report").json()
    assert report["verdict"] == "quiet", report["sentences"]
    (state,) = report["tasks"]
    assert (state["error"]["metric"], state["n_targets"]) == ("error_rate", 100)
    assert state["error"]["low"] < state["error"]["promised"] < state["error"]["high"]
    assert 0 < state["estimated_error"] < 0.4
    assert sum(point["n"] for point in report["reliability"]) == 100
    page, promised = http.get(url.removeprefix("/v1")).text, state["error"]["promised"]
    assert f"<small>promised {promised:.0%}</small>".replace("%", " %") in page
    assert page.count('<line class="mark"') == 2  # of the only ward, and of all
    assert page.count('class="cap legend mark"') == 1
    http.delete(url)


# --- the client and the command ------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("watched")
def test_the_client_watches_a_model(client, tmp_path):
    monitor = client.set_monitor(f"{MODEL}@production", never_keep=["town"])
    assert (monitor.info["share"], monitor.info["days"]) == (1, 90)
    model = client.model(f"{MODEL}@production")
    rows = made_rows(6, n=1)
    model.predict(without(rows, "sales"), row_ids=["ä,1", 2, "c"])
    model.predict(pa.Table.from_pylist(without(rows, "sales")), row_ids="batch")
    wait_for(lambda: monitor.refresh()["n_rows"] == 6)
    answer = monitor.feedback([{"row_id": "ä,1", "target": 1.0}, {"row_id": 2, "target": 2.0}])
    assert (answer["n_new"], answer["n_unknown"]) == (2, 0)
    frame = pa.table({"row_id": ["batch-0", "c"], "target": [3.0, 3.0]})
    assert monitor.feedback(frame)["n_new"] == 2
    file = tmp_path / "truth.csv"
    file.write_text("row_id,sales\nc,4\n")
    assert monitor.feedback(file)["n_corrected"] == 1
    report = client.monitor(f"{MODEL}@production").report()
    assert (report["version"], report["overall"]["n_targets"]) == (1, 4)
    assert monitor.delete_rows("batch") == 4
    assert monitor.refresh()["n_rows"] == 3
    monitor.delete()
    with pytest.raises(ServiceError, match="has no monitor"):
        client.monitor(f"{MODEL}@production")
    with pytest.raises(ValueError, match="expected NAME@ALIAS"):
        client.monitor(MODEL)


@pytest.mark.usefixtures("watched")
def test_the_asynchronous_client_watches_a_model(service):
    async def use():
        async with AsyncClient(service.url) as client:
            monitor = await client.set_monitor(f"{MODEL}@production", share=0.5)
            answer = await monitor.feedback([{"row_id": f"r{i}", "target": 1} for i in range(9)])
            report = await monitor.report()
            await monitor.delete()
            return answer, report

    answer, report = asyncio.run(use())
    assert answer["n_rows"] == 9
    assert report["verdict"] == "nothing"


@pytest.mark.slow
@pytest.mark.usefixtures("watched")
def test_the_command_watches_a_model(command, service, tmp_path):
    def done(*arguments):
        return command("models", "monitor", *arguments, check=True, SIBLING_URL=service.url)

    def run(*arguments):
        return done(*arguments).stdout

    alias = f"{MODEL}@production"
    assert "never_keep\ttown" in run("set", alias, "--never-keep", "town")
    assert "n_rows\t0" in run("show", alias)
    file = tmp_path / "truth.csv"
    file.write_text("row_id,target\nc,4\n")
    sent = done("feedback", alias, str(file), "--json")
    assert json.loads(sent.stdout)["unknown"] == ["c"]
    assert "no row is kept of 1 ids" in sent.stderr
    assert "No row has been kept yet." in run("report", alias)
    assert json.loads(run("delete-rows", alias, "c", "--json")) == {"n_deleted": 1}
    assert "is deleted" in run("delete", alias)


# --- the page ------------------------------------------------------------------------------------

PAGE = f"/models/{MODEL}/aliases/production/monitor"


@pytest.mark.usefixtures("watched")
def test_the_page_of_an_alias_offers_to_watch_it(http):
    page = http.get(PAGE).text
    assert ">Not watched yet</h1>" in page
    assert 'id="monitor"' in page
    assert 'id="feedback"' not in page
    assert PAGE in http.get(f"/models/{MODEL}").text
    assert http.get(PAGE.replace("production", "absent")).status_code == 404
    # from the page of a version, an alias that is not there yet is set
    assert f'href="{PAGE}?version=1">Is it still right?</a>' in http.get(f"/models/{MODEL}/1").text
    new = http.get(PAGE.replace("production", "absent") + "?version=1").text
    assert "Version 1 gets the name watched@absent" in new
    assert 'data-version="1"' in new
    assert "data-version" not in page


@pytest.mark.usefixtures("monitor")
def test_the_page_names_the_shop_that_does_worse(http):
    empty = http.get(PAGE).text
    assert ">No row has been kept yet</h1>" in empty
    assert "with shop and the other columns, in which sales is what really happened" in empty
    wait_for_rows(http, predict_and_label(http, made_rows(4, n=150), "b", scale=4.0))
    page = http.get(PAGE).text
    assert ">&#39;b&#39; does worse than promised</h1>" in page
    assert "Errors are larger than promised in: &#39;b&#39;; the other shops" in page
    assert "450 rows and 450 true values" in page
    assert page.count('class="measured') == 2


@pytest.mark.usefixtures("monitor")
def test_a_shop_far_above_its_promise_is_named_before_there_is_an_alarm(http):
    wait_for_rows(http, predict_and_label(http, made_rows(4, n=4), "few", scale=10.0))
    report = http.get(REPORT).json()
    assert report["verdict"] == "quiet"
    assert [(s["task"], s["error"]["is_far_above"]) for s in report["tasks"]] == [
        ("b", True),
        ("a", False),
        ("c", False),
    ]
    assert "look much larger than promised in: 'b'; there is no alarm yet" in report["sentences"][0]
    page = http.get(PAGE).text
    assert ">No alarm, but look at &#39;b&#39;</h1>" in page
    assert "Not clearly worse" not in page


@pytest.mark.usefixtures("monitor")
def test_the_page_to_predict_says_whether_rows_are_kept(http):
    page = f"/models/{MODEL}/1/predict"
    kept = http.get(page).text
    assert "Nothing is stored" not in kept
    assert f'href="{PAGE}">{MODEL}@production</a> keeps the rows.' in kept
    for share, said in ((0.5, "</a> keeps 50 % of the rows."), (0, "Nothing is stored")):
        assert http.put(MONITOR, json={"share": share}).status_code == 200
        assert said in http.get(page).text
    http.delete(MONITOR)
    assert "Nothing is stored" in http.get(page).text


# --- several processes ---------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.sql
def test_three_processes_keep_each_row_once_also_at_their_end(launch_service, wait_until):
    rows = without(made_rows(7, n=20), "sales")
    sent = []

    def train(client):
        table = pa.Table.from_pylist(made_rows(0))
        dataset = client.upload(table, task_column="shop", target_column="sales", name="sales")
        client.train(dataset, "ridge", model=MODEL).wait().set_alias("production")

    def call(url, prefix):
        with httpx.Client(base_url=url, timeout=60) as http:
            for i, row in enumerate(rows):
                for _ in range(2):  # as one that lost the response would
                    predict(http, [row], ids=f"{prefix}-{i}")
                sent.append(f"{prefix}-{i}")

    def all_call(url, names):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda name: call(url, name), names))

    with launch_service(SIBLING_WORKERS=3) as running:
        with Client(running.url) as client:
            train(client)
            monitor = client.set_monitor(f"{MODEL}@production")
            all_call(running.url, "abcd")
            wait_until(lambda: monitor.refresh()["n_rows"] >= len(sent))
            assert {row.row_id for row in stored(running)} == set(sent)
            assert len(stored(running)) == len(sent) == 240
            all_call(running.url, "ef")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(60) == 0
        assert {row.row_id for row in stored(running)} == set(sent)
