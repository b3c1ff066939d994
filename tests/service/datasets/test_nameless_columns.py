"""Tables with a column or a cell too many, as the commonest programs write them by default."""

import io

import openpyxl
import pandas as pd
import polars as pl
import pytest

from tests.written import written

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PARQUET = "application/vnd.apache.parquet"
JSON = "application/json"
INDEX = "__index_level_0__"
FRAME = pd.DataFrame(
    {"task": ["a", "a", "b"], "x": [1.5, 2.5, 3.5], "y": [0.1, 0.2, 0.3]}, index=[7, 8, 10**17]
)


def workbook(rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    return written(book.save)


def excel(frame):
    return written(frame.to_excel)


def polars_parquet(frame):
    return written(pl.read_csv(io.StringIO(frame.to_csv())).write_parquet)


SMALL = FRAME.set_axis([7, 8, 9])
INDEXED = {
    "pandas": ("text/csv", FRAME.to_csv().encode()),
    "pandas, semicolons": ("text/csv", FRAME.to_csv(sep=";", decimal=",").encode()),
    "R write.csv": (
        "text/csv",
        b'"","task","x","y"\n"1","a",1.5,0.1\n"2","a",2.5,0.2\n"3","b",3.5,0.3\n',
    ),
    "R write.table": (
        "text/csv",
        b'"task","x","y"\n"Mazda RX4","a",1.5,0.1\n"2","a",2.5,0.2\n"3","b",3.5,0.3\n',
    ),
    "pandas for R": ("text/csv", FRAME.to_csv(index_label=False, sep="\t").encode()),
    "Excel": (XLSX, excel(SMALL)),
    "polars": (PARQUET, polars_parquet(SMALL)),
}


def assert_is_frame(reader, result):
    tasks = reader.tasks(result)
    assert tasks["a"].X.tolist() == [[1.5], [2.5]]
    assert tasks["b"].y.tolist() == [0.3]
    assert tasks["a"].feature_names == ("x",)


@pytest.mark.parametrize("kind", INDEXED)
def test_row_names_without_a_name_are_left_out_with_a_note(reader, kind):
    media_type, body = INDEXED[kind]
    result = reader.read(body, media_type, target_column="y")
    assert_is_frame(reader, result)
    assert INDEX in result["manifest"]["ignored"]
    notes = result["manifest"]["warnings"]
    assert f"column '{INDEX}' is an index without a name and is left out" in notes


def test_several_levels_of_an_index_are_left_out(reader):
    frame = SMALL.set_axis(pd.MultiIndex.from_tuples([(1, "u"), (1, "v"), (2, "u")]))
    result = reader.read(frame.to_csv().encode(), target_column="y")
    assert_is_frame(reader, result)
    assert [n for n in result["manifest"]["ignored"] if "index" in n] == [
        "__index_level_0__",
        "__index_level_1__",
    ]


@pytest.mark.parametrize("kind", ["pandas", "R write.table", "Excel", "polars"])
def test_row_names_may_be_declared_as_group(reader, kind):
    media_type, body = INDEXED[kind]
    result = reader.read(body, media_type, target_column="y", group_column=INDEX)
    assert len(set(reader.tasks(result)["a"].groups)) == 2


EMPTY = {
    "header and rows": b"task;x;y;\na;1.5;0.1;\na;2.5;0.2;\nb;3.5;0.3;\n",
    "rows": b"task;x;y\na;1.5;0.1;\na;2.5;0.2;\nb;3.5;0.3;\n",
    "two": b"task,x,y,,\na,1.5,0.1,,\na,2.5,0.2, ,\nb,3.5,0.3,,\n",
    "within": b"task,,x,y\na,,1.5,0.1\na,,2.5,0.2\nb,,3.5,0.3\n",
    "index, too": b",task,x,y,\n1,a,1.5,0.1,\n2,a,2.5,0.2,\n3,b,3.5,0.3,\n",
}


@pytest.mark.parametrize("kind", EMPTY)
def test_a_column_without_name_and_values_is_left_out_with_a_note(reader, kind):
    result = reader.read(EMPTY[kind], target_column="y")
    assert_is_frame(reader, result)
    assert any("neither a name nor values" in note for note in result["manifest"]["warnings"])


def test_a_column_of_a_workbook_without_name_and_values_is_left_out_with_a_note(reader):
    rows = [["task", "x", " ", "y", ""], ["a", 1.5, None, 0.1], ["a", 2.5, None, 0.2, None]]
    result = reader.read(workbook([*rows, ["b", 3.5, "", 0.3]]), XLSX, target_column="y")
    assert_is_frame(reader, result)
    assert any("neither a name nor values" in note for note in result["manifest"]["warnings"])


INVALID = {
    "values in one row": (b"task,x,y,\na,1,2,\na,1,2,late\n", "invalid-name", 3),
    "numbers": (b"task,x,,y\na,1,3,2\na,1,2,5\n", "invalid-name", 2),
    "decimal commas": (b"task,x\na,1,5\na,2,5\nb,3,5\n", "wrong-width", None),
    "one row": (b"task,x\na,1,5\n", "wrong-width", None),
    "some rows": (b"task,x,y\na,1,2,\na,1,2\n", "wrong-width", None),
    "two cells more": (b"task,x\n1,2,a,1\n2,3,a,2\n", "wrong-width", None),
}


@pytest.mark.parametrize("kind", INVALID)
def test_columns_that_may_be_meant_otherwise_are_refused(reader, kind):
    body, code, column = INVALID[kind]
    reader.assert_rejected(reader.read(body), code, column=column)


@pytest.mark.parametrize("end", [";;\n", ";;\n;;\n;;", " ; ;\r\n", ";\n", ";;;;\n;;\n"])
@pytest.mark.parametrize("options", [{}, {"column_kind": ["x:category"]}], ids=["plain", "kinds"])
def test_rows_of_delimiters_at_the_end_are_left_out_with_a_note(reader, end, options):
    body = "task;x;y\na;1.5;0.1\na;2.5;0.2\nb;3.5;0.3\n" + end
    result = reader.read(body.encode(), target_column="y", **options)
    assert {t.name: len(t.y) for t in reader.tasks(result)} == {"a": 2, "b": 1}
    assert any("without any value" in note for note in result["manifest"]["warnings"])


def test_a_row_of_delimiters_before_others_is_refused(reader):
    body = b"task;x;y\na;1.5;0.1\n;;\nb;3.5;0.3\n"
    reader.assert_rejected(reader.read(body, target_column="y"), "empty-cell", row=1)


def test_an_index_of_records_has_no_name_either(reader):
    body = b'[{"": 1, "task": "a", "x": 1.5}, {"": 2, "task": "a", "x": 2}]'
    tasks = reader.tasks(reader.read(body, JSON))
    assert tasks["a"].feature_names == ("x",)
