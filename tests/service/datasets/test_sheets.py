"""Workbooks with several sheets, totals, row numbers, ids and codes with leading zeros."""

import io
from functools import partial

import numpy as np
import openpyxl
import pandas as pd
import pytest
from openpyxl.worksheet.cell_range import CellRange

from algorithms.wrappers.preparation.columns import Column, NumberWriting
from service.inference.call import InputSpec
from service.inference.formats.table import listed
from service.inference.formats.workbook import read_workbook
from service.inference.task_column import TaskSource
from tests.written import written

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
PARQUET = "application/vnd.apache.parquet"
ROWS = [["task", "x"], ["a", 1.5], ["a", 2.5], ["b", 3.5]]


def workbook(**sheets):
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    return written(book.save)


SOURCE = TaskSource(None, "task", lambda _: True)
BOOK = workbook(Readme=[["What this is"], ["=1/0"]], Data=ROWS, Empty=[])


def notes(result):
    assert "issues" not in result, result
    return result["manifest"]["warnings"]


def test_a_sheet_is_read_by_its_name(reader):
    result = reader.read(BOOK, XLSX, sheet="Data")
    assert notes(result) == ["sheet 'Data' was read, of 'Readme', 'Data', 'Empty'"]
    assert reader.tasks(result)["a"].X.tolist() == [[1.5], [2.5]]


def test_sheets_of_different_columns_need_a_name(reader):
    reader.assert_rejected(reader.read(BOOK, XLSX), "wrong-width", "sheet=NAME")
    missing = reader.read(BOOK, XLSX, sheet="data")
    reader.assert_rejected(missing, "missing-sheet", "'Data'", parameter="query:sheet")
    reader.assert_rejected(reader.read(BOOK, XLSX, sheet="Empty"), "empty-file")
    other = reader.read(b"task,x\na,1\n", sheet="Data")
    reader.assert_rejected(other, "unused-option", parameter="query:sheet")


def test_sheets_that_are_tasks_are_listed(reader):
    rows = [["x"], [1.5], [2.5]]
    result = reader.read(workbook(north=rows, south=rows), XLSX)
    assert reader.tasks(result).names == ("north", "south")
    assert any("'north', 'south'" in note and "sheet=NAME" in note for note in notes(result))


@pytest.mark.parametrize(
    "name", ["Total", "SUM", "Grand total", "Gesamt", "Summe:", "Total général", "TOTALE"]
)
@pytest.mark.parametrize("kind", ["csv", "Excel"])
def test_a_last_row_that_may_be_a_total_has_a_note(reader, kind, name):
    rows = [*ROWS, [name, 7.5]]
    body, media_type = workbook(Data=rows), XLSX
    if kind == "csv":
        body, media_type = "\n".join(f"{task},{x}" for task, x in rows).encode(), "text/csv"
    (note,) = notes(reader.read(body, media_type))
    assert f"'{name}'" in note


def test_a_task_of_several_rows_is_no_total(reader):
    for rows in ([*ROWS, ["Total", 1], ["Total", 2]], [ROWS[0], ["Total", 1], *ROWS[1:]]):
        assert notes(reader.read(workbook(Data=rows), XLSX)) == []


def numbered(column, **more):
    n = len(column)
    return pd.DataFrame({"task": ["a", "b"] * (n // 2), **more, "x": np.arange(n) % 7 + 0.5})


SHUFFLED = np.random.default_rng(0).permutation(40) + 1000


@pytest.mark.parametrize(
    ("name", "values", "has_note"),
    [
        ("n", np.arange(40), True),
        ("Unnamed: 0", np.arange(1, 41), True),
        ("year", np.arange(1990, 2030), False),
        ("patient_id", SHUFFLED, True),
        ("patientID", SHUFFLED, True),
        ("ID", SHUFFLED, True),
        ("ID", SHUFFLED // 2, False),
        ("ID", SHUFFLED + 0.5, False),
        ("price", SHUFFLED, False),
        ("humid", SHUFFLED, False),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "Parquet"])
def test_row_numbers_and_ids_have_a_note(reader, kind, name, values, has_note):
    frame = numbered(values, **{name: values})
    body, media_type = frame.to_csv(index=False).encode(), "text/csv"
    if kind == "Parquet":
        body, media_type = frame.to_parquet(index=False), PARQUET
    found = notes(reader.read(body, media_type))
    assert [f"ignore_column={name} " in note for note in found] == [True] * has_note


@pytest.mark.parametrize("n_before", [0, 4])
def test_codes_with_leading_zeros_are_text(reader, n_before):
    zips = ["12345"] * n_before + ["00123", "04567"] * 5
    frame = pd.DataFrame({"task": ["a"] * len(zips), "zip": zips, "x": [0, 10] * (len(zips) // 2)})
    body = frame.to_csv(index=False).encode()
    result = reader.read(body)
    kinds = {c["name"]: c.get("levels") for c in result["manifest"]["columns"]}
    assert set(kinds["zip"]) == set(zips)
    assert any("'00123'" in note for note in notes(result))
    declared = reader.read(body, column_kind=["zip:number"])
    assert reader.tasks(declared)["a"].X[-1, 0] in {123, 4567}


@pytest.mark.parametrize("number_format", ["0%", "0.00%", '0.0"of all"%'])
@pytest.mark.parametrize("first_column", [1, 3])
def test_percentages_have_a_note_and_are_those_of_text_in_rows_for_a_model(
    reader, number_format, first_column
):
    book = openpyxl.Workbook()
    for i, row in enumerate([["task", "share", "x"], ["a", 0.12, 1.5], ["b", 0.5, 2]], start=1):
        for j, value in enumerate(row, start=first_column):
            cell = book.active.cell(i, j, value)
            cell.number_format = number_format if j == first_column + 1 else "General"
    file = io.BytesIO()
    book.save(file)
    result = reader.read(file.getvalue(), XLSX)
    notes = " ".join(result["manifest"]["warnings"])
    assert "'share' are shown as percentages" in notes
    assert "'x'" not in notes
    assert reader.tasks(result)["b"].X.tolist() == [[0.5, 2]]
    call = read_workbook(file.getvalue(), TaskSource(None, "task", lambda _: True))
    for unit, share in (("%", 50), ("", 0.5)):
        kinds = (Column("share", numbers=NumberWriting(unit=unit)), Column("x"))
        columns = partial(tuple, ("share", "x"))
        spec = InputSpec("b", "predict", 2, allow_missing=False, columns=columns, kinds=kinds)
        assert call.rows.as_matrix(spec)[1].tolist() == [share, 2]


def test_numbers_that_are_not_shown_as_percentages_stay_as_they_are(reader):
    book = openpyxl.Workbook()
    for row in [
        ["task", "share", "x"],
        ["a", 0.12, 1],
        ["a", 12, 2],
        ["b", 0.5, 3],
        ["b", None, 4],
    ]:
        book.active.append(row)
    for place in ("B2", "B4"):
        book.active[place].number_format = "0%"
    book.active.merge_cells("B4:B5")
    file = io.BytesIO()
    book.save(file)
    noted = notes(reader.read(file.getvalue(), XLSX))
    assert any(note.startswith("3 of 4 numbers of column 'share' are shown as") for note in noted)
    rows = read_workbook(file.getvalue(), TaskSource(None, "task", lambda _: True)).rows
    kinds = (Column("share", numbers=NumberWriting(unit="%")), Column("x"))
    columns = partial(tuple, ("share", "x"))
    spec = InputSpec("a", "predict", 2, allow_missing=False, columns=columns, kinds=kinds)
    assert rows.as_matrix(spec)[:, 0].tolist() == [12, 12, 50, 50]
    assert rows.take([1, 3]).as_matrix(spec)[:, 0].tolist() == [12, 50]


def test_a_percentage_in_text_stays_as_it_is_beside_numbers():
    book, file = openpyxl.Workbook(), io.BytesIO()
    for row in [["share", "x"], [0.12, 1], ["12%", 2]]:
        book.active.append(row)
    book.active["A2"].number_format = book.active["A3"].number_format = "0%"
    book.save(file)
    rows = read_workbook(file.getvalue(), TaskSource("a", "task", lambda _: True)).rows
    column = Column("share", numbers=NumberWriting(unit="%"))
    assert rows.encoded({"share": column})[0].tolist() == [12, 12]


def test_numbers_beside_text_keep_their_values_in_rows_for_a_model():
    rows = [["task", "x", "size"], ["a", 1.234, 1.5], ["a", "7,5", "2"], ["a", "1.250", 2]]
    call = read_workbook(workbook(one=rows), TaskSource(None, "task", lambda _: True))
    german = Column("x", numbers=NumberWriting(",", "."))
    kinds = (german, Column("size", "category", ("1.5", "2")))
    columns = partial(tuple, ("x", "size"))
    spec = InputSpec("a", "predict", 2, allow_missing=False, columns=columns, kinds=kinds)
    assert call.rows.as_matrix(spec).tolist() == [[1.234, 0], [7.5, 1], [1250, 1]]
    assert [*map(str, listed(call.rows.values_of("size")))] == ["1.5", "2", "2"]


TABLE = [["task", "x", "z"], ["a", 1.5, 1], ["a", 2.5, 2], ["b", 3.5, 3], ["b", 0.5, None]]
AROUND = {
    "titles": [["Report"], [], ["of schools", None], *TABLE],
    "a title in the middle": [[None, "measures"], *TABLE],
    "a footer": [*TABLE, [], ["Source: registry"], ["as of May"]],
    "a total without results": [*TABLE, ["Total", "=SUM(B2:B5)"]],
    "both": [["Report"], *TABLE, [None, "no guarantee"]],
}


@pytest.mark.parametrize("name", AROUND)
def test_text_above_and_below_a_table_is_left_out_with_a_note(reader, name):
    body = workbook(one=AROUND[name])
    result = reader.read(body, XLSX)
    np.testing.assert_array_equal(reader.tasks(result)["b"].X, [[3.5, 3], [0.5, np.nan]])
    assert any("above the header" in n or "below the table" in n for n in notes(result))
    assert read_workbook(body, SOURCE).task == ["a", "a", "b", "b"]


def test_text_around_the_tables_of_several_sheets_is_left_out(reader):
    rows = [["x", "z", "v"], [1.5, 1, 2], [2.5, 2, 3]]
    body = workbook(a=[["Report of a"], *rows], b=[*rows, ["Source: registry"]])
    result = reader.read(body, XLSX)
    assert [len(task.X) for task in reader.tasks(result)] == [2, 2]
    assert sum("Report of a" in n or "Source: registry" in n for n in notes(result)) == 2
    assert read_workbook(body, SOURCE).task == ["a", "a", "b", "b"]


def test_rows_of_one_value_that_are_no_text_around_a_table_stay(reader):
    rows = [*TABLE, ["a", None, None], [None, None, 7]]
    reader.assert_rejected(reader.read(workbook(one=rows), XLSX), "empty-cell", "row 7")
    result = reader.read(workbook(one=rows[:-1]), XLSX)
    assert len(reader.tasks(result)["a"].X) == 3
    narrow = reader.read(workbook(one=[["task", "x"], ["a", 1.5], ["b", None]]), XLSX)
    assert [task.name for task in reader.tasks(narrow)] == ["a", "b"]


def test_merged_cells_are_read_in_each_of_their_rows(reader):
    frame = pd.DataFrame(TABLE[1:], columns=TABLE[0])
    frame["year"] = [2024, 2024, 2025, 2026]
    file = io.BytesIO()
    frame.set_index(["task", "year", "x"]).to_excel(file, startrow=2, startcol=1)  # merges tasks
    result = reader.read(file.getvalue(), XLSX)
    assert [len(task.X) for task in reader.tasks(result)] == [2, 2]
    assert reader.tasks(result)["a"].X[:, 0].tolist() == [2024, 2024]
    assert read_workbook(file.getvalue(), SOURCE).task == ["a", "a", "b", "b"]


def test_cells_with_a_value_keep_it_in_a_merged_range(reader):
    book = openpyxl.load_workbook(io.BytesIO(workbook(one=TABLE)))
    book.active.merged_cells.ranges.add(CellRange("A2:A1048576"))
    assert [len(task.X) for task in reader.tasks(reader.read(written(book.save), XLSX))] == [2, 2]


def with_far_cell(**values):
    """Return a workbook with a cell in the last row and column, where Excel's cursor can get."""
    book = openpyxl.load_workbook(io.BytesIO(workbook(Data=ROWS)))
    cell = book["Data"]["XFD1048576"]
    for name, value in values.items():
        setattr(cell, name, value)
    return written(book.save)


def test_cells_far_from_the_table_are_refused_before_they_take_memory(reader):
    rejected = reader.read(with_far_cell(value="x"), XLSX)
    reader.assert_rejected(rejected, "decompression-limit", "far from the table")


def test_formats_of_empty_cells_do_not_count(reader):
    bold = openpyxl.styles.Font(bold=True)
    assert reader.tasks(reader.read(with_far_cell(font=bold), XLSX))["a"].X.tolist() == [
        [1.5],
        [2.5],
    ]
