"""Tables with categories, dates and gaps: uploaded raw, trained by default, called by name."""

from datetime import date
from decimal import Decimal

import jsonschema_rs
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from service.errors.problems import Problem
from service.inference.formats import reader_of
from service.inference.task_column import TaskSource
from sibling import Client, JobFailed, ServiceError, UnknownCategoriesWarning
from tests.written import written

PARQUET = "application/vnd.apache.parquet"
STREAM = "application/vnd.apache.arrow.stream"


def patients(n=120, seed=0):
    """Return a table of two hospitals, whose columns have several kinds and gaps."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(
        {
            "task": rng.choice(["north", "south"], n),
            "age": rng.integers(20, 90, n).astype(float),
            "sex": rng.choice(["F", "M"], n),
            "smokes": pd.array(rng.random(n) < 0.4, dtype="boolean"),
            "seen": pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 300, n), "D"),
            "note": [f"text {i}" for i in range(n)],
        }
    )
    table["y"] = table["age"] / 10 + (table["sex"] == "F") * 3.0 + rng.normal(0, 0.2, n)
    table.loc[rng.random(n) < 0.1, "age"] = np.nan
    table.loc[rng.random(n) < 0.1, "sex"] = None
    table.loc[rng.random(n) < 0.1, "smokes"] = pd.NA
    return table


def as_parquet(table):
    return table.to_parquet(index=False)


def as_feather(table):
    return written(table.to_feather)


def as_stream(table):
    sink = pa.BufferOutputStream()
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    with pa.ipc.new_stream(sink, arrow.schema) as writer:
        writer.write_table(arrow)
    return sink.getvalue().to_pybytes()


@pytest.fixture(scope="module")
def http(service):
    import httpx

    with httpx.Client(base_url=service.url, timeout=120) as client:
        yield client


def upload(http, body, media_type=PARQUET, **query):
    params = {"name": "patients", "target_column": "y", **query}
    response = http.post(
        "/v1/datasets", params=params, content=body, headers={"Content-Type": media_type}
    )
    assert response.status_code in (200, 201, 202), response.text
    return http.get(f"/v1/datasets/{response.json()['id']}", params={"wait": 60}).json()


def train(http, dataset, model, **spec):
    spec = {"dataset_id": dataset["id"], "algorithm": "fmtl", "model": model, **spec}
    response = http.post("/v1/jobs", json=spec)
    assert response.status_code in (200, 201, 202), response.text
    job = response.json()
    while not job["is_final"]:
        job = http.get(f"/v1/jobs/{job['id']}", params={"wait": 30}).json()
    return job


@pytest.fixture(scope="module")
def model(http):
    """A model of a mixed table, trained without any option."""
    job = train(http, upload(http, as_parquet(patients())), "mixed")
    assert job["state"] == "succeeded", job
    return http.get("/v1/models/mixed").json()


def call(http, body, media_type="application/json", *, method="predict", name="mixed", **params):
    if media_type == "application/json":
        return http.post(f"/v1/models/{name}/{method}", json=body)
    headers = {"Content-Type": media_type, "Accept": "application/json"}
    return http.post(f"/v1/models/{name}/{method}", content=body, headers=headers, params=params)


RECORD = {"age": 61.0, "sex": "F", "smokes": True, "seen": "2026-03-01"}


@pytest.mark.parametrize(
    ("write", "media_type"),
    [
        (as_parquet, PARQUET),
        (as_feather, "application/vnd.apache.arrow.file"),
        (as_stream, STREAM),
    ],
)
def test_every_format_has_the_same_columns(http, write, media_type):
    dataset = upload(http, write(patients(seed=3)), media_type)
    assert dataset["state"] == "ready", dataset
    manifest = http.get(f"/v1/datasets/{dataset['id']}/manifest").json()
    assert [(c["name"], c["kind"], c["levels"]) for c in manifest["columns"]] == [
        ("age", "number", None),
        ("sex", "category", ["F", "M"]),
        ("smokes", "boolean", None),
        ("seen", "date", None),
    ]
    assert any("'note' has 120 different texts" in text for text in dataset["warnings"])
    n_missing = sum(sum(task["features"]["missing"]) for task in manifest["tasks"])
    assert n_missing == patients(seed=3)[["age", "sex", "smokes"]].isna().sum().sum()


def test_the_model_says_how_its_columns_were_prepared(model):
    (part,) = model["preparation"]["parts"]
    assert part["prepared"] == [
        "age", "age is missing", "sex = F", "sex = M", "sex is missing",
        "smokes", "smokes is missing", "seen",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("model")
def test_records_and_tables_in_any_order_have_the_same_outputs(http):
    rows = patients(seed=5).drop(columns=["task", "y", "note"])
    records = [
        {
            "age": None if pd.isna(r.age) else r.age,
            "sex": None if pd.isna(r.sex) else r.sex,
            "smokes": None if pd.isna(r.smokes) else bool(r.smokes),
            "seen": r.seen.isoformat(),
        }
        for r in rows.itertuples()
    ]
    expected = call(http, {"task": "north", "inputs": records})
    assert expected.status_code == 200, expected.text
    outputs = expected.json()["outputs"]
    assert np.std(outputs) > 0.5
    lists = [list(record.values()) for record in records]
    shuffled = rows[["seen", "sex", "age", "smokes"]]
    answers = [
        call(http, {"task": "north", "inputs": lists}),
        call(http, as_parquet(shuffled), PARQUET, task="north"),
        call(http, as_stream(shuffled), STREAM, task="north"),
        call(http, shuffled.to_csv(index=False), "text/csv", task="north"),
    ]
    for answer in answers:
        assert answer.status_code == 200, answer.text
        assert answer.json()["outputs"] == outputs
    document = http.get("/openapi.json").json()
    operation = document["paths"]["/v1/models/{name}/predict"]["post"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    schema = {**schema, "components": document["components"]}
    for inputs in (records, lists):
        jsonschema_rs.validate(schema, {"task": "north", "inputs": inputs})


DIALECTS = {
    "spreadsheet": {"sep": ";", "decimal": ",", "na_rep": "NA"},
    "tabs": {"sep": "\t", "na_rep": "null"},
    "bars": {"sep": "|", "na_rep": "?", "lineterminator": "\r\n"},
}


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "windows-1252"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_rows_in_every_dialect_of_uploads_have_the_same_outputs(http, dialect, encoding):
    rows = patients(seed=5).drop(columns=["y"])
    rows["note"] = "Zürich"  # the model ignores it, but it has to be decoded
    expected = call(http, as_parquet(rows), PARQUET).json()["outputs"]
    text = rows.to_csv(index=False, **DIALECTS[dialect])
    answer = call(http, text.encode(encoding), "text/csv")
    assert answer.status_code == 200, answer.text
    assert answer.json()["outputs"] == expected


@pytest.mark.usefixtures("model")
def test_a_cell_in_another_dialect_than_the_rest_is_named(http):
    lines = ["age;sex;smokes;seen", "61,5;F;true;2026-03-01", "1.234;F;true;2026-03-01"]
    body = "\n".join([*lines, lines[1]])
    answer = call(http, body.encode(), "text/csv", task="north")
    assert answer.status_code == 422
    words = "row 1, column 'age': expected a number with decimal ',', got '1.234'"
    assert words in answer.json()["detail"]


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("content_type", "status"),
    [
        ("text/csv; charset=utf-16", 200),
        ("text/csv; charset=utf-8", 400),
        ("text/csv; charset=runes", 415),
        ("text/csv; charset=hex", 415),
        ("text/csv; charset=undefined", 415),
    ],
)
def test_a_declared_charset_is_used(http, content_type, status):
    body = "age;sex;smokes;seen\n61,5;F;true;2026-03-01\n".encode("utf-16")
    answer = call(http, body, content_type, task="north")
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize("kind", ["csv", "tab-separated-values"])
def test_the_parameters_of_a_table_count_for_each_delimiter(kind):
    read, _ = reader_of(f"text/{kind}; charset=windows-1250; header=absent")
    body = "Łódź\t1\nŁódź\t2\n".encode("windows-1250")
    rows = read(body, TaskSource("north", "task", lambda _: False)).rows
    assert (rows.names, rows.columns) == (None, [["Łódź", "Łódź"], ["1", "2"]])


@pytest.mark.parametrize("charset", ["punycode", "utf-7", "unicode_escape"])
def test_text_that_is_not_of_its_charset_is_refused(charset):
    read, _ = reader_of(f"text/csv; charset={charset}")
    with pytest.raises(Problem, match="invalid"):
        read(b"a,b\n+2AA-\\ud800,1\n", TaskSource("north", "task", lambda _: False))


@pytest.mark.usefixtures("model")
def test_the_model_has_learned_from_numbers_and_categories(http):
    records = [RECORD, RECORD | {"age": 81.0}, RECORD | {"sex": "M"}]
    young, old, man = call(http, {"task": "south", "inputs": records}).json()["outputs"]
    assert 1 < old - young < 3
    assert 1.5 < young - man < 4


@pytest.mark.usefixtures("model")
def test_an_unknown_value_of_a_category_is_like_no_other(http):
    answer = call(http, {"task": "north", "inputs": [RECORD | {"sex": "X"}]})
    assert answer.status_code == 200, answer.text


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"age": "sixty"}, "row 0, column 'age': expected a number, got 'sixty'"),
        ({"age": True}, "row 0, column 'age': expected a number, got true"),
        ({"smokes": "maybe"}, "row 0, column 'smokes': expected true or false, got 'maybe'"),
        ({"seen": "soon"}, "row 0, column 'seen': expected a date such as 2026-01-31, got 'soon'"),
        ({"sex": [1]}, "row 0, column 'sex': expected text, got [1]"),
        ({"size": 3}, "there is no column 'size'"),
        ({"sex": ...}, "the column 'sex' is missing; write null for a missing value"),
    ],
)
def test_a_wrong_value_or_column_is_named(http, change, words):
    record = {name: value for name, value in (RECORD | change).items() if value is not ...}
    answer = call(http, {"task": "north", "inputs": [record]})
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
    is_missing = change == {"sex": ...}
    assert ("write null" in answer.json()["detail"]) == is_missing


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("media_type", ["application/json", "text/csv"])
def test_a_wrong_value_among_rows_of_several_tasks_has_the_task_of_its_row(http, media_type):
    records = [RECORD, RECORD | {"age": "sixty"}]
    body = {"task": ["north", "south"], "inputs": records}
    if media_type == "text/csv":
        lines = [",".join(map(str, record.values())) for record in records]
        body = "\n".join(["task," + ",".join(RECORD), f"north,{lines[0]}", f"south,{lines[1]}"])
    answer = call(http, body, media_type)
    assert answer.status_code == 422
    place = answer.json()["errors"][0]
    assert (place["task"], place["row"], place["column"]) == ("south", 1, "age")


@pytest.mark.usefixtures("model")
def test_a_new_task_may_have_other_values_of_a_category(http):
    table = patients(60, seed=8).assign(task="east")
    table["sex"] = table["sex"].replace({"F": "other"})
    spec = {"adapt": {"model": "mixed", "version": 1}}
    job = train(http, upload(http, as_parquet(table)), "mixed-east", **spec)
    assert job["state"] == "succeeded", job
    answer = call(http, {"task": "east", "inputs": [RECORD | {"sex": "M"}]}, name="mixed-east")
    assert np.isfinite(answer.json()["outputs"]).all()


@pytest.mark.slow
def test_searches_comparisons_and_evaluations_prepare_in_every_split(http):
    dataset = upload(http, as_parquet(patients(seed=6)))
    job = train(
        http,
        dataset,
        "studied",
        algorithm="mtfl",
        params={"grid": [0.1, 1.0]},
        evaluate=True,
        compare=True,
        preparation={"scale": "robust", "impute": "mean"},
    )
    assert job["state"] == "succeeded", job
    model = http.get("/v1/models/studied").json()
    assert model["preparation"]["recipe"]["scale"] == "robust"
    report = http.get("/v1/models/studied/versions/1/report")
    assert report.status_code == 200, report.text


@pytest.mark.parametrize(
    ("preparation", "words"),
    [
        ({"scale": "log"}, "preparation"),
        ({"orders": {"age": ["a"]}}, "no category 'age'"),
        ({"orders": {"sex": ["F"]}}, "lacks its value 'M'"),
    ],
)
def test_an_unsuitable_preparation_is_refused_at_submission(http, preparation, words):
    dataset = upload(http, as_parquet(patients(seed=6)))
    spec = {"dataset_id": dataset["id"], "algorithm": "ridge", "model": "none"}
    answer = http.post("/v1/jobs", json={**spec, "preparation": preparation})
    assert answer.status_code == 422
    assert words in answer.text


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
@pytest.mark.quick(1)
def test_frames_of_the_client_keep_their_kinds(service, library):
    table = patients(seed=11)
    as_frame = {
        "pandas": lambda frame: frame,
        "polars": pl.from_pandas,
        "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    }[library]
    parts = {task: part.reset_index(drop=True) for task, part in table.groupby("task")}
    rows = {task: as_frame(part.drop(columns=["task", "y"])) for task, part in parts.items()}
    targets = {task: part["y"].to_numpy() for task, part in parts.items()}
    with Client(service.url) as client:
        whole = client.upload(as_frame(table), target_column="y", name=f"whole {library}")
        split = client.upload(rows, targets, name=f"split {library}")
        assert sorted(whole.tasks) == sorted(split.tasks) == ["north", "south"]
        one = client.train(whole, "ridge", model=f"whole-{library}").wait()
        other = client.train(split, "ridge", model=f"split-{library}").wait()
        new = as_frame(patients(seed=12)[["seen", "sex", "age", "smokes"]])
        outputs = one.predict(new, task="south")
        assert np.std(outputs) > 0.5
        np.testing.assert_allclose(outputs, other.predict(new, task="south"), rtol=1e-9)


def test_the_client_takes_rows_of_several_tasks_with_their_task_and_gaps(client, model):
    remote = client.model(model["name"])
    table = patients(seed=12)[["task", "seen", "sex", "age", "smokes"]]
    expected = np.empty(len(table))
    for task in ("north", "south"):
        of_task = (table["task"] == task).to_numpy()
        expected[of_task] = remote.predict(table[of_task].drop(columns="task"), task=task)
    records = table.to_dict("records")
    assert table["age"].isna().any()
    assert table["smokes"].isna().any()
    np.testing.assert_array_equal(remote.predict(table), expected)
    np.testing.assert_array_equal(remote.predict(records), expected)
    with pytest.raises(ServiceError, match="expected the field 'task'"):
        remote.predict([RECORD])
    for infinite in (np.inf, np.float32(-np.inf)):
        given = [records[0], records[1] | {"age": infinite}]
        with pytest.raises(ValueError, match=r"row 1, column 'age': -?inf is not a finite number"):
            remote.predict(given)
    with pytest.raises(TypeError, match="leave task out and send a data frame with a column"):
        remote.predict(table.drop(columns="task"), task=table["task"].tolist())


@pytest.mark.slow
def test_named_levels_of_an_index_are_columns_of_one_frame(client, model):
    table = patients(seed=13)
    dataset = client.upload(table.set_index("task"), target_column="y", name="index")
    assert dataset.tasks == client.upload(table, target_column="y", name="columns").tasks
    both = client.upload(table.set_index(["task", "age"]), target_column="y", name="two levels")
    found = {column["name"] for column in client.preview(both)["tasks"][0]["columns"]}
    assert found == {"age", "sex", "smokes", "seen"}

    remote = client.model(model["name"])
    rows = table[["task", "seen", "sex", "age", "smokes"]]
    expected = remote.predict(rows)
    np.testing.assert_array_equal(remote.predict(rows.set_index("task")), expected)
    named = rows.rename_axis("row of the file")  # no column of the model
    np.testing.assert_array_equal(remote.predict(named), expected)


@pytest.mark.usefixtures("model")
def test_a_repeated_task_in_the_query_is_refused(http):
    csv = "age,sex,smokes,seen\n61,F,true,2026-03-01\n"
    answer = call(http, csv, "text/csv", task=["north", "south"])
    assert answer.status_code == 422
    assert "'task' is given 2 times" in answer.json()["detail"]


@pytest.mark.slow
@pytest.mark.usefixtures("model")
def test_a_batch_has_the_outputs_of_calls_also_with_other_values_of_a_category(
    service, http, tmp_path
):
    table = patients(seed=13)
    table["sex"] = table["sex"].replace({"F": "A", "M": "F"})  # the levels are A, F
    with Client(service.url) as client:
        dataset = client.upload(table.drop(columns="note"), target_column="y")
        with pytest.warns(UnknownCategoriesWarning, match="sex: 'A'"):
            outputs = client.infer(client.model("mixed"), "predict", dataset).wait()
        stored = pq.read_table(outputs.download(tmp_path / "outputs.parquet")).to_pandas()
    rows = table[table["task"] == "south"]
    named = rows[["age", "sex", "smokes", "seen"]]
    answer = call(http, as_parquet(named), PARQUET, task="south")
    assert stored.loc[stored["task"] == "south", "outputs"].tolist() == answer.json()["outputs"]


def test_a_model_of_numbers_refuses_other_kinds(service):
    rng = np.random.default_rng(0)
    with Client(service.url) as client:
        numbers = pd.DataFrame(rng.normal(size=(30, 2)), columns=["a", "b"])
        data = client.upload({"t": numbers}, {"t": rng.normal(size=30)})
        client.train(data, "fmtl", model="of-numbers").wait()
        mixed = numbers.assign(b=rng.choice(["x", "y"], 30))
        model = client.model("of-numbers")
        with pytest.raises(ServiceError, match="row 0, column 'b': expected a number, got"):
            model.predict(mixed, task="t")
        other = client.upload({"t": mixed, "u": mixed})
        job = client.infer(model, "predict", other, tasks={"t": "t"})
        with pytest.raises(JobFailed, match="column 'b' is of the kind category"):
            job.wait()


def test_columns_that_the_model_does_not_use_may_stay_in_the_rows(http, client):
    """Those of the uploaded table; in every format, and in any order."""
    table = patients().rename(columns={"task": "place"})
    dataset = client.upload(table, task_column="place", target_column="y", ignore_column=["smokes"])
    model = client.train(dataset, "ridge", model="unused-columns").wait()
    rows = table[["sex", "note", "seen", "y", "age", "place", "smokes"]]
    rows = rows[rows["place"] == "north"].head(5)
    expected = model.predict(rows[["age", "sex", "seen"]], task="north")
    np.testing.assert_array_equal(model.predict(rows, task="north"), expected)
    plain = rows.astype(object).where(rows.notna(), None)
    records = plain.to_dict("records")
    np.testing.assert_array_equal(model.predict(records, task="north"), expected)
    csv = rows.to_csv(index=False).encode()
    np.testing.assert_array_equal(model.call("predict", csv, "text/csv", task="north"), expected)
    lists = [[r["sex"], str(r["seen"]), r["age"], r["note"]] for r in records]
    body = {"task": "north", "columns": ["sex", "seen", "age", "note"], "inputs": lists}
    found = http.post("/v1/models/unused-columns/predict", json=body)
    assert found.json()["outputs"] == expected.tolist()
    few = client.upload(rows.assign(place="north"), task_column="place", name="few")
    outputs = client.infer(model, "predict", few).wait()
    assert outputs.report["rows"] == 5
    unknown = http.post(
        "/v1/models/unused-columns/predict", json={"task": "north", "inputs": [{"agee": 1}]}
    )
    assert "there is no column 'agee'" in unknown.json()["detail"]


@pytest.mark.parametrize(
    ("params", "detail"),
    [
        (
            {"column_kind": ["seen:number", "x:date", "seen:category"]},
            "query:column_kind: column 'seen' has the kinds number and category; declare one of",
        ),
        (
            {"delimiter": ",", "decimal": ","},
            "query:decimal: ',' is both delimiter and decimal; declare different signs",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(http, params, detail):
    headers = {"Content-Type": "text/csv"}
    answer = http.post("/v1/datasets", params=params, content=b"task,seen\na,1\n", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid-request")
    assert answer.json()["detail"].startswith(detail)


@pytest.mark.parametrize("columns", [{}, {"columns": ["age", "sex", "smokes", "seen"]}])
@pytest.mark.usefixtures("model")
def test_no_rows_give_no_outputs(http, columns):
    response = call(http, {"task": "north", "inputs": [], **columns})
    assert (response.status_code, response.json().get("outputs")) == (200, []), response.text


def test_a_column_kind_that_does_not_exist_is_answered_with_those_that_do(http):
    answer = http.post(
        "/v1/datasets",
        params={"column_kind": "seen:datetime"},
        content=b"task,seen\na,1\n",
        headers={"Content-Type": "text/csv"},
    )
    assert answer.status_code == 422
    assert (
        "query:column_kind: 'seen:datetime' is not NAME:KIND with a kind of number, boolean, "
        "category, date"
    ) in answer.json()["detail"]


def prices(n=60, *, with_kinds):
    """Return a table of numbers, and one with them as they are written in German."""
    rng = np.random.default_rng(2)
    table = patients(n, seed=2)[["task", "sex", "y"] if with_kinds else ["task", "y"]]
    plain = table.assign(price=(rng.random(n) * 1e4).round(2))
    german = plain.assign(
        price=[f"{x:,.2f} €".translate(str.maketrans(",.", ".,")) for x in plain["price"]],
        y=plain["y"].map(lambda y: str(y).replace(".", ",")),
    )
    return plain, german


@pytest.mark.parametrize("with_kinds", [False, True])
@pytest.mark.quick(1)
def test_a_model_reads_numbers_as_its_training_data_were_written(http, with_kinds):
    plain, german = prices(with_kinds=with_kinds)
    body = german.to_csv(index=False, sep=";").encode()
    dataset = upload(http, body, "text/csv", name=f"prices {with_kinds}")
    assert any("decimal ',', thousands '.'" in note for note in dataset["warnings"])
    name = f"prices-{with_kinds}".lower()
    assert train(http, dataset, name)["state"] == "succeeded"
    expected = call(http, as_parquet(plain), PARQUET, name=name).json()["outputs"]
    for sent, media_type in (
        (body, "text/csv"),
        (as_parquet(german), PARQUET),
        (as_stream(german), STREAM),
    ):
        answer = call(http, sent, media_type, name=name)
        assert answer.status_code == 200, answer.text
        assert answer.json()["outputs"] == expected

    def answer(price, **columns):
        record = {"price": price, **({"sex": "F"} if with_kinds else {}), **columns}
        return call(http, {"task": "north", "inputs": [record]}, name=name)

    for text, number in (("1.299", 1299), ("1.299,50 €", 1299.5), ("2,5", 2.5), ("2.5", 2.5)):
        assert answer(text).json() == answer(number).json()
    sex = {"sex": "F"} if with_kinds else {}
    records = [{"price": text, **sex} for text in ("1.5", "1.299")]
    together = call(http, {"task": "north", "inputs": records}, name=name).json()["outputs"]
    apart = [answer(number).json()["outputs"][0] for number in (1.5, 1.299)]
    np.testing.assert_allclose(together, apart, rtol=1e-12)
    for wrong in ("1.29,5", "1.299,50 $", "5 %"):  # another unit is another quantity
        assert answer(wrong).status_code == 422
    row = "task;price;sex\nnorth;1.299;F\n" if with_kinds else "task;price\nnorth;1.299\n"
    answered = call(http, row.encode(), "text/csv", name=name)
    assert answered.json()["outputs"] == answer(1299).json()["outputs"]
    inputs = [{"name": "price", "shape": [1], "datatype": "BYTES", "data": ["1.299"]}]
    inputs += [{"name": "sex", "shape": [1], "datatype": "BYTES", "data": ["F"]}] * with_kinds
    sent = {"inputs": inputs, "parameters": {"task": "north"}}
    response = http.post(f"/v2/models/{name}/infer", json=sent)
    assert response.status_code == 200, response.text
    assert response.json()["outputs"][0]["data"] == answer(1299).json()["outputs"]


@pytest.mark.parametrize(("form", "other"), [("%d/%m/%Y", "%m/%d/%Y"), ("%m/%d/%Y", "%d/%m/%Y")])
@pytest.mark.quick(1)
def test_a_model_reads_dates_in_the_order_of_its_training_data(http, form, other):
    table = patients(60, seed=9)[["task", "age", "seen", "y"]]
    table["seen"] = table["seen"].dt.strftime(form)
    dataset = upload(http, table.to_csv(index=False).encode(), "text/csv")
    name = "day-first" if form.startswith("%d") else "month-first"
    assert train(http, dataset, name)["state"] == "succeeded"
    first, last = date(2024, 2, 1), date(2024, 2, 25)

    def answer(text):
        record = {"age": 61.5, "seen": text}
        return call(http, {"task": "north", "inputs": [record]}, name=name)

    for day in (first, last):
        assert answer(day.strftime(form)).json() == answer(day.isoformat()).json()
    refused = answer(last.strftime(other))
    assert refused.status_code == 422
    example = date(2026, 1, 31).strftime(form)
    expected = f"expected a date such as 2026-01-31 or {example}, got '{last.strftime(other)}'"
    assert expected in refused.json()["detail"]


@pytest.mark.slow
def test_dates_with_short_years_and_hours_of_12_are_trained_on_and_called_with(http):
    table = patients(60, seed=9)[["task", "age", "seen", "y"]]
    table["seen"] = table["seen"].dt.strftime("%m/%d/%y %I:%M %p")
    body = table.to_csv(index=False).encode()
    dataset = upload(http, body, "text/csv", column_kind="seen:date-mdy")
    assert any("69 to 99 are in the 1900s" in note for note in dataset["warnings"])
    assert train(http, dataset, "american")["state"] == "succeeded"

    def answer(text):
        record = {"age": 61.5, "seen": text}
        return call(http, {"task": "north", "inputs": [record]}, name="american")

    iso = answer("2026-03-01T14:30").json()
    for text in ("3/1/26 2:30 PM", "03/01/2026 14:30", "3/1/2026, 2:30:00 pm"):
        assert answer(text).json() == iso
    refused = answer("3/32/26").json()["detail"]
    assert "expected a date such as 2026-01-31 or 01/31/26, got '3/32/26'" in refused


def test_short_years_are_refused_by_a_model_that_was_not_trained_on_them(http):
    table = patients(60, seed=9)[["task", "age", "seen", "y"]]
    table["seen"] = table["seen"].dt.strftime("%d.%m.%Y")
    dataset = upload(http, table.to_csv(index=False).encode(), "text/csv")
    assert train(http, dataset, "long-years")["state"] == "succeeded"
    body = {"task": "north", "inputs": [{"age": 61.5, "seen": "01.03.26"}]}
    refused = call(http, body, name="long-years")
    assert refused.status_code == 422
    assert "got '01.03.26'" in refused.json()["detail"]


def test_german_dates_are_trained_on_and_called_with(http):
    table = patients(60, seed=9)[["task", "age", "seen", "y"]]
    table["seen"] = table["seen"].dt.strftime("%d.%m.%Y")
    body = table.to_csv(index=False, sep=";", decimal=",").encode()
    dataset = upload(http, body, "text/csv")
    assert any("dates in 'seen' read as day.month.year" in note for note in dataset["warnings"])
    assert train(http, dataset, "german")["state"] == "succeeded"

    def outputs(*args, **params):
        answer = call(http, *args, name="german", **params)
        assert answer.status_code == 200, answer.text
        return answer.json()["outputs"]

    record = {"age": 61.5, "seen": "2026-03-01"}
    iso = outputs({"task": "north", "inputs": [record]})
    assert outputs({"task": "north", "inputs": [record | {"seen": "01.03.2026"}]}) == iso
    assert outputs(b"age;seen\n61,5;01.03.2026\n", "text/csv", task="north") == iso
    wrong = {"task": "north", "inputs": [record | {"seen": "31.02.2026"}]}
    detail = call(http, wrong, name="german").json()["detail"]
    expected = "expected a date such as 2026-01-31 or 31/01/2026, got '31.02.2026'"
    assert f"column 'seen': {expected}" in detail


def test_intervals_of_pandas_are_trained_on_and_called_with(service):
    table = patients(seed=8)[["task", "age", "y"]].fillna({"age": 50.0})
    cut = table.assign(age=pd.cut(table["age"], [0, 40, 60, 100]))
    with Client(service.url) as client:
        dataset = client.upload(cut, target_column="y", name="cut")
        model = client.train(dataset, "ridge", model="cut").wait()
        printed = cut.assign(age=cut["age"].astype(str))
        expected = model.predict(cut)
        np.testing.assert_array_equal(model.predict(printed), expected)
        assert len(np.unique(expected)) == 6


@pytest.mark.slow
def test_values_of_pandas_are_rows_as_they_are_in_an_upload(client, tmp_path):
    n = 24
    frame = pd.DataFrame({"task": ["a", "b"] * (n // 2), "y": np.arange(n) % 7.0})
    frame["month"] = pd.period_range("2023-05", periods=n, freq="M")
    frame["quarter"] = pd.period_range("1969Q3", periods=n, freq="Q")
    frame["year"] = pd.period_range("1990", periods=n, freq="Y")
    frame["band"] = pd.cut(pd.Series(np.arange(n) % 9), [-1, 2, 5, 9])
    frame["price"] = [Decimal(i) / 4 for i in range(n)]
    dataset = client.upload(frame, name="values of pandas", target_column="y")
    model = client.train(dataset, "ridge").wait()
    expected = model.predict(frame)
    assert len(set(expected)) > n / 2
    objects = frame.astype(object)
    assert isinstance(objects.loc[0, "band"], pd.Interval)
    for rows in (objects, objects.to_dict("records")):
        np.testing.assert_array_equal(model.predict(rows), expected)
    text = frame.to_csv(index=False).encode()
    np.testing.assert_array_equal(model.call("predict", text, "text/csv", task=None), expected)
    file = tmp_path / "text.csv"
    file.write_bytes(text)
    from_text = client.upload(file, target_column="y")
    retrained = client.train(from_text, "ridge").wait()
    np.testing.assert_array_equal(retrained.predict(frame), expected)
    with pytest.raises(TypeError, match="got set"):
        model.predict([{"month": {1}}])
    with pytest.raises(ValueError, match="column 'price': Infinity is not a finite number"):
        model.predict([{"price": Decimal("inf")}])
