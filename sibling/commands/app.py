"""Commands with the option ``--json``, and groups of commands of one noun."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from sibling.commands.option_names import use_options_of
from sibling.commands.output import json_output

Function = Callable[..., Any]

_JSON: Final = inspect.Parameter(
    "as_json",
    inspect.Parameter.KEYWORD_ONLY,
    default=False,
    annotation=Annotated[bool, typer.Option("--json", help="Print the result as JSON.")],
)


class _Command(TyperCommand):
    """Command whose help shows no type of flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command."""
        return _without_types(super().get_params(ctx))


class _Group(TyperGroup):
    """Group of commands whose help shows no type of flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the group."""
        return _without_types(super().get_params(ctx))


class ListByDefault(_Group):
    """Group of commands that runs ``list`` if no command is given."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments of the group."""
        is_bare = not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names)
        if is_bare and not ctx.resilient_parsing:  # which completion does, to find the commands
            args = ["list", *args]
        return super().parse_args(ctx, args)


class App(typer.Typer):
    """Commands with the option ``--json``."""

    def __init__(self, *, cls: type[TyperGroup] = _Group, **options: Any) -> None:
        super().__init__(cls=cls, **options)

    def command(  # type: ignore[override]  # one option more
        self, name: str | None = None, *, has_result: bool = True, **options: Any
    ) -> Callable[[Function], Function]:
        """Return a decorator that adds a command.

        Parameters
        ----------
        has_result
            Whether the command prints a result, so that it has the option ``--json``.
        """
        add = super().command(name, **{"cls": _Command, **options})

        def decorate(function: Function) -> Function:
            add(_with_json(function) if has_result else function)
            return function

        return decorate


def noun(description: str) -> App:
    """Return the commands of a noun such as "jobs", which has a command ``list``."""
    return App(cls=ListByDefault, help=f"{description} Without a command: list them.")


def _without_types(parameters: list[Any]) -> list[Any]:
    """Remove the type of flags, which is always ``<bool>``."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
    return parameters


def _with_json(function: Function) -> Function:
    """Return a function with the option ``--json``, which prints its results as JSON."""

    @functools.wraps(function)
    def run(*, as_json: bool, **arguments: Any) -> Any:
        use_options_of(signature)
        with json_output(enabled=as_json):
            return function(**arguments)

    signature = inspect.signature(function)
    parameters = (*signature.parameters.values(), _JSON)
    vars(run)["__signature__"] = signature.replace(parameters=parameters)
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run
