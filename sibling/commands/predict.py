"""``sibling predict``, ``transform``, ...: call a model with the rows of a file."""

import csv
import inspect
import io
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
import orjson
import typer
from numpy.typing import NDArray

from algorithms.interface.methods import CLASS_METHODS, LEVEL_METHODS, METHODS
from sibling import Client, NewTasksWarning, RemoteModel
from sibling.client.environment import DEFAULT_URL
from sibling.client.files import parse_rows
from sibling.commands.app import App
from sibling.commands.names import Model, NewTasksOption, Url, find_model, split_version
from sibling.commands.output import is_json, print_note

Format = Literal["csv", "npy", "json"]

_FORMATS: Final[dict[str, Format]] = {".csv": "csv", ".npy": "npy", ".json": "json"}
_STANDARD: Final = Path("-")

inference = App()


def _add_method(method: str) -> None:
    """Add the command of a method."""
    has_level = method in LEVEL_METHODS

    def command(
        model: Model,
        rows: Annotated[
            Path,
            typer.Argument(
                help="A file: CSV, .npy, Parquet, Arrow, Feather, Excel, JSON records, .npz, .mat "
                "or safetensors; or - for standard input. Named columns are matched by name; a "
                "column row_id has the ids by which monitors keep the rows."
            ),
        ] = _STANDARD,
        *,
        task: Annotated[
            str | None,
            typer.Option(
                help="Task of all rows. Default: in the file, in a column named as in the training "
                "table, or task."
            ),
        ] = None,
        output: Annotated[
            Path | None,
            typer.Option("--output", "-o", help="Output file. Default: standard output."),
        ] = None,
        format_: Annotated[
            Format | None,
            typer.Option(
                "--format",
                "-f",
                help="Output format: csv, npy or json. Default: from the file name, else csv; json "
                "with --json.",
            ),
        ] = None,
        level: Annotated[
            float | None,
            typer.Option(help="Level of intervals and sets. Default: 0.9.", hidden=not has_level),
        ] = None,
        new_tasks: NewTasksOption = None,
        url: Url = DEFAULT_URL,
    ) -> None:
        if level is not None and not has_level:
            raise typer.BadParameter(f"{method} takes no level", param_hint="--level")
        options: dict[str, Any] = {"new_tasks": new_tasks}
        if level is not None:
            options["level"] = level
        split_version(model)  # before the rows are read
        if is_json() and format_ not in (None, "json"):
            raise typer.BadParameter(f"'{format_}' contradicts --json", param_hint="--format")
        output_format = format_ or ("json" if is_json() else _format_of(output))
        content = _read_rows(rows)
        with Client(url) as client, _noted() as new:
            remote = find_model(client, model)
            outputs: NDArray[Any]
            if isinstance(content, tuple):
                body, media_type = content
                outputs = remote.call(method, body, media_type, task=task, **options)
            else:
                outputs = getattr(remote, method)(content, task=task, **options)
        labels = _labels(remote, task) if method in CLASS_METHODS else ()
        head: dict[str, Any] = {"model": remote.name, "version": remote.version}
        if task is not None:
            head["task"] = task
        if new:
            head["new_tasks"] = new
        written = _WRITERS[output_format](outputs, labels, head)
        if output is None:
            sys.stdout.buffer.write(written)
        else:
            output.write_bytes(written)

    # parameters of the client are no options
    help_text = (inspect.getdoc(getattr(RemoteModel, method)) or "").partition("\n\nParameters\n")[
        0
    ]
    if method in CLASS_METHODS:
        help_text += " CSV output has a header with the class labels."
    inference.command(method.replace("_", "-"), help=help_text)(command)


@contextmanager
def _noted() -> Iterator[list[str]]:
    """Print warnings of a call as notes; yield the tasks that the model was not trained on."""
    new: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield new
    for warning in caught:
        print_note(str(warning.message))
        if isinstance(warning.message, NewTasksWarning):
            new += warning.message.tasks


def _format_of(output: Path | None) -> Format:
    if output is None:
        return "csv"
    output_format = _FORMATS.get(output.suffix.lower())
    if output_format is None:
        extensions = ", ".join(_FORMATS)
        raise typer.BadParameter(
            f"expected an output file with extension {extensions}, got '{output.name}'; set "
            "--format"
        )
    return output_format


def _read_rows(path: Path) -> Any:
    """Return the rows of a file: an array, or bytes for the service with their media type.

    Raises
    ------
    ValueError
        The file is empty, damaged, or of a format that has no rows for a model.
    """
    if path == _STANDARD:
        return parse_rows(sys.stdin.buffer.read(), "standard input")
    return parse_rows(path.read_bytes(), f"'{path.name}'")


def _labels(remote: RemoteModel, task: str | None) -> tuple[Any, ...]:
    """Return the classes of the outputs; without a task, only if all tasks have the same."""
    # a task that the model was not trained on has the classes of all others
    tasks = (task,) if task in remote.tasks else remote.tasks
    class_sets = {remote.classes(name) for name in tasks}
    return class_sets.pop() if len(class_sets) == 1 else ()


def _as_csv(outputs: NDArray[Any], labels: tuple[Any, ...], head: dict[str, Any]) -> bytes:
    """Return one line per row; floats have enough digits to be read back exactly."""
    del head
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if labels:
        writer.writerow(labels)
    writer.writerows(outputs.reshape(len(outputs), -1).tolist() if outputs.size else [])
    return text.getvalue().encode()


def _as_npy(outputs: NDArray[Any], labels: tuple[Any, ...], head: dict[str, Any]) -> bytes:
    del labels, head
    body = io.BytesIO()
    np.save(body, outputs, allow_pickle=False)
    return body.getvalue()


def _as_json(outputs: NDArray[Any], labels: tuple[Any, ...], head: dict[str, Any]) -> bytes:
    """Return the same JSON as the service."""
    columns = {"classes": labels} if labels else {}
    return orjson.dumps(
        {**head, **columns, "outputs": outputs.tolist()}, option=orjson.OPT_APPEND_NEWLINE
    )


_WRITERS: Final = {"csv": _as_csv, "npy": _as_npy, "json": _as_json}

for _method in METHODS:
    _add_method(_method)
