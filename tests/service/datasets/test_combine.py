"""Datasets made of others: growth, and selections of tasks, columns and rows."""

import numpy as np
import pandas as pd
import pytest
import sqlalchemy as sa

from algorithms.interface.tasks import Task, TaskSet
from service.datasets.canonical import read_all_rows
from service.datasets.formats.options import Limits
from service.datasets.ingestion.combination import combine as combine_parts
from service.datasets.ingestion.selected import SelectedDataset
from service.datasets.issues import Rejected
from service.datasets.selection import Selection
from service.renewal.context import RenewalServices
from service.renewal.store import Late, Renewing
from service.renewal.training import combine as combine_rows
from service.settings import Settings
from service.storage.tables import DatasetRow, MonitorRow, RenewalRow
from tests.written import written

URL = "/v1/datasets:combine"
PARQUET = "application/vnd.apache.parquet"
X = np.arange(12.0).reshape(4, 3)


def table(seed=0, n=60):
    """Return a mixed table with gaps, whose late rows have a new task and a new category."""
    rng = np.random.default_rng(seed)
    late = np.arange(n) >= n // 2
    frame = pd.DataFrame(
        {
            "task": np.where(late & (np.arange(n) % 5 == 0), "new", rng.choice(["a", "b"], n)),
            "site": np.where(
                late, rng.choice(["north", "west"], n), rng.choice(["east", "north"], n)
            ),
            "size": np.where(rng.random(n) < 0.2, np.nan, rng.standard_normal(n)),
            "day": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(n), "D"),
            "open": rng.random(n) < 0.5,
            "label": rng.choice(["x", "y", "z"], n),
            "unit": [f"u{i % 7}" for i in range(n)],
        }
    )
    return frame, n // 2


def upload(app, data, **query):
    if isinstance(data, pd.DataFrame):
        response = app.upload(
            written(data.to_parquet), PARQUET, target_column="label", group_column="unit", **query
        )
    else:
        response = app.upload_npz(data, **query)
    assert response.status_code == 201, response.text
    return response.json()["id"]


def combine(app, *sources, name="both", **headers):
    listed = [{"dataset_id": s} if isinstance(s, str) else s for s in sources]
    return app.send("POST", URL, json={"name": name, "sources": listed}, headers=headers)


def content(app, dataset_id):
    with app.services.database.read() as session:
        row = session.get_one(DatasetRow, dataset_id)
    return row.content_sha256, row.manifest


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.quick(1)
def test_a_dataset_grown_by_an_upload_is_that_of_the_whole_table(app, seed):
    frame, cut = table(seed)
    whole = upload(app, frame, name="whole")
    old, new = (upload(app, part, name=f"{seed}") for part in (frame[:cut], frame[cut:]))
    grown = combine(app, old, new)
    assert grown.status_code == 201, grown.text
    ours, theirs = app.tasks(grown.json()["id"]), app.tasks(whole)
    assert set(ours.names) == set(theirs.names)
    for task in theirs:
        np.testing.assert_array_equal(ours[task.name].X, task.X)
        np.testing.assert_array_equal(ours[task.name].y, task.y)
        np.testing.assert_array_equal(ours[task.name].groups, task.groups)
    assert content(app, grown.json()["id"])[1]["columns"] == content(app, whole)[1]["columns"]


def test_rows_without_a_target_are_kept_in_a_growing_dataset(app):
    frame, n = table()
    frame.loc[::3, "label"] = None
    halves = combine(app, upload(app, frame[:n]), upload(app, frame[n:])).json()["id"]
    whole = content(app, upload(app, frame))[1]
    found = content(app, halves)[1]
    assert sum(task.get("n_unlabelled", 0) for task in whole["tasks"]) == 20
    assert {task["name"]: task.get("n_unlabelled") for task in found["tasks"]} == {
        task["name"]: task.get("n_unlabelled") for task in whole["tasks"]
    }
    with app.services.database.read() as session:
        row = session.get_one(DatasetRow, halves)
        path = app.services.blobs.path(row.content_blob_id, row.content_sha256)
    by_name = {task.name: task for task in read_all_rows(path, found)}
    sizes = frame["size"][(frame["task"] == "a")]
    j = by_name["a"].feature_names.index("size")
    np.testing.assert_array_equal(np.sort(by_name["a"].X[:, j]), np.sort(sizes))
    some = {"dataset_id": halves, "rows": {"start": 0, "stop": 3}}
    picked = content(app, combine(app, some, name="some").json()["id"])[1]
    assert [task.get("n_unlabelled") for task in picked["tasks"]] == [None] * 3
    (kept,) = (note for note in found["warnings"] if "no value in" in note)
    (left_out,) = (note for note in picked["warnings"] if "no value in" in note)
    assert kept.endswith("they are used only by methods that need no targets")
    assert left_out.endswith("they are left out of the selected rows")


@pytest.mark.sql
def test_the_lineage_is_kept_and_survives_the_sources(app):
    old = upload(app, {"a/X": X})
    new = upload(app, {"a/X": X + 100})
    body = combine(app, old, {"dataset_id": new, "rows": {"start": 1, "stop": 3}}).json()
    assert [one["dataset_id"] for one in body["derived_from"]] == [old, new]
    assert body["derived_from"][1]["rows"] == {"start": 1, "stop": 3}
    assert body["derived_from"][1]["content_sha256"] == content(app, new)[0]
    assert (body["n_samples"], body["size_bytes"] > 0) == (6, True)
    for dataset_id in (old, new):
        assert app.send("DELETE", f"/v1/datasets/{dataset_id}").status_code == 204
    np.testing.assert_array_equal(app.tasks(body["id"])["a"].X, [*X, *(X + 100)[1:3]])


def test_columns_keep_the_names_that_they_have_in_all_sources(app):
    def upload_wards(target, seed):
        file = f"ward,size,{target}\na,{seed},1.5\nb,2,2.5\n".encode()
        response = app.upload(file, task_column="ward", target_column=target)
        assert response.status_code == 201, response.text
        return response.json()["id"]

    first, second = (upload_wards("days", seed) for seed in (0, 1))
    names = {"task_column": "ward", "target_column": ["days"]}
    grown = combine(app, first, second).json()
    assert grown["options"] == names
    assert combine(app, grown["id"], upload_wards("days", 2), name="x").json()["options"] == names
    other = combine(app, first, upload_wards("hours", 3)).json()
    assert other["options"] == {"task_column": "ward"}


def test_a_renewal_that_was_deleted_meanwhile_leaves_no_dataset_unread(app, wait_until):
    first, second = (upload(app, {"a/X": X + i}) for i in range(2))
    database = app.services.database
    with database.read() as session:
        owner = session.get_one(DatasetRow, first).owner
    row = RenewalRow(
        monitor_id="mon", dataset_id=first, rows_id=second, attempt=1, step=0, rule={"rows": 10}
    )
    seen = Renewing(row, MonitorRow(alias="production"), owner, "m")
    with pytest.raises(Late):
        combine_rows(RenewalServices(app.services, None), seen)

    def states():
        with database.read() as session:
            return [row.state for row in session.scalars(sa.select(DatasetRow)) if row.sources]

    wait_until(lambda: states() == ["ready"])


@pytest.mark.sql
def test_the_same_combination_is_one_dataset(app):
    old = upload(app, {"a/X": X})
    first, again, other = combine(app, old), combine(app, old), combine(app, old, name="other")
    assert other.json()["id"] != first.json()["id"]
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    key = {"Idempotency-Key": "k"}
    assert combine(app, old, **key).status_code == 200
    response = combine(app, old, name="third", **key)
    assert (response.status_code, response.json()["code"]) == (422, "key-reused")


def test_tasks_columns_and_rows_are_selected(app):
    arrays = {
        "feature_names": np.array(["u", "v", "w"]),
        **{f"{t}/X": X + i for i, t in enumerate("abc")},
        **{f"{t}/y": np.arange(4.0) + i for i, t in enumerate("abc")},
    }
    source = upload(app, arrays)
    chosen = {"dataset_id": source, "tasks": ["c", "a"], "columns": ["w", "u"], "rows": {"stop": 2}}
    body = combine(app, chosen).json()
    tasks = app.tasks(body["id"])
    assert tasks.names == ("c", "a")
    np.testing.assert_array_equal(tasks["c"].X, (X + 2)[:2, [2, 0]])
    np.testing.assert_array_equal(tasks["c"].y, [2.0, 3.0])
    assert tasks["a"].feature_names == ("w", "u")
    assert content(app, body["id"])[1]["ignored"] == ["v"]  # raw rows may still have it
    numbers = {"dataset_id": source, "row_numbers": {"b": [3, 0]}}
    tasks = app.tasks(combine(app, numbers).json()["id"])
    assert tasks.names == ("b",)
    np.testing.assert_array_equal(tasks["b"].X, (X + 1)[[3, 0]])


def test_columns_without_names_are_selected_by_number_also_of_covariances(app):
    C = np.cov(np.random.default_rng(0).standard_normal((4, 20)))
    source = upload(app, {"a/C": C})
    tasks = app.tasks(combine(app, {"dataset_id": source, "columns": [3, 1]}).json()["id"])
    np.testing.assert_allclose(tasks["a"].X[0], C[np.ix_([3, 1], [3, 1])])


def test_rows_that_tasks_share_are_still_stored_once(app):
    frame = pd.DataFrame({"p": X[:, 0], "q": X[:, 1], "one": [1.0, 2, 3, 4], "two": [5.0, 6, 7, 8]})
    query = {"target_column": ["one", "two"]}
    source = app.upload(written(frame.to_parquet), PARQUET, **query).json()["id"]
    found = combine(app, source, source).json()
    entries = content(app, found["id"])[1]["tasks"]
    assert entries[1]["rows_of"] == entries[0]["name"]
    assert found["n_samples"] == 16


def test_a_selection_of_complete_numbers_needs_no_preparation(app):
    frame, _ = table()
    source = upload(app, frame)
    assert content(app, source)[1]["columns"]
    found = combine(app, {"dataset_id": source, "columns": ["open"]}).json()
    assert content(app, found["id"])[1]["columns"] == [{"name": "open", "kind": "boolean"}]
    plain = upload(app, {"a/X": np.array([[1.0, np.nan], [2.0, 3.0]])})
    found = combine(app, {"dataset_id": plain, "columns": [0]}).json()
    assert "columns" not in content(app, found["id"])[1]


NAMES = np.array(["u", "v", "w"])
#: Two uploads that do not fit together, or a selection; with the code and words of the issue.
MISFITS = {
    "no task": ({"a/X": X}, {"tasks": ["b"]}, "missing-task", "no task 'b'"),
    "no column": ({"a/X": X}, {"columns": [3]}, "missing-column", "no column 3"),
    "no name": ({"a/X": X}, {"columns": ["u"]}, "missing-column", "no column 'u'"),
    "twice": ({"a/X": X}, {"columns": [1, 1]}, "duplicate-column", "selected twice"),
    "no row": ({"a/X": X}, {"rows": {"start": 4}}, "missing-row", "has 4 rows"),
    "no number": ({"a/X": X}, {"row_numbers": {"a": [0, 9]}}, "missing-row", "no row 9"),
    "widths": ({"a/X": X}, {"a/X": X[:, :2]}, "different-columns", "3 columns in one dataset"),
    "names": (
        {"a/X": X, "feature_names": NAMES},
        {"a/X": X, "feature_names": np.array(["u", "v", "z"])},
        "different-columns",
        "in only one of the datasets",
    ),
    "named": (
        {"a/X": X, "feature_names": NAMES}, {"a/X": X}, "different-columns", "column names in"
    ),
    "inputs": ({"a/X": X}, {"a/C": np.eye(3)}, "different-columns", "rows in one dataset"),
    "targets": (
        {"a/X": X, "a/y": np.arange(4.0)},
        {"a/X": X, "a/y": np.array(["p", "q", "p", "q"])},
        "different-targets",
        "numbers as targets in one dataset and text class labels",
    ),
    "no targets": (
        {"a/X": X, "a/y": np.arange(4.0)}, {"a/X": X}, "different-targets", "no targets"
    ),
    "no groups": (
        {"a/X": X, "a/groups": np.arange(4)}, {"a/X": X}, "different-groups", "in only one"
    ),
    "kinds of groups": (
        {"a/X": X, "a/groups": np.arange(4)},
        {"b/X": X, "b/groups": np.array(["p", "q", "r", "s"])},
        "different-groups",
        "text in one dataset and numbers in another",
    ),
}  # fmt: skip


#: One of each code.
QUICK = {"no task", "no name", "twice", "no row", "names", "targets", "no groups"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in MISFITS]
)
def test_what_does_not_fit_is_told(app, name):
    first, second, code, words = MISFITS[name]
    source = upload(app, first)
    if any(isinstance(value, np.ndarray) for value in second.values()):
        response = combine(app, source, upload(app, second))
    else:
        response = combine(app, {"dataset_id": source, **second})
    assert response.status_code == 422, response.text
    (error,) = response.json()["errors"]
    assert error["code"] == code
    assert words in error["detail"]
    listed = app.send("GET", "/v1/datasets").json()["items"]
    assert all(one["state"] == "ready" for one in listed)  # no rejected one is left


def test_a_source_that_is_not_ready_is_told_with_its_place(make_app):
    app = make_app(ingest_wait_s=0)
    source = app.upload(b"task,x\na,no\na,1\n").headers["location"].rpartition("/")[2]
    response = combine(app, source)
    assert (response.status_code, response.json()["code"]) == (409, "wrong-state")
    (error,) = response.json()["errors"]
    assert error["pointer"] == "/sources/0/dataset_id"
    assert source in error["detail"]


def test_columns_of_different_kinds_are_told(app):
    ours, theirs = (pd.DataFrame({"task": ["a", "b"], "v": v}) for v in (["x", "y"], [1.0, 2.0]))
    ids = [app.upload(written(frame.to_parquet), PARQUET).json()["id"] for frame in (ours, theirs)]
    (error,) = combine(app, *ids).json()["errors"]
    assert (error["code"], error["column"]) == ("different-columns", "v")
    assert "column_kind=v:KIND" in error["detail"]


@pytest.mark.parametrize("gap", ["", "a,\n"])  # with a gap, columns have kinds
def test_columns_of_different_units_are_told(app, gap):
    tables = [f"task,v\na,5{unit}\na,6{unit}\n{gap}".encode() for unit in (" kg", " g")]
    ids = [app.upload(table).json()["id"] for table in tables]
    (error,) = combine(app, *ids).json()["errors"]
    assert (error["code"], error["column"]) == ("different-columns", "v")
    assert "the unit 'g' in one dataset and 'kg' in another" in error["detail"]
    plain = app.upload(b"task,v,w\na,1,2\na,2,3\n").json()["id"]
    plain = {"dataset_id": plain, "columns": ["v"]}
    both = combine(app, ids[0], plain).json()
    assert "its numbers without a unit are read as 'kg'" in both["warnings"][-1]
    assert content(app, both["id"])[1]["number_writings"]["columns"] == {"v": {"unit": "kg"}}
    assert combine(app, both["id"], ids[1]).json()["errors"]


@pytest.mark.slow
def test_a_text_column_that_one_upload_left_out_can_be_declared(app):
    """Codes that repeat in a table, and hardly in the rows that came later."""
    codes = [f"c{i}" for i in range(30)]
    ids = []
    for values in (codes * 2, codes):
        frame = pd.DataFrame({"task": "a", "size": range(len(values)), "code": values})
        ids.append(app.upload(written(frame.to_parquet), PARQUET).json()["id"])
    (error,) = combine(app, *ids).json()["errors"]
    assert (error["code"], error["column"]) == ("different-columns", "code")
    assert "upload that one again with column_kind=code:KIND, such as category" in error["detail"]
    declared = app.upload(written(frame.to_parquet), PARQUET, column_kind="code:category").json()[
        "id"
    ]
    assert combine(app, ids[0], declared).json()["n_samples"] == 90


def test_a_source_that_does_not_exist_is_told(app):
    response = combine(app, upload(app, {"a/X": X}), "ds_none")
    assert response.status_code == 404
    assert response.json()["errors"][0]["pointer"] == "/sources/1/dataset_id"


@pytest.mark.parametrize(
    "selection",
    [
        {"rows": {"start": 2, "stop": 2}},
        {"rows": {"start": -1}},
        {"tasks": []},
        {"tasks": ["a"], "row_numbers": {"a": [0]}},
        {"row_numbers": {"a": []}},
        {"row_numbers": {"a": [3, 3]}},
        {"tasks": ["a", "a"]},
        {"columns": [-1]},
        {"colums": [1]},
    ],
)
def test_a_selection_of_nothing_is_rejected(app, selection):
    response = combine(app, {"dataset_id": "ds_1", **selection})
    assert (response.status_code, response.json()["code"]) == (422, "invalid-request")
    assert response.json()["errors"][0]["pointer"].startswith("/sources/0")


@pytest.mark.parametrize(
    ("limit", "code"),
    [
        ({"tasks": 1}, "too-many-tasks"),
        ({"features": 2}, "too-many-features"),
        ({"decompressed_bytes": 100}, "decompression-limit"),
    ],
)
def test_a_combination_beyond_the_limits_is_rejected(limit, code):
    tasks = TaskSet((Task("a", X), Task("b", X + 1)))
    part = SelectedDataset(tasks, Selection(dataset_id="ds_1"))
    limits = Limits.from_settings(Settings())
    assert len(combine_parts([part], limits).tasks) == 2
    with pytest.raises(Rejected) as caught:
        combine_parts([part], limits.model_copy(update=limit))
    assert caught.value.issues[0].code == code


def test_groups_without_labels_are_not_confused():
    tasks = TaskSet((Task("a", X, groups=np.arange(4)),))
    part = SelectedDataset(tasks, Selection(dataset_id="ds_1"), has_labels=False)
    limits = Limits.from_settings(Settings())
    assert combine_parts([part], limits).tasks[0].groups is not None
    with pytest.raises(Rejected, match="too many groups to keep their labels"):
        combine_parts([part, part], limits)
