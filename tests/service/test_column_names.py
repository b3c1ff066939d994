"""Columns are matched by name in every input, and by position only without names."""

import io
import itertools

import httpx
import numpy as np
import orjson
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from service.cli import app
from sibling import ServiceError
from tests.written import parquet_of

NAMES = ("age", "iq", "größe")
NPY, CSV = "application/x-npy", "text/csv"
ARROW, PARQUET = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
TASKS = ("a", "b")


def rows(seed, n=9, d=3):
    """Columns of very different scale, so that a wrong order has a large error."""
    return np.random.default_rng(seed).normal(size=(n, d)) * 10.0 ** np.arange(d)


def columns_of(X, order=NAMES):
    return {name: X[:, NAMES.index(name)] for name in order}


@pytest.fixture(scope="module")
def trained(client):
    """A regression on data frames with different weights, so that every column matters."""
    X = {task: rows(seed) for seed, task in enumerate(TASKS)}
    y = {task: Z @ [3.0, -0.5, 0.02] for task, Z in X.items()}
    frames = {task: pd.DataFrame(columns_of(Z)) for task, Z in X.items()}
    dataset = client.upload(frames, y, name="named columns")
    return client.train(dataset, "ridge", model="by-name").wait()


@pytest.fixture(scope="module")
def unnamed(client):
    X = {task: rows(seed) for seed, task in enumerate(TASKS)}
    y = {task: Z @ [3.0, -0.5, 0.02] for task, Z in X.items()}
    return client.train(client.upload(X, y), "ridge", model="by-position").wait()


# --- every route, with columns matched by name ---------------------------------------------------


def as_arrow(columns):
    table = pa.table(columns)
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    return sink.getvalue()


def as_parquet(columns):
    return parquet_of(pa.table(columns))


def as_csv(columns):
    names, values = zip(*columns, strict=True) if isinstance(columns, list) else zip(
        *columns.items(), strict=True
    )  # fmt: skip
    lines = [",".join(names)]
    lines += [",".join(map(repr, row)) for row in np.column_stack(values).tolist()]
    return "\n".join(lines).encode()


def over_http(service, model, body, media_type):
    address = f"{service.url}/v1/models/{model.name}/predict"
    headers = {"Content-Type": media_type, "Accept": NPY}
    # the first JSON body waits for compiled code
    response = httpx.post(address, params={"task": "a"}, content=body, headers=headers, timeout=240)
    if response.is_error:
        raise ServiceError.from_response(response)
    return np.load(io.BytesIO(response.content))


def structured(columns):
    array = np.empty(len(next(iter(columns.values()))), [(name, "f8") for name in columns])
    for name, values in columns.items():
        array[name] = values
    return array


def by_command(service, model, columns):
    arguments = ["predict", model.name, "-", "--task", "a", "--format", "npy", "--url", service.url]
    end = CliRunner().invoke(app, arguments, input=as_csv(columns))
    if end.exception is not None:
        raise end.exception
    return np.load(io.BytesIO(end.stdout_bytes))


ROUTES = {
    "pandas": lambda _, model, columns: model.predict(pd.DataFrame(columns), task="a"),
    "polars": lambda _, model, columns: model.predict(pl.DataFrame(columns), task="a"),
    "arrow table": lambda _, model, columns: model.predict(pa.table(columns), task="a"),
    "record array": lambda _, model, columns: model.predict(structured(columns), task="a"),
    "command": by_command,
    "csv": lambda service, model, columns: over_http(service, model, as_csv(columns), CSV),
    "arrow": lambda service, model, columns: over_http(service, model, as_arrow(columns), ARROW),
    "parquet": lambda service, model, columns: over_http(
        service, model, as_parquet(columns), PARQUET
    ),
}
routes = pytest.mark.parametrize("route", ROUTES)


@routes
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(order=st.permutations(NAMES), seed=st.integers(0, 2**32 - 1), n=st.integers(1, 5))
@pytest.mark.quick(3)
def test_any_order_of_named_columns_has_the_same_result(service, trained, route, order, seed, n):
    X = rows(seed, n)
    expected = trained.predict(X, task="a")
    found = ROUTES[route](service, trained, columns_of(X, order))
    assert found.tobytes() == expected.tobytes()


@routes
def test_missing_extra_and_misspelt_columns_are_named(service, trained, route):
    X = rows(5)
    for change, words in (
        ({"iq": None}, ["the column 'iq' is missing"]),
        ({"height": X[:, 0]}, ["there is no column 'height': remove it"]),
        (
            {"iq": None, "IQ": X[:, 1]},
            ["the column 'iq' is missing", "there is no column 'IQ': remove it"],
        ),
    ):
        columns = {k: v for k, v in (columns_of(X) | change).items() if v is not None}
        with pytest.raises(ServiceError, match="with the column names of") as caught:
            ROUTES[route](service, trained, columns)
        assert (caught.value.status, caught.value.code) == (422, "invalid-data")
        assert all(word in str(caught.value) for word in words)
        assert caught.value.errors[0]["column"] in words[0]
        assert caught.value.errors[0]["task"] == "a"


def test_duplicate_column_names_are_rejected_by_name(service, trained, unnamed):
    X = rows(6)
    twice = pd.DataFrame(X, columns=["age", "iq", "iq"])
    body = pa.Table.from_arrays([pa.array(x) for x in X.T], names=["age", "iq", "iq"])
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, body.schema) as out:
        out.write_table(body)
    for model in (trained, unnamed):
        with pytest.raises(ValueError, match="2 columns of predict are named 'iq'"):
            model.predict(twice, task="a")
        for content, kind in (
            (as_csv([("age", X[:, 0]), ("iq", X[:, 1]), ("iq", X[:, 2])]), CSV),
            (sink.getvalue(), ARROW),
        ):
            with pytest.raises(ServiceError, match="2 columns are named 'iq'"):
                over_http(service, model, content, kind)


def test_names_are_compared_in_normal_form_without_surrounding_spaces(service, trained):
    X = rows(7)
    names = ("gro\u0308ße", " iq", "age ")
    columns = dict(zip(names, (X[:, 2], X[:, 1], X[:, 0]), strict=True))
    found = over_http(service, trained, as_arrow(columns), ARROW)
    np.testing.assert_array_equal(found, trained.predict(X, task="a"))


# --- columns matched by position -----------------------------------------------------------------


def test_arrays_and_csv_without_a_header_are_matched_by_position(service, trained):
    X = rows(8)
    expected = trained.predict(X, task="a")
    headerless = "\n".join(",".join(map(repr, row)) for row in X.tolist()).encode()
    np.testing.assert_array_equal(over_http(service, trained, headerless, CSV), expected)
    body = orjson.dumps({"task": "a", "inputs": X.tolist()})
    response = httpx.post(
        f"{service.url}/v1/models/by-name/predict",
        content=body,
        headers={"Content-Type": "application/json", "Accept": NPY},
        timeout=240,
    )
    np.testing.assert_array_equal(np.load(io.BytesIO(response.content)), expected)
    # default labels of pandas do not count as names
    np.testing.assert_array_equal(trained.predict(pd.DataFrame(X), task="a"), expected)


@routes
def test_a_model_without_names_matches_columns_by_position(service, unnamed, route):
    X = rows(9)
    found = ROUTES[route](service, unnamed, columns_of(X))
    np.testing.assert_array_equal(found, unnamed.predict(X, task="a"))
    narrow = columns_of(X, NAMES[:2])
    with pytest.raises(ServiceError, match="got a table of 2 columns"):
        ROUTES[route](service, unnamed, narrow)


def test_projections_are_matched_by_position_whatever_their_names(client):
    X = {task: pd.DataFrame(columns_of(rows(seed))) for seed, task in enumerate(TASKS)}
    model = client.train(client.upload(X), "pca", model="coordinates", k=2).wait()
    Z = model.transform(X["a"][["iq", "größe", "age"]], task="a")
    frame = pd.DataFrame(Z, columns=["z0", "z1"])
    back = model.inverse_transform(frame, task="a")
    np.testing.assert_array_equal(back, model.inverse_transform(Z, task="a"))


# --- data frames ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (["x", "y"], "row 0, column 'größe': expected a number, got 'x'"),
        (pd.Categorical(["x", "y"]), "row 0, column 'größe': expected a number, got 'x'"),
        (
            pd.to_datetime(["2020-01-01", "2021-01-01"]),
            "column 'größe' has type timestamp.* expected numbers",
        ),
    ],
)
def test_a_model_of_numbers_names_a_column_of_another_type(trained, column, words):
    frame = pd.DataFrame({"age": [1.0, 2.0], "iq": [1.0, 2.0], "größe": column})
    with pytest.raises(ServiceError, match=words):
        trained.predict(frame, task="a")
    if isinstance(column, list):
        with pytest.raises(ServiceError, match=words):
            trained.predict(pl.from_pandas(frame), task="a")
        with pytest.raises(ServiceError, match=words):
            trained.predict(pa.Table.from_pandas(frame), task="a")


def test_a_column_of_several_types_is_named(client, trained):
    frame = pd.DataFrame({"age": [1.0, 2.0], "sex": [1, "y"]})
    with pytest.raises(ValueError, match=r"a column of task 'a' has values of several.*'y'.*sex"):
        client.upload({"a": frame})
    with pytest.raises(ValueError, match=r"a column of predict has values of several.*'y'.*sex"):
        trained.predict(frame, task="a")


@pytest.mark.parametrize(
    "column",
    [
        pd.array([1, 2], dtype="Int64"),
        pd.array([1.0, 2.0], dtype="float32"),
        pd.array([True, False]),
        np.array([1, 2], np.uint8),
    ],
)
def test_every_numeric_dtype_is_accepted(trained, column):
    frame = pd.DataFrame({"iq": [5, 6], "größe": [0.1, 0.2], "age": column})
    expected = frame[list(NAMES)].to_numpy(dtype=np.float64)
    found = trained.predict(frame, task="a")
    np.testing.assert_array_equal(found, trained.predict(expected, task="a"))


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"age": pd.array([1, None], dtype="Int64"), "iq": [1, 2], "größe": [3, 4]}),
        pl.DataFrame({"iq": [1, 2], "age": [1, None], "größe": [3, 4]}),
        pa.table({"iq": [1, 2], "größe": [3, 4], "age": [1, None]}),
    ],
)
def test_a_missing_value_is_reported_with_its_location(trained, frame):
    with pytest.raises(ServiceError, match="task 'a', row 1, column 0 is nan"):
        trained.predict(frame, task="a")


def test_inexact_integers_and_labels_that_are_not_strings_are_rejected(client, trained):
    large = pd.DataFrame({"age": [2**53 + 1], "iq": [1], "größe": [1]})
    with pytest.raises(ValueError, match="column 'age' of predict has the integer 9007"):
        trained.predict(large, task="a")
    turned = pd.DataFrame(rows(1))[[2, 0, 1]]
    with pytest.raises(TypeError, match="strings as column names of predict, got 2"):
        trained.predict(turned, task="a")
    with pytest.raises(TypeError, match="strings as column names of the table, got 2"):
        client.upload(turned)


# --- uploads -------------------------------------------------------------------------------------


def manifest_of(service, dataset):
    return httpx.get(f"{service.url}/v1/datasets/{dataset.id}/manifest", timeout=240).json()


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.quick(1)
def test_columns_of_tasks_in_different_order_are_aligned_by_name(client, service, make):
    X = {task: rows(seed) for seed, task in enumerate("abc")}
    y = {task: Z @ [3.0, -0.5, 0.02] for task, Z in X.items()}
    orders = dict(zip("abc", itertools.permutations(NAMES), strict=False))
    frames = {task: make(columns_of(Z, orders[task])) for task, Z in X.items()}
    dataset = client.upload(frames, y, name=f"orders, {make.__module__}")
    assert manifest_of(service, dataset)["feature_names"] == list(NAMES)
    found = client.train(dataset, "mtfl", model="aligned").wait()
    expected = client.train(client.upload(X, y), "mtfl", model="arrays").wait()
    for task, Z in X.items():
        frame = make(columns_of(Z, orders["c"]))
        predicted = found.predict(frame, task=task)
        assert predicted.tobytes() == expected.predict(Z, task=task).tobytes()


def test_targets_may_be_series_of_numbers_or_strings(client):
    X = {task: pd.DataFrame(columns_of(rows(seed, 8))) for seed, task in enumerate(TASKS)}
    numbers = {"a": pd.Series(np.arange(8) / 3), "b": pl.Series(np.arange(8) / 7)}
    model = client.train(client.upload(X, numbers), "ridge", model="series").wait()
    assert model.predict(X["a"], task="a").dtype == np.float64
    labels = {"a": pd.Series(["x", "y"] * 4), "b": pd.Series(pd.Categorical(["u", "v"] * 4))}
    model = client.train(client.upload(X, labels), "mtda", model="text-series", d=1).wait()
    assert model.classes("b") == ("u", "v")


def test_targets_with_an_index_in_another_order_are_rejected(client):
    X = pd.DataFrame(columns_of(rows(0, 4)), index=list("wxyz"))
    y = pd.Series([1.0, 2.0, 3.0, 4.0], index=list("zyxw"))
    with pytest.raises(ValueError, match="index of the targets of task 'a' is in another order"):
        client.upload({"a": X}, {"a": y})
    aligned = client.upload({"a": X}, {"a": y.loc[X.index]})
    assert aligned.info["n_samples"] == 4


def test_tasks_with_different_column_names_keep_their_own(client, service):
    rng = np.random.default_rng(3)
    X = {
        "door": pd.DataFrame(rng.normal(size=(12, 3)), columns=["u", "v", "w"]),
        "hall": pd.DataFrame(rng.normal(size=(12, 3)), columns=["w", "v", "p"]),
    }
    y = {"door": ["x", "y"] * 6, "hall": ["s", "t", "r"] * 4}
    dataset = client.upload(X, y)
    manifest = manifest_of(service, dataset)
    assert manifest["feature_names"] is None
    assert [task["feature_names"] for task in manifest["tasks"]] == [
        ["u", "v", "w"],
        ["w", "v", "p"],
    ]
    model = client.train(dataset, "mtda", model="own-names", d=1).wait()
    for task, frame in X.items():
        expected = model.distances(frame.to_numpy(), task=task)
        for names in itertools.permutations(frame.columns):
            found = model.distances(frame[list(names)], task=task)
            np.testing.assert_array_equal(found, expected)
    with pytest.raises(ServiceError, match="column 'p' is missing; there is no column 'u'"):
        model.predict(X["door"], task="hall")
    # one call with both tasks is impossible, as their column names differ
    body = as_csv({"u": np.ones(2), "v": np.ones(2), "w": np.ones(2)}).split(b"\n")
    table = b"\n".join(
        cell + tail for cell, tail in zip(body, (b",task", b",door", b",hall"), strict=True)
    )
    response = httpx.post(
        f"{service.url}/v1/models/own-names/predict",
        content=table,
        headers={"Content-Type": CSV},
        timeout=240,
    )
    assert response.status_code == 422
    assert (
        "'door' and 'hall' were trained on columns with different names"
        in response.json()["detail"]
    )
    # algorithms that need the same columns in every task reject them
    with pytest.raises(ServiceError, match=r"'door' has a column 'u', but task 'hall' does not"):
        client.train(dataset, "pca", model="never")


def test_a_job_fits_each_set_of_columns_apart_if_asked(client):
    rng = np.random.default_rng(5)
    X = {"door": rng.normal(size=(12, 2)), "hall": rng.normal(size=(12, 3))}
    frames = {task: pd.DataFrame(Z, columns=list("uvw")[: Z.shape[1]]) for task, Z in X.items()}
    dataset = client.upload(frames, {task: Z[:, 0] for task, Z in X.items()}, name="two sets")
    how = {"different_columns": "apart"}
    with pytest.raises(ServiceError, match="different_columns='apart' fits the tasks"):
        client.train(dataset, "mean-regularised", model="apart")
    with pytest.raises(ServiceError, match="train the algorithm 'auto'"):
        client.train(dataset, "mean-regularised", preparation=how, evaluate={})
    model = client.train(dataset, "mean-regularised", model="apart", preparation=how).wait()
    for task, frame in frames.items():
        assert np.corrcoef(model.predict(frame, task=task), frame["u"])[0, 1] > 0.9
    with pytest.raises(ServiceError, match="no part that is common"):
        client.train(dataset, "mean-regularised", preparation=how, new_tasks="common")


def test_frames_and_arrays_in_one_upload_are_rejected(client):
    with pytest.raises(ServiceError, match="task 'a' has column names, task 'b' has none"):
        client.upload({"a": pd.DataFrame(columns_of(rows(0))), "b": rows(1)})


# --- stored datasets -----------------------------------------------------------------------------


@pytest.mark.slow
def test_batch_inference_matches_columns_by_name(client, trained, tmp_path):
    X = rows(20)
    for order in itertools.permutations(NAMES):
        dataset = client.upload({"a": pl.DataFrame(columns_of(X, order))}, name=str(order))
        outputs = client.infer(trained, "predict", dataset, makes_dataset=False).wait()
        table = pq.read_table(outputs.download(tmp_path / "out.parquet"))
        found = table["outputs"].to_numpy()
        assert found.tobytes() == trained.predict(X, task="a").tobytes()
    other = client.upload({"a": pd.DataFrame(columns_of(X)).rename(columns={"iq": "IQ"})})
    with pytest.raises(
        ServiceError, match="column 'iq' is missing; there is no column 'IQ'"
    ) as caught:
        client.infer(trained, "predict", other)
    assert caught.value.errors[0]["column"] == "iq"


def test_batch_inference_matches_columns_of_each_task_by_its_own_names(client, tmp_path):
    rng = np.random.default_rng(3)
    X = {
        "door": pd.DataFrame(rng.normal(size=(12, 2)), columns=["u", "v"]),
        "hall": pd.DataFrame(rng.normal(size=(12, 3)), columns=["p", "q", "r"]),
    }
    y = {"door": ["x", "y"] * 6, "hall": ["s", "t", "r"] * 4}
    model = client.train(client.upload(X, y), "lda-rt", model="own-batch", d=1).wait()
    turned = {"door": X["door"][["v", "u"]], "hall": X["hall"][["q", "r", "p"]]}
    outputs = client.infer(model, "transform", client.upload(turned)).wait()
    table = pq.read_table(outputs.download(tmp_path / "out.parquet"))
    expected = [model.transform(X[task].to_numpy(), task=task) for task in X]
    np.testing.assert_array_equal(np.array(table["outputs"].to_pylist()), np.concatenate(expected))


@pytest.mark.slow
def test_columns_of_adapted_tasks_are_matched_by_name(client):
    def frame(seed, order):
        return pd.DataFrame(columns_of(rows(seed, 15), order))

    old = client.upload({task: frame(seed, NAMES) for seed, task in enumerate("abc")})
    base = client.train(old, "rmt-pca", model="joined", k=2).wait()
    turned = ("größe", "age", "iq")
    by_name = client.adapt(base, client.upload({"d": frame(9, turned)})).wait()
    by_array = client.adapt(base, client.upload({"d": rows(9, 15)})).wait()
    X = rows(10)
    for model in (by_name, by_array):
        for task in "ad":
            found = model.transform(pd.DataFrame(columns_of(X, turned)), task=task)
            assert found.tobytes() == model.transform(X, task=task).tobytes()
    assert by_name.transform(X, task="d").tobytes() == by_array.transform(X, task="d").tobytes()
    # a second task, added to a version with an adapted task
    again = [
        client.adapt(by_array, client.upload({"e": new})).wait().transform(X, task="e")
        for new in (frame(11, turned), rows(11, 15))
    ]
    assert again[0].tobytes() == again[1].tobytes()
    other = client.upload({"f": frame(9, NAMES).rename(columns={"iq": "IQ"})})
    with pytest.raises(
        ServiceError, match=r"'f' needs the columns.*'iq' is missing; there is no column 'IQ'"
    ):
        client.adapt(base, other)


# --- names in JSON, numeric names, and a feature named 'task' ------------------------------------


def as_json(X, **more):
    return orjson.dumps({"task": "a", "inputs": X.tolist(), **more})


@pytest.mark.parametrize("order", list(itertools.permutations(NAMES)))
@pytest.mark.parametrize("is_fast", [True, False])
def test_json_may_name_its_columns_in_any_order(service, trained, order, is_fast) -> None:
    X = rows(7)
    expected = trained.predict(X, task="a")
    named = X[:, [NAMES.index(name) for name in order]]
    body = as_json(named, columns=order)
    if not is_fast:  # one list per task name is left to the strict parser
        body = orjson.dumps({"task": ["a"] * len(X), "inputs": named.tolist(), "columns": order})
    np.testing.assert_array_equal(over_http(service, trained, body, "application/json"), expected)


def test_json_without_names_or_of_a_model_without_is_by_position(service, trained, unnamed) -> None:
    X = rows(7)
    for model, more in ((trained, {}), (trained, {"columns": None}), (unnamed, {"columns": NAMES})):
        found = over_http(service, model, as_json(X, **more), "application/json")
        np.testing.assert_array_equal(found, model.predict(X, task="a"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            ["age", "iq", "weight"],
            "the column 'größe' is missing; there is no column 'weight': remove it",
        ),
        (["age", "iq"], "the column 'größe' is missing"),
        (["age", "iq", "größe", "age"], "2 columns are named 'age'"),
        ("age", "expected a list of column names"),
        (["age", "iq", 3], "expected a list of column names"),
    ],
)
def test_json_column_names_that_do_not_match_are_rejected(
    service, trained, columns, message
) -> None:
    with pytest.raises(ServiceError, match=message):
        over_http(service, trained, as_json(rows(7), columns=columns), "application/json")


@pytest.fixture(scope="module")
def numbered(client):
    """A model whose columns are named by numbers."""
    X = {task: rows(seed) for seed, task in enumerate(TASKS)}
    y = {task: Z @ [3.0, -0.5, 0.02] for task, Z in X.items()}
    frames = {task: pd.DataFrame(Z, columns=["1", "2", "3"]) for task, Z in X.items()}
    return client.train(client.upload(frames, y), "ridge", model="by-number").wait()


def test_a_csv_header_of_numbers_is_recognised(service, numbered) -> None:
    X = rows(7)
    expected = numbered.predict(X, task="a")
    in_order = as_csv({"1": X[:, 0], "2": X[:, 1], "3": X[:, 2]})
    np.testing.assert_array_equal(over_http(service, numbered, in_order, CSV), expected)
    body = as_csv({"3": X[:, 2], "1": X[:, 0], "2": X[:, 1]})
    found = over_http(service, numbered, body, "text/csv; header=present")
    np.testing.assert_array_equal(found, expected)
    for media_type in (CSV, "text/csv; header=absent"):
        assert len(over_http(service, numbered, body, media_type)) == len(X) + 1
    lines = in_order.split(b"\n", 1)[1]
    found = over_http(service, numbered, lines, "text/csv; charset=utf-8; header=absent")
    np.testing.assert_array_equal(found, expected)


def test_numbers_that_can_be_a_header_or_a_row_are_told_apart_by_a_column_with_a_name(
    service, numbered
) -> None:
    with pytest.raises(ServiceError, match="row_id"):
        over_http(service, numbered, b"1,2,3\n2,3,4", CSV)
    found = over_http(service, numbered, b"row_id,1,2,3\n0,2,3,4", CSV)
    np.testing.assert_array_equal(found, numbered.predict([[2.0, 3.0, 4.0]], task="a"))


@pytest.fixture(scope="module")
def with_task(client):
    """A model with a column of numbers that is named 'task'."""
    X = {task: rows(seed) for seed, task in enumerate(TASKS)}
    y = {task: Z @ [3.0, -0.5, 0.02] for task, Z in X.items()}
    frames = {task: pd.DataFrame(Z, columns=["age", "task", "iq"]) for task, Z in X.items()}
    return client.train(client.upload(frames, y), "ridge", model="with-task").wait()


def test_a_column_of_a_model_may_be_named_task(service, with_task) -> None:
    X = rows(7)
    expected = with_task.predict(X, task="a")
    columns = {"iq": X[:, 2], "task": X[:, 1], "age": X[:, 0]}
    found = [
        with_task.predict(pd.DataFrame(columns), task="a"),
        with_task.predict(pl.DataFrame(columns), task="a"),
        over_http(service, with_task, as_csv(columns), CSV),
        over_http(service, with_task, as_arrow(columns), ARROW),
        over_http(service, with_task, as_parquet(columns), PARQUET),
    ]
    for one in found:
        np.testing.assert_array_equal(one, expected)


@pytest.mark.parametrize(("write", "media_type"), [(as_csv, CSV), (as_arrow, ARROW)])
def test_a_column_named_task_that_contradicts_the_query_is_rejected(
    service, trained, write, media_type
) -> None:
    body = write({"task": np.arange(9.0), **columns_of(rows(7))})
    with pytest.raises(ServiceError, match="row 0 has the task"):
        over_http(service, trained, body, media_type)
