"""Columns of rows that the model does not have: left out in training, or never seen."""

import json

import httpx
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from sibling import Ridge, ServiceError
from tests.written import written

N = 40
OPTIONS = {
    "task_column": "shop",
    "target_column": "sales",
    "weight_column": "w",
    "group_column": "g",
    "ignore_column": ["code"],
}
ARROW = "application/vnd.apache.arrow.stream"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PARQUET = "application/vnd.apache.parquet"


def shops():
    """Return a table with columns that an upload leaves out: by options, or for their values."""
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "shop": np.repeat(["a", "b"], N // 2),
            "area": rng.normal(50, 10, N).round(2),
            "kind": rng.choice(["city", "land"], N),
            "sales": rng.normal(size=N).round(3),
            "w": rng.integers(1, 4, N),
            "g": [f"g{i % 8}" for i in range(N)],
            "code": rng.integers(0, 9, N),
            "remark": [f"text {i}" for i in range(N)],
            "empty": np.full(N, np.nan),
        }
    )


@pytest.fixture(scope="module")
def trained(client, tmp_path_factory):
    """Return a model, and its predictions for the rows without any other column."""
    path = tmp_path_factory.mktemp("extra") / "shops.csv"
    path.write_text(shops().to_csv())
    model = client.train(client.upload(path, **OPTIONS), "ridge", model="extra").wait()
    return model, model.predict(shops()[["shop", "area", "kind"]])


def records_of(frame):
    return json.loads(frame.to_json(orient="records"))


def columns_of(frame):
    rows = json.loads(frame.to_json(orient="split"))
    return json.dumps({"columns": rows["columns"], "inputs": rows["data"]}).encode()


def workbook_of(frame):
    return written(frame.to_excel, index=False)


BODIES = {
    "CSV": (lambda frame: frame.to_csv(index=False).encode(), "text/csv"),
    "Parquet": (lambda frame: frame.to_parquet(index=False), PARQUET),
    "Excel": (workbook_of, XLSX),
    "JSON records": (
        lambda frame: json.dumps({"inputs": records_of(frame)}).encode(),
        "application/json",
    ),
    "JSON columns": (columns_of, "application/json"),
}


def by_http(body, media_type):
    def predict(model, frame, tmp_path):
        del tmp_path
        return model.call("predict", body(frame), media_type, task=None)

    return predict


def by_frame(model, frame, tmp_path):
    del tmp_path
    return model.predict(frame)


def by_records(model, frame, tmp_path):
    del tmp_path
    return model.predict(records_of(frame))


def by_tensors(model, frame, tmp_path):
    """Return predictions over V2, with an input for each column."""
    del tmp_path
    inputs = [
        {
            "name": name,
            "shape": [len(frame)],
            "datatype": "FP64" if frame[name].dtype.kind in "if" else "BYTES",
            "data": json.loads(frame[name].to_json(orient="values")),
        }
        for name in frame.columns
    ]
    url = f"{model._http._url}/v2/models/{model.name}.predict/infer"
    response = httpx.post(url, json={"inputs": inputs}, timeout=60)
    if response.status_code != 200:
        raise ServiceError.from_response(response)
    return np.array(response.json()["outputs"][0]["data"])


WAYS = {name: by_http(*how) for name, how in BODIES.items()} | {
    "frame of the client": by_frame,
    "records of the client": by_records,
    "V2": by_tensors,
}


@pytest.mark.parametrize("way", WAYS)
def test_columns_that_training_left_out_are_ignored(trained, tmp_path, way):
    model, expected = trained
    outputs = WAYS[way](model, shops(), tmp_path)
    np.testing.assert_allclose(outputs, expected, rtol=1e-12)


@pytest.mark.parametrize("way", WAYS)
def test_a_column_that_training_never_saw_is_refused(trained, tmp_path, way):
    model, _ = trained
    with pytest.raises(ServiceError) as caught:
        WAYS[way](model, shops().assign(rent=1.0), tmp_path)
    (error,) = caught.value.errors
    assert (caught.value.code, error["column"]) == ("invalid-data", "rent")


def test_tasks_and_columns_that_training_left_out_do_not_show_the_decimal_separator(
    client, tmp_path
):
    path = tmp_path / "shops.csv"
    rows = [f"{i % 2}.1;{i}.250,5;{i}.2;{i}" for i in range(1, 9)]
    path.write_text("\n".join(["shop;area;version;sales", *rows]))
    options = {"task_column": "shop", "target_column": "sales", "ignore_column": "version"}
    model = client.train(client.upload(path, **options), "ridge", model="versions").wait()
    (found,) = model.call("predict", b"shop;area;version\n1.1;1.250;1.2\n", "text/csv", task=None)
    assert found == model.predict([[1250]], task="1.1")


def test_a_stored_dataset_may_have_columns_that_training_left_out(client, trained, tmp_path):
    model, expected = trained
    rows = shops().groupby("shop").head(6)  # so few that the remarks are a category
    dataset = client.upload(
        rows[["shop", "area", "kind", "remark"]], name="remarks", task_column="shop"
    )
    outputs = client.infer(model, "predict", dataset).wait()
    table = pq.read_table(outputs.download(tmp_path / "outputs.parquet"))
    np.testing.assert_allclose(table["outputs"].to_numpy(), expected[rows.index], rtol=1e-12)


def test_an_added_task_may_have_columns_that_training_left_out(client):
    options = {"task_column": "shop", "target_column": "sales"}
    used = shops()[["shop", "sales", "area", "kind", "remark"]]
    model = client.train(client.upload(used, name="shops", **options), "mtfl", model="to-adapt")
    new = used.head(12).assign(shop="c")  # so few that the remarks are a category
    dataset = client.upload(new, name="new shop", **options)
    adapted = client.adapt(model.wait(), dataset).wait()
    assert adapted.tasks == ("a", "b", "c")
    assert len(adapted.predict(new)) == 12


def fitted(frame, *names):
    """Return an estimator for some columns, with named targets and weights."""
    return Ridge().fit(
        frame[[*names]], frame["sales"], tasks=frame["shop"], sample_weight=frame["w"]
    )


FRAMES = {"numbers": ["area"], "mixed": ["area", "kind", "remark", "empty"]}


@pytest.mark.filterwarnings("ignore::sibling.FitWarning", "ignore:X has feature names")
@pytest.mark.parametrize("kind", FRAMES)
def test_estimators_ignore_what_training_left_out_and_refuse_other_columns(tmp_path, kind):
    frame = shops()
    names = FRAMES[kind]
    used = frame[["shop", *names, "sales", "w"]]
    estimator = fitted(frame, *names)
    expected = estimator.predict(frame[names], tasks=frame["shop"])
    estimator.save(tmp_path / "model")
    for one in (estimator, Ridge.load(tmp_path / "model")):
        np.testing.assert_array_equal(one.predict(used), expected)
        with pytest.raises(ValueError, match=r"rent|2 features"):
            one.predict(used.assign(rent=1.0))


def test_a_downloaded_model_ignores_what_training_left_out(trained, tmp_path):
    model, expected = trained
    local = Ridge.load(model.download(tmp_path / "model"))
    np.testing.assert_allclose(local.predict(shops()), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="no column 'rent'"):
        local.predict(shops().assign(rent=1.0))
