"""``sibling train``: upload data, train a model, and show the result."""

from typing import Annotated, Any, Literal

import orjson
import typer

from service.command.app import App
from service.command.names import COMPLETE_ALGORITHM, Data, Url
from service.command.output import is_json, print_json, print_note, print_text
from service.datasets.cli import GroupColumn, Read, WeightColumn, find_or_upload, read_options
from service.models.cli import find_report, print_report, print_scores
from sibling import Client, RemoteModel, TrainingJob
from sibling.client.http import DEFAULT_URL

training = App()


@training.command()
def train(
    data: Data,
    algorithm: Annotated[
        str,
        typer.Option(
            "--algorithm",
            "-a",
            help="Algorithm, see 'sibling algorithms'.",
            autocompletion=COMPLETE_ALGORITHM,
        ),
    ],
    *,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", help="Set a parameter: NAME=VALUE (VALUE is JSON)."),
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            "-s",
            help="Values of a parameter to try: NAME=[V1,V2,...]. With --method random or halving "
            'also a range: NAME={"low":1,"high":9}.',
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare with baselines on held-out rows.")
    ] = False,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Score the algorithm on held-out rows.")
    ] = False,
    method: Annotated[
        Literal["grid", "random", "halving"],
        typer.Option("--method", help="Search method: grid, random or halving."),
    ] = "grid",
    model: Annotated[
        str | None, typer.Option(help="Name of the model. Default: name of the algorithm.")
    ] = None,
    task_column: Annotated[str | None, typer.Option(help="Column of the task.")] = None,
    target_column: Annotated[str | None, typer.Option(help="Column of the target.")] = None,
    target_kind: Annotated[
        Literal["auto", "numbers", "classes"] | None,
        typer.Option(help="Kind of targets: auto, numbers or classes. Default: auto."),
    ] = None,
    group_column: GroupColumn = None,
    weight_column: WeightColumn = None,
    class_weight: Annotated[
        str | None,
        typer.Option(
            help='Weights of classes in the fit: balanced, or as JSON {"ill":5}. Default: none.'
        ),
    ] = None,
    read: Read = None,
    preparation: Annotated[
        str | None,
        typer.Option(
            help='How raw rows are prepared, as JSON, such as {"scale":"robust"}. Default: missing '
            "values are filled, text and dates become numbers."
        ),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Fit also without folds of the rows, for predict-proba, predict-set and "
            "predict-interval.",
        ),
    ] = False,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    url: Url = DEFAULT_URL,
) -> None:
    """Upload data, train a model, and show the progress."""
    if method != "grid" and not search:
        raise typer.BadParameter("--method needs values to try; add --search NAME=[V1,V2,...]")
    params = dict(_param(text) for text in param or [])
    given = {
        "task_column": task_column,
        "target_column": target_column,
        "target_kind": target_kind,
        "group_column": group_column,
        "weight_column": weight_column,
    }
    options: Any = {name: value for name, value in given.items() if value is not None}
    options |= read_options(read)
    recipe = None if preparation is None else _param(f"preparation={preparation}")[1]
    space = dict(_param(text) for text in search or [])
    with Client(url) as client:
        job = client.submit(
            find_or_upload(client, data, **options),
            algorithm,
            params,
            model=model,
            seed=seed,
            search={"space": space, "method": method} if space else None,
            compare=compare,
            evaluate=evaluate,
            preparation=recipe,
            calibration=calibrate or None,
            class_weight=None
            if class_weight is None
            else _param(f"class_weight={class_weight}")[1],
        )
        trained = _wait(job)
        report = find_report(trained)
    if is_json():
        print_json(trained.info | {"report": report})
        return
    print_text(f"model {trained.name}, version {trained.version}")
    print_scores(trained)
    if report is not None:
        print_report(report)


def _wait(job: TrainingJob) -> RemoteModel:
    try:
        return job.wait(progress=True)
    except KeyboardInterrupt:
        print_note(f"the job continues: see 'sibling jobs watch {job.id}', or 'jobs cancel'")
        raise


def _param(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"expected NAME=VALUE, got '{text}'")
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        return name, value  # text without quotes is a string
