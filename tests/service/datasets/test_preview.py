"""A look at a dataset before training."""

import copy
import json

import numpy as np
import pytest

from service.datasets import preview as preview_module
from service.datasets.distributions import summarise
from service.datasets.suitability import PROCESS_BYTES
from service.settings import MIB
from service.storage.tables import DatasetRow

MIXED = (
    b"task;age;sex;joined;member;score;grade\n"
    b"north;61;F;2024-01-31;true;1,5;a\n"
    b"north;;M;2024-02-01T06:30:00;false;2,5;b\n"
    b"north;44;NA;2024-03-01;true;7,25;a\n"
    b"south;33;M;;;1,75;b\n"
    b"south;51;F;2024-05-01;true;3,5;a\n"
)


def look(app, body, media_type="text/csv", *, query="", **options):
    dataset = app.upload(body, media_type, **options).json()
    response = app.send("GET", f"/v1/datasets/{dataset['id']}/preview{query}")
    assert response.status_code == 200, response.text
    return response.json()


def test_rows_columns_and_classes_are_shown_as_they_were_uploaded(app):
    found = look(app, MIXED, target_column="grade")
    assert (found["n_tasks"], found["n_samples"]) == (2, 5)
    north, south = found["tasks"]
    assert north["target"]["counts"] == {"a": 2, "b": 1}
    assert (north["targets"], south["targets"]) == (["a", "b", "a"], ["b", "a"])
    assert north["rows"][1] == {
        "age": None,
        "sex": "M",
        "joined": "2024-02-01T06:30:00",
        "member": False,
        "score": 2.5,
    }
    assert south["rows"][0]["joined"] is None
    columns = {column["name"]: column for column in north["columns"]}
    assert [column["kind"] for column in columns.values()] == [
        "number",
        "category",
        "date",
        "boolean",
        "number",
    ]
    assert columns["age"]["missing"] == pytest.approx(1 / 3)
    assert (columns["age"]["min"], columns["age"]["max"]) == (44, 61)
    assert (columns["sex"]["values"], columns["sex"]["counts"]) == (["F", "M"], [1, 1])
    assert columns["joined"]["max"] == "2024-03-01T00:00:00"
    assert any("delimiter ';'" in warning for warning in found["warnings"])


@pytest.mark.slow
def test_any_rows_can_be_looked_at(app):
    found = look(app, MIXED, query="?task=north&rows=2&first_row=1", target_column="grade")
    (north,) = found["tasks"]
    assert [row["age"] for row in north["rows"]] == [None, 44]
    assert north["targets"] == ["b", "a"]
    assert north["columns"][0]["missing"] == pytest.approx(1 / 3)  # of all rows
    beyond = look(app, MIXED, query="?task=north&first_row=9", target_column="grade")
    assert (beyond["tasks"][0]["rows"], beyond["tasks"][0]["targets"]) == ([], [])


@pytest.mark.slow
def test_values_are_counted_in_equal_intervals(app):
    values = np.concatenate([np.linspace(0, 10, 101), [1e308, -1e308]])
    body = "task,x,z\n" + "".join(f"t,{x!r},{x % 3!r}\n" for x in values[:101].tolist())
    (column, _) = look(app, body.encode())["tasks"][0]["columns"]
    assert column["counts"] == np.histogram(values[:101], 10)[0].tolist()
    huge = look(app, b"task,x\nt,-1e308\nt,1e308\nt,0\n")["tasks"][0]["columns"][0]
    assert (sum(huge["counts"]), huge["n_distinct"]) == (3, 3)


def test_targets_that_are_numbers_have_their_range(app):
    (task,) = look(app, b"task,x,y\nt,1,2\nt,2,5\n", target_column="y")["tasks"]
    assert task["target"] == {"kind": "numbers", "counts": None, "min": 2, "max": 5, "mean": 3.5}


@pytest.mark.slow
def test_arrays_without_names_and_covariances_are_shown(app):
    rng = np.random.default_rng(0)
    dataset = app.upload_npz({"a/X": rng.normal(size=(4, 150)), "b/X": rng.normal(size=(3, 150))})
    url = f"/v1/datasets/{dataset.json()['id']}/preview"
    first, second = app.send("GET", url).json()["tasks"]
    assert first["rows"][0]["0"] == pytest.approx(np.random.default_rng(0).normal())
    assert (len(first["columns"]), second["n_features"]) == (100, 150)
    covariances = app.upload_npz({"c/C": np.eye(3)[None]}).json()["id"]
    (task,) = app.send("GET", f"/v1/datasets/{covariances}/preview").json()["tasks"]
    assert (task["input"], task["columns"], task["rows"]) == ("covariances", [], [])


def test_rows_that_chance_made_equal_can_be_held_out(app):
    body = "task,a,y\n" + "".join(f"{task},5,{i}\n" for task in "ns" for i in range(6))
    found = {
        one["algorithm"]: one for one in look(app, body.encode(), target_column="y")["algorithms"]
    }
    for name in ("ridge", "mtfl", "boosted-trees", "kernel-ridge", "gp"):
        assert found[name]["can_train"], found[name]["reason"]


def test_tasks_and_numbers_of_rows_may_be_chosen(app):
    body = "task,x\n" + "".join(f"t{i % 9},{i}\n" for i in range(90))
    assert len(look(app, body.encode())["tasks"]) == 5
    found = look(app, body.encode(), query="?task=t7&task=t0&rows=2")
    assert [task["name"] for task in found["tasks"]] == ["t7", "t0"]
    assert [row["x"] for row in found["tasks"][0]["rows"]] == [7, 16]


def test_the_manifest_has_the_distributions_that_the_preview_shows(app, monkeypatch):
    dataset = app.upload(MIXED, target_column="grade").json()["id"]
    url = f"/v1/datasets/{dataset}/preview"
    manifest = app.send("GET", f"/v1/datasets/{dataset}/manifest").json()
    features = manifest["tasks"][0]["features"]
    assert features["distinct"] == [2, 2, 3, 2, 3]
    assert features["counts"][1] == [1, 1]
    assert features["counts"][0] == [1, *[0] * 8, 1]
    assert manifest["tasks"][0]["target_summary"]["counts"] == {"a": 2, "b": 1}
    shown = app.send("GET", url).json()
    computed = []
    monkeypatch.setattr(
        preview_module, "summarise", lambda *at: computed.append(at) or summarise(*at)
    )
    assert app.send("GET", url).json() == shown
    assert computed == []
    # a dataset of an earlier version has no distributions: the preview computes them
    with app.services.database.write() as session:
        row = session.get_one(DatasetRow, dataset)
        older = copy.deepcopy(row.manifest)
        for task in older["tasks"]:
            del task["target_summary"]
            for name in ("n_counted", "distinct", "counts"):
                del task["features"][name]
        row.manifest = older
    assert app.send("GET", url).json() == shown
    assert len(computed) == 2


def test_distributions_are_of_all_rows_and_of_a_limited_number_of_columns(reader):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((150_000, 1))
    x[rng.random(150_000) < 0.3] = np.nan
    (task,) = reader.read_npz({"a/X": x})["manifest"]["tasks"]
    known = x[~np.isnan(x)]
    assert task["features"]["counts"] == [np.histogram(known, 10)[0].tolist()]
    assert task["features"]["n_counted"] == 100_000
    assert task["features"]["distinct"] == [np.count_nonzero(~np.isnan(x[:100_000]))]
    wide = rng.standard_normal((3, 130))
    many = reader.read_npz({f"t{i:02}/X": wide + i for i in range(25)})["manifest"]
    counted = [len(task["features"].get("counts", ())) for task in many["tasks"]]
    assert counted == [100] * 20 + [0] * 5
    shared = reader.read_npz({"a/X": wide, "b/X": wide, "a/y": wide[:, 0], "b/y": wide[:, 1]})
    assert len(json.dumps(shared)) < 200_000


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("?task=nobody", 422, "unknown-task"),
        ("?rows=101", 422, "invalid-request"),
        ("?tasks=0", 422, "invalid-request"),
        ("?row=1", 422, "invalid-request"),
    ],
)
@pytest.mark.quick(2)
def test_invalid_questions_are_rejected(app, query, status, code):
    dataset = app.upload(MIXED).json()["id"]
    response = app.send("GET", f"/v1/datasets/{dataset}/preview{query}")
    assert (response.status_code, response.json()["code"]) == (status, code)


def test_it_says_which_algorithms_can_be_trained_and_what_to_change(app):
    codes = b"task,x,y\nt,1,0\nt,2,1\nt,3,1\nu,1,1\nu,2,0\nu,5,1\n"
    found = look(app, codes, target_column="y", target_kind="numbers")
    suitable = {one["algorithm"]: one for one in found["algorithms"]}
    memory_mb = suitable["ridge"].pop("memory_mb")
    assert suitable["ridge"] == {"algorithm": "ridge", "can_train": True, "reason": None}
    assert memory_mb == pytest.approx(PROCESS_BYTES / MIB, rel=0.01)  # the data are tiny
    assert not suitable["mtda"]["can_train"]
    assert suitable["mtda"]["memory_mb"] is None
    assert "target_kind=classes" in suitable["mtda"]["reason"]
    unlabelled = {
        one["algorithm"]: one for one in look(app, b"task,x,z\nt,1,2\nt,2,0\nt,3,3\n")["algorithms"]
    }
    assert unlabelled["pca"]["can_train"]
    assert "target" in unlabelled["ridge"]["reason"]


def test_a_dataset_that_is_not_ready_has_no_preview(make_app):
    app = make_app(ingest_wait_s=0)
    url = app.upload(b"task,x\na,no\na,1\n").headers["location"]
    response = app.send("GET", f"{url}/preview")
    assert (response.status_code, response.json()["code"]) == (409, "wrong-state")
