"""Commands with the option ``--json``, and groups of commands of one noun."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from service.command.output import json_output

Function = Callable[..., Any]

_JSON: Final = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="Print the result as JSON.")],
)


class ListByDefault(TyperGroup):
    """Group of commands that runs ``list`` if no command is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the group."""
        is_bare = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if is_bare and not ctx.resilient_parsing:  # which completion does, to find the commands
            args = ["list", *args]
        return super().parse_args(ctx, args)


class App(typer.Typer):
    """Commands with the option ``--json``."""

    def command(  # type: ignore[override]  # one option more
        self, name: str | None = None, *, has_result: bool = True, **options: Any
    ) -> Callable[[Function], Function]:
        """Return a decorator that adds a command.

        Parameters
        ----------
        has_result
            Whether the command prints a result, so that it has the option ``--json``.
        """
        add = super().command(name, **options)

        def decorate(function: Function) -> Function:
            add(_with_json(function) if has_result else function)
            return function

        return decorate


def noun(description: str) -> App:
    """Return the commands of a noun such as "jobs", which has a command ``list``."""
    return App(cls=ListByDefault, help=f"{description} Without a command: list them.")


def _with_json(function: Function) -> Function:
    """Return a function with the option ``--json``, which prints its results as JSON."""

    @functools.wraps(function)
    def run(*, as_json: bool, **arguments: Any) -> Any:
        with json_output(enabled=as_json):
            return function(**arguments)

    signature = inspect.signature(function)
    parameters = (*signature.parameters.values(), _JSON)
    vars(run)["__signature__"] = signature.replace(parameters=parameters)
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run
