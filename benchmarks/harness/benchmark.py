"""A benchmark: a module of this folder that returns tables, or prints them."""

import ast
import contextlib
import importlib
import io
import re
import runpy
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

from benchmarks.harness.context import Context, Skipped
from benchmarks.harness.results import Block, Claim, Form, Output

_FOLDER: Final = Path(__file__).parents[1]
#: Exit code of a script whose command line is wrong.
_WRONG_ARGUMENTS: Final = 2
_OWN: Final = ("algorithms", "benchmarks", "service", "sibling")


@dataclass(frozen=True, kw_only=True)
class _Options:
    needs_data: bool = False
    is_long: bool = False
    limit_s: float = 1800
    quick_limit_s: float = 300
    full: tuple[str, ...] = ()
    quick: tuple[str, ...] | None = ("--quick",)


@dataclass(frozen=True)
class Benchmark(_Options):
    """A module with a function ``run(context)`` that returns blocks, or else a script.

    Parameters
    ----------
    name
        Name of the module.
    needs_data
        Whether it reads datasets from a folder.
    is_long
        Whether its full form takes more than ten minutes, so that it runs only if it is named.
    limit_s, quick_limit_s
        Wall time that the forms may take.
    full, quick
        Arguments of a script for its forms; None if it has no quick one.
    """

    name: str
    title: str

    @property
    def path(self) -> Path:
        """The file of the module."""
        return _FOLDER / f"{self.name}.py"

    @property
    def description(self) -> str:
        """The docstring without its commands; the module is not imported."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        commands = r"(?m)^    python -m .*\n|\bRun: python -m .*$"
        text = re.sub(commands, "", ast.get_docstring(tree) or "")
        return text.replace("``", "`").strip()

    def command(self, form: Form) -> str:
        """Return the command that runs it."""
        options = (" --data FOLDER" * self.needs_data) + (" --quick" * (form == "quick"))
        return f"python -m benchmarks {self.name}{options}"

    def run(self, context: Context) -> tuple[Block, ...]:
        """Run in this process.

        Raises
        ------
        Skipped
            Something is missing.
        """
        try:
            if "\ndef run(context: Context)" not in self.path.read_text(encoding="utf-8"):
                return self._run_script(context)
            module = importlib.import_module(f"benchmarks.{self.name}")
            return tuple(module.run(context))
        except ModuleNotFoundError as error:
            if error.name is None or error.name.partition(".")[0] in _OWN:
                raise
            raise Skipped(f"needs {error.name}, which is not installed") from error

    def _run_script(self, context: Context) -> tuple[Block, ...]:
        arguments = self.quick if context.is_quick else self.full
        if arguments is None:
            raise Skipped("has no quick form")
        if self.needs_data:
            arguments = (*arguments, "--data", str(context.folder()))
        text, blocks = io.StringIO(), []
        with (
            patch.object(sys, "argv", [str(self.path), *arguments]),
            contextlib.redirect_stdout(text),
        ):
            try:
                runpy.run_module(f"benchmarks.{self.name}", run_name="__main__", alter_sys=True)
            except SystemExit as ending:
                if isinstance(ending.code, str):
                    raise Skipped(ending.code) from ending
                if ending.code == _WRONG_ARGUMENTS:
                    raise RuntimeError(f"the script does not take {arguments}") from ending
                blocks.append(
                    Claim(
                        text="All values are within the limits of the script.",
                        is_confirmed=not ending.code,
                    )
                )
        return (Output(text=text.getvalue().strip("\n")), *blocks)
