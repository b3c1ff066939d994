"""Files as people have them: text around the table, and values that are not read, with advice."""

import io
import json

import numpy as np
import openpyxl
import pytest

from service.datasets.formats.registry import FORMATS, UnsupportedFormat, check_magic
from service.errors.problems import Problem
from service.inference.call import InputSpec
from service.inference.formats.csv_body import read_csv
from service.inference.formats.json_body import read_json, read_json_lines
from service.inference.task_column import TaskSource

TABLE = "task,reading,hours,maths\na,1.5,2,3\na,2.5,3,4\nb,3.5,4,5\n"
ROWS = [[1.5, 2], [2.5, 3], [3.5, 4]]
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
#: Text above the header, by what a note shows of it.
ABOVE = {
    "School results 2024": "School results 2024\n",
    "Results of schools, 2024": "Results of schools, 2024\n",
    "Results": "Results,,,\n,,,\n",
    "# exported, by a tool": "# exported, by a tool\n# on Monday\n\n",
}


def notes_of(result):
    return " ".join(result["manifest"]["warnings"])


@pytest.mark.parametrize("shown", ABOVE)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_text_above_the_header_is_left_out_with_a_note(reader, shown, delimiter):
    above = ABOVE[shown] if delimiter == "," else ABOVE[shown].replace(",,,", 3 * delimiter)
    data = (above + TABLE.replace(",", delimiter)).encode()
    result = reader.read(data, target_column="maths")
    tasks = reader.tasks(result)
    assert np.vstack([tasks["a"].X, tasks["b"].X]).tolist() == ROWS
    assert repr(shown) in notes_of(result)
    call = read_csv(data, TaskSource(None, "task", lambda _: True))
    spec = InputSpec(
        "a",
        "predict",
        2,
        allow_missing=False,
        columns=lambda: ("reading", "hours"),
        ignored=lambda: frozenset({"maths"}),
    )
    assert call.task == ["a", "a", "b"]
    assert call.rows.as_matrix(spec).tolist() == ROWS


def test_issues_below_a_title_have_the_lines_of_the_file(reader):
    data = f"Results\n\n{TABLE}b,3.5,x,5\nb,1\n".encode()
    result = reader.read(data, target_column="maths")
    reader.assert_rejected(result, "wrong-width", "line 8 has 2 cells", row=4)
    wrong = reader.read(data.replace(b"b,1\n", b""), target_column="maths")
    reader.assert_rejected(wrong, "not-a-number", "line 7, task 'b'", row=3, column="hours")


@pytest.mark.parametrize(
    "data",
    [
        b"#task,x\na,1\nb,2\n",  # a name may begin with this sign
        b"task x\n1 a 2\n2 b 3\n",  # write.table of R
        b'task,x,"text, long"\na,1,u\nb,2,v\n',
    ],
)
def test_a_header_is_no_title(reader, data):
    options = {"task_column": "#task"} if data.startswith(b"#") else {}
    assert reader.tasks(reader.read(data, **options)).names == ("a", "b")


def test_a_header_that_is_too_short_is_no_title(reader):
    reader.assert_rejected(reader.read(b"task,x\na,1,2,3\nb,1,2,3\n"), "wrong-width", "line 2")


@pytest.mark.parametrize("footer", ["Source: Ministry\n", "\nSource: Ministry, 2024\n"])
def test_a_footer_is_refused_with_its_line_and_advice(reader, footer):
    result = reader.read((TABLE + footer).encode(), target_column="maths")
    reader.assert_rejected(result, "wrong-width", "remove the line", row=3)


def test_a_second_header_is_refused_with_advice(reader):
    data = TABLE.replace("maths\n", "maths\nb,points,h,points\n").encode()
    result = reader.read(data, target_column="maths")
    assert {(issue["row"], issue["column"]) for issue in result["issues"]} == {
        (0, "reading"),
        (0, "hours"),
        (0, "maths"),
    }
    reader.assert_rejected(result, "not-a-number", "second header", row=0, column="reading")


MEASURES = {
    "12:30": "hours",
    "1:02:03": "hours",
    "PT1H30M": "hours",
    "2h 30min": "hours",
    "0 days 00:12:00": "hours",
    "52°31'": "degrees",
    "N 13° 24.5\u2032": "degrees",
}


@pytest.mark.parametrize("text", MEASURES)
def test_measures_that_are_not_read_have_a_note_on_how_to_write_them(reader, text):
    rows = [{"task": "a", "x": k, "m": m} for k, m in enumerate([text, text, "later"])]
    result = reader.read(json.dumps(rows).encode(), "application/json")
    assert MEASURES[text] in notes_of(result)
    assert result["manifest"]["columns"][1]["kind"] == "category"


def test_tasks_that_differ_in_case_have_a_note(reader):
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in [["task", "x"], ["North", 1], ["north ", 2], ["NORTH", 3], ["south", 4]]:
        book.active.append(row)
    book.save(file)
    result = reader.read(file.getvalue(), XLSX)
    assert "'North' and 'north' and 'NORTH'" in notes_of(result)
    assert "south" not in notes_of(result)


def test_records_under_a_key_that_have_the_task_column_are_refused(reader):
    data = json.dumps({"data": [{"school": "a", "x": 1}, {"school": "b", "x": 2}]}).encode()
    result = reader.read(data, "application/json", task_column="school")
    reader.assert_rejected(result, "duplicate-column", "'school'", "list of records alone")


def as_workbook(rows):
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in [[*rows[0]], *(row.values() for row in rows)]:
        book.active.append([*row])
    book.save(file)
    return file.getvalue()


WRITERS = {"application/json": lambda rows: json.dumps(rows).encode(), XLSX: as_workbook}
PARTLY_TEXT = {
    "numbers": ([1.5, "2.25", 3, "n/a"], [1.5, 2.25, 3, np.nan]),
    "commas beside numbers": ([1.234, "0,5", -2.5e-07, 2.5], [1.234, 0.5, -2.5e-07, 2.5]),
    "decimal commas": (["1,5", "2,25", 3], [1.5, 2.25, 3]),
    "units": (["1 %", "2.5 %", "3%"], [1, 2.5, 3]),
    "booleans": ([True, "FALSE", "true"], [1, 0, 1]),
    "large numbers": ([1e300, "2", 0.1], [1e300, 2, 0.1]),
}


@pytest.mark.parametrize("media_type", WRITERS)
@pytest.mark.parametrize("name", PARTLY_TEXT)
def test_values_that_are_partly_kept_as_text_are_read_as_in_csv(reader, media_type, name):
    values, expected = PARTLY_TEXT[name]
    rows = [{"task": "a", "x": value, "y": value, "z": 1} for value in values]
    result = reader.read(WRITERS[media_type](rows), media_type, ignore_column="y")
    np.testing.assert_array_equal(reader.tasks(result)["a"].X[:, 0], expected)
    if name == "numbers":
        assert "'x' is text, and is read as numbers" in notes_of(result)
        targets = reader.tasks(
            reader.read(WRITERS[media_type](rows), media_type, target_column="y")
        )
        assert targets["a"].y[:3].tolist() == expected[:3]


RECORDS = [{"task": "ab"[i % 2], "x": i + 0.5, "s": "é"} for i in range(4)]
AS_LIST = json.dumps(RECORDS)
AS_LINES = "\n".join(map(json.dumps, RECORDS))
DOCUMENTS = {
    "lines in a file of a list": ("json", AS_LINES.encode()),
    "a list in a file of lines": ("x-ndjson", AS_LIST.encode()),
    "a list on several lines": ("x-ndjson", json.dumps(RECORDS, indent=1).encode()),
    **{
        f"{kind} in {encoding}": (kind, text.encode(encoding))
        for kind, text in {"json": AS_LIST, "x-ndjson": AS_LINES}.items()
        for encoding in ("utf-8-sig", "utf-16", "utf-16-le")
    },
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_json_is_read_with_a_byte_order_mark_in_utf_16_and_as_lines_or_a_list(reader, name):
    kind, data = DOCUMENTS[name]
    tasks = reader.tasks(reader.read(data, f"application/{kind}"))
    assert [task.X[:, 0].tolist() for task in tasks] == [[0.5, 2.5], [1.5, 3.5]]
    read = read_json if kind == "json" else read_json_lines
    assert read(data, TaskSource(None, "task", lambda _: True)).task == ["a", "b", "a", "b"]


@pytest.mark.parametrize("data", [b'{"task": "a", "x": 1}\n{"x"', b"{"])
def test_json_that_is_cut_off_is_refused(reader, data):
    reader.assert_rejected(reader.read(data, "application/json"), "corrupt-file")
    with pytest.raises(Problem):
        read_json(data, TaskSource(None, "task", lambda _: True))


OTHERS = {
    b"BZh9": "unpack",
    b"\xfd7zXZ\0": "unpack",
    b"\xd0\xcf\x11\xe0": ".xlsx",
    b"$FL2@(#) IBM SPSS": "CSV",
    b"<stata_dta>": "CSV",
    b"%PDF-1.4": "CSV",
    b"<html>": "CSV",
    b"PK\x03\x04": ".xlsx",
}


@pytest.mark.parametrize("head", OTHERS)
def test_files_of_other_programs_are_refused_with_what_to_do(head):
    csv = next(format_ for format_ in FORMATS if format_.has_dialect)
    with pytest.raises(UnsupportedFormat, match=OTHERS[head]):
        check_magic(csv, head + bytes(100))
