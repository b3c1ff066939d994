"""Numbers, booleans and classes that are text: one rule for columns and targets in every format."""

import json

import numpy as np
import openpyxl
import pandas as pd
import pytest

from tests.written import as_stream, written

CSV, JSON, PARQUET = "text/csv", "application/json", "application/vnd.apache.parquet"
LINES, STREAM = "application/x-ndjson", "application/vnd.apache.arrow.stream"
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


WRITERS = {
    CSV: lambda frame: frame.to_csv(index=False).encode(),
    JSON: lambda frame: frame.to_json(orient="records").encode(),
    LINES: lambda frame: frame.to_json(orient="records", lines=True).encode(),
    PARQUET: lambda frame: frame.to_parquet(index=False),
    STREAM: as_stream,
    XLSX: lambda frame: written(frame.to_excel, index=False),
}


@pytest.fixture(params=WRITERS)
def read(request, reader):
    """Return a function that reads columns of text in a format."""

    def read_columns(columns, **options):
        n_rows = len(next(iter(columns.values())))
        frame = pd.DataFrame({"task": ["a"] * n_rows, "z": np.arange(n_rows) + 0.5, **columns})
        return reader.read(WRITERS[request.param](frame), request.param, **options)

    read_columns.is_csv = request.param == CSV
    return read_columns


def notes_of(result):
    return " ".join(result["manifest"]["warnings"])


NUMBERS = ["1", "-2.5", "1e3", None, "NA", " 4 "]
VALUES = [1, -2.5, 1000, np.nan, np.nan, 4]


def test_numbers_that_are_text_are_numbers_with_a_note(reader, read):
    result = read({"x": NUMBERS})
    np.testing.assert_array_equal(reader.tasks(result)["a"].X[:, 1], VALUES)
    assert ("'x' is text, and is read as numbers" in notes_of(result)) != read.is_csv
    declared = read({"x": NUMBERS}, column_kind=["x:number"])
    np.testing.assert_array_equal(reader.tasks(declared)["a"].X[:, 1], VALUES)
    assert "is read as numbers" not in notes_of(declared)
    categories = read({"x": ["1", "2", "1"]}, column_kind=["x:category"])
    assert categories["manifest"]["columns"][1]["levels"] == ["1", "2"]


def test_a_target_that_is_text_of_numbers_is_numbers_with_a_note(reader, read):
    texts = ["1.5", "-2", "1000", "7"]
    for options in ({}, {"target_kind": "numbers"}):
        result = read({"y": texts}, target_column=["y"], **options)
        assert reader.tasks(result)["a"].y.tolist() == [1.5, -2, 1000, 7]
        has_note = "the target column 'y' is text, and is read as numbers" in notes_of(result)
        assert has_note == (not read.is_csv and not options)
    result = read({"y": ["7", "x", "7"]}, target_column=["y"], target_kind="classes")
    assert reader.tasks(result)["a"].y.tolist() == ["7", "x", "7"]


@pytest.mark.parametrize("place", [0, 2])
def test_a_text_among_numbers_is_the_mistake_wherever_it_stands(reader, read, place):
    texts = ["1", "2.5", "4"]
    texts.insert(place, "<0.5")
    result = read({"x": texts})
    reader.assert_rejected(result, "not-a-number", "'<0.5'", row=place, column="x")
    assert len(result["issues"]) == 1
    result = read({"y": texts}, target_column=["y"])
    reader.assert_rejected(result, "mixed-labels", "'<0.5'", row=place, column="y")
    assert len(result["issues"]) == 1


@pytest.mark.parametrize(("texts", "is_number"), [(["1", "a"], True), (["1", "a", "b"], False)])
def test_half_of_the_values_decide(reader, read, texts, is_number):
    result = read({"x": texts})
    if is_number:
        reader.assert_rejected(result, "not-a-number", "'a'", row=1, column="x")
    else:
        assert result["manifest"]["columns"][1]["kind"] == "category"
    result = read({"y": texts}, target_column=["y"])
    place = {"row": 1 if is_number else 0, "column": "y"}
    reader.assert_rejected(result, "mixed-labels", **place)


def test_words_of_booleans_are_booleans(reader, read):
    result = read({"x": ["true", "FALSE", None, "True"]})
    assert result["manifest"]["columns"][1]["kind"] == "boolean"
    np.testing.assert_array_equal(reader.tasks(result)["a"].X[:, 1], [1, 0, np.nan, 1])


def test_weights_that_are_text_are_numbers(reader, read):
    result = read({"w": ["1.5", "0", "2"]}, weight_column="w")
    assert reader.tasks(result)["a"].weights.tolist() == [1.5, 0, 2]


@pytest.mark.parametrize("texts", [["01234", "1000"], ["12345678901234567890", "7"]])
@pytest.mark.parametrize("media_type", [JSON, PARQUET, STREAM, XLSX])
def test_codes_that_are_text_stay_text(reader, media_type, texts):
    frame = pd.DataFrame({"task": ["a"] * 2, "x": texts})
    result = reader.read(WRITERS[media_type](frame), media_type)
    assert result["manifest"]["columns"][0]["levels"] == sorted(texts)


@pytest.mark.parametrize("media_type", [PARQUET, STREAM])
def test_a_column_with_a_type_of_categories_stays_one(reader, media_type):
    column = pd.Categorical(["1", "2", "1"])
    frame = pd.DataFrame({"task": ["a"] * 3, "x": column, "y": column})
    body = WRITERS[media_type](frame)
    result = reader.read(body, media_type, target_column="y")
    assert result["manifest"]["columns"][0]["levels"] == ["1", "2"]
    assert reader.tasks(result)["a"].y.tolist() == ["1", "2", "1"]
    numbers = reader.read(body, media_type, target_column="y", target_kind="numbers")
    assert reader.tasks(numbers)["a"].y.tolist() == [1, 2, 1]


def test_targets_of_arrays_that_are_text_can_be_numbers(reader):
    arrays = {"a/X": np.ones((3, 1)), "a/y": np.array(["1", "2.5", "-3"])}
    labels = reader.read_npz(arrays)
    assert reader.tasks(labels)["a"].y.tolist() == ["1", "2.5", "-3"]
    numbers = reader.read_npz(arrays, target_kind="numbers")
    assert reader.tasks(numbers)["a"].y.tolist() == [1, 2.5, -3]
    wrong = reader.read_npz(arrays | {"a/y": np.array(["1", "x", "-3"])}, target_kind="numbers")
    reader.assert_rejected(wrong, "not-a-number", "'x'", task="a", row=1)


@pytest.mark.parametrize("media_type", [XLSX, JSON])
def test_codes_as_text_beside_numbers_are_text(reader, media_type):
    codes = ["01234", 80331, None, 1067, "01067"]
    rows = [{"task": "a", "zip": code, "x": i / 2} for i, code in enumerate(codes)]
    book = openpyxl.Workbook()
    book.active.append([*rows[0]])
    for row in rows:
        book.active.append([*row.values()])
    body = written(book.save) if media_type == XLSX else json.dumps(rows).encode()
    result = reader.read(body, media_type)
    levels = {c["name"]: c.get("levels") for c in result["manifest"]["columns"]}
    assert levels["zip"] == ["01067", "01234", "1067", "80331"]
    assert "column 'zip' has codes such as '01234' as text" in " ".join(
        result["manifest"]["warnings"]
    )
