"""Batch inference has the same outputs as online inference."""

import hashlib
import html
import json
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open

from algorithms.interface.errors import InvalidData
from algorithms.interface.methods import METHODS
from service.datasets.blocks import DatasetWriter, Layout
from service.datasets.canonical import read_tasks
from service.jobs.worker.inference import BLOCK_ROWS, infer
from service.storage.blobs import BlobStore
from service.storage.tables import DatasetRow
from sibling import JobFailed, ServiceError, UnknownCategoriesWarning

ROOT = Path(__file__).parents[2]
#: One or two of each family: batches call models of all algorithms in the same way.
FAMILIES = (
    *("pca", "mtda", "tlvm", "mtfl", "rmt-pca", "fmtl", "kernel-graph", "lda-tr", "lda-null"),
    *("transfer-pca", "ridge", "logistic-regression", "boosted-trees", "nearest-neighbours"),
    *("gp", "constant"),
)
#: Far below the 300 MB of input: one block, buffered outputs, and Arrow itself.
MAX_GROWTH_MB = 150
TASKS = ("north", "süd", "a/b")
URL = "/v1/jobs:infer"


@pytest.fixture(scope="module")
def rows():
    """Rows that no model was trained on: three tasks, one of several blocks."""
    rng = np.random.default_rng(11)
    sizes = {"north": 2 * BLOCK_ROWS + 137, "süd": 2, "a/b": BLOCK_ROWS}
    return {name: rng.standard_normal((n, 5)) for name, n in sizes.items()}


@pytest.fixture(scope="module")
def targets(rows):
    return {name: np.arange(len(X)) / 7 for name, X in rows.items()}


@pytest.fixture(scope="module")
def source(client, rows, targets):
    return client.upload(rows, targets, name="to be inferred")


def read(outputs, folder):
    """Return the outputs in the file by task, in the order of the rows."""
    table = pq.read_table(outputs.download(folder / "outputs.parquet"))
    assert table.column_names == ["task", "row", "outputs"]
    task, row = table["task"].to_numpy(), table["row"].to_numpy()
    values = table["outputs"].to_pylist()
    found = {}
    for name in dict.fromkeys(task):
        chosen = np.flatnonzero(task == name)
        np.testing.assert_array_equal(row[chosen], np.arange(len(chosen)))
        found[name] = np.array([values[i] for i in chosen])
    return found


def online(model, method, X, task):
    """Return the outputs of online requests of one block each."""
    blocks = [X[i : i + BLOCK_ROWS] for i in range(0, len(X), BLOCK_ROWS)]
    return np.concatenate([getattr(model, method)(block, task=task) for block in blocks])


# --- outputs -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["transform", "inverse_transform"])
def test_outputs_equal_online_inference_bit_for_bit(client, model, source, rows, tmp_path, method):
    given = source
    if method == "inverse_transform":
        rows = {name: X[:, :2] for name, X in rows.items()}
        given = client.upload(rows, name="projected")
    outputs = client.infer(model, method, given).wait()
    found = read(outputs, tmp_path)
    assert list(found) == list(rows)
    for name, X in rows.items():
        np.testing.assert_array_equal(found[name], online(model, method, X, name))


@pytest.mark.parametrize("algorithm", FAMILIES)
@pytest.mark.quick(2)
def test_every_method_equals_online_inference(client, dataset, algorithm, tmp_path):
    model = client.train(dataset, algorithm, model=f"batch-{algorithm}").wait()
    rng = np.random.default_rng(5)
    X = {name: rng.standard_normal((40, 5)) for name in TASKS}
    source = client.upload(X, name=f"for {algorithm}")
    for method in model.info["methods"]:
        assert method in METHODS
        given, rows = source, X
        if method == "inverse_transform":
            rows = {name: model.transform(Z, task=name) for name, Z in X.items()}
            given = client.upload(rows, name=f"back, {algorithm}")
        outputs = client.infer(model, method, given).wait()
        found = read(outputs, tmp_path)
        for name in TASKS:
            expected = getattr(model, method)(rows[name], task=name)
            if method not in ("predict", "variance"):
                expected = expected.reshape(len(expected), -1)
            np.testing.assert_array_equal(found[name], expected)
            assert found[name].dtype.kind == expected.dtype.kind
        assert (outputs.dataset_id is None) == (expected.dtype.kind != "f")


def test_the_version_of_a_batch_inference_is_shown_until_it_is_deleted(http, client, rows):
    data = client.upload(rows, name="to transform")
    model = client.train(data, "pca", model="applied", k=1).wait()
    job = client.infer(model, "transform", data, name="applied to")
    job.wait()
    pages = "/jobs", f"/jobs/{job.id}", "/"
    link = 'href="/models/applied/1"'
    assert job.refresh().info["version"] == 1
    assert [link in http.get(page).text for page in pages] == [True] * 3
    model.delete()
    assert job.refresh().info["version"] is None
    assert [link in http.get(page).text for page in pages] == [False] * 3
    client.delete_dataset(job.info["result"]["dataset_id"])
    assert "See the outputs" not in http.get(pages[1]).text


@pytest.mark.slow  # wide rows
def test_wide_rows_are_summed_as_in_online_inference(client, tmp_path):
    """With more threads than online, the last bits of long sums would differ."""
    rng = np.random.default_rng(2)
    wide = {name: rng.standard_normal((80, 500)) for name in "ab"}
    model = client.train(client.upload(wide, name="wide"), "pca", model="wide", k=50).wait()
    rows = {name: rng.standard_normal((BLOCK_ROWS + 1, 500)) for name in "ab"}
    found = read(
        client.infer(model, "transform", client.upload(rows, name="more")).wait(), tmp_path
    )
    for name, X in rows.items():
        np.testing.assert_array_equal(found[name], online(model, "transform", X, name))


def test_the_dataset_of_the_outputs_has_the_same_tasks_rows_and_targets(
    service, client, model, source, rows, targets, tmp_path
):
    job = client.infer(model, "transform", source, name="features")
    outputs = job.wait()
    assert outputs.dataset_id is not None
    made = client.dataset(outputs.dataset_id)
    assert (made.name, made.tasks) == ("features", tuple(rows))
    assert made.info["n_features"] == [2]
    assert made.info["n_samples"] == sum(map(len, rows.values()))
    assert made.info["origin"] == {
        "job_id": job.id,
        "dataset_id": source.id,
        "dataset_sha256": source.info["content_sha256"],
        "model": "shared",
        "version": 1,
        "version_id": model.info["id"],
        "method": "transform",
        "tasks": None,
    }
    assert source.info["origin"] is None
    found = read(outputs, tmp_path)
    for task in stored(service, made.id, tmp_path):
        np.testing.assert_array_equal(task.X, found[task.name])
        np.testing.assert_array_equal(task.y, targets[task.name])
    # it can be used for training, and cannot be deleted then
    trained = client.train(made, "pca", model="on-features", k=1).wait()
    with pytest.raises(ServiceError, match="in-use"):
        client.delete_dataset(made.id)
    trained.delete()
    client.delete_dataset(made.id)
    assert outputs.download(tmp_path / "still.parquet").stat().st_size > 0


def stored(service, dataset_id, folder):
    """Return the tasks of a stored dataset, checked with a second reader."""
    with service.open_database() as database:
        with database.read() as session:
            row = session.get_one(DatasetRow, dataset_id)
        blobs = BlobStore(database, folder / "cache", cache_bytes=2**30)
        path = blobs.path(row.content_blob_id, row.content_sha256)
    tasks = read_tasks(path, row.manifest)
    with safe_open(path, framework="numpy") as file:
        for task in tasks:
            np.testing.assert_array_equal(file.get_tensor(f"{task.name}/X"), task.X)
    return tasks


def test_labels_of_the_source_are_kept_and_predicted_labels_make_no_dataset(
    service, client, dataset, tmp_path
):
    model = client.train(dataset, "mtda", model="batch-labels", d=2).wait()
    outputs = client.infer(model, "distances", dataset).wait()
    for task in stored(service, outputs.dataset_id, tmp_path):
        assert set(task.y) == {"red", "green", "blue"}
        assert task.X.shape == (12, 3)
    table = pq.read_table(outputs.download(tmp_path / "distances.parquet"))
    header = json.loads(table.schema.metadata[b"sibling"])
    assert header["classes"] == {name: ["blue", "green", "red"] for name in dataset.tasks}
    assert (header["model"], header["version"]) == ("batch-labels", 1)
    labels = client.infer(model, "predict", dataset).wait()
    assert labels.dataset_id is None
    values = pq.read_table(labels.download(tmp_path / "labels.parquet"))["outputs"]
    assert set(values.to_pylist()) <= {"red", "green", "blue"}


def test_no_dataset_is_made_unless_requested(client, model, source):
    before = len(list(client.datasets))
    outputs = client.infer(model, "transform", source, makes_dataset=False).wait()
    assert outputs.dataset_id is None
    assert len(list(client.datasets)) == before


def test_the_job_names_its_model_and_has_a_result(client, http, model, source, rows):
    job = client.infer(model, "transform", source, limits={"priority": 3})
    info = job.wait().info
    assert (info["kind"], info["model"], info["version"]) == ("infer", "shared", 1)
    assert info["priority"] == 3
    assert info["inference"] == {
        "version_id": model.info["id"],
        "method": "transform",
        "tasks": None,
    }
    assert info["output"] == f"/v1/jobs/{job.id}/output"
    total = sum(map(len, rows.values()))
    report = info["result"]
    assert report["rows"] == total
    assert report["seconds"] > 0
    assert report["rows_per_s"] == pytest.approx(total / report["seconds"], rel=0.01)
    assert report["n_tasks"] == 3
    listed = http.get("/v1/jobs", params={"page_size": 200}).json()["items"]
    assert next(item for item in listed if item["id"] == job.id)["kind"] == "infer"
    trained = client.job(model.info["lineage"]["job_id"]).info
    assert (trained["kind"], trained["inference"], trained["output"]) == ("train", None, None)
    kinds = [(e["kind"], e["data"].get("state")) for e in job.events() if e["kind"] == "state"]
    assert [state for _, state in kinds] == ["queued", "submitted", "running", "succeeded"]


def test_a_mapping_selects_tasks_and_the_tasks_of_the_model(client, model, tmp_path):
    rng = np.random.default_rng(8)
    rows = {name: rng.standard_normal((5, 5)) for name in ("new", "newer", "left out")}
    tasks = {"new": "north", "newer": "north"}
    outputs = client.infer(model, "transform", client.upload(rows), tasks=tasks).wait()
    found = read(outputs, tmp_path)
    assert list(found) == ["new", "newer"]
    for name in found:
        np.testing.assert_array_equal(found[name], model.transform(rows[name], task="north"))
    made = client.dataset(outputs.dataset_id)
    assert made.tasks == ("new", "newer")
    assert made.info["origin"]["tasks"] == outputs.info["inference"]["tasks"] == tasks


def test_named_columns_are_matched_by_name(client, http, tmp_path):
    rng = np.random.default_rng(4)
    values = rng.standard_normal((12, 3)).round(3)

    def upload(names, name):
        order = [("abc").index(letter) for letter in names]
        lines = [",".join(("task", *names))]
        lines += [",".join(("t", *(str(row[i]) for i in order))) for row in values]
        file = tmp_path / f"{name}.csv"
        file.write_text("\n".join(lines))
        return client.upload(file)

    model = client.train(upload("abc", "plain"), "pca", model="named-columns", k=2).wait()
    expected = model.transform(values, task="t")
    for names in ("abc", "cab"):
        found = read(client.infer(model, "transform", upload(names, names)).wait(), tmp_path)
        np.testing.assert_array_equal(found["t"], expected)
    (tmp_path / "other.csv").write_text("task,a,b,d\nt,1,2,3\nt,2,3,4\n")
    other = client.upload(tmp_path / "other.csv")
    body = rejected(
        http.post(URL, json=spec_of(model, other)), 422, "invalid-data", "column 'c' is missing"
    )
    assert (body["errors"][0]["task"], body["errors"][0]["column"]) == ("t", "c")


def test_an_alias_is_resolved_when_the_job_is_submitted(client, dataset):
    first, second = (client.train(dataset, "pca", model="batch-alias", k=k).wait() for k in (1, 2))
    first.set_alias("production")
    job = client.infer("batch-alias@production", "transform", dataset)
    second.set_alias("production")
    outputs = job.wait()
    assert outputs.info["version"] == 1
    assert client.dataset(outputs.dataset_id).info["origin"]["version_id"] == first.info["id"]
    assert client.infer("batch-alias", "transform", dataset).wait().info["version"] == 2


# --- errors --------------------------------------------------------------------------------------


def spec_of(model, dataset, **more):
    return {"model": model.name, "method": "transform", "dataset_id": dataset.id, **more}


def job_ids(http):
    """Return the newest jobs by id, since one of an earlier test may still run and change."""
    return [job["id"] for job in http.get("/v1/jobs").json()["items"]]


def rejected(response, status, code, *words):
    body = response.json()
    assert (response.status_code, body["code"]) == (status, code), body
    for word in words:
        assert word in body["detail"]
    return body


@pytest.mark.parametrize(
    ("change", "status", "code", "pointer"),
    [
        ({"model": "nobody"}, 404, "not-found", "/model"),
        ({"model": "shared@nothing"}, 404, "not-found", "/model"),
        ({"version": 99}, 404, "not-found", "/model"),
        ({"dataset_id": "ds_unknown"}, 404, "not-found", "/dataset_id"),
        ({"method": "predict"}, 422, "unsupported-method", "/method"),
        ({"method": "__class__"}, 422, "unsupported-method", "/method"),
        ({"method": "inverse_transform"}, 422, "invalid-data", "/dataset_id"),
        ({"tasks": {"north": "nowhere"}}, 422, "unknown-task", "/tasks"),
        ({"tasks": {"nowhere": "north"}}, 422, "unknown-task", "/tasks"),
        ({"tasks": {}}, 422, "invalid-request", "/tasks"),
        ({"tasks": ["north"]}, 422, "invalid-request", "/tasks"),
        ({"model": "a b"}, 422, "invalid-request", "/model"),
        ({"version": True}, 422, "invalid-request", "/version"),
        ({"timeout_s": 1e9}, 422, "invalid-request", "/timeout_s"),
        ({"dataset_name": "a\nb"}, 422, "invalid-request", "/dataset_name"),
        ({"surprise": 1}, 422, "invalid-request", "/surprise"),
    ],
)
def test_an_invalid_specification_is_rejected_before_it_is_queued(
    http, model, source, change, status, code, pointer
):
    before = job_ids(http)
    body = rejected(http.post(URL, json={**spec_of(model, source), **change}), status, code)
    assert body["errors"][0]["pointer"] == pointer
    assert job_ids(http) == before


def test_every_task_that_does_not_fit_is_named(client, http, model):
    rng = np.random.default_rng(0)
    widths = {"north": 5, "süd": 4, "unknown": 5, "a/b": 6}
    rows = {name: rng.standard_normal((3, width)) for name, width in widths.items()}
    body = rejected(http.post(URL, json=spec_of(model, client.upload(rows))), 422, "invalid-data")
    found = {error["task"]: (error["code"], error["detail"]) for error in body["errors"]}
    assert found.keys() == {"süd", "unknown", "a/b"}
    assert found["unknown"][0] == "unknown-task"
    assert "known tasks: 'north'" in found["unknown"][1]
    assert "rows of 5 numbers for transform, got a table of 4 columns" in found["süd"][1]


@pytest.mark.parametrize("unit", ["kg", ""])
def test_rows_of_another_unit_are_refused_as_in_online_inference(client, http, tmp_path, unit):
    def upload(name, unit):
        rows = [f"{task},{i} {unit},{i % 3}" for task in "ab" for i in range(1, 9)]
        (tmp_path / name).write_text("\n".join(["task,weight,y", *rows]))
        return client.upload(tmp_path / name, target_column="y")

    model = client.train(upload("trained.csv", unit), "ridge", model=f"of-{unit}").wait()
    assert client.infer(model, "predict", upload("plain.csv", "")).wait().report["rows"] == 16
    spec = spec_of(model, upload("grams.csv", "g"), method="predict")
    error = rejected(http.post(URL, json=spec), 422, "invalid-data")["errors"][0]
    assert error["column"] == "weight"
    assert "has the unit 'g', but" in error["detail"]
    with pytest.raises(ServiceError, match="weight"):
        model.call("predict", b"weight\n5 g\n", "text/csv", task="a")


def test_covariances_are_rejected(client, http, model, tmp_path):
    np.savez(tmp_path / "c.npz", **{"north/C": np.eye(5)})
    covariances = client.upload(tmp_path / "c.npz")
    body = rejected(http.post(URL, json=spec_of(model, covariances)), 422, "invalid-data")
    assert body["errors"][0]["task"] == "north"
    assert "has covariances" in body["detail"]


def test_labels_of_two_kinds_in_one_file_are_rejected(client, http):
    rng = np.random.default_rng(1)
    X = {name: rng.standard_normal((12, 3)) for name in "ab"}
    y = {"a": np.tile(["x", "y"], 6), "b": np.tile([1, 2], 6)}
    dataset = client.upload(X, y, name="two kinds", target_kind="classes")
    model = client.train(dataset, "lda-rt", model="two-kinds", d=1).wait()
    spec = spec_of(model, dataset, method="predict")
    body = rejected(http.post(URL, json=spec), 422, "invalid-data")
    assert body["errors"][0]["pointer"] == "/tasks"
    for name in "ab":
        outputs = client.infer(model, "predict", dataset, tasks={name: name}).wait()
        assert outputs.report["rows"] == 12


def test_an_overflow_fails_the_job_with_its_task_and_stores_nothing(client, dataset):
    model = client.train(dataset, "rmt-pca", model="overflows", k=2).wait()
    X = np.ones((BLOCK_ROWS + 5, 5))
    X[-1] = 1.7e308
    before = len(list(client.datasets))
    job = client.infer(model, "transform", client.upload({"north": X}, name="huge"))
    with pytest.raises(JobFailed, match="overflows"):
        job.wait()
    assert (job.info["error"]["code"], job.info["error"]["task"]) == ("invalid-data", "north")
    assert (job.info["output"], job.info["result"]) == (None, None)
    assert len(list(client.datasets)) == before + 1


@pytest.mark.slow
def test_a_missing_value_is_named_by_its_row_in_the_dataset(client, dataset):
    model = client.train(dataset, "rmt-pca", model="no-gaps", k=2).wait()
    X = np.ones((BLOCK_ROWS + 5, 5))
    X[-2, 1] = np.nan
    job = client.infer(model, "transform", client.upload({"north": X}, name="a gap"))
    with pytest.raises(JobFailed, match=f"task 'north', row {BLOCK_ROWS + 3}, column 1"):
        job.wait()


def test_validate_only_creates_nothing_and_returns_the_inference(http, model, source, rows):
    before = job_ids(http)
    response = http.post(URL, params={"validate_only": True}, json=spec_of(model, source))
    assert (response.status_code, response.json()) == (
        200,
        {
            "model": "shared",
            "version": 1,
            "method": "transform",
            "tasks": {name: name for name in rows},
            "new_tasks": [],
            "n_rows": sum(map(len, rows.values())),
            "makes_dataset": True,
        },
    )
    assert job_ids(http) == before


@pytest.mark.sql
def test_an_idempotency_key_makes_one_job_and_is_rejected_for_another(http, model, source):
    headers = {"Idempotency-Key": "batch-key"}
    first, again = (http.post(URL, json=spec_of(model, source), headers=headers) for _ in range(2))
    assert (first.status_code, again.status_code) == (202, 202)
    assert first.json()["id"] == again.json()["id"]
    assert first.headers["location"] == f"/v1/jobs/{first.json()['id']}"
    other = spec_of(model, source, priority=1)
    rejected(http.post(URL, json=other, headers=headers), 422, "key-reused")


# --- outputs as a resource -----------------------------------------------------------------------


@pytest.mark.sql
def test_outputs_have_a_tag_and_can_be_deleted(client, http, model, source, tmp_path):
    outputs = client.infer(model, "transform", source).wait()
    path = outputs.info["output"]
    response = http.get(path)
    kept = outputs.report["output"]
    assert response.headers["etag"] == f'"{kept["sha256"]}"'
    assert len(response.content) == kept["size_bytes"] == int(response.headers["content-length"])
    assert hashlib.sha256(response.content).hexdigest() == kept["sha256"]
    tag = {"If-None-Match": response.headers["etag"]}
    assert http.get(path, headers=tag).status_code == 304
    rejected(http.delete(path, headers={"If-Match": '"x"'}), 412, "precondition-failed")
    outputs.delete()
    rejected(http.get(path), 404, "not-found")
    rejected(http.delete(path), 404, "not-found")
    with pytest.raises(ServiceError, match="has no outputs"):
        outputs.download(tmp_path / "deleted.parquet")
    assert list(tmp_path.iterdir()) == []
    job = http.get(f"/v1/jobs/{outputs.info['id']}").json()
    assert (job["state"], job["output"], job["result"]) == ("succeeded", None, outputs.report)


def test_a_job_that_trains_has_no_outputs(http, model):
    rejected(http.get(f"/v1/jobs/{model.info['lineage']['job_id']}/output"), 404, "not-found")
    rejected(http.get("/v1/jobs/job_unknown/output"), 404, "not-found")


# --- memory --------------------------------------------------------------------------------------

MEASURE = """
import json, sys
from pathlib import Path
import numpy as np
from service.jobs.worker.inference import infer

def peak_kb():  # of this program only; getrusage counts the process that started it too
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])

request = json.loads(Path(sys.argv[1]).read_text())
before = peak_kb()
result = infer(request, on_step=lambda step: None, is_cancelled=lambda: False)
after = peak_kb()
print(json.dumps({"rows": result["rows"], "growth_mb": (after - before) / 1024}))
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_dataset(model, tmp_path):
    """300 MB of input and 240 MB of output need the memory of blocks and buffers only."""
    n_rows, width = 7_500_000, 5
    manifest = {
        "tasks": [{"name": "north", "n_samples": n_rows, "n_features": width, "target": "none"}],
        "feature_names": None,
    }
    source = tmp_path / "source"
    layout = Layout("north/X", np.dtype("<f8"), (n_rows, width))
    block = np.random.default_rng(0).standard_normal((75_000, width))
    with DatasetWriter(source, [layout]) as writer:
        for _ in range(100):
            writer.write(block)
        writer.finish()
    plan = {
        "method": "transform",
        "tasks": {"north": "north"},
        "columns": None,
        "makes_dataset": True,
        "threads": 1,
        **dict.fromkeys(("model", "version", "dataset_id")),
    }
    request = {
        "plan": plan,
        "manifest": manifest,
        "dataset": str(source),
        "base": str(model.download(tmp_path / "model.safetensors")),
        "artifact": str(tmp_path / "out.parquet"),
        "content": str(tmp_path / "content"),
        "max_bytes": 2**30,
    }
    (tmp_path / "request.json").write_text(json.dumps(request))
    command = [sys.executable, "-c", MEASURE, str(tmp_path / "request.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found = json.loads(done.stdout)
    assert found["rows"] == n_rows
    assert found["growth_mb"] < MAX_GROWTH_MB
    request["max_bytes"] = 1000
    with pytest.raises(
        InvalidData, match=f"take {n_rows * 2 * 8} bytes; the maximum for a dataset is 1000"
    ):
        infer(request, on_step=lambda _: None, is_cancelled=lambda: False)


#: A table of which parts look different: codes of digits alone, days below 13, an empty column.
TRAINING = """task,code,sex,seen,flag,age,y
a,A1,F,31/01/2026,yes,61,1.5
a,2,M,02/03/2026,no,NA,2.5
a,03,,05/06/2026,unclear,52,3
a,B2,F,07/08/2026,no,43,5.5
b,A1,M,30/01/2026,yes,34,4
b,C3,F,02/02/2026,unclear,25,6.5
b,A1,M,01/12/2026,no,36,7
b,2.50,M,04/12/2026,yes,47,1
"""
HEADER = TRAINING.partition("\n")[0]
PARTS = {
    "codes of digits, days below 13 and no sex": (
        "a,2,,02/03/2026,no,50",
        "b,2.50,,01/12/2026,no,4",
    ),
    "booleans": ("a,A1,F,31/01/2026,yes,50", "b,B2,M,02/03/2026,no,51"),
    "one row": ("a,2,F,07/08/2026,unclear,NA",),
    "numbers that are texts": ("a,2.50,F,,yes,50", "a,2,M,,no,51"),
    "unknown values": ("a,77,F,,no,50", "b,88,X,,no,51", "b,77,M,,no,51"),
}
UNKNOWN = {"code": ["77", "88"], "sex": ["X"]}


@pytest.fixture(scope="module")
def mixed(client, tmp_path_factory):
    path = tmp_path_factory.mktemp("mixed") / "training.csv"
    path.write_text(TRAINING)
    dataset = client.upload(path, target_column="y")
    return client.train(dataset, "ridge", model="mixed").wait()


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.quick(2)
def test_a_part_of_a_table_is_read_by_the_columns_of_the_model(client, http, mixed, tmp_path, name):
    path = tmp_path / "part.csv"
    lines = [HEADER.removesuffix(",y"), *PARTS[name]]
    path.write_text("\n".join(lines) + "\n")
    has_unknown = name == "unknown values"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        expected = mixed.call("predict", path.read_bytes(), "text/csv", task=None)
        job = client.infer(mixed, "predict", client.upload(path, name=name))
        outputs = job.wait()
    found = np.concatenate([*read(outputs, tmp_path).values()])
    assert found.tolist() == expected.tolist()
    notes = [str(w.message) for w in caught if w.category is UnknownCategoriesWarning]
    assert notes == 2 * [str(UnknownCategoriesWarning.of(UNKNOWN))] * has_unknown
    page = html.unescape(http.get(f"/jobs/{job.id}").text)
    assert (str(UnknownCategoriesWarning.of(UNKNOWN)) in page) == has_unknown
    entries = outputs.report["unknown_categories"]
    assert {entry["column"]: entry["values"] for entry in entries} == (
        UNKNOWN if has_unknown else {}
    )
    assert [entry["n_rows"] for entry in entries] == [3, 1] * has_unknown


def test_the_command_names_unknown_values(command, service, mixed, tmp_path):
    lines = [HEADER.removesuffix(",y"), *PARTS["unknown values"]]
    (tmp_path / "part.csv").write_text("\n".join(lines) + "\n")
    end = command("infer", mixed.name, "predict", "part.csv", "--url", service.url, cwd=tmp_path)
    assert end.returncode == 0, end
    assert all(repr(value) in end.stderr for value in ("77", "88", "X"))


def test_a_value_that_the_model_cannot_read_is_named_with_its_column(client, mixed, tmp_path):
    path = tmp_path / "part.csv"
    path.write_text(f"{HEADER.removesuffix(',y')}\na,2,F,someday,no,old\n")
    with pytest.raises(JobFailed, match="column 'seen' is of the kind category; expected date"):
        client.infer(mixed, "predict", client.upload(path)).wait()
