import contextlib
import csv
import time
import unicodedata

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.datasets.formats.csv_table import parse
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.issues import MAX_ISSUES, Rejected

LIMITS = Limits(
    decompressed_bytes=10**9, decompression_ratio=200, tasks=50, features=50, name_length=30
)
GOOD = b"task,x1,x2,y\na,1,2,0.5\na,3,4,1.5\nb,5,6,2.5\n"


def test_a_valid_table_is_read(reader):
    tasks = reader.tasks(reader.read(GOOD, target_column="y"))
    assert tasks.names == ("a", "b")
    assert tasks["a"].X.tolist() == [[1, 2], [3, 4]]
    assert tasks["b"].y.tolist() == [2.5]
    assert tasks["a"].feature_names == ("x1", "x2")


def test_a_short_row_is_located_by_its_line(reader):
    result = reader.read(b"task,x,y\na,1,2\na,1\na,2,3\n", target_column="y")
    reader.assert_rejected(result, "wrong-width", "line 3 has 2 cells, the header has 3", row=1)


def test_text_in_a_numeric_column_is_located_by_line_column_and_task(reader):
    result = reader.read(b"task,x1,x2\na,1,2\nb,3,four\n")
    place = {"task": "b", "row": 1, "column": "x2"}
    reader.assert_rejected(result, "not-a-number", "line 3", "'four'", "'x2'", "'b'", **place)


@pytest.mark.parametrize("cell", ["nan", "NaN", "inf", "-Infinity", "1e999"])
def test_a_non_finite_cell_is_rejected(reader, cell):
    result = reader.read(f"task,x\na,1\na,{cell}\n".encode())
    reader.assert_rejected(result, "not-finite", cell, task="a", row=1, column="x")


def test_an_empty_cell_is_rejected(reader):
    result = reader.read(b"task,x1,x2\na,1,\n")
    reader.assert_rejected(result, "empty-cell", "line 2", task="a", row=0, column="x2")


def test_an_empty_target_is_rejected(reader):
    result = reader.read(b"task,x,y\na,1,2\na,3,\n", target_column="y")
    reader.assert_rejected(result, "empty-cell", "line 3", task="a", row=1, column="y")


def test_an_empty_task_is_rejected(reader):
    result = reader.read(b"task,x\na,1\n,3\n")
    reader.assert_rejected(result, "empty-cell", "line 3", row=1, column="task")


def test_duplicate_column_names_are_rejected(reader):
    result = reader.read(b"task,x,x\na,1,2\n")
    reader.assert_rejected(result, "duplicate-column", "2 columns are named 'x'", column="x")


def test_names_that_differ_only_in_unicode_form_are_one_name(reader):
    result = reader.read("task,é,e\u0301\na,1,2\n".encode())
    reader.assert_rejected(result, "duplicate-column", column="é")


def test_a_column_without_a_name_is_rejected(reader):
    reader.assert_rejected(reader.read(b"task,,x\na,1,2\n"), "invalid-name", "column 1", column=1)


def test_a_missing_task_column_is_rejected(reader):
    result = reader.read(b"school,x\na,1\n", task_column="schol")
    parameter = "query:task_column"
    reader.assert_rejected(result, "missing-column", "'schol'", "'school'", parameter=parameter)


def test_a_table_without_any_task_is_rejected(reader):
    result = reader.read(b"x,y\n1,2\n")
    reader.assert_rejected(result, "missing-option", "task_column=", parameter="query:task_column")


def test_a_table_without_a_header_is_rejected(reader):
    result = reader.read(b"1,2,3\n4,5,6\n", target_column="y")
    reader.assert_rejected(result, "missing-column", "the first line contains numbers")


def test_a_table_with_only_a_header_is_rejected(reader):
    reader.assert_rejected(reader.read(b"task,x\n"), "no-rows", "header but no rows")


def test_an_empty_body_is_rejected(reader):
    reader.assert_rejected(reader.read(b""), "empty-file")


def test_only_blank_lines_are_an_empty_file(reader):
    reader.assert_rejected(reader.read(b"\n\n"), "empty-file")


def test_invalid_utf8_is_located_by_line(reader):
    result = reader.read(b"task,x\na,1\nb\xe9,2\n")
    reader.assert_rejected(result, "not-utf8", "line 3 is not UTF-8 at byte 1")


def test_utf16_is_rejected(reader):
    result = reader.read("task,x\na,1\n".encode("utf-16"))
    reader.assert_rejected(
        result, "not-utf8", "line 1 is not UTF-8 at byte 0", "save the table as UTF-8"
    )


def test_an_unclosed_quote_is_rejected(reader):
    reader.assert_rejected(reader.read(b'task,x\n"a,1\nb,2\n'), "invalid-quoting", "line 3")


def test_text_after_a_quote_is_rejected(reader):
    reader.assert_rejected(reader.read(b'task,x\n"a"b,1\n'), "invalid-quoting", "line 2")


def test_a_number_among_labels_is_rejected(reader):
    result = reader.read(b"task,x,y\na,1,cat\na,2,7\n", target_column="y")
    place = {"task": "a", "row": 1, "column": "y"}
    reader.assert_rejected(result, "mixed-labels", "line 3", "target_kind=classes", **place)


def test_text_among_numeric_targets_is_rejected(reader):
    result = reader.read(b"task,x,y\na,1,7\na,2,cat\n", target_column="y")
    place = {"task": "a", "row": 1, "column": "y"}
    reader.assert_rejected(result, "mixed-labels", "line 3", "target_kind=classes", **place)


def test_mixed_labels_are_accepted_as_classes_if_requested(reader):
    result = reader.read(b"task,x,y\na,1,7\na,2,cat\n", target_column="y", target_kind="classes")
    assert reader.tasks(result)["a"].y.tolist() == ["7", "cat"]


def test_text_is_rejected_if_numbers_are_requested(reader):
    result = reader.read(b"task,x,y\na,1,cat\n", target_column="y", target_kind="numbers")
    reader.assert_rejected(result, "not-a-number", "'cat'", task="a", row=0, column="y")


def test_several_targets_and_a_task_column_are_rejected(reader):
    result = reader.read(b"task,x,y,z\na,1,2,3\n", target_column=["y", "z"])
    reader.assert_rejected(result, "unused-option", parameter="query:target_column")


def test_a_table_of_targets_only_is_rejected(reader):
    reader.assert_rejected(reader.read(b"task,y\na,1\n", target_column="y"), "no-features")


def test_a_task_with_a_control_character_is_rejected(reader):
    result = reader.read(b'task,x\n"a\nb",1\n')
    reader.assert_rejected(result, "invalid-name", "control character", row=0, column="task")


def test_all_issues_are_reported_at_once(reader):
    result = reader.read(b"task,x,y\na,one,2\na,1\nb,nan,\n", target_column="y")
    errors = result["issues"]
    assert {e["code"] for e in errors} == {
        "not-a-number",
        "wrong-width",
        "not-finite",
        "empty-cell",
    }


def test_the_number_of_issues_is_limited(reader):
    result = reader.read(b"task,x\n" + b"a,bad\n" * 1000)
    reader.assert_rejected(result, "not-a-number", row=0)
    assert len(result["issues"]) == MAX_ISSUES


OTHER_TABLES = {
    "too wide": (b"task,a\ns,1\ns,1,2\n", "wrong-width", "3 cells"),
    "a blank cell": (b"task,a\ns,  \n", "empty-cell", "line 2"),
    "a NUL": (b"task,a\ns,1\0\n", "not-a-number", "line 2"),
    "a huge cell": (b"task,a\ns," + b"1" * 200_000 + b"\n", "invalid-quoting", "131072"),
    "not UTF-8 far down": (b"task,a\n" + b"s,1\n" * 9000 + b"\xff,1\n", "not-utf8", "line 9002"),
}


@pytest.mark.parametrize("kind", OTHER_TABLES)
def test_other_invalid_tables_are_rejected(reader, kind):
    table, code, word = OTHER_TABLES[kind]
    reader.assert_rejected(reader.read(table), code, word)


@pytest.mark.parametrize(
    ("column", "code", "word"),
    [
        ("score", "missing-column", "'score'"),
        (["y", "y"], "duplicate-column", "'y'"),
        ("task", "duplicate-column", "'task'"),
    ],
)
def test_invalid_target_columns_are_rejected(reader, column, code, word):
    result = reader.read(b"task,x,y\na,1,2\n", target_column=column)
    reader.assert_rejected(result, code, word)


@pytest.mark.parametrize(
    ("cells", "kind", "row", "word"),
    [
        (["1", "", "2"], "auto", 1, "empty"),
        (["1", "2", "x"], "numbers", 2, "'x'"),
        (["1", "nan", "2"], "auto", 1, "nan"),
    ],
)
def test_an_invalid_target_is_located_by_row_and_column(reader, cells, kind, row, word):
    body = "task,a,y\nu,1,1\n" + "".join(f"t,1,{cell}\n" for cell in cells)
    result = reader.read(body.encode(), target_column="y", target_kind=kind)
    first = result["issues"][0]
    assert word in first["detail"]
    assert (first["task"], first["row"], first["column"]) == ("t", row + 1, "y")


@pytest.mark.parametrize("cell", ["1_000", "\u0661", "0x10", "1,5", "1.5.2", "--1"])
def test_numbers_in_python_or_locale_syntax_are_rejected(reader, cell):
    result = reader.read(f'task,x\na,"{cell}"\n'.encode())
    reader.assert_rejected(result, "not-a-number", task="a", row=0, column="x")


def test_quotes_a_byte_order_mark_and_windows_line_ends_are_read(reader):
    body = '\ufefftask,"x, in ""cm""",y\r\n"a\u00e9, b",1.5,cat\r\n'.encode()
    result = reader.read(body, target_column="y")
    task = reader.tasks(result)["aé, b"]
    assert task.feature_names == ('x, in "cm"',)
    assert (task.X.tolist(), task.y.tolist()) == ([[1.5]], ["cat"])


def test_several_targets_without_a_task_column_become_tasks_with_shared_rows(reader):
    result = reader.read(b"x,y,z\n1,2,cat\n3,4,dog\n", target_column=["y", "z"])
    tasks = reader.tasks(result)
    assert tasks.names == ("y", "z")
    assert tasks["y"].y.tolist() == [2.0, 4.0]
    assert tasks["z"].y.tolist() == ["cat", "dog"]
    assert np.shares_memory(tasks["y"].X, tasks["z"].X)


def test_an_ignored_column_may_have_any_values(reader):
    result = reader.read(b"id,task,x\nfoo,a,1\n,a,2\n", ignore_column="id")
    assert reader.tasks(result)["a"].feature_names == ("x",)


def test_too_many_tasks_are_rejected(make_reader):
    reader = make_reader(tasks=2)
    reader.assert_rejected(reader.read(b"task,x\na,1\nb,1\nc,1\n"), "too-many-tasks", "limit of 2")


def test_too_many_columns_are_rejected(make_reader):
    reader = make_reader(features=2)
    reader.assert_rejected(reader.read(b"task,x,y,z\na,1,2,3\n"), "too-many-features", "limit of 2")


def test_a_long_name_is_rejected(make_reader):
    reader = make_reader(name_length=5)
    result = reader.read(b"task,x\nabcdef,1\n")
    reader.assert_rejected(
        result, "invalid-name", "6 characters, more than 5", row=0, column="task"
    )


@pytest.mark.parametrize("column", ["y", "task"])
def test_a_table_with_one_task_per_row_is_read_in_linear_time(reader, column):
    """A search for each name in all rows took 40 s for a quarter of a million rows."""
    names = {"task": ["a"] * 60_000, "y": ["b"] * 60_000}
    names[column] = [f"n{i}" for i in range(60_000)]
    rows = "".join(f"{t},{y},1\n" for t, y in zip(names["task"], names["y"], strict=True))
    started = time.monotonic()
    result = reader.read(f"task,y,x\n{rows}".encode(), target_column="y")
    if column == "y":
        reader.assert_rejected(result, "too-many-classes", "more than 10000")
    else:
        reader.assert_rejected(result, "too-many-tasks", "limit of 10000")
    assert time.monotonic() - started < 60


NAMES = st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=5)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(
    rows=st.lists(st.tuples(NAMES, FINITE, FINITE, FINITE), min_size=1, max_size=30),
)
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_written_table_is_read_bit_for_bit(tmp_path, rows):
    path = tmp_path / "table.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("task", "x1", "y", "x2"), *rows])
    expected: dict[str, list[tuple[float, ...]]] = {}
    for name, *values in rows:
        expected.setdefault(unicodedata.normalize("NFC", name), []).append(tuple(values))
    tasks = parse(path, ReadOptions(target_column=("y",)), LIMITS).tasks
    assert [task.name for task in tasks] == list(expected)
    for task in tasks:
        values = np.array(expected[task.name])
        assert task.X.tobytes() == values[:, [0, 2]].tobytes()
        assert task.y.tobytes() == values[:, 1].tobytes()


@given(body=st.binary(max_size=300) | st.text(',\n"ax1.', max_size=80).map(str.encode))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_rejected(tmp_path, body):
    path = tmp_path / "any.csv"
    path.write_bytes(body)
    for options in (ReadOptions(), ReadOptions(task_column="a", target_column=("x",))):
        with contextlib.suppress(Rejected):
            assert parse(path, options, LIMITS)
