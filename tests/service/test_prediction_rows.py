"""The rows of a file come back with their predictions, intervals or probabilities, and remarks."""

import datetime as dt
import io

import numpy as np
import openpyxl
import orjson
import pandas as pd
import pyarrow as pa
import pytest

from service.inference.formats.workbook import write_workbook
from service.inference.prediction_table import _EMPTY_SET, _inert, _set
from sibling.frames import table_bytes
from tests.service.test_pages import text_of
from tests.written import parquet_of, written

CSV = "text/csv"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def stays(n=6, rows=10):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"hospital": np.repeat([f"H{i}" for i in range(n)], rows)})
    frame["patient"] = [f"P-{i}" for i in range(len(frame))]
    frame["age"] = rng.integers(20, 90, len(frame)).astype(float)
    frame["ward"] = np.where(np.arange(len(frame)) % 2, "icu", "surgery")
    frame["days"] = 2 + 0.1 * frame.age + rng.normal(size=len(frame)).round(2)
    return frame


@pytest.fixture(scope="module")
def numbers(client):
    """A calibrated model of numbers."""
    data = client.upload(stays(), name="stays", task_column="hospital", target_column="days")
    return client.train(data, "mixed-model", model="predicted-rows", calibration=True).wait()


@pytest.fixture
def sent(http, numbers):
    """``sent(frame)``: the response to its rows as CSV, or to a body of another type."""

    def send(sent_rows, *, content_type=CSV, accept="application/json", model=numbers, **query):
        is_frame = isinstance(sent_rows, pd.DataFrame)
        body = sent_rows.to_csv(index=False).encode() if is_frame else sent_rows
        headers = {"Content-Type": content_type, "Accept": accept}
        path = f"/v1/models/{model.name}/versions/{model.version}/predictions"
        return http.post(path, params=query, content=body, headers=headers)

    return send


def new_rows():
    frame = stays().drop(columns="days").iloc[[3, 17, 40]].reset_index(drop=True)
    frame.loc[1, "ward"] = "martian"
    frame.loc[2, "hospital"] = "New Clinic"
    return frame


def test_rows_come_back_with_ids_predictions_intervals_and_remarks(sent, numbers):
    rows = new_rows()
    found = sent(rows, new_tasks="common", level=0.8).json()
    assert found["columns"] == [*rows.columns, "prediction", "low", "high", "remarks"]
    assert (found["n_rows"], found["n_given"], found["level"]) == (3, 4, 0.8)
    assert [row[1] for row in found["rows"]] == list(rows.patient)
    assert [row[-1] for row in found["rows"]] == ["", "unknown ward", "new hospital"]
    assert found["new_tasks"] == {"New Clinic": 1}
    assert found["unknown_categories"] == {"ward": ["martian"]}
    # calibrated on the hospitals that were trained, so that a new one has no interval
    assert [row[5] is None for row in found["rows"]] == [False, False, True]
    known = rows.iloc[[0]]
    (row,) = sent(known).json()["rows"]
    assert row[4] == numbers.predict(known)[0]
    np.testing.assert_array_equal(row[5:7], numbers.predict_interval(known)[0])
    wide, narrow = (sent(known, level=level).json()["rows"][0] for level in (0.9, 0.5))
    assert wide[5] < narrow[5] < narrow[6] < wide[6]


def test_the_downloads_have_all_rows_in_the_manner_of_the_file(sent, numbers, tmp_path):
    rows = pd.concat([new_rows().iloc[:2]] * 150, ignore_index=True).assign(ward="icu")
    shown = sent(rows, rows=100).json()
    assert (shown["n_rows"], len(shown["rows"])) == (300, 100)
    plain = sent(rows, accept=CSV)
    assert plain.headers["content-disposition"].endswith('"predicted-rows-predictions.csv"')
    table = pd.read_csv(io.StringIO(plain.text))
    assert list(table.patient) == list(rows.patient)
    np.testing.assert_allclose(table.prediction, numbers.predict(rows))
    # with a decimal comma, as it came
    text = rows.assign(age=rows.age + 0.5).to_csv(index=False, sep=";", decimal=",")
    comma = sent(text.encode(), accept=CSV)
    again = pd.read_csv(io.StringIO(comma.content.decode("utf-8-sig")), sep=";", decimal=",")
    assert again.prediction.dtype == again.age.dtype == float
    excel = sent(written(rows.to_excel, index=False), content_type=XLSX, accept=XLSX)
    book = pd.read_excel(io.BytesIO(excel.content), engine="calamine")
    assert list(book.columns) == [*rows.columns, "prediction", "low", "high", "remarks"]
    # whole numbers, shown with few digits
    np.testing.assert_allclose(book.prediction, table.prediction)
    cells = openpyxl.load_workbook(io.BytesIO(excel.content)).active[2][len(rows.columns) :]
    assert {cell.number_format for cell in cells[:3]} <= {"0.0", "0.00"}
    # numbers of a CSV are numbers in a workbook, and other texts stay
    excel = sent(text.encode(), accept=XLSX)
    book = pd.read_excel(io.BytesIO(excel.content), engine="calamine")
    np.testing.assert_allclose(book.age, rows.age + 0.5)
    assert list(book.ward) == list(rows.ward)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    target = numbers.predictions(tmp_path / "rows.csv", tmp_path / "out.xlsx")
    assert len(pd.read_excel(target, engine="calamine")) == 300


@pytest.mark.slow
def test_classes_have_a_probability_and_sets_in_words(client, sent):
    frame = stays().assign(days=lambda rows: np.where(rows.age > 55, "long", "short"))
    data = client.upload(frame, name="classes", task_column="hospital", target_column="days")
    model = client.train(
        data, "logistic-regression", model="predicted-classes", form="pooled", calibration=True
    ).wait()
    rows = new_rows().iloc[[0]]
    found = sent(rows, model=model).json()
    assert found["columns"][4:] == ["prediction", "probability", "set", "remarks"]
    label, probability, inside = found["rows"][0][4:7]
    assert probability == pytest.approx(model.predict_proba(rows).max())
    assert label in inside
    (new,) = sent(new_rows().iloc[[2]], model=model, new_tasks="common").json()["rows"]
    assert new[5:] == [None, None, "new hospital"]
    assert _set([0, 0], ("a", "b")) == _EMPTY_SET
    assert _set([True, True], ("a", "b")) == "a or b"


@pytest.mark.parametrize("form", ["csv", "records", "parquet"])
def test_a_column_that_is_missing_counts_as_unknown_and_is_named(sent, form):
    rows = new_rows().iloc[[0, 1]].drop(columns="patient")
    without, empty = rows.drop(columns="age"), rows.assign(age=np.nan)

    def found(frame):
        if form == "csv":
            return sent(frame).json()
        if form == "records":
            body = orjson.dumps(
                {"inputs": frame.to_dict("records")}, option=orjson.OPT_SERIALIZE_NUMPY
            )
            return sent(body, content_type="application/json").json()
        file = io.BytesIO()
        frame.to_parquet(file, index=False)
        return sent(file.getvalue(), content_type="application/vnd.apache.parquet").json()

    short, full = found(without), found(empty)
    assert (short["missing_columns"], full["missing_columns"]) == (["age"], [])
    assert short["columns"] == ["hospital", "ward", "prediction", "low", "high", "remarks"]
    assert [row[2:] for row in short["rows"]] == [row[3:] for row in full["rows"]]


def test_a_column_that_may_be_a_missing_one_by_another_name_is_refused(sent):
    refused = sent(new_rows().iloc[[0]].rename(columns={"age": "years"}))
    assert (refused.status_code, refused.json()["errors"][0]["column"]) == (422, "age")
    refused = sent(new_rows().iloc[[0]].drop(columns=["age", "ward"]))
    assert refused.status_code == 422


def test_a_model_that_takes_no_missing_values_refuses_a_file_without_a_column(client, sent):
    frame = stays().drop(columns=["ward", "patient"]).assign(weight=lambda rows: rows.age % 7)
    data = client.upload(frame, name="plain", task_column="hospital", target_column="days")
    model = client.train(data, "ridge", model="predicted-plain").wait()
    refused = sent(frame.drop(columns=["days", "age"]).iloc[[0]], model=model)
    assert (refused.status_code, refused.json()["errors"][0]["column"]) == (422, "age")


def test_a_file_without_groups_says_so(sent):
    rows = new_rows().iloc[[0]]
    refused = sent(rows.drop(columns="hospital"))
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["parameter"] == "query:task"
    known = sent(rows.drop(columns="hospital"), task="H1").json()
    assert known["rows"][0][0] == "H1"


def test_a_model_that_does_not_predict_says_so(http, model):
    refused = http.post(f"/v1/models/{model.name}/predictions?task=north", json={"inputs": [[0]]})
    assert refused.json()["code"] == "unsupported-method"


def test_a_column_of_the_file_keeps_its_name(sent):
    found = sent(new_rows().iloc[[0]].assign(prediction="mine").drop(columns="patient"))
    # the model does not know the column
    assert found.status_code == 422
    found = sent(new_rows().iloc[[0]].rename(columns={"patient": "days"})).json()
    assert found["columns"][1] == "days"


def test_workbooks_have_any_text_and_only_finite_numbers():
    columns = {
        "a <&> b": ["x\x00\x1f", "\N{GRINNING FACE}"],
        "n": [float("nan"), 2.5],
        "b": [True, None],
        "f": ["=1+1", "-x"],
    }
    book = pd.read_excel(io.BytesIO(write_workbook(columns)), engine="calamine")
    assert list(book.columns) == ["a <&> b", "n", "b", "f"]
    assert list(book["f"]) == ["=1+1", "-x"]
    assert list(book["a <&> b"]) == ["x", "\N{GRINNING FACE}"]
    assert [str(value) for value in book["n"]] == ["nan", "2.5"]


def test_texts_that_begin_as_a_formula_are_inert_in_csv():
    values = ["=1+1", "@x", "-2.5", "plain", 3.5, None]
    assert _inert(values) == ["'=1+1", "'@x", "-2.5", "plain", 3.5, None]


def test_the_page_to_predict_has_a_field_for_each_column(http, numbers):
    page = http.get(f"/models/{numbers.name}/{numbers.version}/predict")
    said = text_of(page)
    for words in ("Predict days", "its column hospital", "90 % of new rows", "surgery"):
        assert words in said
    ages = stays().age
    assert f"{ages.min():.0f} to {ages.max():.0f} in the training data" in said
    link = f'href="/models/{numbers.name}/{numbers.version}/predict"'
    assert link in http.get(f"/models/{numbers.name}/{numbers.version}").text


def test_only_models_that_predict_lead_to_the_page(http, model):
    assert '/predict"' not in http.get(f"/models/{model.name}/1").text


@pytest.mark.parametrize("form", ["records", "by_task", "lines", "table", "parquet", "arrow"])
def test_every_format_with_names_gives_back_the_sent_columns(sent, form):
    rows = new_rows()
    records = rows.to_dict("records")
    plain = rows.drop(columns="hospital").to_dict("records")
    arrow = pa.Table.from_pandas(rows, preserve_index=False)
    body, content_type = {
        "records": (orjson.dumps(records), "application/json"),
        "by_task": (
            orjson.dumps({task: [row] for task, row in zip(rows.hospital, plain, strict=True)}),
            "application/json",
        ),
        "lines": (b"\n".join(map(orjson.dumps, records)), "application/x-ndjson"),
        "table": (
            orjson.dumps({"columns": list(rows), "inputs": rows.to_numpy().tolist()}),
            "application/json",
        ),
        "parquet": (parquet_of(arrow), "application/vnd.apache.parquet"),
        "arrow": (table_bytes(arrow), "application/vnd.apache.arrow.stream"),
    }[form]
    found = sent(body, content_type=content_type, new_tasks="common").json()
    assert found["columns"] == [*rows.columns, "prediction", "low", "high", "remarks"], found
    assert [row[:4] for row in found["rows"]] == rows.to_numpy().tolist()
    assert [row[-1] for row in found["rows"]] == ["", "unknown ward", "new hospital"]
    # rows of tasks that were trained have intervals beside one that was not
    assert [row[5] is None for row in found["rows"]] == [False, False, True]


def test_values_far_outside_the_training_rows_have_a_remark(sent):
    rows = new_rows().iloc[[0, 0, 0]].assign(age=[500.0, 95.0, -200.0])
    ages = stays().age
    for body, kind in (
        (rows, CSV),
        (orjson.dumps(rows.to_dict("records")), "application/json"),
    ):
        found = sent(body, content_type=kind).json()
        remark = f"age is far outside {ages.min():g} to {ages.max():g}"
        assert [row[-1] for row in found["rows"]] == [remark, "", remark]
        assert found["far_values"] == {"age": [ages.min(), ages.max()]}
    assert sent(new_rows().iloc[[0]]).json()["far_values"] == {}


def test_an_empty_body_is_named_as_such(http, numbers):
    path = f"/v1/models/{numbers.name}/versions/{numbers.version}"
    for route in ("predict", "predictions"):
        for kind in (CSV, XLSX, "application/vnd.apache.parquet"):
            for body in (b"", b"\r\n"):
                refused = http.post(f"{path}/{route}", content=body, headers={"Content-Type": kind})
                assert (refused.status_code, refused.json()["code"]) == (400, "malformed-body")
                assert "the body is empty" in refused.json()["detail"]


def test_dates_stay_dates_in_a_workbook():
    day, zoned = (
        dt.date(2026, 3, 1),
        dt.datetime(2026, 3, 1, 14, 30, tzinfo=dt.UTC),
    )
    moment = zoned.replace(tzinfo=None)
    columns = {"day": [day, None], "moment": [moment, moment], "zoned": [zoned, None]}
    book = pd.read_excel(io.BytesIO(write_workbook(columns)), engine="calamine")
    assert book["day"][0] == pd.Timestamp(day)
    assert list(book["moment"]) == [moment, moment]
    assert book["zoned"][0] == moment
    old = dt.date(1700, 1, 1)  # which Excel does not know
    assert write_workbook({"day": [old]})


@pytest.mark.slow
def test_a_workbook_with_dates_comes_back_with_dates(client, sent):
    frame = stays().assign(
        seen=lambda rows: pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(len(rows)), "D")
    )
    data = client.upload(frame, name="dated", task_column="hospital", target_column="days")
    model = client.train(data, "ridge", model="predicted-dates").wait()
    rows = frame.drop(columns="days").iloc[:2]
    found = sent(written(rows.to_excel, index=False), content_type=XLSX, accept=XLSX, model=model)
    again = pd.read_excel(io.BytesIO(found.content), engine="calamine")
    assert list(again["seen"]) == list(rows["seen"])
