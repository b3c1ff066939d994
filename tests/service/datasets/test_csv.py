import contextlib
import csv
import time
import unicodedata

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.datasets.complaints import MAX_COMPLAINTS, Rejected
from service.datasets.csv_table import parse
from service.datasets.options import Limits, ReadOptions
from service.rows import DatasetRow

LIMITS = Limits(expanded_bytes=10**9, expansion=200, tasks=50, features=50, name_length=30)
GOOD = b"task,x1,x2,y\na,1,2,0.5\na,3,4,1.5\nb,5,6,2.5\n"


def test_a_good_table_is_ready_at_once(app):
    response = app.upload(GOOD, target_column="y")
    assert response.status_code == 201, response.text
    dataset = response.json()
    assert response.headers["location"] == f"/v1/datasets/{dataset['id']}"
    assert response.headers["etag"] == f'"{dataset["upload_sha256"]}"'
    assert (dataset["state"], dataset["n_tasks"], dataset["n_samples"]) == ("ready", 2, 3)
    tasks = app.tasks(dataset["id"])
    assert tasks.names == ("a", "b")
    assert tasks["a"].X.tolist() == [[1, 2], [3, 4]]
    assert tasks["b"].y.tolist() == [2.5]
    assert tasks["a"].feature_names == ("x1", "x2")
    with app.services.database.read() as session:
        row = session.get_one(DatasetRow, dataset["id"])
    assert row.upload_blob_id is None
    assert app.left_behind()["blobs"] == 1
    assert "ingest" not in app.left_behind()


def test_a_short_row_is_named_by_its_line(app):
    response = app.upload(b"task,x,y\na,1,2\na,1\na,2,3\n", target_column="y")
    app.assert_rejected(response, "wrong-width", "line 3 has 2 cells, the header 3", row=1)


def test_text_in_a_number_column_is_named_by_line_column_and_task(app):
    response = app.upload(b"task,x1,x2\na,1,2\nb,3,four\n")
    place = {"task": "b", "row": 1, "column": "x2"}
    app.assert_rejected(response, "not-a-number", "line 3", "'four'", "'x2'", "'b'", **place)


@pytest.mark.parametrize("cell", ["nan", "NaN", "inf", "-Infinity", "1e999"])
def test_a_cell_that_is_not_finite_is_refused(app, cell):
    response = app.upload(f"task,x\na,1\na,{cell}\n".encode())
    app.assert_rejected(response, "not-finite", cell, task="a", row=1, column="x")


def test_an_empty_cell_is_refused(app):
    response = app.upload(b"task,x1,x2\na,1,\n")
    app.assert_rejected(response, "empty-cell", "line 2", task="a", row=0, column="x2")


def test_an_empty_target_is_refused(app):
    response = app.upload(b"task,x,y\na,1,2\na,3,\n", target_column="y")
    app.assert_rejected(response, "empty-cell", "line 3", task="a", row=1, column="y")


def test_an_empty_task_is_refused(app):
    response = app.upload(b"task,x\na,1\n,3\n")
    app.assert_rejected(response, "empty-cell", "line 3", row=1, column="task")


def test_two_columns_of_one_name_are_refused(app):
    response = app.upload(b"task,x,x\na,1,2\n")
    app.assert_rejected(response, "duplicate-column", "2 columns are named 'x'", column="x")


def test_names_that_differ_only_in_unicode_form_are_one_name(app):
    response = app.upload("task,é,e\u0301\na,1,2\n".encode())
    app.assert_rejected(response, "duplicate-column", column="é")


def test_a_column_without_a_name_is_refused(app):
    app.assert_rejected(app.upload(b"task,,x\na,1,2\n"), "bad-name", "column 1", column=1)


def test_a_task_column_that_is_not_there_is_refused(app):
    response = app.upload(b"school,x\na,1\n", task_column="schol")
    parameter = "query:task_column"
    app.assert_rejected(response, "missing-column", "'schol'", "'school'", parameter=parameter)


def test_a_table_without_any_task_is_refused(app):
    response = app.upload(b"x,y\n1,2\n")
    app.assert_rejected(response, "option-missing", "task_column=", parameter="query:task_column")


def test_a_table_without_a_header_is_told_so(app):
    response = app.upload(b"1,2,3\n4,5,6\n", target_column="y")
    app.assert_rejected(response, "missing-column", "the first line holds numbers")


def test_a_table_of_a_header_alone_is_refused(app):
    app.assert_rejected(app.upload(b"task,x\n"), "no-rows", "header but no rows")


def test_an_empty_body_is_refused(app):
    app.assert_rejected(app.upload(b""), "empty-file")


def test_only_blank_lines_are_an_empty_file(app):
    app.assert_rejected(app.upload(b"\n\n"), "empty-file")


def test_bytes_that_are_not_utf8_are_named_by_line(app):
    response = app.upload(b"task,x\na,1\nb\xe9,2\n")
    app.assert_rejected(response, "not-utf8", "line 3, byte 1")


def test_utf16_is_refused(app):
    response = app.upload("task,x\na,1\n".encode("utf-16"))
    app.assert_rejected(response, "not-utf8", "line 1, byte 0", "save the table as UTF-8")


def test_a_quote_that_does_not_end_is_refused(app):
    app.assert_rejected(app.upload(b'task,x\n"a,1\nb,2\n'), "bad-quoting", "line 3")


def test_text_after_a_quote_is_refused(app):
    app.assert_rejected(app.upload(b'task,x\n"a"b,1\n'), "bad-quoting", "line 2")


def test_a_number_among_labels_is_refused(app):
    response = app.upload(b"task,x,y\na,1,cat\na,2,7\n", target_column="y")
    place = {"task": "a", "row": 1, "column": "y"}
    app.assert_rejected(response, "mixed-labels", "line 3", "target_kind=classes", **place)


def test_text_among_numeric_targets_is_refused(app):
    response = app.upload(b"task,x,y\na,1,7\na,2,cat\n", target_column="y")
    place = {"task": "a", "row": 1, "column": "y"}
    app.assert_rejected(response, "mixed-labels", "line 3", "target_kind=classes", **place)


def test_mixed_labels_are_taken_where_the_caller_says_classes(app):
    response = app.upload(b"task,x,y\na,1,7\na,2,cat\n", target_column="y", target_kind="classes")
    assert app.tasks(response.json()["id"])["a"].y.tolist() == ["7", "cat"]


def test_text_is_no_number_where_the_caller_says_numbers(app):
    response = app.upload(b"task,x,y\na,1,cat\n", target_column="y", target_kind="numbers")
    app.assert_rejected(response, "not-a-number", "'cat'", task="a", row=0, column="y")


def test_several_targets_and_a_task_column_are_refused(app):
    response = app.upload(b"task,x,y,z\na,1,2,3\n", target_column=["y", "z"])
    app.assert_rejected(response, "option-unused", parameter="query:target_column")


def test_a_table_of_targets_only_is_refused(app):
    app.assert_rejected(app.upload(b"task,y\na,1\n", target_column="y"), "no-features")


def test_a_task_with_a_control_character_is_refused(app):
    response = app.upload(b'task,x\n"a\nb",1\n')
    app.assert_rejected(response, "bad-name", "control character", row=0, column="task")


def test_every_complaint_is_told_at_once(app):
    response = app.upload(b"task,x,y\na,one,2\na,1\nb,nan,\n", target_column="y")
    errors = response.json()["errors"]
    assert {e["code"] for e in errors} == {
        "not-a-number",
        "wrong-width",
        "not-finite",
        "empty-cell",
    }
    assert response.json()["detail"]


def test_complaints_are_bounded(app):
    response = app.upload(b"task,x\n" + b"a,bad\n" * 1000)
    app.assert_rejected(response, "not-a-number", row=0)
    assert len(response.json()["errors"]) == MAX_COMPLAINTS


@pytest.mark.parametrize("cell", ["1_000", "\u0661", "0x10", "1,5", "1.5.2", "--1"])
def test_what_only_python_or_a_locale_reads_is_no_number(app, cell):
    response = app.upload(f'task,x\na,"{cell}"\n'.encode())
    app.assert_rejected(response, "not-a-number", task="a", row=0, column="x")


def test_quotes_a_byte_order_mark_and_line_ends_of_windows_are_read(app):
    body = '\ufefftask,"x, in ""cm""",y\r\n"a\u00e9, b",1.5,cat\r\n'.encode()
    response = app.upload(body, target_column="y")
    task = app.tasks(response.json()["id"])["aé, b"]
    assert task.feature_names == ('x, in "cm"',)
    assert (task.X.tolist(), task.y.tolist()) == ([[1.5]], ["cat"])


def test_several_targets_without_a_task_column_are_tasks_that_share_their_rows(app):
    response = app.upload(b"x,y,z\n1,2,cat\n3,4,dog\n", target_column=["y", "z"])
    tasks = app.tasks(response.json()["id"])
    assert tasks.names == ("y", "z")
    assert tasks["y"].y.tolist() == [2.0, 4.0]
    assert tasks["z"].y.tolist() == ["cat", "dog"]
    assert np.shares_memory(tasks["y"].X, tasks["z"].X)


def test_an_ignored_column_may_hold_anything(app):
    response = app.upload(b"id,task,x\nfoo,a,1\n,a,2\n", ignore_column="id")
    assert app.tasks(response.json()["id"])["a"].feature_names == ("x",)


def test_too_many_tasks_are_refused(make_app):
    app = make_app(max_tasks=2)
    app.assert_rejected(app.upload(b"task,x\na,1\nb,1\nc,1\n"), "too-many-tasks", "more than 2")


def test_too_many_columns_are_refused(make_app):
    app = make_app(max_features=2)
    app.assert_rejected(app.upload(b"task,x,y,z\na,1,2,3\n"), "too-many-features", "more than 2")


def test_a_long_name_is_refused(make_app):
    app = make_app(max_name_length=5)
    response = app.upload(b"task,x\nabcdef,1\n")
    app.assert_rejected(response, "bad-name", "6 characters, more than 5", row=0, column="task")


@pytest.mark.parametrize("column", ["y", "task"])
def test_a_table_in_which_every_row_has_a_name_of_its_own_is_read_in_linear_time(app, column):
    """Looking each name up in the rows took minutes: 40 s for a quarter of a million rows."""
    names = {"task": ["a"] * 60_000, "y": ["b"] * 60_000}
    names[column] = [f"n{i}" for i in range(60_000)]
    rows = "".join(f"{t},{y},1\n" for t, y in zip(names["task"], names["y"], strict=True))
    started = time.monotonic()
    response = app.upload(f"task,y,x\n{rows}".encode(), target_column="y")
    code = "too-many-classes" if column == "y" else "too-many-tasks"
    app.assert_rejected(response, code, "more than 10000")
    assert time.monotonic() - started < 10


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
    tasks = parse(path, ReadOptions(target_column=("y",)), LIMITS)
    assert [task.name for task in tasks] == list(expected)
    for task in tasks:
        wanted = np.array(expected[task.name])
        assert task.X.tobytes() == wanted[:, [0, 2]].tobytes()
        assert task.y.tobytes() == wanted[:, 1].tobytes()


@given(body=st.binary(max_size=300) | st.text(',\n"ax1.', max_size=80).map(str.encode))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_rejected(tmp_path, body):
    path = tmp_path / "any.csv"
    path.write_bytes(body)
    for options in (ReadOptions(), ReadOptions(task_column="a", target_column=("x",))):
        with contextlib.suppress(Rejected):
            assert parse(path, options, LIMITS)
