"""Cells of a workbook whose values cannot be read: errors, and formulas without a stored result.

The reader of workbooks returns both as empty cells, so they are counted in the XML of the sheets.
"""

import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

_WORKBOOK: Final = "xl/workbook.xml"
_RELATIONS: Final = "xl/_rels/workbook.xml.rels"
_SHEET: Final = re.compile(rb"<(?:\w+:)?sheet\s[^<>]*")
_RELATION: Final = re.compile(rb"<Relationship\s[^<>]*")
_REFERENCE: Final = re.compile(rb'\sr="([A-Z]{1,3}[0-9]{1,7})"')
# lengths are bounded so that the time is linear in the size of the file
_ERROR: Final = re.compile(rb'<c(?=\s)([^<>]{0,300}\st="e"[^<>]{0,300})>')
_FORMULA: Final = rb"<f(?:\s[^<>]{0,300})?(?:/>|>[^<]{0,20000}</f>)"
_UNSTORED: Final = re.compile(
    rb'<c(?=\s)((?:(?!\st="str")[^<>]){0,300})>\s*'
    + _FORMULA
    + rb"\s*(?:<v\s*/>|<v>\s*</v>)?\s*</c>"
)
#: Patterns of cells, each with bytes that all matches contain, the content, and advice.
_KINDS: Final = (
    (_ERROR, b't="e"', "an error such as #DIV/0!", "correct its formula if it should have a value"),
    (
        _UNSTORED,
        b"<f",
        "a formula without a stored result",
        "open the workbook in a spreadsheet program and save it, which stores the results",
    ),
)
_BLOCK_BYTES: Final = 4 * 1024 * 1024


def unread_results(book: Path | IO[bytes], sheets: Sequence[str], used: Sequence[str]) -> list[str]:
    """Return notes about the cells that are errors, or formulas without a stored result.

    Parameters
    ----------
    sheets
        Names of the sheets, in the order of the workbook.
    used
        Names of those that are read.
    """
    counts = dict.fromkeys((pattern for pattern, *_ in _KINDS), 0)
    first: dict[re.Pattern[bytes], str] = {}
    with zipfile.ZipFile(book) as archive:
        for sheet, member in zip(sheets, members_of(archive), strict=False):
            if sheet not in used:
                continue
            with archive.open(member) as file:
                for block in blocks_of(file):
                    for pattern, mark, *_ in _KINDS:
                        for match in pattern.finditer(block) if mark in block else ():
                            counts[pattern] += 1
                            first.setdefault(pattern, f"sheet '{sheet}'{_cell(match[1])}")
    return [
        _note(counts[pattern], first[pattern], content, remedy)
        for pattern, _, content, remedy in _KINDS
        if counts[pattern]
    ]


def _note(n_cells: int, first: str, content: str, remedy: str) -> str:
    if n_cells == 1:
        return f"1 cell has {content} and is read as empty: {first}; {remedy}"
    return f"{n_cells} cells have {content} and are read as empty, the first: {first}; {remedy}"


def _cell(attributes: bytes) -> str:
    reference = _REFERENCE.search(attributes)
    return "" if reference is None else f", cell {reference[1].decode()}"


def members_of(archive: zipfile.ZipFile) -> Iterator[str]:
    """Yield the member with the cells of each sheet, in the order of the workbook."""
    names = {*archive.namelist()}
    if not {_WORKBOOK, _RELATIONS} <= names:
        return
    targets = {}
    for relation in _RELATION.findall(archive.read(_RELATIONS)):
        targets[_attribute(relation, b"Id")] = _attribute(relation, b"Target")
    for sheet in _SHEET.findall(archive.read(_WORKBOOK)):
        target = targets.get(_attribute(sheet, rb"(?:\w+:)?id"), "")
        member = target.removeprefix("/") if target.startswith("/") else f"xl/{target}"
        if member not in names:
            return
        yield member


def _attribute(tag: bytes, name: bytes) -> str:
    match = re.search(rb"\s" + name + rb'="([^"]*)"', tag)
    return "" if match is None else match[1].decode(errors="replace")


def blocks_of(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the XML of a sheet in blocks that do not divide a cell."""
    remainder = b""
    while data := file.read(_BLOCK_BYTES):
        block = remainder + data
        end = block.rfind(b"<c ")
        end = end if end > 0 else len(block)
        yield block[:end]
        remainder = block[end:]
    yield remainder
