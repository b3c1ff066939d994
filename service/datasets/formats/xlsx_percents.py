"""Columns of a workbook whose numbers are shown as percentages.

A cell that shows 12 % holds 0.12, whereas the same cell in CSV is the text 12 %, which is read as
12, with a unit.
"""

import re
import zipfile
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


def percent_columns(
    book: Path | IO[bytes], sheets: Sequence[str], used: Sequence[str]
) -> frozenset[int]:
    """Return the numbers of columns, from 1, with a number that is shown as a percentage.

    Parameters
    ----------
    sheets
        Names of the sheets, in the order of the workbook.
    used
        Names of those that are read.
    """
    letters: set[bytes] = set()
    with zipfile.ZipFile(book) as archive:
        styles = _percent_styles(archive)
        if not styles:
            return frozenset()
        cell = re.compile(
            rb'<c(?=\s[^<>]{0,300}\ss="(?:%s)")(?!\s[^<>]{0,300}\st="[^n])' % b"|".join(styles)
            + rb'\s(?:[^<>]{0,300}\s)?r="([A-Z]{1,3})[0-9]'
        )
        for sheet, member in zip(sheets, members_of(archive), strict=False):
            if sheet in used:
                with archive.open(member) as file:
                    for block in blocks_of(file):
                        letters.update(cell.findall(block))
    return frozenset(map(column_number, letters))


def _percent_styles(archive: zipfile.ZipFile) -> list[bytes]:
    """Return the numbers of the cell styles that show percentages."""
    if _STYLES not in archive.namelist():
        return []
    text = archive.read(_STYLES)
    formats = {*_BUILT_IN, *_FORMAT.findall(text)}
    found = _CELL_STYLES.search(text)
    used = [] if found is None else _STYLE.findall(found[0])
    return [b"%d" % n for n, number in enumerate(used) if number in formats]
