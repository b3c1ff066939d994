"""``sibling predict``, ``transform``, ...: call a model with the rows of a file."""

import csv
import inspect
import io
import sys
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
import orjson
import typer
from numpy.typing import NDArray

from algorithms.interface.model import CLASS_METHODS, METHODS
from service.command.app import App
from service.command.names import Model, Url, split_version, suggesting_model
from service.command.output import is_json
from sibling import Client, RemoteModel
from sibling.client.client import DEFAULT_URL

Format = Literal["csv", "npy", "json"]

_FORMATS: Final[dict[str, Format]] = {".csv": "csv", ".npy": "npy", ".json": "json"}
_NPY_MAGIC: Final = b"\x93NUMPY"
_STANDARD: Final = Path("-")

inference = App()


def _add_method(method: str) -> None:
    """Add the command of a method."""

    def command(
        model: Model,
        rows: Annotated[
            Path,
            typer.Argument(
                help="A .npy or .csv file, or - for standard input. CSV columns with a header are "
                "matched by name."
            ),
        ] = _STANDARD,
        *,
        task: Annotated[str, typer.Option(help="Task of the rows.")],
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
        url: Url = DEFAULT_URL,
    ) -> None:
        name, version = split_version(model)
        output_format = format_ or ("json" if is_json() else _format_of(output))
        content = _read_rows(rows)
        with Client(url) as client:
            with suggesting_model(client, name):
                remote = client.model(name, version)
            outputs: NDArray[Any]
            if isinstance(content, bytes):
                outputs = remote.call(method, content, "text/csv", task=task)
            else:
                outputs = getattr(remote, method)(content, task=task)
        labels = remote.classes(task) if method in CLASS_METHODS else ()
        head: dict[str, Any] = {"model": remote.name, "version": remote.version, "task": task}
        body = _WRITERS[output_format](outputs, labels, head)
        if output is None:
            sys.stdout.buffer.write(body)
        else:
            output.write_bytes(body)

    help_text = inspect.getdoc(getattr(RemoteModel, method)) or ""
    if method in CLASS_METHODS:
        help_text += " CSV output has a header with the class labels."
    inference.command(method.replace("_", "-"), help=help_text)(command)


def _format_of(output: Path | None) -> Format:
    if output is None:
        return "csv"
    found = _FORMATS.get(output.suffix.lower())
    if found is None:
        known = ", ".join(_FORMATS)
        raise typer.BadParameter(
            f"expected an output file with extension {known}, got '{output.name}'; set --format"
        )
    return found


def _read_rows(path: Path) -> NDArray[Any] | bytes:
    """Return the array of a .npy file, or the bytes of a CSV file for the service to parse."""
    body = sys.stdin.buffer.read() if path == _STANDARD else path.read_bytes()
    name = "standard input" if path == _STANDARD else f"'{path.name}'"
    if not body.strip():
        raise ValueError(f"{name} is empty; expected rows of numbers")
    if not body.startswith(_NPY_MAGIC):
        return body
    try:
        found: NDArray[Any] = np.load(io.BytesIO(body), allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"{name} is not a valid .npy file: {error}") from error
    return found


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
