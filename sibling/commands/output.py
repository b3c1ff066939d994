"""Output of commands: tables on a terminal, tab-separated text in a pipe, JSON with ``--json``.

Results go to standard output; warnings, notes and progress go to standard error.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sibling.commands.option_names import with_option_names

_is_json: Final = ContextVar("is_json", default=False)
_JSON_OPTIONS: Final = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE


@contextmanager
def json_output(*, enabled: bool) -> Iterator[None]:
    """Print results as JSON until the end of the block, if enabled."""
    token = _is_json.set(enabled)
    try:
        yield
    finally:
        _is_json.reset(token)


def is_json() -> bool:
    """Return whether results are printed as JSON."""
    return _is_json.get()


def print_json(value: Any, *, indent: bool = True) -> bool:
    """Print a value with ``--json``; return False without it, having printed nothing.

    Parameters
    ----------
    indent
        Whether the JSON takes several lines; False for a result that is one of a stream.
    """
    if not is_json():
        return False
    options = _JSON_OPTIONS | (orjson.OPT_INDENT_2 if indent else 0)
    _write(orjson.dumps(value, default=str, option=options).decode())
    return True


def print_result(sentence: str, **values: Any) -> None:
    """Print the result of a command: the values with ``--json``, a sentence otherwise."""
    if not print_json(values):
        print_text(sentence)


def print_list(items: Iterable[Mapping[str, Any]], *columns: str) -> None:
    """Print a list: some columns as a table, or with ``--json`` all fields of the items."""
    if is_json():
        print_json(list(items))
    else:
        print_table(([item[column] for column in columns] for item in items), columns)


def print_fields(item: Mapping[str, Any], *fields: str) -> None:
    """Print an item: some fields, one per line, or with ``--json`` all fields."""
    if not print_json(item):
        _print_rows([(name, item[name]) for name in fields], header=None)


def print_table(rows: Iterable[Sequence[Any]], columns: Sequence[str]) -> None:
    """Print rows as a table with a header, which is tab-separated text in a pipe."""
    _print_rows(rows, header=columns)


def print_text(text: str = "") -> None:
    """Print a line of text."""
    _write("\n".join(map(_printable, text.split("\n"))) + "\n")


def print_note(text: str) -> None:
    """Print a line of text, with options in place of names of the API, to standard error."""
    lines = "\n".join(map(_printable, with_option_names(text).split("\n")))
    Console(stderr=True, highlight=False).print(lines, markup=False, soft_wrap=True)


def format_value(value: Any) -> str:
    """Return a value as the text of a cell."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={format_value(part)}" for key, part in value.items())
    return str(value)


def _print_rows(rows: Iterable[Sequence[Any]], *, header: Sequence[str] | None) -> None:
    cells = ([_printable(format_value(value)) for value in row] for row in rows)
    names = [] if header is None else [_printable(name) for name in header]
    if not sys.stdout.isatty():
        for line in (names, *cells) if names else cells:
            _write("\t".join(line) + "\n")
        return
    table = Table(box=None, show_header=bool(names))
    for name in names:
        table.add_column(Text(name))
    for line in cells:
        table.add_row(*map(Text, line))
    Console(highlight=False).print(table)


def _printable(text: str) -> str:
    """Return text without tabs, line breaks and control codes, which names may contain."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _write(text: str) -> None:
    sys.stdout.write(text)
