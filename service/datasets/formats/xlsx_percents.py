"""Cells of a workbook whose numbers are shown as percentages.

A cell that shows 12 % holds 0.12, whereas the same cell in CSV is the text 12 %, which is read as
12, with a unit.
"""

import re
import zipfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final

from service.datasets.formats.xlsx_results import blocks_of, members_of
from service.datasets.formats.xlsx_sizes import column_number

_STYLES: Final = "xl/styles.xml"
#: Built-in formats 0% and 0.00%.
_BUILT_IN: Final = (b"9", b"10")
_FORMAT: Final = re.compile(rb'<numFmt(?=[^<>]*formatCode="[^"]*%)[^<>]*numFmtId="([0-9]+)"')
_CELL_STYLES: Final = re.compile(rb"<cellXfs[\s>].*?</cellXfs>", re.DOTALL)
_STYLE: Final = re.compile(rb'<xf\s[^<>]*?numFmtId="([0-9]+)"')
_MERGED: Final = re.compile(
    rb'<mergeCell\s[^<>]{0,100}?ref="([A-Z]{1,3})([0-9]{1,7}):[A-Z]{1,3}([0-9]{1,7})"'
)
#: Rows of merged cells that are looked at; ranges of a bad file may overlap.
_MAX_MERGED: Final = 2**20


def percent_cells(
    book: Path | IO[bytes], sheets: Sequence[str], used: Sequence[str]
) -> dict[tuple[str, int], set[int]]:
    """Return the rows of the cells that show percentages, by sheet and column; both from 1.

    Parameters
    ----------
    sheets
        Names of the sheets, in the order of the workbook.
    used
        Names of those that are read.
    """
    found: defaultdict[tuple[str, int], set[int]] = defaultdict(set)
    left = _MAX_MERGED
    with zipfile.ZipFile(book) as archive:
        styles = _percent_styles(archive)
        if not styles:
            return found
        cell = re.compile(
            rb'<c(?=\s[^<>]{0,300}\ss="(?:%s)")(?!\s[^<>]{0,300}\st="[^n])' % b"|".join(styles)
            + rb'\s(?:[^<>]{0,300}\s)?r="([A-Z]{1,3})([0-9]{1,7})'
        )
        for sheet, member in zip(sheets, members_of(archive), strict=False):
            if sheet in used:
                with archive.open(member) as file:
                    for block in blocks_of(file):
                        for letters, row in cell.findall(block):
                            found[sheet, column_number(letters)].add(int(row))
                        for letters, top, bottom in _MERGED.findall(block):
                            rows = found.get((sheet, column_number(letters)), set())
                            left -= int(bottom) - int(top)
                            if left > 0 and int(top) in rows:
                                rows.update(range(int(top), int(bottom) + 1))
    return found


def _percent_styles(archive: zipfile.ZipFile) -> list[bytes]:
    """Return the numbers of the cell styles that show percentages."""
    if _STYLES not in archive.namelist():
        return []
    text = archive.read(_STYLES)
    formats = {*_BUILT_IN, *_FORMAT.findall(text)}
    found = _CELL_STYLES.search(text)
    used = [] if found is None else _STYLE.findall(found[0])
    return [b"%d" % n for n, number in enumerate(used) if number in formats]
