"""The command ``sibling``: run the service, and use one."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import numpy as np
import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from service.access.cli import keys
from service.batch.cli import batch
from service.client import Client, JobFailed, ServiceError
from service.client.client import DEFAULT_URL
from service.inference.cli import Url, inference, named

app = typer.Typer(
    name="sibling",
    help="Train related tasks together, serve them over HTTP.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

app.add_typer(keys, name="keys")

#: Columns where the output is no terminal: a file or a pipe wants whole lines.
_PIPE_WIDTH: Final = 240
_out = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
_err = Console(stderr=True, highlight=False)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port; 0 takes a free one. Default: 8000, or a free one.")
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of database and cache.")] = None,
) -> None:
    """Run the service: SQLite and a pool on this machine, unless settings say otherwise."""
    from service.server import run
    from service.settings import Settings

    given = {"host": host, "port": port, "data_dir": data_dir}
    # server processes read their settings from the environment, where options go first
    os.environ.update({f"SIBLING_{k.upper()}": str(v) for k, v in given.items() if v is not None})
    run(Settings(), any_port=port is None)


@app.command()
def migrate(
    wait_s: Annotated[
        float, typer.Option("--wait", min=0, help="Seconds to wait for a database that starts.")
    ] = 0,
) -> None:
    """Bring the database that DATABASE_URL names to the schema of this version."""
    from sqlalchemy.exc import SQLAlchemyError

    from service.database import Database
    from service.schema import SchemaMismatch
    from service.schema import migrate as run
    from service.settings import Settings

    database = Database(Settings().resolved_database_url())
    try:
        database.wait(wait_s)
        run(database)
    except (SchemaMismatch, SQLAlchemyError) as error:
        reason = str(getattr(error, "orig", error)).strip()
        raise OSError(f"the database cannot be migrated: {reason}") from error
    finally:
        database.close()


@app.command()
def scheduler(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8786,
) -> None:
    """Run a scheduler for workers on several machines; with SIBLING_TLS_DIR it speaks TLS."""
    from service.jobs.worker.cluster import run_scheduler
    from service.settings import Settings

    run_scheduler(host, port, Settings())


@app.command()
def worker() -> None:
    """Run workers of the scheduler that ENGINE_URL names, one for each of SIBLING_SLOTS."""
    from service.jobs.worker.cluster import run_worker
    from service.settings import Settings

    run_worker(Settings())


@app.command()
def certificates(
    folder: Annotated[Path, typer.Argument(help="Where to put ca.pem, cert.pem and key.pem.")],
) -> None:
    """Make the files that let API, scheduler and workers trust each other, and nobody else."""
    from service.jobs.worker.tls import make_certificates

    made = make_certificates(folder)
    _out.print(f"{folder}: {'made' if made else 'there already'}")


@app.command()
def demo() -> None:
    """Show the whole of it in a minute: train over HTTP, use over HTTP."""
    from service.demo import run

    run()


@app.command()
def algorithms(url: Url = DEFAULT_URL) -> None:
    """List what can be trained."""
    with _client(url) as client:
        _show(client.algorithms(), "name", "title", "methods")


@app.command()
def datasets(url: Url = DEFAULT_URL) -> None:
    """List the datasets."""
    with _client(url) as client:
        _show(client.datasets(), "id", "name", "state", "size_bytes", "created_at")


@app.command()
def jobs(url: Url = DEFAULT_URL) -> None:
    """List the jobs."""
    with _client(url) as client:
        _show(client.jobs(), "id", "state", "algorithm", "model", "version", "created_at")


@app.command()
def models(url: Url = DEFAULT_URL) -> None:
    """List the models."""
    with _client(url) as client:
        _show(client.models(), "name", "version", "algorithm", "methods", "created_at")


@app.command()
def aliases(
    model: Annotated[str, typer.Argument(help="Name of a model.")], url: Url = DEFAULT_URL
) -> None:
    """List the aliases of a model."""
    with _client(url) as client:
        listed = client.aliases(model).items()
    _show([{"alias": name, "version": v} for name, v in listed], "alias", "version")


@app.command()
def alias(
    model: Annotated[str, typer.Argument(help="The version it is to name: NAME/VERSION, or NAME.")],
    alias: Annotated[str, typer.Argument(help="The alias, such as production.")],
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Take it away.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Have an alias name a version of a model, by default the latest; then call it NAME@ALIAS."""
    name, version = named(model)
    with _client(url) as client:
        if delete:
            client.delete_alias(name, alias)
            _out.print(f"{name}@{alias} is gone", markup=False)
        else:
            found = client.model(name, version)
            found.name_as(alias)
            _out.print(f"{found.name}@{alias} is version {found.version}", markup=False)


@app.command()
def train(
    data: Annotated[str, typer.Argument(help="A .csv or .npz file, or the id of a dataset.")],
    algorithm: Annotated[str, typer.Option("--algorithm", "-a", help="See 'algorithms'.")],
    *,
    param: Annotated[
        list[str] | None,
        typer.Option("--param", "-p", help="A parameter as NAME=VALUE, the value as in JSON."),
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search",
            "-s",
            help="Values to try of a parameter: NAME=[V1,V2,...], or for --method random and "
            'halving a range, NAME={"low":1,"high":9}.',
        ),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Tell whether learning together helps.")
    ] = False,
    evaluate: Annotated[
        bool, typer.Option("--evaluate", help="Judge it on rows that are held out.")
    ] = False,
    method: Annotated[
        str, typer.Option("--method", help="How --search goes: grid, random, or halving.")
    ] = "grid",
    model: Annotated[str | None, typer.Option(help="Name of the model.")] = None,
    task_column: Annotated[str | None, typer.Option(help="Column of a CSV with the task.")] = None,
    target_column: Annotated[
        str | None, typer.Option(help="Column of a CSV with the target.")
    ] = None,
    target_kind: Annotated[
        str | None,
        typer.Option(help="What targets are: auto, numbers or classes. Default: auto."),
    ] = None,
    group_column: Annotated[
        str | None,
        typer.Option(help="Column of a CSV with the group of each row, which is never divided."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the fit.")] = 0,
    url: Url = DEFAULT_URL,
) -> None:
    """Upload data, train a model, and show how it goes."""
    if method != "grid" and not search:
        raise typer.BadParameter("--method says how --search goes; give values to try with it")
    params = dict(_param(text) for text in param or [])
    given = {
        "task_column": task_column,
        "target_column": target_column,
        "target_kind": target_kind,
        "group_column": group_column,
    }
    options: Any = {name: value for name, value in given.items() if value is not None}
    with _client(url) as client:
        dataset: Any = data if data.startswith("ds_") else client.upload(data, **options)
        space = dict(_param(text) for text in search or [])
        job = client.submit(
            dataset,
            algorithm,
            params,
            model=model,
            seed=seed,
            search={"space": space, "method": method} if space else None,
            compare=compare,
            evaluate=evaluate,
        )
        trained = job.wait(progress=True)
        _out.print(f"model {trained.name}, version {trained.version}", markup=False)
        scores = [
            {"metric": metric, "mean over tasks": _mean_of(by_task.values())}
            for metric, by_task in trained.metrics.items()
        ]
        if scores:  # a row of titles alone says nothing
            _show(scores, "metric", "mean over tasks")
        for warning in trained.info["warnings"]:
            _err.print(f"note: {warning}", markup=False)
        if search or compare or evaluate:
            _show_report(trained.report())


def _mean_of(scores: Iterable[float | None]) -> str:
    """Return the mean of the scores that are finite, to four decimals."""
    known = [score for score in scores if score is not None]
    return f"{np.mean(known):.4f}" if known else "-"


app.add_typer(inference)
app.add_typer(batch)


def main() -> None:
    """Run the command; errors are told in a sentence, not in a traceback."""
    import httpx
    from pydantic import ValidationError

    try:
        app()
    except ValidationError as error:
        _fail("; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()))
    except (ServiceError, JobFailed, ValueError, OSError) as error:
        _fail(str(error))
    except (httpx.TransportError, httpx.InvalidURL) as error:
        _fail(f"no answer from the service ({error}); start one with 'sibling serve'")
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _fail(sentence: str) -> NoReturn:
    # not a matter of markup: a name in brackets is a name
    _err.print(f"error: {sentence}", markup=False, soft_wrap=True)
    raise SystemExit(1) from None


def _client(url: str) -> Client:
    return Client(url)


def _param(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"'{text}' is not NAME=VALUE")
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        return name, value  # a bare word is a string


def _show_report(report: dict[str, Any]) -> None:
    found = report["search"]
    if found is not None:
        rows = [
            {
                "tried": ", ".join(f"{name}={value}" for name, value in tried["params"].items()),
                found["metric"]: _told(tried["mean"][found["metric"]]),
                "splits": tried["n_splits"],
                "best": "*" if position == found["best"] else "",
            }
            for position, tried in enumerate(found["candidates"])
        ]
        _show(rows, "tried", found["metric"], "splits", "best")
    judged = report["evaluation"]
    if judged is not None:
        rows = [
            {
                "held out": metric,
                "mean over tasks": _told(judged["mean"][metric]),
                "over all rows": _told(judged["over_rows"][metric]),
            }
            for metric in judged["mean"]
        ]
        _show(rows, "held out", "mean over tasks", "over all rows")
    for sentence in (report["comparison"] or {"sentences": []})["sentences"]:
        _out.print(sentence, markup=False, soft_wrap=True)


def _told(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"


def _show(items: list[dict[str, Any]], *columns: str) -> None:
    table = Table(*columns, box=None)
    for item in items:
        values = [item[column] for column in columns]
        texts = (", ".join(v) if isinstance(v, list) else str(v) for v in values)
        table.add_row(*(Text(text) for text in texts))
    _out.print(table)
