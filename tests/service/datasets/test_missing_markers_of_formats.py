"""Text that marks missing values: one rule for columns and targets in every format."""

import io
import json

import numpy as np
import openpyxl
import pandas as pd
import pytest

from tests.service.datasets.test_text_columns import CSV, JSON, WRITERS, XLSX, notes_of

COUNTRIES = ["DE", "NA", "FR", "DE", "NA", "FR"]


@pytest.fixture(params=WRITERS)
def read(request, reader):
    """Return a function that reads columns of text in a format."""

    def read_columns(columns, **options):
        frame = pd.DataFrame({"task": ["a", "a", "a", "b", "b", "b"], **columns})
        return reader.read(WRITERS[request.param](frame), request.param, **options)

    return read_columns


def levels_of(result, name):
    columns = {column["name"]: column for column in result["manifest"]["columns"]}
    return columns[name]["levels"]


@pytest.mark.parametrize("marker", ["NA", "None", "NaN", "null", "?", "#DIV/0!", "#NV"])
def test_markers_are_missing_in_categories_of_every_format(reader, read, marker):
    size = ["S", marker, "M", "S", "M", f" {marker} "]
    result = read({"x": [1.0, 2, 3, 4, 5, 6], "size": size})
    assert levels_of(result, "size") == ["M", "S"]
    tasks = reader.tasks(result)
    found = np.concatenate([tasks["a"].X[:, 1], tasks["b"].X[:, 1]])
    np.testing.assert_array_equal(found, [1, np.nan, 0, 1, 0, np.nan])
    assert repr(marker) in notes_of(result)


def test_declared_categories_and_targets_have_the_same_markers(reader, read):
    columns = {"x": [1.0, 2, 3, 4, 5, 6], "size": ["S", "NA", "M"] * 2, "y": ["p", "q", "NA"] * 2}
    options = {"target_column": "y", "column_kind": ["size:category"]}
    for more in ({}, {"target_kind": "classes"}):
        result = read(columns, **options, **more)
        assert levels_of(result, "size") == ["M", "S"]
        assert reader.tasks(result)["a"].y.tolist() == ["p", "q"]
        assert "2 rows have no value in the target column" in notes_of(result)


def test_codes_of_two_letters_with_na_have_a_note_and_can_be_kept(reader, read):
    columns = {"x": [1.0, 2, 3, 4, 5, 6], "country": COUNTRIES}
    result = read(columns)
    assert levels_of(result, "country") == ["DE", "FR"]
    assert "missing_marker" in notes_of(result)
    kept = read(columns, missing_marker=["-999"])
    assert levels_of(kept, "country") == ["DE", "FR", "NA"]
    assert "missing_marker" not in notes_of(kept)
    classes = read({"x": columns["x"], "y": COUNTRIES}, target_column="y")
    assert "missing_marker" in notes_of(classes)
    assert reader.tasks(classes)["b"].y.tolist() == ["DE", "FR"]


def test_words_with_a_marker_have_no_note_on_codes(read):
    assert "missing_marker" not in notes_of(
        read({"x": [1.0, 2, 3, 4, 5, 6], "size": ["small", "NA", "large"] * 2})
    )


def test_declared_markers_hold_in_every_format(reader, read):
    columns = {
        "x": [1.5, -999, 3, 4, 5, 6],
        "ward": ["K1", "gone", "K2"] * 2,
        "y": [1, 2, -999, 4, 5, 6],
    }
    result = read(columns, target_column="y", missing_marker=["-999", "gone"])
    tasks = reader.tasks(result)
    np.testing.assert_array_equal(tasks["a"].X[:, 0], [1.5, np.nan])
    assert tasks["a"].y.tolist() == [1, 2]
    assert levels_of(result, "ward") == ["K1", "K2"]


def workbook(rows):
    file, book = io.BytesIO(), openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(file)
    return file.getvalue()


MIXED = [[1.5, "NA", True], ["NA", 2, False], [2.5, 3, "NA"], [3, 4.5, True]]
MIXED_FILES = {
    JSON: json.dumps([{"task": "a", **dict(zip("uvw", row, strict=True))} for row in MIXED]),
    XLSX: workbook([["task", *"uvw"], *(["a", *row] for row in MIXED)]),
    CSV: "task,u,v,w\n" + "".join(f"a,{u},{v},{w}\n" for u, v, w in MIXED),
}


@pytest.mark.parametrize("media_type", MIXED_FILES)
def test_markers_among_numbers_and_booleans_are_missing(reader, media_type):
    data = MIXED_FILES[media_type]
    data = data.encode() if isinstance(data, str) else data
    result = reader.read(data, media_type)
    nan = np.nan
    expected = [[1.5, nan, 1], [nan, 2, 0], [2.5, 3, nan], [3, 4.5, 1]]
    np.testing.assert_array_equal(reader.tasks(result)["a"].X, expected)
    assert "'NA'" in notes_of(result)
