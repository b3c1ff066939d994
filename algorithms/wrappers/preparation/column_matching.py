"""Matching of columns by name between tables and models.

Rows of every format, stored datasets and data frames of estimators are matched here.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from typing import Final

from algorithms.interface.errors import InvalidData
from algorithms.interface.lists import list_names

#: Maximum number of names in a message.
_MAX_LISTED: Final = 5
_LINE_BREAK: Final = re.compile("[\t\r\n]+")


def clean_name(name: str) -> str:
    """Return a name on one line, without surrounding spaces, in Unicode normal form C."""
    return unicodedata.normalize("NFC", _LINE_BREAK.sub(" ", name.strip()))


def match_columns(
    names: Sequence[str],
    known: Sequence[str],
    *,
    subject: str,
    task: str | None = None,
    ignored: Container[str] = (),
) -> list[int]:
    """Return the position of each known name in ``names``.

    Parameters
    ----------
    ignored
        Further names that ``names`` may contain.
    subject
        Start of the error message, which says what was expected.

    Raises
    ------
    InvalidData
        A name is missing, unknown, or duplicate.
    """
    cleaned = [clean_name(name) for name in names]
    positions = {name: i for i, name in enumerate(cleaned)}
    if len(positions) < len(cleaned):
        check_unique(cleaned, task=task)
    expected = {clean_name(name): None for name in known}
    missing = [name for name in expected if name not in positions]
    unknown = [name for name in cleaned if name not in expected and name not in ignored]
    problems = []
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        problems.append(f"the {_listed(missing)} {verb} missing")
    if unknown:
        verb, them = ("is", "it") if len(unknown) == 1 else ("are", "them")
        problems.append(f"there {verb} no {_listed(unknown)}: remove {them}")
    if problems:
        detail = f"{subject}; {'; '.join(problems)}"
        raise InvalidData(detail, task=task, column=(missing + unknown)[0])
    return [positions[name] for name in expected]


def check_unique(names: Iterable[str], *, task: str | None = None) -> None:
    """Raise InvalidData if two columns have the same name."""
    for name, count in Counter(map(clean_name, names)).items():
        if count > 1:
            detail = f"{count} columns are named '{name}'; column names must be unique"
            raise InvalidData(detail, task=task, column=name)


def _listed(names: Sequence[str]) -> str:
    noun = "column" if len(names) == 1 else "columns"
    return f"{noun} {list_names(names, _MAX_LISTED)}"
