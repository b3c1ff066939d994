"""Tables whose cells are divided by blanks: runs of spaces and tabs, as aligned text has them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

_BLOCK_CHARACTERS: Final = 1024 * 1024
#: A quoted cell, blanks at the start or the end of a line, or blanks between cells.
_PART: Final = re.compile(
    r'(?<![^\s])("(?:[^"]|"")*")|(?:\A|(?<=[\r\n]))[ \t]+|[ \t]+(?=[\r\n]|\Z)|[ \t]+'
)
#: Divides the cells of a table that was divided by blanks.
DIVIDER: Final = "\t"


def divide_at_blanks(text: str) -> str:
    """Return whole lines with one tab for each run of blanks between cells."""
    return _PART.sub(_divider, text)


def divided_file(path: Path) -> Path:
    """Return a file with one tab for each run of blanks between the cells of a file in UTF-8."""
    target = path.with_name(f"{path.name}.cells")
    with (
        path.open(encoding="utf-8-sig", newline="") as file,
        target.open("w", encoding="utf-8", newline="") as divided,
    ):
        divided.writelines(map(divide_at_blanks, _blocks(file)))
    return target


def _divider(match: re.Match[str]) -> str:
    is_between = match.start() > 0 and match.end() < len(match.string)
    if match[1] is not None or not is_between:
        return match[1] or ""
    ends = match.string[match.start() - 1] + match.string[match.end()]
    return "" if "\r" in ends or "\n" in ends else DIVIDER


def _blocks(file: IO[str]) -> Iterator[str]:
    """Yield a text in blocks of lines that do not divide a quoted cell."""
    while block := file.read(_BLOCK_CHARACTERS):
        block += file.readline()
        while block.count('"') % 2 and (line := file.readline()):
            block += line
        yield block
