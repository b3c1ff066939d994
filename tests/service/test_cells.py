"""Cells of CSV as the numbers that a model takes."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from algorithms.wrappers.preparation.columns import UNKNOWN_LEVEL, Column
from algorithms.wrappers.preparation.encoder import encode
from algorithms.wrappers.preparation.invalid_column import InvalidColumn
from service.inference.call import InputSpec
from service.inference.formats.csv_body import read_csv
from service.inference.task_column import TaskSource

NAN = np.nan


@pytest.mark.parametrize(
    ("decimal", "cells", "expected"),
    [
        (".", ["1.5", " +2 ", "1e3", "", "NA", "?", "null", "nan"], [1.5, 2, 1000] + 5 * [NAN]),
        (",", ["1,5", "-0,25", "7", "None"], [1.5, -0.25, 7, NAN]),
    ],
)
def test_numbers_and_missing_markers(decimal, cells, expected):
    found = encode(cells, Column("age"), decimal=decimal)
    assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("decimal", "cell"), [(".", "1,5"), (",", "1.5"), (",", "1,234,5"), (".", "1_0"), (".", "inf")]
)
def test_a_number_in_another_notation_is_located(decimal, cell):
    with pytest.raises(InvalidColumn) as caught:
        encode(["1", cell], Column("age"), decimal=decimal)
    if cell == "inf":
        assert "row 1, column 'age': inf is not a finite number" in str(caught.value)
    else:
        assert "row 1, column 'age': expected a number" in str(caught.value)
        assert repr(cell) in str(caught.value)


def test_a_marker_that_is_a_category_is_no_missing_value():
    country = Column("country", "category", ("DE", "NA"))
    assert_array_equal(encode(["NA", "?"], country), [1, NAN])
    country = Column("country", "category", ("DE", "FR"))
    assert_array_equal(encode(["NA", "?"], country), [NAN, NAN])


def test_codes_with_zeros_in_front_are_text():
    code = Column("code", "category", ("01", "02", "1"))
    call = read_csv(b"code\n01\n1\n2\n", TaskSource("a", "task", lambda _: False))
    spec = InputSpec("a", "predict", 1, allow_missing=True, columns=lambda: None, kinds=(code,))
    assert_array_equal(call.rows.as_matrix(spec)[:, 0], [0, 2, UNKNOWN_LEVEL])


@pytest.mark.parametrize("decimal", [None, ","])
def test_dates_of_spreadsheets_are_read_where_they_are_clear(decimal):
    seen = Column("seen", "date")
    cells = ["31.01.2024 14:30", "1/31/2024 14:30", "31/01/2024 14:30", "2024/01/31 14:30"]
    found = encode([*cells, "2024-01-31T14:30"], seen, decimal=decimal)
    assert set(found) == {1706711400.0}
    for cell in ("01/02/2024", "30.02.2024"):
        with pytest.raises(InvalidColumn) as caught:
            encode([cell], seen, decimal=decimal)
        assert f"'seen': expected a date such as 2026-01-31, got '{cell}'" in str(caught.value)
