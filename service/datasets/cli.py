"""``sibling datasets``: list, upload, and look at datasets; options of commands that upload."""

import sys
from collections.abc import Sequence
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from sibling.client import Client
from sibling.client.client import DEFAULT_URL, Dataset

datasets = typer.Typer()
#: Line width if the output is a file or a pipe, so that tables are not wrapped.
_PIPE_WIDTH: Final = 240
_out = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)

#: Heights of the bars of a histogram.
_BARS: Final = " ▁▂▃▄▅▆▇█"
_MAX_SHOWN: Final = 12

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


def upload_file(client: Client, file: str, **options: Any) -> Dataset:
    """Upload a file, with a progress bar on a terminal."""
    if not sys.stderr.isatty():
        return client.upload(file, **options)
    columns = (TextColumn("{task.description:<12}"), BarColumn(), DownloadColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    with bar:
        task = bar.add_task("uploading", total=None)

        def show(n_sent: int, size: int) -> None:
            is_sent = n_sent == size
            what = "reading" if is_sent else "uploading"
            bar.update(task, completed=n_sent, total=size, description=what)

        return client.upload(file, on_progress=show, **options)


Url = Annotated[
    str | None, typer.Option("--url", help="URL of the service.", metavar="URL", show_default=False)
]


@datasets.callback(invoke_without_command=True)
def list_datasets(
    context: typer.Context,
    url: Annotated[
        str, typer.Option("--url", envvar="SIBLING_URL", help="URL of the service.", metavar="URL")
    ] = DEFAULT_URL,
) -> None:
    """List the datasets, upload one, or look at one."""
    if context.invoked_subcommand is not None:
        return
    with Client(url) as client:
        columns = ("id", "name", "state", "size_bytes", "created_at")
        _show([[str(found[name]) for name in columns] for found in client.datasets()], columns)


@datasets.command()
def upload(
    context: typer.Context,
    file: Annotated[str, typer.Argument(help="A file: CSV, Parquet, Excel, .npz, ...")],
    *,
    task_column: Annotated[str | None, typer.Option(help="Column of the task.")] = None,
    target_column: Annotated[str | None, typer.Option(help="Column of the target.")] = None,
    read: Read = None,
    url: Url = None,
) -> None:
    """Upload a dataset, and show its id and notes about how it was read."""
    columns = {"task_column": task_column, "target_column": target_column}
    options: Any = {name: value for name, value in columns.items() if value is not None}
    options |= read_options(read)
    with Client(_url(context, url)) as client:
        found = upload_file(client, file, **options)
    _out.print(f"dataset {found.id}: {len(found.tasks)} tasks", markup=False)
    for warning in found.info["warnings"]:
        _out.print(f"note: {warning}", markup=False)


@datasets.command()
def combine(
    context: typer.Context,
    sources: Annotated[list[str], typer.Argument(help="Ids of datasets.")],
    *,
    name: Annotated[str, typer.Option(help="Name of the new dataset.")],
    task: Annotated[
        list[str] | None,
        typer.Option("--task", "-t", help="Task to keep; can be repeated. Default: all."),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", "-c", help="Column to keep; can be repeated. Default: all."),
    ] = None,
    url: Url = None,
) -> None:
    """Make a dataset of others, such as one that grows by the upload of new rows."""
    chosen = {key: value for key, value in (("tasks", task), ("columns", column)) if value}
    with Client(_url(context, url)) as client:
        found = client.combine(*({"dataset_id": id_, **chosen} for id_ in sources), name=name)
    rows = found.info["n_samples"]
    _out.print(f"dataset {found.id}: {len(found.tasks)} tasks, {rows} rows", markup=False)


@datasets.command()
def show(
    context: typer.Context,
    dataset: Annotated[str, typer.Argument(help="Id of a dataset.")],
    *,
    task: Annotated[
        list[str] | None,
        typer.Option("--task", "-t", help="Task to show; can be repeated. Default: the first."),
    ] = None,
    rows: Annotated[int, typer.Option(min=0, max=100, help="Number of rows of each task.")] = 3,
    url: Url = None,
) -> None:
    """Show columns, targets and first rows of tasks, and which algorithms can be trained."""
    with Client(_url(context, url)) as client:
        found = client.preview(dataset, task or (), n_rows=rows)
    shown = found["tasks"] if task else found["tasks"][:1]
    _out.print(
        f"{found['name']}: {found['n_tasks']} tasks, {found['n_samples']} rows", markup=False
    )
    for one in shown:
        _show_task(one)
    suitable = [
        [one["algorithm"], "yes" if one["can_train"] else f"no: {one['reason']}"]
        for one in found["algorithms"]
    ]
    _out.print()
    _show(suitable, ("algorithm", "can be trained"))
    for warning in found["warnings"]:
        _out.print(f"note: {warning}", markup=False)


def _show_task(task: dict[str, Any]) -> None:
    size = f"{task['n_samples']} rows, {task['n_features']} columns"
    if task["n_unlabelled"]:
        size += f", {task['n_unlabelled']} further rows without a target"
    _out.print(f"\ntask {task['name']}: {size}{_target(task['target'])}", markup=False)
    header = ("column", "kind", "missing", "distinct", "from", "to", "values")
    columns = [
        [
            column["name"],
            column["kind"],
            f"{column['missing']:.0%}",
            str(column["n_distinct"]),
            _text(column["min"]),
            _text(column["max"]),
            _distribution(column),
        ]
        for column in task["columns"]
    ]
    if columns:
        _show(columns, header)
    if task["rows"]:
        names = [column["name"] for column in task["columns"]][:_MAX_SHOWN]
        _show([[_text(row[name]) for name in names] for row in task["rows"]], names)


def _target(target: dict[str, Any] | None) -> str:
    if target is None:
        return ""
    if target["counts"] is not None:
        counts = list(target["counts"].items())
        shown = ", ".join(f"{label} ({n})" for label, n in counts[:_MAX_SHOWN])
        return f", {len(counts)} classes: {shown}{', ...' if len(counts) > _MAX_SHOWN else ''}"
    low, mean, high = (_text(target[name]) for name in ("min", "mean", "max"))
    return f", targets from {low} to {high}, mean {mean}"


def _distribution(column: dict[str, Any]) -> str:
    """Return the counts of a column as bars, or the values of a category with theirs."""
    counts = column["counts"]
    if column["values"] is not None:
        pairs = sorted(zip(counts, column["values"], strict=True), key=lambda pair: -pair[0])
        return ", ".join(f"{value} ({n})" for n, value in pairs[:4])
    largest = max(counts) or 1
    return "".join(_BARS[-(-n * (len(_BARS) - 1) // largest)] for n in counts)


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _show(rows: Sequence[Sequence[str]], columns: Sequence[str]) -> None:
    table = Table(*map(escape, columns), box=None)
    for row in rows:
        table.add_row(*map(Text, row))
    _out.print(table)


def _url(context: typer.Context, url: str | None) -> str:
    """Return the URL given after the command, or else before it."""
    assert context.parent is not None
    return str(url or context.parent.params["url"])
