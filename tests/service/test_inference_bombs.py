"""Small rows for a model that unpack to very much: refused before memory is taken."""

import io
import zipfile

import h5py
import numpy as np
import openpyxl
import pytest
import scipy.io

from service.inference.formats import reader_of
from service.inference.task_column import TaskSource
from tests.written import matlab_references

MIB = 1024 * 1024
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
MATLAB = "application/x-matlab-data"
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
SHEET = "xl/worksheets/sheet1.xml"


def workbook(rows, member=SHEET, **others):
    """Return a workbook with one sheet of rows in XML, and other members in ``xl``."""
    empty, file = io.BytesIO(), io.BytesIO()
    openpyxl.Workbook().save(empty)
    sheet = f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>'
    with (
        zipfile.ZipFile(empty) as template,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for name in template.namelist():
            is_sheet = name == SHEET
            text = sheet if is_sheet else template.read(name).decode().replace(SHEET, member)
            archive.writestr(name, text)
        for name, text in others.items():
            archive.writestr(f"xl/{name}.xml", text)
    return file.getvalue()


def far_cells(member=SHEET):
    rows = '<row r="1"><c r="A1"><v>1</v></c></row>'
    return workbook(f'{rows}<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>', member)


def shared_text():
    rows = "".join(f'<row r="{i}"><c r="A{i}" t="s"><v>0</v></c></row>' for i in range(1, 9000))
    text = f"<sst xmlns='{MAIN}'><si><t>{'a' * 10_000}</t></si></sst>"
    return workbook(rows, sharedStrings=text)


def matlab_cells(values):
    cells, file = np.empty(1, object), io.BytesIO()
    cells[0] = values
    scipy.io.savemat(file, {"X": cells}, do_compression=True)
    return file.getvalue()


def declared_matrix():
    file = io.BytesIO()
    with h5py.File(file, "w") as new:
        new.create_dataset("X", (10**9, 10**4), "f8", chunks=(1000, 1000))
    return file.getvalue()


BOMBS = {
    "cells that are far apart": (XLSX, far_cells),
    "cells under another name": (XLSX, lambda: far_cells("xl/WORKSHEETS/SHEET1.XML")),
    "cells of one long text": (XLSX, shared_text),
    "cells of bytes": (MATLAB, lambda: matlab_cells(np.zeros((70 * MIB, 1), np.uint8))),
    "cells of one matrix": (MATLAB, matlab_references),
    "a declared matrix": (MATLAB, declared_matrix),
}


@pytest.fixture(autouse=True)
def _model(model):
    """All tests call the model ``shared``."""


@pytest.mark.quick(2)
@pytest.mark.seconds("reads and unpacks as much as the limit allows")
@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_and_the_service_stays(http, name):
    media_type, make = BOMBS[name]
    body = make()
    assert len(body) < MIB
    headers = {"Content-Type": media_type}
    url = "/v1/models/shared/transform?task=north"
    response = http.post(url, content=body, headers=headers)
    assert (response.status_code, response.json()["code"]) == (413, "body-too-large")
    assert http.get("/v2/health/live").status_code == 200


def test_a_workbook_with_a_member_twice_is_refused(http):
    file = io.BytesIO(far_cells())
    with zipfile.ZipFile(file, "a") as archive:
        archive.writestr("xl/Worksheets/sheet1.xml", "<worksheet/>")
    headers = {"Content-Type": XLSX}
    url = "/v1/models/shared/transform?task=north"
    response = http.post(url, content=file.getvalue(), headers=headers)
    assert (response.status_code, response.json()["code"]) == (400, "malformed-body")


def read_body(media_type, body):
    return reader_of(media_type)[0](body, TaskSource(None, "task", lambda _: True))


def test_tables_and_cells_within_the_limits_are_read():
    rows = "".join(
        f'<row r="{i}"><c r="A{i}" t="s"><v>0</v></c><c r="B{i}"><v>{i}</v></c></row>'
        for i in range(2, 5)
    )
    header = '<row r="1"><c r="A1" t="s"><v>1</v></c><c r="B1" t="s"><v>2</v></c></row>'
    shared = f"<sst xmlns='{MAIN}'>" + "".join(
        f"<si><t>{text}</t></si>" for text in ("north", "task", "x")
    )
    call = read_body(XLSX, workbook(header + rows, sharedStrings=f"{shared}</sst>"))
    assert call.task == ["north"] * 3
    call = read_body(MATLAB, matlab_cells(np.arange(6.0).reshape(3, 2)))
    assert call.rows.n_values() == 6
