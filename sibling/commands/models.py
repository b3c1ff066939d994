"""``sibling models``, ``aliases`` and ``alias``: look at trained models, and name versions."""

from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from sibling import Client, RemoteModel, ServiceError
from sibling.charts import Theme
from sibling.client.environment import DEFAULT_URL
from sibling.commands.app import App, noun
from sibling.commands.monitors import monitors
from sibling.commands.names import (
    COMPLETE_PLOT,
    Model,
    ModelName,
    Url,
    find_model,
    split_version,
    suggesting_model,
)
from sibling.commands.output import (
    is_json,
    print_fields,
    print_json,
    print_list,
    print_note,
    print_result,
    print_table,
    print_text,
)
from sibling.commands.renewals import renewals

models = noun("Look at models, watch and renew them in use, download, export and delete them.")
naming = App()
models.add_typer(monitors, name="monitor")
models.add_typer(renewals, name="renewal")

_COLUMNS: Final = ("name", "version", "algorithm", "methods", "created_at")
_FIELDS: Final = (
    *("name", "version", "aliases", "algorithm", "params", "seed", "methods", "tasks"),
    *("dataset_id", "job_id", "stop_reason"),
    *("artifact_bytes", "artifact_sha256", "created_at"),
)
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Output file. Default: by name and version.")
]


@models.command(name="list")
def list_models(url: Url = DEFAULT_URL) -> None:
    """List the models with their latest version."""
    with Client(url) as client:
        print_list(client.models, *_COLUMNS)


@models.command()
def versions(model: ModelName, url: Url = DEFAULT_URL) -> None:
    """List the versions of a model, newest first."""
    with Client(url) as client, suggesting_model(client, model):
        print_list(client.versions(model), *_COLUMNS, "aliases")


@models.command()
def show(model: Model, url: Url = DEFAULT_URL) -> None:
    """Show a model: tasks, lineage, scores, and the report of search and comparison."""
    with Client(url) as client:
        remote = find_model(client, model)
        report = find_report(remote)
    if is_json():
        print_json(remote.info | {"report": report})
        return
    print_fields(remote.info | remote.info["lineage"], *_FIELDS)
    print_scores(remote)
    if report is not None:
        print_report(report)


@models.command()
def compare(
    models: Annotated[list[str], typer.Argument(help="Models: NAME, NAME@ALIAS or NAME/VERSION.")],
    url: Url = DEFAULT_URL,
) -> None:
    """Compare the mean scores of models, on training rows and, where evaluated, held-out rows."""
    with Client(url) as client:
        remotes = [find_model(client, name) for name in models]
        summaries = [_summary(model, find_report(model)) for model in remotes]
    if print_json(summaries):
        return
    labels = [f"{summary['name']}/{summary['version']}" for summary in summaries]
    rows: list[list[Any]] = [
        [field, *(summary[field] for summary in summaries)] for field in ("algorithm", "dataset_id")
    ]
    for kind in ("training", "held_out"):
        metrics = sorted({metric for summary in summaries for metric in summary[kind]})
        rows += [
            [
                f"{kind.replace('_', '-')} {metric}",
                *(summary[kind].get(metric) for summary in summaries),
            ]
            for metric in metrics
        ]
    print_table(rows, ("", *labels))
    if len({summary["dataset_id"] for summary in summaries}) > 1:
        print_note("note: the models were trained on different datasets")


@models.command()
def plot(
    model: Model,
    name: Annotated[
        str | None,
        typer.Argument(
            help="Name of a plot. Default: list the plots of the model.",
            autocompletion=COMPLETE_PLOT,
        ),
    ] = None,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File that ends in .svg, .png or, for Vega-Lite, .json. Default: an SVG file.",
        ),
    ] = None,
    theme: Annotated[Theme, typer.Option(help="Colours for a light or a dark page.")] = "light",
    url: Url = DEFAULT_URL,
) -> None:
    """Draw a plot of a model to a file, or list its plots."""
    with Client(url) as client:
        remote = find_model(client, model)
        if name is None:
            print_list(remote.plots(), "name", "title", "sentence")
            return
        target = output or _file_name(remote, f"-{name}.svg")
        try:
            file = remote.save_plot(name, target, theme=theme)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--output") from None
    print_result(f"{name} of {remote.name}, version {remote.version}: {file}", file=str(file))


@models.command()
def download(model: Model, *, output: Output = None, url: Url = DEFAULT_URL) -> None:
    """Download a model to a file that Python can load without the service."""
    with Client(url) as client:
        remote = find_model(client, model)
        file = remote.download(output or _file_name(remote, ".safetensors"))
    print_result(f"{remote.name}, version {remote.version}: {file}", file=str(file))


@models.command()
def report(model: Model, *, output: Output = None, url: Url = DEFAULT_URL) -> None:
    """Write a report to read, print and send: one HTML file with answer, plots, methods, data."""
    with Client(url) as client:
        remote = find_model(client, model)
        file = remote.save_report(output or _file_name(remote, ".html"))
    print_result(f"{remote.name}, version {remote.version}: {file}", file=str(file))


@models.command()
def export(
    model: Model,
    *,
    mlflow: Annotated[
        Path | None, typer.Option(help="Folder that MLflow loads and serves; it must not exist.")
    ] = None,
    onnx: Annotated[
        Path | None, typer.Option(help="File with an ONNX graph in double precision.")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Write a model in the format of other programs, which run it without the service."""
    if (mlflow is None) == (onnx is None):
        raise typer.BadParameter("give one of --mlflow FOLDER and --onnx FILE")
    with Client(url) as client:
        remote = find_model(client, model)
        try:
            if mlflow is None:
                assert onnx is not None  # checked above
                file = remote.to_onnx(onnx)
            else:
                file = remote.to_mlflow(mlflow)
        except ImportError as error:
            raise OSError(str(error)) from None
    print_result(f"{remote.name}, version {remote.version}: {file}", file=str(file))


@models.command()
def delete(
    model: Annotated[str, typer.Argument(help="NAME/VERSION.")], url: Url = DEFAULT_URL
) -> None:
    """Delete a version of a model."""
    name, version = split_version(model)
    if version is None:
        raise typer.BadParameter(f"expected NAME/VERSION, got '{model}'")
    with Client(url) as client:
        find_model(client, model).delete()
    print_result(f"{name}, version {version} is deleted", name=name, version=version)


@naming.command()
def aliases(model: ModelName, url: Url = DEFAULT_URL) -> None:
    """List the aliases of a model."""
    with Client(url) as client, suggesting_model(client, model):
        pairs = client.aliases(model).items()
    print_list([{"alias": name, "version": v} for name, v in pairs], "alias", "version")


@naming.command()
def alias(
    model: Annotated[str, typer.Argument(help="NAME/VERSION, or NAME for the latest version.")],
    alias: Annotated[str, typer.Argument(help="Name of the alias, such as production.")],
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the alias.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Point an alias at a model version; NAME@ALIAS then refers to that version."""
    name, _ = split_version(model)
    with Client(url) as client:
        if delete:
            with suggesting_model(client, f"{name}@{alias}"):
                client.delete_alias(name, alias)
            print_result(f"{name}@{alias} is deleted", model=name, alias=alias)
            return
        remote = find_model(client, model)
        remote.set_alias(alias)
    text = f"{remote.name}@{alias} is version {remote.version}"
    print_result(text, model=remote.name, alias=alias, version=remote.version)


def find_report(model: RemoteModel) -> dict[str, Any] | None:
    """Return the report of a model, or None if it has none."""
    try:
        return model.report()
    except ServiceError as error:
        if error.code != "no-report":
            raise
        return None


def print_scores(model: RemoteModel) -> None:
    """Print the scores of a model on the training rows, and its warnings."""
    scores = list(_means(model).items())
    if scores:  # otherwise the table would only have a header
        print_table(scores, ("metric", "mean over tasks"))
    for warning in model.info["warnings"]:
        print_note(f"warning: {warning}")


def print_report(report: dict[str, Any]) -> None:
    """Print the results of search, evaluation and comparison."""
    search = report["search"]
    if search is not None:
        metric = search["metric"]
        rows: list[tuple[Any, ...]] = [
            (
                candidate["params"],
                _format_score(candidate["mean"][metric]),
                candidate["n_splits"],
                "*" if position == search["best"] else "",
            )
            for position, candidate in enumerate(search["candidates"])
        ]
        print_table(rows, ("candidate", f"{metric} (mean over tasks)", "splits", "best"))
    _print_evaluation(report["evaluation"])
    for leak in report.get("leaking_columns", ()):
        print_text(leak["sentence"])
    _print_recall(report.get("classes"))
    calibration = report.get("calibration")
    if calibration is not None and calibration["after"] is not None:
        rows = [
            (metric, *(_format_score(calibration[when][metric]) for when in ("before", "after")))
            for metric in ("brier", "log_loss", "calibration_error")
        ]
        print_table(rows, ("probabilities", "before", "calibrated"))
    new_tasks = None if calibration is None else calibration["new_tasks"]
    if new_tasks is not None:
        errors = [new_tasks["left_out_rows"], new_tasks["left_out_tasks"]]
        rows = [(name, *(_format_score(of[name]) for of in errors)) for name in errors[0]]
        print_table(rows, ("mean over tasks", "rows left out", "tasks left out"))
    choice = report.get("choice")
    if choice is not None:
        _print_leaderboard(choice)
    for sentence in (choice or report["comparison"] or {"sentences": []})["sentences"]:
        print_text(sentence)


def _print_evaluation(evaluation: dict[str, Any] | None) -> None:
    if evaluation is None:
        return
    _print_means("held-out metric", evaluation)
    if evaluation.get("unit"):
        print_text(f"RMSE and widths of intervals are in units of {evaluation['unit']}.")
    for sentence in evaluation.get("sentences", ()):
        print_text(sentence)
    left_out = evaluation.get("left_out_tasks")
    if left_out is not None and left_out["failed"]:
        print_note(f"warning: tasks cannot be left out: {left_out['failed']}")
    elif left_out is not None:
        _print_means("left-out tasks, metric", left_out)


def _print_means(title: str, scores: dict[str, Any]) -> None:
    rows = [
        (metric, _format_score(mean), _format_score(scores["over_rows"][metric]))
        for metric, mean in scores["mean"].items()
    ]
    print_table(rows, (title, "mean over tasks", "over all rows"))


def _print_recall(classes: dict[str, Any] | None) -> None:
    if classes is None:
        return
    rows = [
        (label, _format_score(entry["recall"]), entry["n_rows"], entry["n_answered"])
        for label, entry in classes["by_class"].items()
    ]
    print_table(rows, ("class", "recall", "held-out rows", "predicted as it"))
    for sentence in classes["sentences"]:
        print_text(sentence)


def _print_leaderboard(choice: dict[str, Any]) -> None:
    has_left_out = any(row["left_out_tasks"] is not None for row in choice["leaderboard"])
    rows = [
        (
            f"{row['algorithm']}{', ' + row['variant'] if row['variant'] else ''}",
            row["role"].replace("_", " "),
            _format_score(row["value"]),
            f"{_format_score(row['low'])} to {_format_score(row['high'])}",
            *((_format_score(row["left_out_tasks"]),) if has_left_out else ()),
            row["n_task_wins"],
            f"{row['fit_s']:.3g}",
            f"{row['predict_s']:.3g}",
            _share(row, choice["chosen"]),
        )
        for row in choice["leaderboard"]
    ]
    average = "mean over tasks" if choice["average"] == "tasks" else "over all rows"
    titles = ("method", "learns", f"{choice['metric']} ({average})", "95 % interval")
    left_out = ("left-out tasks",) if has_left_out else ()
    print_table(rows, (*titles, *left_out, "best tasks", "fit s", "s per 1,000 rows", "weight"))


def _share(row: dict[str, Any], chosen: dict[str, str]) -> str:
    """Return the weight of a method in the model; '*' if it is the model of an earlier version."""
    if row.get("weight") is None:
        return "*" if all(row[name] == value for name, value in chosen.items()) else ""
    return f"{row['weight']:.0%}" if row["weight"] else ""


def _summary(model: RemoteModel, report: dict[str, Any] | None) -> dict[str, Any]:
    from sibling.plots import held_out_scores  # other commands need no plots

    return {
        "name": model.name,
        "version": model.version,
        "algorithm": model.info["algorithm"],
        "dataset_id": model.info["lineage"]["dataset_id"],
        "training": _means(model),
        "held_out": (held_out_scores(report) or {"mean": {}})["mean"],
    }


def _means(model: RemoteModel) -> dict[str, float | None]:
    """Return the mean over tasks of the scores that are finite, by metric."""
    finite = {
        metric: [score for score in by_task.values() if score is not None]
        for metric, by_task in model.metrics.items()
    }
    return {metric: float(np.mean(scores)) if scores else None for metric, scores in finite.items()}


def _format_score(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"


def _file_name(model: RemoteModel, ending: str) -> Path:
    return Path(f"{model.name}-{model.version}{ending}")
