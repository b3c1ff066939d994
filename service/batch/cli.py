"""``sibling infer``: batch inference over a dataset."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from service.datasets.cli import Read, read_options, upload_file
from service.inference.cli import Url, split_version
from sibling.client import Client
from sibling.client.client import DEFAULT_URL

batch = typer.Typer()
_out = Console(highlight=False, soft_wrap=True, markup=False)


@batch.command()
def infer(
    model: Annotated[str, typer.Argument(help="Model name, NAME@ALIAS, or NAME/VERSION.")],
    method: Annotated[str, typer.Argument(help="Method, such as transform or predict.")],
    data: Annotated[str, typer.Argument(help="A file (CSV, Parquet, .npz, ...), or a dataset id.")],
    *,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task",
            "-t",
            help="Task to select, or TASK=MODEL_TASK if the model has another name for it; can be "
            "repeated. Default: all tasks.",
        ),
    ] = None,
    task_column: Annotated[str | None, typer.Option(help="Column of the task.")] = None,
    target_column: Annotated[str | None, typer.Option(help="Column of the target.")] = None,
    read: Read = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Parquet file to write the outputs to. Default: none; the job keeps them.",
        ),
    ] = None,
    dataset: Annotated[bool, typer.Option(help="Also store numeric outputs as a dataset.")] = True,
    url: Url = DEFAULT_URL,
) -> None:
    """Apply a model to all rows of a dataset, as a job, and show its progress."""
    name, version = split_version(model)
    tasks = dict(_task(text) for text in task) if task else None
    columns = {"task_column": task_column, "target_column": target_column}
    options: Any = {key: value for key, value in columns.items() if value is not None}
    options |= read_options(read)
    with Client(url) as client:
        source: Any = data if data.startswith("ds_") else upload_file(client, data, **options)
        called = name if version is None else client.model(name, version)
        job = client.infer(called, method, source, tasks=tasks, makes_dataset=dataset)
        outputs = job.wait(progress=True)
        report = outputs.report
        rate = f"{report['rows']} rows in {report['seconds']:.3g} s"
        _out.print(f"{method} by {job.info['model']}, version {job.info['version']}: {rate}")
        if outputs.dataset_id is not None:
            _out.print(f"dataset {outputs.dataset_id}")
        if output is not None:
            outputs.download(output)
        else:
            _out.print(f"outputs {job.id}")


def _task(text: str) -> tuple[str, str]:
    name, separator, called = text.rpartition("=")
    return (name, called) if separator else (text, text)
