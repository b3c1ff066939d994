import contextlib
import csv
import gzip
import io
import unicodedata
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from algorithms.wrappers.preparation.written_dates import form_of, order_of, to_iso
from service.datasets.canonical import read_all_rows
from service.datasets.formats.csv_table import _BLOCK_BYTES, parse
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.issues import MAX_ISSUES, Rejected

LIMITS = Limits(
    decompressed_bytes=10**9, decompression_ratio=200, tasks=50, features=50, name_length=30
)
GOOD = b"task,x1,x2,y\na,1,2,0.5\na,3,4,1.5\nb,5,6,2.5\n"


def zstd(body):
    """Return compressed bytes."""
    return pa.compress(body, "zstd", asbytes=True)


def test_a_valid_table_is_read(reader):
    tasks = reader.tasks(reader.read(GOOD, target_column="y"))
    assert tasks.names == ("a", "b")
    assert tasks["a"].X.tolist() == [[1, 2], [3, 4]]
    assert tasks["b"].y.tolist() == [2.5]
    assert tasks["a"].feature_names == ("x1", "x2")


@pytest.fixture
def n_threads():
    """Return a function that sets the number of threads of the parser."""
    before = pa.cpu_count()
    yield pa.set_cpu_count
    pa.set_cpu_count(before)


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["", "t,1\n", "t,1,2,c,d,4,5\n", "t,1,x,c,d,4\n"])
def test_several_threads_read_and_reject_what_one_does(reader, n_threads, fault):
    rng = np.random.default_rng(0)
    levels = [f"level {i}" for i in range(9)]
    lines = [
        f'{task},{a},{b},{rng.choice(levels)},"quoted,\n{i % 7}",{i}\n'
        for i, (task, a, b) in enumerate(
            zip(np.repeat(["a", "b"], 25_000), *rng.normal(size=(2, 50_000)), strict=True)
        )
    ]
    lines[40_000] += fault
    body = "".join(["task,x1,x2,c,d,y\n", *lines]).encode()
    assert len(body) > 3 * _BLOCK_BYTES
    found = []
    for n in (1, 3):
        n_threads(n)
        found.append(reader.read(body, target_column="y", ignore_column="d"))
        content = reader.folder / "content"
        found[-1]["bytes"] = content.read_bytes() if content.exists() else None
    assert found[0] == found[1]
    assert ("issues" in found[0]) == bool(fault)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ['"in,\n\nlines\n\n1,2\n\n"', 'a 3" pipe', '"a ""word"""', "plain"],
    ids=["line ends", "stray quotes", "doubled quotes", "no quotes"],
)
@pytest.mark.parametrize("place", [0, 2])
def test_a_file_is_read_in_parts_wherever_its_lines_end(reader, n_threads, text, place):
    cells = [["a" if i % 3 else "b", f"{i}"] for i in range(150_000)]
    for row in cells:
        row.insert(place, text)
    header = ["task", "x"]
    header.insert(place, "note")
    body = "\n".join(map(",".join, [header, *cells])).encode()
    assert len(body) > 1.5 * 2**20
    found = []
    for n in (1, 4):
        n_threads(n)
        found.append(reader.read(body, ignore_column="note"))
        found[-1]["bytes"] = (reader.folder / "content").read_bytes()
    assert found[0] == found[1]
    assert sum(task["n_samples"] for task in found[0]["manifest"]["tasks"]) == len(cells)


@pytest.mark.parametrize("n_columns", [2, 150])
def test_a_record_longer_than_the_first_blocks_is_read(reader, n_columns):
    note = "long " * (_BLOCK_BYTES // 4)
    names = [f"x{j}" for j in range(n_columns)]
    row = ",".join("1" for _ in names)
    rows = f"a,{row},short\n" * (_BLOCK_BYTES // len(row)) + f"a,{row},{note}\n"
    result = reader.read(f"task,{','.join(names)},note\n{rows}".encode(), ignore_column="note")
    X = reader.tasks(result)["a"].X
    assert X.shape == (rows.count("\n"), n_columns)
    assert (X == 1).all()


@pytest.mark.parametrize(
    ("delimiter", "code"),
    [(",", "00123"), (",", '"00123"'), (",", "  00123"), (" ", "00123")],
)
def test_codes_stay_text_though_the_first_0_is_far_from_the_start(reader, delimiter, code):
    numbers = [["a", str(10_000 + i % 30), str(i % 7)] for i in range(110_000)]
    records = [["task", "zip", "x"], *numbers, ["a", code, "1"], numbers[0]]
    body = "\n".join(map(delimiter.join, records)).encode()
    result = reader.read(body)
    assert "column 'zip' has codes such as '00123'" in " ".join(result["manifest"]["warnings"])
    kinds = {column["name"]: column["kind"] for column in result["manifest"]["columns"]}
    assert kinds == {"zip": "category", "x": "number"}


def test_a_short_row_is_located_by_its_line(reader):
    result = reader.read(b"task,x,y\na,1,2\na,1\na,2,3\n", target_column="y")
    reader.assert_rejected(result, "wrong-width", "line 3 has 2 cells, the header has 3", row=1)


def test_text_in_a_numeric_column_is_located_by_line_column_and_task(reader):
    result = reader.read(b"task,x1,x2\na,1,2\nb,3,four\n")
    place = {"task": "b", "row": 1, "column": "x2"}
    reader.assert_rejected(result, "not-a-number", "line 3", "'four'", "'x2'", "'b'", **place)


@pytest.mark.parametrize("cell", ["inf", "-Infinity", "1e999"])
def test_a_non_finite_cell_is_rejected(reader, cell):
    result = reader.read(f"task,x\na,1\na,{cell}\n".encode())
    reader.assert_rejected(result, "not-finite", "line 3", "inf", task="a", row=1, column="x")


@pytest.mark.parametrize("number", ["9007199254740993", "-9223372036854775807"])
def test_an_integer_that_is_inexact_as_float64_is_rejected(reader, number):
    body = f"id,x,y\n1,2.5,3\n{number},1e20,4\n".encode()
    result = reader.read(body, target_column="y")
    reader.assert_rejected(result, "inexact-integer", "'id'", "column_kind=id:", column="id")
    assert reader.read(body, target_column="y", ignore_column="id")["manifest"]


HUGE = ["9007199254740993", "-12345678901234567890123", "+09007199254740993"]


@pytest.mark.parametrize("number", HUGE)
@pytest.mark.parametrize("other", ["3", "2.5", "1e30"])
def test_an_inexact_integer_among_other_numbers_is_located(reader, number, other):
    body = f"task,x,y\na,{other},1\na,{number},2\n".encode()
    result = reader.read(body, target_column="y")
    words = ("line 3", repr(number), "above 2**53", "column_kind=x:category")
    reader.assert_rejected(result, "inexact-integer", *words, row=1, column="x", task="a")
    assert reader.read(body, column_kind=["x:category"])["manifest"]


@pytest.mark.parametrize("number", HUGE)
def test_an_inexact_integer_target_is_rejected_unless_it_is_a_label(reader, number):
    body = f"task,x,y\na,1,3\na,2,{number}\n".encode()
    result = reader.read(body, target_column="y")
    words = ("line 3", repr(number), "target_kind=classes")
    reader.assert_rejected(result, "inexact-integer", *words, row=1, column="y", task="a")
    assert reader.read(body, target_column="y", target_kind="classes")["manifest"]


def test_large_floats_and_the_largest_exact_integer_are_read(reader):
    body = (
        b"task,x,w,y\na,1e30,9007199254740993,12345678901234567890.0\na,9007199254740992,1,1e16\n"
    )
    task = reader.tasks(reader.read(body, target_column="y", weight_column="w"))["a"]
    assert task.X.tolist() == [[1e30], [2.0**53]]
    assert task.y.tolist() == [12345678901234567890.0, 1e16]


@pytest.mark.parametrize("start", ["", "\n\n"])
@pytest.mark.parametrize("end", ["", "\n", "\r", "\n\n"])
def test_a_header_alone_is_a_table_without_rows(reader, start, end):
    result = reader.read(f"{start}task,x,y{end}".encode(), target_column="y")
    reader.assert_rejected(result, "no-rows", "the table has columns but no rows")


@pytest.mark.parametrize("body", [b"", b"\n\n", b"\r\n", b" \n", b"sep=;\n", b"\t\n \n"])
def test_a_file_of_blank_lines_is_empty(reader, body):
    reader.assert_rejected(reader.read(body), "empty-file", "the file is empty")


@pytest.mark.parametrize("start", ["sep=;\n", "\ufeffSEP=;\r\n", "\nsep=;\n\n"])
def test_a_first_line_that_declares_the_delimiter_is_not_the_header(reader, start):
    body = f"{start}task;x;note\na;1,5;u,v,w\na;2,5;u,v,x\n"
    result = reader.read(body.encode())
    assert reader.tasks(result)["a"].X[:, 0].tolist() == [1.5, 2.5]
    assert result["manifest"]["columns"][1]["levels"] == ["u,v,w", "u,v,x"]
    assert "delimiter ';'" in result["manifest"]["warnings"][0]
    line = body.count("\n") + 1
    wrong = reader.read(f"{body}a;1\n".encode())
    reader.assert_rejected(wrong, "wrong-width", f"line {line} has 2 cells", row=2)
    wrong = reader.read(f"{body}a;x;y\n".encode())
    reader.assert_rejected(wrong, "not-a-number", f"line {line}", "'x'", row=2)


def test_a_task_named_like_a_missing_marker_is_no_missing_value(reader):
    result = reader.read(b"task,x\nNA,1\nNA,2\n")
    assert reader.tasks(result).names == ("NA",)
    assert result["manifest"]["warnings"] == []
    (note,) = reader.read(b"task,x\nb,1\nb,NA\n")["manifest"]["warnings"]
    assert note == "read with 1 missing value, such as 'NA'"


@pytest.mark.parametrize("options", [{}, {"column_kind": ["seen:date"]}])
def test_dates_with_and_without_a_time_zone_are_instants(reader, options):
    days = ["2024-01-31", "2024-02-28T10:30:00Z", "", "2024-02-28 10:30:00.5+02:00"]
    body = "task,seen\n" + "".join(f"a,{day}\n" for day in days)
    result = reader.read(body.encode(), **options)
    assert [column["kind"] for column in result["manifest"]["columns"]] == ["date"]
    moments = [
        datetime(2024, 1, 31, tzinfo=UTC),
        datetime(2024, 2, 28, 10, 30, tzinfo=UTC),
        None,
        datetime(2024, 2, 28, 8, 30, 0, 500_000, tzinfo=UTC),
    ]
    expected = [[np.nan if moment is None else moment.timestamp()] for moment in moments]
    np.testing.assert_array_equal(reader.tasks(result)["a"].X, expected)


def test_a_date_that_is_not_read_has_a_note(reader):
    body = b"task,seen\na,31-Mai-2024\na,28-Okt-2024\n"
    (note,) = reader.read(body)["manifest"]["warnings"]
    assert "column 'seen' looks like dates such as '31-Mai-2024', but is read as text" in note
    (note,) = reader.read(b"task,seen\na,1/2/2024\na,2/1/2024\n")["manifest"]["warnings"]
    assert "day and month can be either" in note


def test_advice_about_text_among_numbers_fits_the_column(reader):
    body = b"task,x,w,y\na,1,u,1\na,2,1,v\n"
    result = reader.read(body, target_column="y", target_kind="numbers", ignore_column="w")
    words = ("got 'v'", "leave out target_kind=numbers")
    reader.assert_rejected(result, "not-a-number", *words, row=1, column="y")
    assert "column_kind" not in result["issues"][0]["detail"]
    result = reader.read(body, weight_column="w", ignore_column="y")
    words = ("got 'u'", "every row needs a weight of at least 0")
    reader.assert_rejected(result, "not-a-number", *words, row=0, column="w")
    assert "column_kind" not in result["issues"][0]["detail"]


@pytest.mark.parametrize("cell", ["", "  ", "NA", "nan", "NaN", "null", "?", '"NA"'])
def test_an_empty_cell_or_a_marker_is_a_missing_value(reader, cell):
    result = reader.read(f"task,x1,x2\na,1,2\na,3,{cell}\n".encode())
    assert [entry["features"]["missing"] for entry in result["manifest"]["tasks"]] == [[0, 1]]
    X = reader.tasks(result)["a"].X
    assert X[0].tolist() == [1, 2]
    assert np.isnan(X[1]).tolist() == [False, True]


def test_missing_markers_may_be_declared(reader):
    body = b"task,x,c\na,1,NA\na,-999,u\na,3,NA\na,4,u\n"
    result = reader.read(body, missing_marker=["-999"])
    assert np.isnan(reader.tasks(result)["a"].X[:, 0]).tolist() == [False, True, False, False]
    assert result["manifest"]["columns"][1]["levels"] == ["NA", "u"]
    assert "1 missing value, such as '-999'" in result["manifest"]["warnings"][0]


@pytest.mark.parametrize("target", ["2", "cat"])
@pytest.mark.parametrize("has_tasks", [True, False])
def test_a_row_without_a_target_is_for_methods_that_need_none(reader, target, has_tasks):
    body = f"task,x,y,g\na,1,{target},p\na,3,,q\na,5,,p\n"
    body = body if has_tasks else body.replace("task", "z")
    own = {} if has_tasks else {"ignore_column": "z"}
    result = reader.read(body.encode(), target_column="y", group_column="g", **own)
    (task,) = reader.tasks(result)
    assert (task.X.tolist(), task.groups.tolist()) == ([[1]], ["p"])
    manifest = result["manifest"]
    note = manifest["warnings"][0]
    assert "2 rows have no value in the target column 'y'; they are used only by methods" in note
    assert manifest["tasks"][0]["n_unlabelled"] == 2
    (task,) = read_all_rows(reader.folder / "content", manifest)
    assert (task.X.tolist(), task.y) == ([[1], [3], [5]], None)
    assert task.groups.tolist() == ["p", "q", "p"]


def test_a_task_without_any_target_is_left_out_with_a_note(reader):
    result = reader.read(b"task,x,y\na,1,2\nb,3,\n", target_column="y")
    assert reader.tasks(result).names == ("a",)
    assert "task 'b' has no targets and is left out" in result["manifest"]["warnings"]


def test_a_table_without_any_target_is_rejected(reader):
    result = reader.read(b"task,x,y\na,1,\nb,3,\n", target_column="y")
    reader.assert_rejected(result, "empty-cell", "'y' has no values", column="y")


def test_each_target_of_shared_rows_leaves_out_its_own_missing_ones(reader):
    result = reader.read(b"x,y,z,w\n1,1,,5\n2,,3,6\n", target_column=["y", "z", "w"])
    tasks = reader.tasks(result)
    assert [task.X.tolist() for task in tasks] == [[[1]], [[2]], [[1], [2]]]
    assert [task.y.tolist() for task in tasks] == [[1], [3], [5, 6]]
    assert all("left out" in note for note in result["manifest"]["warnings"])
    assert [entry.get("n_unlabelled") for entry in result["manifest"]["tasks"]] == [None] * 3


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


def test_a_line_that_is_not_utf8_like_the_others_is_located(reader):
    result = reader.read("task,x\né,1\n".encode() + b"b\xe9,2\n")
    reader.assert_rejected(result, "not-utf8", "line 3 is not UTF-8 at byte 1", "encoding=NAME")


@pytest.mark.parametrize("end", [b"\xc3", b"\xc3,1\n"])
def test_a_character_cut_off_at_the_end_of_a_block_is_found(reader, end):
    """The next block, or the end of the file, is ASCII."""
    n_bytes = 4 * 1024**2 - len("task,x\n") - 1
    body = b"task,x\n" + b"a,1\n" * (n_bytes // 4) + b"a" * (n_bytes % 4) + end
    result = reader.read(body + b"," * (end == b"\xc3"), encoding="utf-8")
    reader.assert_rejected(result, "not-utf8", "is not UTF-8 at byte")


def test_declared_utf8_is_checked(reader):
    result = reader.read(b"task,x\nb\xe9,2\n", encoding="utf8")
    reader.assert_rejected(result, "not-utf8", "line 2 is not UTF-8 at byte 1")


TEXT = "task;größe;y\na;1,5;ä\nb;2,25;n\n"


@pytest.mark.parametrize(
    ("encoding", "options", "told"),
    [
        ("utf-8", {}, ""),
        ("utf-8-sig", {}, "encoding utf-8-sig"),
        ("utf-16", {}, ", encoding utf-16"),
        ("utf-16-le", {}, ", encoding utf-16-le"),
        ("utf-16-be", {}, ", encoding utf-16-be"),
        ("utf-32", {}, ", encoding utf-32"),
        ("windows-1252", {}, ", encoding windows-1252"),
        ("latin-1", {"encoding": "latin-1"}, ", encoding iso8859-1"),
        ("cp850", {"encoding": "cp850"}, ", encoding cp850"),
    ],
)
@pytest.mark.parametrize(
    "compress", [bytes, gzip.compress, lambda b: pa.compress(b, "zstd", asbytes=True)]
)
def test_dialect_encoding_and_compression_are_detected(reader, encoding, options, told, compress):
    result = reader.read(compress(TEXT.encode(encoding)), target_column="y", **options)
    tasks = reader.tasks(result)
    assert [task.X.tolist() for task in tasks] == [[[1.5]], [[2.25]]]
    assert [task.y.tolist() for task in tasks] == [["ä"], ["n"]]
    assert tasks["a"].feature_names == ("größe",)
    (note,) = result["manifest"]["warnings"]
    assert "delimiter ';', decimal ','" in note
    assert encoding in {"utf-8", "utf-8-sig"} or told in note


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
def test_delimiter_and_decimal_are_detected(reader, delimiter, decimal):
    rows = [("task", "x", "text; with, all| of them"), ("a", 1.25, "u;,|"), ("b", -3.5, "v\t")]
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows(
        [str(cell).replace(".", decimal) for cell in row] for row in rows
    )
    declared = {"decimal": ","} if (delimiter, decimal) == (",", ",") else {}
    tasks = reader.tasks(reader.read(file.getvalue().encode(), **declared))
    assert [task.X[0, 0] for task in tasks] == [1.25, -3.5]


def test_a_column_that_is_declared_to_be_numbers_may_have_decimal_commas(reader):
    body = b"task;x;z\na;1,5;7\nb;;+8\n"
    result = reader.read(body, column_kind=["x:number", "z:number"])
    values = [task.X.tolist() for task in reader.tasks(result)]
    assert values[0] == [[1.5, 7]]
    assert values[1][0][1] == 8


def test_what_may_be_a_thousands_separator_is_not_taken_for_a_decimal(reader):
    result = reader.read(b"task;x\na;1,234\nb;5,678\n")
    reader.assert_rejected(result, "ambiguous-number", "line 2", "'1,234'", row=0, column="x")
    tasks = reader.tasks(reader.read(b"task;x\na;1,234\nb;5,678\n", decimal=","))
    assert [task.X.tolist() for task in tasks] == [[[1.234]], [[5.678]]]


def test_another_delimiter_may_be_declared(reader):
    tasks = reader.tasks(reader.read(b"task:x\na:1\n", delimiter=":"))
    assert tasks["a"].X.tolist() == [[1]]


@pytest.mark.parametrize("encoding", ["no such", "hex", ""])
def test_an_unknown_encoding_is_rejected(encoding):
    with pytest.raises(ValidationError, match="text encoding"):
        ReadOptions(encoding=encoding)


@pytest.mark.parametrize("delimiter", ['"', "\n", "\r", "a", "1", ".", "é", "", ";;", "\x00"])
def test_what_cannot_be_a_delimiter_is_rejected(delimiter):
    with pytest.raises(ValidationError, match=r"delimiter|character"):
        ReadOptions(delimiter=delimiter)


@pytest.mark.parametrize("delimiter", [*";:|!#$%&*+-/<=>?@^_`~", "\t", " ", "'", "\\", "(", ","])
def test_any_sign_can_be_a_delimiter(reader, delimiter):
    body = f"task{delimiter}x\na{delimiter}15\nb{delimiter}16\n".encode()
    tasks = reader.tasks(reader.read(body, delimiter=delimiter))
    assert [task.X.tolist() for task in tasks] == [[[15]], [[16]]]


@pytest.mark.parametrize("point", ["1234.567", "1.5", ".5"])
def test_a_decimal_point_among_decimal_commas_is_rejected(reader, point):
    body = f"task;x\na;2,5\nb;{point}\nb;1,5\n".encode()
    result = reader.read(body)
    reader.assert_rejected(result, "not-a-number", "line 3", "decimal ','", row=1, column="x")
    body = f"task;x;y\na;2,5;{point}\nb;1,5;2,5\n".encode()
    result = reader.read(body, target_column="y")
    reader.assert_rejected(result, "mixed-labels", "line 2", repr(point), row=0, column="y")
    labels = reader.tasks(reader.read(body, target_column="y", target_kind="classes"))
    assert labels["a"].y.tolist() == [point]


DATES = {
    "a day that does not exist": (["2024-01-01", "2024-02-30", "2024-03-01"], "2024-02-30"),
    "a word": (["2024-01-01T10:00", "2024-03-01 11:00", "soon"], "soon"),
    "half of them": (["2024-01-01", "never", "2024-03-01", "soon"], "2 values, such as 'never'"),
    "mostly texts": (["2024-01-01", "never", "soon"], None),
    "dates only": (["2024-01-01", "2024-02-29", ""], None),
}


@pytest.mark.parametrize("kind", DATES)
def test_texts_among_dates_have_a_note(reader, kind):
    texts, shown = DATES[kind]
    result = reader.read(b"task,d,x\n" + b"".join(f"a,{t},1\n".encode() for t in texts))
    notes = [note for note in result["manifest"].get("warnings", ()) if "looks like dates" in note]
    assert len(notes) == (shown is not None)
    assert all(shown in note and "column_kind=d:date" in note for note in notes)
    if shown is not None:
        declared = reader.read(b"task,d\na,2024-01-01\na,2024-02-30\n", column_kind=["d:date"])
        reader.assert_rejected(declared, "not-of-kind", "line 3", "2024-02-30", row=1, column="d")


def written(form, values):
    """Return a table with dates in a form of strftime."""
    return b"task,d\n" + b"".join(f"a,{v:{form}}\n".encode() for v in values)


def seconds(values):
    return [[v.timestamp()] for v in values]


MOMENTS = [
    datetime(2024, 1, 31, 14, 30, tzinfo=UTC),
    datetime(1999, 2, 1, 9, 5, tzinfo=UTC),
    datetime(2000, 2, 29, tzinfo=UTC),
]
ORDERS = {
    "%d.%m.%Y": "day.month.year",
    "%d/%m/%Y": "day/month/year",
    "%m/%d/%Y": "month/day/year",
    "%d-%m-%Y": "day-month-year",
    "%Y/%m/%d": "year/month/day",
}


@pytest.mark.parametrize("time", ["", " %H:%M", " %H:%M:%S"])
@pytest.mark.parametrize("form", ORDERS)
def test_dates_of_spreadsheets_are_read(reader, form, time):
    form += time
    moments = [datetime.strptime(v.strftime(form), form).replace(tzinfo=UTC) for v in MOMENTS]
    result = reader.read(written(form, moments))
    assert reader.tasks(result)["a"].X.tolist() == seconds(moments)
    shown = f"dates in 'd' read as {ORDERS[form.removesuffix(time)]}"
    assert shown in str(result["manifest"])


@given(days=st.lists(st.dates(date(1700, 1, 1)), min_size=1), is_day_first=st.booleans())
def test_an_order_that_is_found_is_the_one_of_strptime(days, is_day_first):
    form = "%d/%m/%Y" if is_day_first else "%m/%d/%Y"
    texts = pa.array([day.strftime(form) for day in days])
    slashes = form_of(texts)
    order = order_of(texts, slashes)
    if order == "ambiguous":
        assert all(day.day <= 12 for day in days)
        order = "dmy" if is_day_first else "mdy"
    assert to_iso(texts, slashes, order).to_pylist() == [day.isoformat() for day in days]


def test_the_order_of_ambiguous_dates_is_declared(reader):
    body = b"task,d\na,01/02/2024\na,03/04/2024\n"
    notes = str(reader.read(body)["manifest"])
    assert "day and month can be either" in notes
    assert "column_kind=d:date-dmy" in notes
    for order, form in [("dmy", "%d/%m/%Y"), ("mdy", "%m/%d/%Y")]:
        tasks = reader.tasks(reader.read(body, column_kind=[f"d:date-{order}"]))
        moments = [
            datetime.strptime(v, form).replace(tzinfo=UTC) for v in ("01/02/2024", "03/04/2024")
        ]
        assert tasks["a"].X.tolist() == seconds(moments)
    declared = reader.read(body, column_kind=["d:date"])
    reader.assert_rejected(declared, "not-of-kind", "d:date-mdy", column="d")


def test_dates_that_contradict_each_other_are_text(reader):
    body = b"task,d\na,13/01/2024\na,01/14/2024\n"
    assert "no order fits all values" in str(reader.read(body)["manifest"])
    declared = reader.read(body, column_kind=["d:date-dmy"])
    reader.assert_rejected(declared, "not-of-kind", "line 3", "01/14/2024", row=1, column="d")


@pytest.mark.parametrize(
    ("option", "value"),
    [("column_kind", ["d:date-dmy"]), ("decimal", ","), ("thousands", "."), ("delimiter", ";")],
)
def test_options_of_tables_do_not_apply_to_arrays(reader, option, value):
    result = reader.read(b"PK", "application/x-npz", **{option: value})
    reader.assert_rejected(result, "unused-option", parameter=f"query:{option}")


@pytest.mark.parametrize("option", ["delimiter", "encoding"])
def test_options_of_csv_do_not_apply_to_other_formats(reader, option):
    value = {"delimiter": ";", "encoding": "utf-8"}[option]
    result = reader.read(b"[]", "application/json", **{option: value})
    reader.assert_rejected(result, "unused-option", "CSV only", parameter=f"query:{option}")


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_cut_off_compressed_table_is_rejected(reader, kind):
    body = GOOD * 500
    packed = gzip.compress(body) if kind == "gzip" else zstd(body)
    result = reader.read(packed[:-7])
    reader.assert_rejected(result, "corrupt-file", f"not complete {kind}")


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_decompression_bomb_is_rejected(reader, kind):
    body = b"task,x\n" + b"a,1\n" * 3_000_000
    packed = gzip.compress(body) if kind == "gzip" else zstd(body)
    assert len(body) > 200 * len(packed)
    reader.assert_rejected(reader.read(packed), "decompression-limit", kind)


def test_kinds_of_columns_are_found(reader):
    body = (
        b"task,n,b,d,t,c,e,id\na,1,true,2020-01-31,2020-01-31T10:00:00Z,u,,r1\nb,,false,,,v,,r2\n"
    )
    manifest = reader.read(body, ignore_column="id")["manifest"]
    kinds = {column["name"]: column["kind"] for column in manifest["columns"]}
    expected = {"n": "number", "b": "boolean", "d": "date", "t": "date", "c": "category"}
    assert kinds == expected
    assert "column 'e' has no values and is left out" in manifest["warnings"]


@pytest.mark.slow  # a large file
def test_kinds_may_change_after_the_start_of_a_large_table(reader):
    """The start of the file decides first; a later cell of another kind is no mistake of it."""
    rows = b"a,1,,1,x\n" * 200_000
    manifest = reader.read(b"task,n,e,c,s\n" + rows + b"a,2.5,7.5,low,\n" * 210_000)["manifest"]
    assert [column["kind"] for column in manifest["columns"]] == ["number"] * 2 + ["category"] * 2


@pytest.mark.slow  # a large file
def test_one_mistake_far_down_a_column_of_numbers_is_located(reader):
    result = reader.read(b"task,x\n" + b"a,1\n" * 400_000 + b"b,l\n")
    place = {"task": "b", "row": 400_000, "column": "x"}
    reader.assert_rejected(result, "not-a-number", "line 400002", "got 'l'", **place)


def test_an_unclosed_quote_is_rejected(reader):
    reader.assert_rejected(reader.read(b'task,x\n"a,1\nb,2\n'), "invalid-quoting", "line 3")


def test_a_number_among_labels_is_rejected(reader):
    result = reader.read(b"task,x,y\na,1,cat\na,2,dog\na,3,7\n", target_column="y")
    place = {"task": "a", "row": 2, "column": "y"}
    reader.assert_rejected(result, "mixed-labels", "line 4", "target_kind=classes", **place)


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
    result = reader.read(b'task,x\n"a\x07b",1\n')
    reader.assert_rejected(result, "invalid-name", "control character", row=0, column="task")


@pytest.mark.parametrize("column", ["c", "g", "y"])
def test_a_label_with_a_control_character_is_rejected_with_its_place(reader, column):
    cells = dict.fromkeys("cgy", "v") | {column: "u\x07v"}
    rows = ["task,x,c,g,y", "a,1,v,v,v", "a,2,v,v,", "a,3," + ",".join(cells[k] for k in "cgy")]
    result = reader.read("\n".join(rows).encode(), group_column="g", target_column="y")
    words = ["line 4", f"column '{column}'", "control character"]
    words += ["ignore_column=c"] if column == "c" else []
    reader.assert_rejected(result, "invalid-label", *words, row=2, column=column)


def test_quoted_cells_with_line_breaks_are_text(reader):
    body = b'task,"wind\nspeed",note,g,y\n"a\nb",1,"u\r\nv","u\nv","u\nv"\na b,2,w,w,w\n'
    task = reader.tasks(reader.read(body * 1, group_column="g", target_column="y"))["a b"]
    assert task.feature_names == ("wind speed", "note")
    assert task.y.tolist() == ["u\nv", "w"]
    assert set(task.groups) == {"u\nv", "w"}


def test_rows_of_wrong_width_are_the_only_issue(reader):
    result = reader.read(b"task,x\na,1,2\n")
    assert [issue["code"] for issue in result["issues"]] == ["wrong-width"]


def test_all_issues_are_reported_at_once(reader):
    body = b"task,x,z,y\na,one,inf,2\na,1\nb,2,2,\nb,4,3,cat\n"
    errors = reader.read(body, target_column="y")["issues"]
    places = {(e["code"], e["row"], e.get("task")) for e in errors}
    assert places == {
        ("wrong-width", 1, None),
        ("not-a-number", 0, "a"),
        ("not-finite", 0, "a"),
        ("mixed-labels", 3, "b"),
    }


def test_the_number_of_issues_is_limited(reader):
    result = reader.read(b"task,x\n" + b"a,bad\na,1\n" * 1000)
    reader.assert_rejected(result, "not-a-number", row=0)
    assert len(result["issues"]) == MAX_ISSUES


OTHER_TABLES = {
    "too wide": (b"task,a\ns,1\ns,1,2\n", "wrong-width", "3 cells"),
    "no value": (b"task,a\ns,  \n", "no-features", "has no values"),
    "a NUL": (b"task,a\ns,1\0\n", "invalid-label", "control character"),
    "a huge number": (b"task,a\ns," + b"1" * 200_000 + b"\n", "not-finite", "inf"),
    "not UTF-8 far down": (
        "task,a\né,1\n".encode() + b"s,1\n" * 9000 + b"\xff,1\n",
        "not-utf8",
        "line 9003",
    ),
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
        (["1", "2", "x"], "numbers", 2, "'x'"),
        (["1", "inf", "2"], "auto", 1, "inf"),
    ],
)
def test_an_invalid_target_is_located_by_row_and_column(reader, cells, kind, row, word):
    body = "task,a,y\nu,1,1\n" + "".join(f"t,1,{cell}\n" for cell in cells)
    result = reader.read(body.encode(), target_column="y", target_kind=kind)
    first = result["issues"][0]
    assert word in first["detail"]
    assert (first["task"], first["row"], first["column"]) == ("t", row + 1, "y")


@pytest.mark.parametrize("cell", ["1_000", "1,5", "1,2,3", "12 %", "$1.50", "€ 3"])
def test_numbers_written_otherwise_are_rejected_without_harmful_advice(reader, cell):
    result = reader.read(f'task,x\na,7\na,"{cell}"\n'.encode())
    reader.assert_rejected(result, "not-a-number", task="a", row=1, column="x")
    if cell != "1,2,3":
        assert "category" not in result["issues"][0]["detail"]


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


@pytest.mark.parametrize(
    ("header", "ending"),
    [
        ("Task,a,y", "to divide them; did you mean task_column=Task?"),
        ("school,a,y", "to divide them"),
    ],
)
def test_rows_of_one_task_without_a_task_column_are_a_warning(reader, header, ending):
    result = reader.read(f"{header}\nn,1,2.5\nn,3,4\ns,5,6\ns,2,3\n".encode(), target_column="y")
    assert reader.tasks(result).names == ("y",)
    (warning,) = (note for note in result["manifest"]["warnings"] if "task_column" in note)
    assert warning.startswith("there is no column 'task': all rows are one task, 'y'; declare ")
    assert warning.endswith(ending)


@pytest.mark.parametrize("options", [{"task_column": "school"}, {"target_column": ["a", "y"]}])
def test_a_task_column_or_several_targets_need_no_such_warning(reader, options):
    body = b"school,a,y,x\nn,1,2.5,1\nn,3,4,2\ns,5,6,4\ns,2,3,3\n"
    result = reader.read(body, **{"target_column": "y", **options})
    assert not any("task_column" in note for note in result["manifest"]["warnings"])


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
def test_a_table_with_one_task_per_row_is_read_in_linear_time(reader, stopwatch, column):
    """A search for each name in all rows took 40 s for a quarter of a million rows."""
    names = {"task": ["a"] * 60_000, "y": ["b"] * 60_000}
    names[column] = [f"n{i}" for i in range(60_000)]
    rows = "".join(f"{t},{y},1\n" for t, y in zip(names["task"], names["y"], strict=True))
    elapsed_s = stopwatch()
    result = reader.read(f"task,y,x\n{rows}".encode(), target_column="y")
    if column == "y":
        reader.assert_rejected(result, "too-many-classes", "more than 10000")
    else:
        reader.assert_rejected(result, "too-many-tasks", "limit of 10000")
    assert elapsed_s() < 60


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


@pytest.mark.slow  # a large file
def test_a_header_may_be_longer_than_the_sample(reader):
    names = [f"{'c' * 50}{i}" for i in range(6000)]  # more than 256 KiB
    rows = [",".join(["n", *map(str, range(i, i + 6000))]) for i in range(2)]
    result = reader.read("\n".join([",".join(["task", *names]), *rows]).encode())
    (task,) = reader.tasks(result)
    assert task.feature_names == tuple(names)
    np.testing.assert_array_equal(task.X, np.add.outer([0.0, 1.0], np.arange(6000.0)))
