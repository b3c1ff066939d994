"""``sibling datasets``: list, upload, and look at datasets; options of commands that upload."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sibling import Client, Dataset
from sibling.client.environment import DEFAULT_URL
from sibling.commands import names
from sibling.commands.app import noun
from sibling.commands.names import Url, find_dataset
from sibling.commands.output import (
    format_value,
    print_fields,
    print_json,
    print_list,
    print_note,
    print_result,
    print_table,
    print_text,
)

datasets = noun("Upload datasets, and look at them.")

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

GroupColumn = Annotated[
    str | None, typer.Option(help="Column of the group; rows of a group stay in one split.")
]
WeightColumn = Annotated[
    str | None,
    typer.Option(help="Column of the weight of each row in fits and metrics, at least 0."),
]


def without_none(**options: Any) -> dict[str, Any]:
    """Return the options that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def name_and_value(text: str) -> tuple[str, str]:
    """Return the parts of an option NAME=VALUE.

    Raises
    ------
    typer.BadParameter
        It has another form.
    """
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"expected NAME=VALUE, got '{text}'")
    return name, value


def read_options(given: Sequence[str] | None) -> dict[str, list[str]]:
    """Return the options of an upload by their names; see :func:`name_and_value`."""
    options: dict[str, list[str]] = {}
    for name, value in map(name_and_value, given or ()):
        options.setdefault(name, []).append(value)
    return options


def upload_file(client: Client, file: str, **options: Any) -> Dataset:
    """Upload a file, with a progress bar on a terminal."""
    return client.upload(file, progress=True, **options)


def find_or_upload(client: Client, data: str, **options: Any) -> Dataset | str:
    """Return the dataset of an argument: an id, a name, or a file, which is uploaded."""
    if names.is_dataset(data):
        return find_dataset(client, data)
    return upload_file(client, data, **options)


@datasets.command(name="list")
def list_datasets(url: Url = DEFAULT_URL) -> None:
    """List the datasets, newest first."""
    with Client(url) as client:
        print_list(client.datasets, "id", "name", "state", "size_bytes", "created_at")


@datasets.command()
def upload(
    file: Annotated[str, typer.Argument(help="A file: CSV, Parquet, Excel, .npz, ...")],
    *,
    task_column: Annotated[str | None, typer.Option(help="Column of the task.")] = None,
    target_column: Annotated[str | None, typer.Option(help="Column of the target.")] = None,
    group_column: GroupColumn = None,
    weight_column: WeightColumn = None,
    read: Read = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Upload a dataset, and show its id and notes about how it was read."""
    options = without_none(
        task_column=task_column,
        target_column=target_column,
        group_column=group_column,
        weight_column=weight_column,
    )
    options |= read_options(read)
    with Client(url) as client:
        dataset = upload_file(client, file, **options)
    if not print_json(dataset.info):
        print_text(f"dataset {dataset.id}: {len(dataset.tasks)} tasks")
        _print_warnings(dataset.info)


@datasets.command()
def combine(
    sources: Annotated[list[str], typer.Argument(help="Ids or names of datasets.")],
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
    url: Url = DEFAULT_URL,
) -> None:
    """Make a dataset of other datasets, for example to add new rows to an old dataset."""
    chosen = {key: value for key, value in (("tasks", task), ("columns", column)) if value}
    with Client(url) as client:
        ids = [find_dataset(client, source) for source in sources]
        dataset = client.combine(*({"dataset_id": id_, **chosen} for id_ in ids), name=name)
    if not print_json(dataset.info):
        rows = dataset.info["n_samples"]
        print_text(f"dataset {dataset.id}: {len(dataset.tasks)} tasks, {rows} rows")


@datasets.command()
def show(dataset: names.Dataset, url: Url = DEFAULT_URL) -> None:
    """Show the state and size of a dataset, and its errors and warnings."""
    with Client(url) as client:
        info = client.dataset_info(find_dataset(client, dataset))
    fields = ("id", "name", "state", "n_tasks", "n_samples", "n_features", "media_type")
    print_fields(info, *fields, "options", "size_bytes", "upload_sha256", "created_at")
    for issue in info["issues"]:
        print_note(f"error: {issue['detail']}")
    _print_warnings(info)


@datasets.command()
def preview(
    dataset: names.Dataset,
    *,
    task: Annotated[
        list[str] | None,
        typer.Option("--task", "-t", help="Task to show; can be repeated. Default: the first."),
    ] = None,
    rows: Annotated[int, typer.Option(min=0, max=100, help="Number of rows of each task.")] = 3,
    url: Url = DEFAULT_URL,
) -> None:
    """Show columns, targets and first rows of tasks, and which algorithms can be trained."""
    with Client(url) as client:
        info = client.preview(find_dataset(client, dataset), task or (), n_rows=rows)
    if print_json(info):
        return
    print_text(f"{info['name']}: {info['n_tasks']} tasks, {info['n_samples']} rows")
    for task_info in info["tasks"] if task else info["tasks"][:1]:
        _print_task(task_info)
    print_text()
    suitable = (
        (
            algorithm["algorithm"],
            "yes" if algorithm["can_train"] else f"no: {algorithm['reason']}",
            "" if algorithm["memory_mb"] is None else f"{algorithm['memory_mb']:,.0f} MiB",
        )
        for algorithm in info["algorithms"]
    )
    print_table(suitable, ("algorithm", "can be trained", "expected memory"))
    _print_warnings(info)


@datasets.command()
def download(
    dataset: names.Dataset,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A file .csv or .arrows. Default: ID.csv."),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option("--task", "-t", help="Task to download; can be repeated. Default: all."),
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Download the rows of a dataset as CSV, or as a stream of Arrow record batches."""
    with Client(url) as client:
        info = client.dataset_info(find_dataset(client, dataset))
        target = output or Path(f"{info['id']}.csv")
        file = client.download_dataset(info["id"], target, task or ())
    print_result(f"{info['name']}: {file}", file=str(file))


@datasets.command()
def delete(dataset: names.Dataset, url: Url = DEFAULT_URL) -> None:
    """Delete a dataset that no job and no model uses."""
    with Client(url) as client:
        dataset_id = find_dataset(client, dataset)
        client.delete_dataset(dataset_id)
    print_result(f"dataset {dataset_id} is deleted", id=dataset_id)


def _print_warnings(info: dict[str, Any]) -> None:
    for warning in info["warnings"]:
        print_note(f"note: {warning}")


def _print_task(task: dict[str, Any]) -> None:
    size = f"{task['n_samples']} rows, {task['n_features']} columns"
    if task["n_unlabelled"]:
        size += f", {task['n_unlabelled']} further rows without a target"
    if task["stored"] is not None:
        size += f", {task['stored']:.2%} of the values stored (sparse)"
    print_text()
    print_text(f"task {task['name']}: {size}{_target(task['target'])}")
    header = ("column", "kind", "missing", "distinct", "from", "to", "values")
    columns = [
        [
            column["name"],
            column["kind"],
            f"{column['missing']:.0%}",
            column["n_distinct"],
            column["min"],
            column["max"],
            _distribution(column),
        ]
        for column in task["columns"]
    ]
    if columns:
        print_table(columns, header)
    if task["rows"]:
        shown = [column["name"] for column in task["columns"]][:_MAX_SHOWN]
        print_table(([row[name] for name in shown] for row in task["rows"]), shown)


def _target(target: dict[str, Any] | None) -> str:
    if target is None:
        return ""
    if target["counts"] is not None:
        counts = list(target["counts"].items())
        shown = ", ".join(f"{label} ({n})" for label, n in counts[:_MAX_SHOWN])
        return f", {len(counts)} classes: {shown}{', ...' if len(counts) > _MAX_SHOWN else ''}"
    low, mean, high = (format_value(target[name]) for name in ("min", "mean", "max"))
    return f", targets from {low} to {high}, mean {mean}"


def _distribution(column: dict[str, Any]) -> str:
    """Return the counts of a column as bars, or the values of a category with their counts."""
    counts = column["counts"]
    if column["values"] is not None:
        pairs = sorted(zip(counts, column["values"], strict=True), key=lambda pair: -pair[0])
        return ", ".join(f"{value} ({n})" for n, value in pairs[:4])
    largest = max(counts) or 1
    return "".join(_BARS[-(-n * (len(_BARS) - 1) // largest)] for n in counts)
