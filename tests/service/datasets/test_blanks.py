"""Tables whose cells are divided by blanks."""

import numpy as np
import pandas as pd
import pytest

from service.datasets.formats import csv_blanks

FRAME = pd.DataFrame({"task": ["a", "a", "b"], "x": [1.5, 20.25, -3.0], "y": [0.5, 1.5, 2.5]})
FILES = {
    "single spaces": FRAME.to_csv(sep=" ", index=False),
    "aligned": FRAME.to_string(index=False),
    "aligned, with an index": FRAME.to_string() + "\n",
    "R write.table": '"task" "x" "y"\n"1" "a" 1.5 0.5\n"2" "a" 20.25 1.5\n"3" "b" -3 2.5\n',
    "decimal commas": "task   x  y\na  1,5   0,5\na 20,25  1,5\nb -3     2,5\n",
    "Windows": "task   x  y  \r\na  1.5   0.5 \r\n  a 20.25  1.5\r\nb -3  2.5\r\n\r\n",
    "tabs and spaces": "task x\t y\na\t1.5 0.5\na\t20.25\t1.5\nb -3\t \t2.5\n",
    "runs of tabs": "task\tx\ty\na\t1.5\t\t0.5\na\t20.25\t1.5\nb\t-3\t\t2.5\n",
}


@pytest.mark.parametrize("kind", FILES)
def test_blanks_divide_cells(reader, kind):
    result = reader.read(FILES[kind].encode(), target_column="y")
    tasks = reader.tasks(result)
    assert tasks.names == ("a", "b")
    assert tasks["a"].X.tolist() == [[1.5], [20.25]]
    assert tasks["b"].y.tolist() == [2.5]
    assert any("blanks" in n or "delimiter ' '" in n for n in result["manifest"]["warnings"])


def test_quoted_cells_have_their_blanks_and_line_breaks(reader, monkeypatch):
    monkeypatch.setattr(csv_blanks, "_BLOCK_CHARACTERS", 5)
    rows = [f'{task} "two  words"   "and\n a {k} "' for k, task in enumerate("aabb")]
    body = "\n".join(['task u    " v  "', *rows, *rows]).encode()
    columns = reader.read(body)["manifest"]["columns"]
    assert columns[0]["levels"] == ["two  words"]
    assert columns[1]["levels"] == [f"and\n a {k}" for k in range(4)]


@pytest.mark.parametrize("delimiter", ["\t", ",", ";"])
def test_numbers_that_may_be_divided_by_blanks_need_an_option(reader, delimiter):
    body = f"task{delimiter}u v\na{delimiter}1 2\nb{delimiter}3 4\n".encode()
    refused = reader.read(body)
    reader.assert_rejected(refused, "missing-option", "'1 2'", parameter="query:delimiter")
    tasks = reader.tasks(reader.read(body, delimiter=delimiter))
    assert tasks["a"].feature_names == ("u v",)


def test_blanks_may_be_declared(reader):
    body = b"task\tu v\na\t1 2\nb  3\t4\n"
    tasks = reader.tasks(reader.read(body, delimiter=" "))
    np.testing.assert_array_equal(tasks["b"].X, [[3, 4]])


@pytest.mark.parametrize("text", ["first name\ttask\tx\nA B\ta\t1\nC D\tb\t2\n"])
def test_texts_of_several_words_need_no_option(reader, text):
    tasks = reader.tasks(reader.read(text.encode()))
    assert tasks["a"].feature_names == ("first name", "x")


def test_a_row_that_blanks_do_not_divide_is_located(reader):
    body = b"task  x\na  1\na   2  3\nb  4\n"
    refused = reader.read(body, delimiter=" ")
    reader.assert_rejected(refused, "wrong-width", "line 3 has 3 cells", row=1)


def test_given_blanks_divide_cells_one_by_one_where_all_rows_fit(reader):
    result = reader.read(b"task x z \na 1  \nb  2 \n", delimiter=" ")
    tasks = reader.tasks(result)
    np.testing.assert_array_equal(tasks["a"].X, [[1, np.nan]])
    np.testing.assert_array_equal(tasks["b"].X, [[np.nan, 2]])


def test_a_row_that_given_blanks_do_not_fit_is_shown_with_blanks(reader):
    refused = reader.read(b"task x z\na 1  \nb  2 3 4\n", delimiter=" ")
    reader.assert_rejected(refused, "wrong-width", "cells that contain ' '")
