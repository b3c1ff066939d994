"""Options of commands that upload a file."""

from collections.abc import Sequence
from typing import Annotated

import typer

Read = Annotated[
    list[str] | None,
    typer.Option(
        "--read",
        "-r",
        help="Set how a file is read: NAME=VALUE, such as delimiter=; or "
        "column_kind=zip:category. Can be repeated.",
        metavar="NAME=VALUE",
    ),
]


def read_options(given: Sequence[str] | None) -> dict[str, list[str]]:
    """Return the options of an upload by their names.

    Raises
    ------
    typer.BadParameter
        One is not NAME=VALUE.
    """
    options: dict[str, list[str]] = {}
    for text in given or ():
        name, separator, value = text.partition("=")
        if not separator:
            raise typer.BadParameter(f"expected NAME=VALUE, got '{text}'")
        options.setdefault(name, []).append(value)
    return options
