"""Cells of CSV as the numbers that a model takes."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from algorithms.wrappers.preparation.columns import UNKNOWN_LEVEL, Column
from algorithms.wrappers.preparation.encoder import encode
from algorithms.wrappers.preparation.invalid_column import InvalidColumn
from service.errors.problems import Problem
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


def matrix_of(text, names, has_header=None):
    """Return the rows of a CSV for a model with some columns."""
    tasks = TaskSource("a", "task", names.__contains__)
    call = read_csv(text.encode(), tasks, has_header=has_header)
    columns = partial(tuple, names)
    return call.rows.as_matrix(
        InputSpec("a", "predict", len(names), allow_missing=True, columns=columns)
    ).tolist()


@pytest.mark.parametrize("header", ["402,400", " 402 ,400", ",402,400"])
def test_columns_with_numbers_as_names_are_matched_by_name(header):
    rows = ["2,1", "5,3.5"]
    if header.startswith(","):
        rows = [f"{i},{row}" for i, row in enumerate(rows)]
    assert matrix_of("\n".join([header, *rows]), ["400", "402"]) == [[1, 2], [3.5, 5]]


ROWS_OF_NUMBERS = {
    "other numbers": ("400,401\n1,2", ["400", "402"]),
    "a number twice": ("400,400\n1,2", ["400", "402"]),
    "one row": ("402,400", ["400", "402"]),
    "one column": ("5\n6", ["5"]),
    "two columns that are numbered": ("0,1\n2,3", ["0", "1"]),
    "not in order": ("1,0,2\n0.5,3.25,1.5", ["0", "1", "2"]),
    "names that are text": ("0,1\n1,2", ["x", "z"]),
}


@pytest.mark.parametrize("name", ROWS_OF_NUMBERS)
def test_a_first_line_that_is_not_the_columns_of_the_model_is_a_row(name):
    text, names = ROWS_OF_NUMBERS[name]
    assert len(matrix_of(text, names)) == len(text.splitlines())


@pytest.mark.parametrize(
    ("text", "names"),
    [("400,402\n402,402", ["400", "402"]), ("0,1,2\n2,3,4", ["0", "1", "2"])],
)
def test_a_first_line_that_can_be_a_header_or_a_row_is_refused(text, names):
    with pytest.raises(Problem, match="header=present"):
        matrix_of(text, names)
    assert len(matrix_of(text, names, has_header=False)) == 2
    assert len(matrix_of(text, names, has_header=True)) == 1


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
