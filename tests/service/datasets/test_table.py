"""The rows of a dataset as one table that can be uploaded again."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pytest
from scipy.sparse import random_array

ARROW = "application/vnd.apache.arrow.stream"
MIXED = (
    b"site;age;sex;joined;member;score;grade;family;count\n"
    b'north;61;F;2024-01-31;true;1,5;a;"1 ""x"", y";1\n'
    b"north;;M;2024-02-01T06:30:00;false;2,5;;2;2\n"
    b"north;44;NA;2024-03-01;true;7,123456789012345;a;2;0,5\n"
    b"south;33;M;;;1,75;b;3;1\n"
    b"south;51;F;2024-05-01;true;-3e-7;a;3;1\n"
)
OPTIONS = {
    "task_column": "site",
    "target_column": "grade",
    "group_column": "family",
    "weight_column": "count",
}


def download(app, dataset, accept, query=""):
    path = f"/v1/datasets/{dataset['id']}/table{query}"
    return app.send("GET", path, headers={"Accept": accept})


def read(response):
    if response.headers["content-type"].startswith("text/csv"):
        return pv.read_csv(io.BytesIO(response.content))
    return pa.ipc.open_stream(response.content).read_all()


@pytest.mark.parametrize("accept", ["text/csv", ARROW])
def test_an_upload_of_the_table_gives_the_same_tasks(app, accept):
    first = app.upload(MIXED, "text/csv", **OPTIONS).json()
    response = download(app, first, accept)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith(accept)
    ending = ".csv" if accept == "text/csv" else ".arrows"
    assert f'filename="{first["id"]}{ending}"' in response.headers["content-disposition"]
    second = app.upload(response.content, accept, **OPTIONS).json()
    assert second["content_sha256"] == first["content_sha256"]
    assert second["id"] != first["id"]


def test_values_are_those_of_the_upload(app):
    dataset = app.upload(MIXED, "text/csv", **OPTIONS).json()
    table = read(download(app, dataset, ARROW)).to_pylist()
    assert [row["grade"] for row in table] == ["a", "a", None, "b", "a"]  # without a target: last
    last = table[2]
    assert (last["site"], last["age"], last["sex"], last["member"]) == ("north", None, "M", False)
    assert last["joined"].isoformat() == "2024-02-01T06:30:00"
    assert (last["family"], last["count"]) == ("2", 2.0)
    assert table[0]["family"] == '1 "x", y'
    assert table[1]["score"] == 7.123456789012345
    assert table[3]["joined"] is None


def test_without_accept_the_table_is_csv_of_the_chosen_tasks(app):
    dataset = app.upload(MIXED, "text/csv", **OPTIONS).json()
    table = read(download(app, dataset, "*/*", "?task=south"))
    assert set(table["site"].to_pylist()) == {"south"}
    unknown = download(app, dataset, "text/csv", "?task=east")
    assert (unknown.status_code, unknown.json()["code"]) == (422, "unknown-task")
    other = download(app, dataset, "image/png")
    assert (other.status_code, other.json()["code"]) == (406, "not-acceptable")


@pytest.mark.slow
def test_a_large_table_comes_in_blocks_and_is_the_same_to_the_bit(app):
    rng = np.random.default_rng(0)
    X = {"a": rng.standard_normal((3000, 200)), "b": rng.standard_normal((10, 200)) * 1e-300}
    y = rng.standard_normal(3000)
    dataset = app.upload_npz({"a/X": X["a"], "b/X": X["b"], "a/y": y, "b/y": y[:10]}).json()
    for accept in ("text/csv", ARROW):
        table = read(download(app, dataset, accept))
        names = [str(j) for j in range(200)]
        assert table.column_names == ["task", *names, "target"]
        values = np.column_stack([table[name].to_numpy() for name in names])
        assert np.array_equal(values, np.concatenate([X["a"], X["b"]]))
        assert np.array_equal(table["target"].to_numpy(), np.concatenate([y, y[:10]]))


def test_sparse_rows_are_written_with_their_zeros(app):
    X = random_array((50, 7), density=0.2, rng=np.random.default_rng(0), format="csr")
    parts = {f"a/X.{name}": getattr(X, name) for name in ("data", "indices", "indptr")}
    dataset = app.upload_npz(parts | {"a/X.shape": np.array(X.shape)}).json()
    table = read(download(app, dataset, "text/csv"))
    assert np.array_equal(
        np.column_stack([table[str(j)].to_numpy() for j in range(7)]), X.toarray()
    )


def test_what_is_no_table_is_refused_with_a_way_out(app):
    rng = np.random.default_rng(0)
    different = {"a/X": rng.normal(size=(4, 2)), "b/X": rng.normal(size=(4, 3))}
    dataset = app.upload_npz(different).json()
    refused = download(app, dataset, "text/csv")
    assert refused.status_code == 422
    assert "tasks 'a' and 'b' have different columns; choose tasks" in refused.json()["detail"]
    assert read(download(app, dataset, "text/csv", "?task=b")).num_rows == 4
    covariances = app.upload_npz({"c/C": np.eye(3)[None]}).json()
    refused = download(app, covariances, "text/csv")
    assert refused.status_code == 422
    assert "covariance matrices, which are not rows of a table" in refused.json()["detail"]


@pytest.mark.slow
def test_names_of_columns_are_not_used_twice(app):
    body = b"site,task,target,y\nn,1,2,3\nn,4,5,6\n"
    dataset = app.upload(body, "text/csv", task_column="site", target_column="y").json()
    assert read(download(app, dataset, "text/csv")).column_names == ["site", "task", "target", "y"]
    plain = app.upload_npz({"n/X": np.eye(2), "n/feature_names": np.array(["task", "x"])}).json()
    assert read(download(app, plain, "text/csv")).column_names == ["task_", "task", "x"]


def test_texts_are_no_formulas_of_spreadsheets_and_numbers_stay(app):
    rows = [("=1+1", "-x"), ("@a", "-5"), ("+b", "1e-3"), ("c=d", "+7"), ("tab", "x-y")]
    lines = ["site;=note;code;level"]
    lines += [f'"{name}";"{code}";-{i}.5;{i}' for i, (name, code) in enumerate(rows * 2)]
    options = {"task_column": "site", "column_kind": "=note:category"}
    dataset = app.upload("\n".join(lines).encode(), "text/csv", **options).json()
    assert dataset["state"] == "ready", dataset
    stored = read(download(app, dataset, ARROW))
    assert stored.column_names[:2] == ["site", "=note"]
    found = read(download(app, dataset, "text/csv"))
    assert found.column_names[:2] == ["site", "'=note"]
    assert {*found["site"].to_pylist()} == {"'=1+1", "'@a", "'+b", "c=d", "tab"}
    assert {str(v) for v in found["'=note"].to_pylist()} == {"'-x", "-5", "1e-3", "+7", "x-y"}
    assert found["code"].to_pylist() == stored["code"].to_pylist()
