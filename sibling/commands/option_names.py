"""Names of the API in messages, as the options of a command."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from inspect import Signature
from typing import Final, get_args

import typer

#: Fields of the API whose option has another name.
_OTHERS: Final = {"calibration": "calibrate", "params": "param"}
_NAME: Final = re.compile(
    r"(?<![\w/-])(?<!column ')([a-z]+(?:_[a-z]+)+)(?!\w)"
    r"|the query parameter '(\w+)'"
    r"|(?:^|(?<=\s))/(\w+)(?:/(\w+))?(?:/[\w/]*)?(?=:)"
)
_OPTIONS: Final = ContextVar[Mapping[str, str]]("options")


def use_options_of(signature: Signature) -> None:
    """Say that messages are of a command with this signature."""
    kind = type(typer.Option())
    _OPTIONS.set(
        {
            name: f"--{name.replace('_', '-')}"
            for name, parameter in signature.parameters.items()
            if any(isinstance(part, kind) for part in get_args(parameter.annotation))
        }
    )


def with_option_names(text: str) -> str:
    """Return a message of the API with the options of the command in place of its names.

    A name is a word with an underscore, a quoted parameter of the query, or a pointer and a colon.
    """
    options = _OPTIONS.get({})

    def option(match: re.Match[str]) -> str:
        name = match[1] or match[2] or match[3]
        found = options.get(_OTHERS.get(name, name), match[0])
        return (
            f"{found} {match[4]}" if name == "params" and match[4] and found != match[0] else found
        )

    return _NAME.sub(option, text)
