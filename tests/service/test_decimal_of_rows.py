"""The decimal separator of rows is found from all their columns, in every format."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from algorithms.wrappers.preparation.columns import Column, NumberWriting
from service.datasets.formats.options import ReadOptions
from service.inference.call import InputSpec
from service.inference.formats.csv_body import read_csv
from service.inference.formats.json_rows import ListRows
from service.inference.formats.table import TableRows
from service.inference.task_column import TaskSource
from sibling.estimators.tables import read_new_table

GERMAN = NumberWriting(",", ".")
COLUMNS = (Column("x", numbers=GERMAN), Column("z", numbers=GERMAN))
SPEC = InputSpec("a", "predict", 2, allow_missing=True, columns=lambda: ("x", "z"), kinds=COLUMNS)
TASKS = TaskSource("a", "task", lambda _: False)
ROWS = {
    "points": ([["1.299", "2.5"]], [[1.299, 2.5]]),
    "commas": ([["1.299", "2,5"]], [[1299, 2.5]]),
    "neither": ([["1.299", "2"]], [[1299, 2]]),
}


def of_csv(rows):
    lines = ["x;z", *(";".join(row) for row in rows)]
    return read_csv("\n".join(lines).encode(), TASKS).rows.as_matrix(SPEC)


def of_arrow(rows):
    columns = [pa.chunked_array([values]) for values in zip(*rows, strict=True)]
    return TableRows(("x", "z"), columns, len(rows)).as_matrix(SPEC)


def of_json(rows):
    return ListRows(rows, "/inputs").as_matrix(SPEC)


def of_records(rows):
    records = [dict(zip("xz", row, strict=True)) for row in rows]
    return ListRows(records, "/inputs").as_matrix(SPEC)


def of_frame(rows):
    return read_new_table(pd.DataFrame(rows, columns=["x", "z"]), COLUMNS, allows_others=False)


@pytest.mark.parametrize("read", [of_csv, of_arrow, of_json, of_records, of_frame])
@pytest.mark.parametrize("kind", ROWS)
def test_another_column_shows_the_decimal_separator(read, kind):
    rows, expected = ROWS[kind]
    np.testing.assert_array_equal(read(rows), expected)


IGNORED = SPEC._replace(task="2.1", ignored=lambda: frozenset({"v"}))
LEFT_OUT = TaskSource(None, "task", lambda _: False, lambda: ReadOptions(ignore_column=("v",)))


def test_columns_that_are_not_used_do_not_show_the_decimal_separator():
    body = b"task;v;x;z\n2.1;1.2;1.299;2\n"
    assert read_csv(body, LEFT_OUT).rows.as_matrix(IGNORED).tolist() == [[1299, 2]]
    columns = [pa.chunked_array([[text]]) for text in ("1.2", "1.299", "2")]
    assert TableRows(("v", "x", "z"), columns, 1).as_matrix(IGNORED).tolist() == [[1299, 2]]
    frame = pd.DataFrame([["1.2", "1.299", "2"]], columns=["v", "x", "z"])
    assert read_new_table(frame, COLUMNS, allows_others=True).tolist() == [[1299, 2]]


def test_a_column_of_categories_does_not_show_the_decimal_separator():
    kinds = (Column("x", "category", ("1.2", "3")), Column("z", numbers=GERMAN))
    spec = SPEC._replace(kinds=kinds)
    columns = [pa.chunked_array([[text]]) for text in ("1.2", "1.299")]
    assert TableRows(("x", "z"), columns, 1).as_matrix(spec).tolist() == [[0, 1299]]
    assert ListRows([["1.2", "1.299"]], "/inputs").as_matrix(spec).tolist() == [[0, 1299]]
