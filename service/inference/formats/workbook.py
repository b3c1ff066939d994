"""Excel workbooks: rows of a table, as uploads have them, and tables of outputs."""

import io
import math
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from xml.sax.saxutils import escape

from service.datasets.formats.options import Limits
from service.datasets.formats.xlsx import read_table
from service.datasets.issues import Rejected
from service.errors.problems import Problem
from service.inference.call import Body, Call
from service.inference.formats.arrow import rows_of_batches
from service.inference.formats.table import call_of
from service.inference.task_column import TaskSource

#: Cells become Python objects, which take many times the memory of their text.
_MAX_UNPACKED_BYTES: Final = 64 * 1024 * 1024
_LIMITS: Final = Limits(
    decompressed_bytes=_MAX_UNPACKED_BYTES,
    decompression_ratio=100,
    tasks=10_000,
    features=100_000,
    name_length=1000,
)
_CORRUPT: Final = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,  # of encrypted members
)

_NAMESPACE: Final = "http://schemas.openxmlformats.org"
_XML: Final = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_TYPE: Final = "application/vnd.openxmlformats-officedocument.spreadsheetml"
#: Members of a workbook beside its sheet.
_MEMBERS: Final = {
    "[Content_Types].xml": f'<Types xmlns="{_NAMESPACE}/package/2006/content-types">'
    '<Default Extension="rels" '
    'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    f'<Override PartName="/xl/workbook.xml" ContentType="{_TYPE}.sheet.main+xml"/>'
    f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{_TYPE}.worksheet+xml"/>'
    "</Types>",
    "_rels/.rels": f'<Relationships xmlns="{_NAMESPACE}/package/2006/relationships">'
    f'<Relationship Id="r1" Type="{_NAMESPACE}/officeDocument/2006/relationships/officeDocument" '
    'Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": f'<workbook xmlns="{_NAMESPACE}/spreadsheetml/2006/main" '
    f'xmlns:r="{_NAMESPACE}/officeDocument/2006/relationships"><sheets>'
    '<sheet name="predictions" sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": "<Relationships "
    f'xmlns="{_NAMESPACE}/package/2006/relationships"><Relationship Id="r1" '
    f'Type="{_NAMESPACE}/officeDocument/2006/relationships/worksheet" '
    'Target="worksheets/sheet1.xml"/></Relationships>',
}


def write_workbook(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """Return a workbook with one sheet, whose first row has the names of the columns."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in _MEMBERS.items():
            archive.writestr(name, _XML + text)
        with archive.open("xl/worksheets/sheet1.xml", "w") as sheet:
            head = f'<worksheet xmlns="{_NAMESPACE}/spreadsheetml/2006/main"><sheetData>'
            sheet.write(f"{_XML}{head}".encode())
            for row in _rows(columns):
                sheet.write(f"<row>{''.join(map(_cell, row))}</row>".encode())
            sheet.write(b"</sheetData></worksheet>")
    return target.getvalue()


def _rows(columns: Mapping[str, Sequence[Any]]) -> Iterator[Iterable[Any]]:
    yield columns.keys()
    yield from zip(*columns.values(), strict=True)


def _cell(value: Any) -> str:
    """Return a cell: a number, a boolean, or text without the characters that XML excludes."""
    if isinstance(value, bool):
        return f'<c t="b"><v>{int(value)}</v></c>'
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "<c/>"
    if isinstance(value, int | float):
        return f"<c><v>{value!r}</v></c>"
    text = "".join(c for c in str(value) if c in "\t\n" or " " <= c <= "\ufffd" or c > "\uffff")
    return f'<c t="inlineStr"><is><t xml:space="preserve">{escape(text)}</t></is></c>'


def read_workbook(body: Body, tasks: TaskSource) -> Call:
    """Parse a workbook with one table, or with a sheet for each task."""
    try:
        table, _, _, percents = read_table(
            _unpacked(body), tasks.options(), _LIMITS, must_exist=False
        )
    except Rejected as rejected:
        detail = rejected.issues[0].detail
        if rejected.issues[0].code == "decompression-limit":
            raise Problem("body-too-large", f"{detail}; send fewer rows per request") from None
        raise Problem("malformed-body", f"the body is not a valid workbook: {detail}") from None
    except _CORRUPT as error:
        raise Problem("malformed-body", f"the body is not a workbook: {error}") from None
    rows = rows_of_batches(table.schema, table.to_batches())
    return call_of(replace(rows, percents=percents), tasks)


def _unpacked(body: Body) -> io.BytesIO:
    """Return the workbook as an archive that is not compressed.

    The reader would unpack members beyond the sizes that the directory states.
    """
    target = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(body)) as packed, zipfile.ZipFile(target, "w") as archive:
        n_bytes = sum(member.file_size for member in packed.infolist())
        if n_bytes > _MAX_UNPACKED_BYTES:
            detail = f"the unpacked workbook has {n_bytes} bytes, the maximum is"
            remedy = "send the rows as CSV or Parquet"
            raise Problem("body-too-large", f"{detail} {_MAX_UNPACKED_BYTES}; {remedy}")
        for member in packed.infolist():
            archive.writestr(member.filename, packed.read(member))
    target.seek(0)
    return target
