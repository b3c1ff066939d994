"""``sibling infer``: batch inference over a dataset."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from sibling import Client, NewTasksWarning, UnknownCategoriesWarning
from sibling.client.environment import DEFAULT_URL
from sibling.commands.app import App
from sibling.commands.datasets import Read, find_or_upload, read_options, without_none
from sibling.commands.names import (
    Data,
    Model,
    NewTasksOption,
    Url,
    split_version,
    suggesting_model,
)
from sibling.commands.output import print_json, print_note, print_text

batch = App()


@batch.command()
def infer(
    model: Model,
    method: Annotated[str, typer.Argument(help="Method, such as transform or predict.")],
    data: Data,
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
    new_tasks: NewTasksOption = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Apply a model to all rows of a dataset, as a job, and show its progress."""
    name, version = split_version(model)
    tasks = dict(_task(text) for text in task) if task else None
    options = without_none(task_column=task_column, target_column=target_column)
    options |= read_options(read)
    with Client(url) as client:
        source = find_or_upload(client, data, **options)
        with suggesting_model(client, model):
            called = name if version is None else client.model(name, version)
            job = client.infer(
                called, method, source, tasks=tasks, new_tasks=new_tasks, makes_dataset=dataset
            )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownCategoriesWarning)  # noted below
            outputs = job.wait(progress=True)
        if output is not None:
            outputs.download(output)
    if print_json(job.info):
        return
    report = outputs.report
    rate = f"{report['rows']} rows in {report['seconds']:.3g} s"
    print_text(f"{method} by {job.info['model']}, version {job.info['version']}: {rate}")
    if report["new_tasks"]:
        print_note(str(NewTasksWarning(report["new_tasks"])))
    unknown = UnknownCategoriesWarning.of_result(report)
    if unknown is not None:
        print_note(str(unknown))
    if outputs.dataset_id is not None:
        print_text(f"dataset {outputs.dataset_id}")
    if output is None:
        print_text(f"outputs {job.id}")


def _task(text: str) -> tuple[str, str]:
    name, separator, called = text.rpartition("=")
    return (name, called) if separator else (text, text)
