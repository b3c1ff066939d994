"""Declared markers of missing values, in uploads and in rows for the models of these."""

import numpy as np
import pyarrow as pa
import pytest

from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.encoder import encode
from service.datasets.manifest import columns_of_manifest
from service.datasets.number_writings import NumberWritings

TABLE = b"""task,x,n,ward,y
a,1.5,3,K1,1
a,-999,4,-999,2
b,-999.0,-999.0,K1,-999.0
b,2.5,-999,K2,4
"""


@pytest.fixture
def read(reader):
    return reader.read(TABLE, target_column="y", missing_marker=["-999"])


def test_a_number_equal_to_a_marker_is_missing_however_it_is_written(reader, read):
    tasks = reader.tasks(read)
    X = np.vstack([tasks["a"].X, tasks["b"].X])
    np.testing.assert_array_equal(X[:, :2], [[1.5, 3], [np.nan, 4], [2.5, np.nan]])
    assert tasks["b"].y.tolist() == [4]  # a row without a target
    assert np.isnan(X[1, 2])


ROWS = {
    "strings": ["-999", "-999.0", "7"],
    "numbers": [-999, -999.0, 7],
    "array": np.array([-999.0, -999.0, 7.0]),
    "column of integers": pa.chunked_array([[-999, -999, 7]]),
    "column of text": pa.chunked_array([["-999", "-999.0", "7"] * 40]),
}


@pytest.mark.parametrize("way", ROWS)
def test_rows_for_a_model_have_the_markers_of_its_table(read, way):
    x = next(c for c in columns_of_manifest(read["manifest"]) if c.name == "x")
    found = encode(ROWS[way], Column.from_json(x.to_json()))
    np.testing.assert_array_equal(found[:3], [np.nan, np.nan, 7])


def test_a_marker_in_a_category_is_no_unknown_level(read):
    ward = next(c for c in columns_of_manifest(read["manifest"]) if c.name == "ward")
    np.testing.assert_array_equal(encode(["K2", "-999", "K9"], ward), [1, np.nan, -1])


def test_na_in_a_category_is_missing_unless_it_is_a_level():
    sizes, countries = Column("c", "category", ("M", "S")), Column("c", "category", ("DE", "NA"))
    for values in (["NA", "S"], pa.chunked_array([["NA", "S"] * 40])):
        np.testing.assert_array_equal(encode(values, sizes)[:2], [np.nan, 1])
        np.testing.assert_array_equal(encode(values, countries)[:2], [1, -1])


def test_tables_without_a_gap_have_the_markers_as_well(reader):
    result = reader.read(b"task,x\na,1\na,2\nb,3\n", missing_marker=["-999", "gone"])
    assert columns_of_manifest(result["manifest"]) is None
    assert NumberWritings.of_manifest(result["manifest"]).missing == ("-999", "gone")
