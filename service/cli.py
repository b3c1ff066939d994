"""The command ``sibling``: run the service, or use a running one."""

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
from service.audit.cli import audit as audit_command
from service.batch.cli import batch
from service.datasets.cli import Read, datasets, read_options, upload_file
from service.inference.cli import Url, inference, split_version
from service.operations.cli import operations
from sibling.client import Client, JobFailed, ServiceError
from sibling.client.client import DEFAULT_URL

app = typer.Typer(
    name="sibling",
    help="Train related tasks together, and serve the models over HTTP.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

jobs = typer.Typer()
app.add_typer(keys, name="keys")
app.add_typer(jobs, name="jobs")
app.add_typer(datasets, name="datasets")

#: Line width if the output is a file or a pipe, so that tables are not wrapped.
_PIPE_WIDTH: Final = 240
_out = Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)
_err = Console(stderr=True, highlight=False)


@app.command()
def serve(
    host: Annotated[
        str | None, typer.Option(help="Address to listen on. Default: 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port; 0 selects a free one. Default: 8000, or a free one if taken.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Directory of database and cache. Default: sibling-data.")
    ] = None,
) -> None:
    """Run the service, by default with SQLite and a worker pool on this machine."""
    from service.server.serve import run
    from service.settings import Settings

    given = {"host": host, "port": port, "data_dir": data_dir}
    # server processes read their settings from the environment
    os.environ.update({f"SIBLING_{k.upper()}": str(v) for k, v in given.items() if v is not None})
    run(Settings(), any_port=port is None)


@app.command()
def migrate(
    wait_s: Annotated[
        float,
        typer.Option("--wait", min=0, help="Maximum time to wait for the database, in seconds."),
    ] = 0,
    lock_timeout_s: Annotated[
        float,
        typer.Option(
            "--lock-timeout",
            min=0,
            help="Maximum time to wait for a migration by another process, in seconds.",
        ),
    ] = 600,
) -> None:
    """Migrate the database of SIBLING_DATABASE_URL to the schema of this version.

    If several processes do this at once, one migrates and the others wait for it.
    """
    from sqlalchemy.exc import SQLAlchemyError

    from service.audit import store as audit
    from service.audit.events import command_event
    from service.database import Database
    from service.schema import SchemaMismatch, newest_revision
    from service.schema import migrate as run
    from service.settings import Settings

    database = Database(Settings().resolved_database_url())
    try:
        database.wait(wait_s)
        run(database, lock_timeout_s=lock_timeout_s)
        with database.write() as session:
            audit.add(session, command_event("migrate", f"/schema/{newest_revision()}"))
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
    """Run a scheduler for workers on other machines; SIBLING_TLS_DIR enables TLS."""
    from service.jobs.worker.cluster import run_scheduler
    from service.settings import Settings

    run_scheduler(host, port, Settings())


@app.command()
def worker() -> None:
    """Run SIBLING_WORKER_SLOTS workers of the scheduler at SIBLING_SCHEDULER_URL."""
    from service.jobs.worker.cluster import run_worker
    from service.settings import Settings

    run_worker(Settings())


@app.command()
def certificates(
    folder: Annotated[Path, typer.Argument(help="Directory for ca.pem, cert.pem and key.pem.")],
) -> None:
    """Create the certificates for mutual TLS between API, scheduler and workers."""
    from service.jobs.worker.tls import make_certificates

    is_new = make_certificates(folder)
    _out.print(f"certificates {'created' if is_new else 'already exist'} in {folder}")


@app.command()
def demo() -> None:
    """Run an end-to-end demo: start a service, train over HTTP, compare the models."""
    from service.demo import run

    run()


@app.command()
def algorithms(url: Url = DEFAULT_URL) -> None:
    """List the algorithms."""
    with _client(url) as client:
        _show(client.algorithms(), "name", "title", "methods")


@jobs.callback(invoke_without_command=True)
def list_jobs(context: typer.Context, url: Url = DEFAULT_URL) -> None:
    """List the jobs."""
    if context.invoked_subcommand is None:
        with _client(url) as client:
            _show(client.jobs(), "id", "state", "algorithm", "model", "version", "created_at")


@jobs.command(name="delete")
def delete_job(
    context: typer.Context,
    job_id: Annotated[str, typer.Argument(help="Id of a job that has ended.")],
    url: Annotated[
        str | None, typer.Option("--url", help="URL of the service.", metavar="URL")
    ] = None,
) -> None:
    """Delete a job that has ended, with its child jobs, events and outputs."""
    assert context.parent is not None
    with _client(url or context.parent.params["url"]) as client:  # before or after "delete"
        client.delete_job(job_id)
    _out.print(f"job {job_id} is deleted", markup=False)


@app.command()
def models(url: Url = DEFAULT_URL) -> None:
    """List the models with their latest version."""
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
    model: Annotated[str, typer.Argument(help="NAME/VERSION, or NAME for the latest version.")],
    alias: Annotated[str, typer.Argument(help="Name of the alias, such as production.")],
    *,
    delete: Annotated[bool, typer.Option("--delete", help="Delete the alias.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Point an alias at a model version; NAME@ALIAS then refers to that version."""
    name, version = split_version(model)
    with _client(url) as client:
        if delete:
            client.delete_alias(name, alias)
            _out.print(f"{name}@{alias} is deleted", markup=False)
        else:
            found = client.model(name, version)
            found.set_alias(alias)
            _out.print(f"{found.name}@{alias} is version {found.version}", markup=False)


@app.command()
def train(
    data: Annotated[str, typer.Argument(help="A file (CSV, Parquet, .npz, ...), or a dataset id.")],
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help="Algorithm, see 'sibling algorithms'.")
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
        str, typer.Option("--method", help="Search method: grid, random or halving.")
    ] = "grid",
    model: Annotated[
        str | None, typer.Option(help="Name of the model. Default: name of the algorithm.")
    ] = None,
    task_column: Annotated[str | None, typer.Option(help="Column of the task.")] = None,
    target_column: Annotated[str | None, typer.Option(help="Column of the target.")] = None,
    target_kind: Annotated[
        str | None,
        typer.Option(help="Kind of targets: auto, numbers or classes. Default: auto."),
    ] = None,
    group_column: Annotated[
        str | None,
        typer.Option(help="Column of the group; rows of a group stay in one split."),
    ] = None,
    read: Read = None,
    preparation: Annotated[
        str | None,
        typer.Option(
            help='How raw rows are prepared, as JSON, such as {"scale":"robust"}. Default: missing '
            "values are filled, text and dates become numbers."
        ),
    ] = None,
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
    }
    options: Any = {name: value for name, value in given.items() if value is not None}
    options |= read_options(read)
    recipe = None if preparation is None else _param(f"preparation={preparation}")[1]
    with _client(url) as client:
        dataset: Any = data if data.startswith("ds_") else upload_file(client, data, **options)
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
            preparation=recipe,
        )
        trained = job.wait(progress=True)
        _out.print(f"model {trained.name}, version {trained.version}", markup=False)
        scores = [
            {"metric": metric, "mean over tasks": _mean_of(by_task.values())}
            for metric, by_task in trained.metrics.items()
        ]
        if scores:  # otherwise the table would only have a header
            _show(scores, "metric", "mean over tasks")
        for warning in trained.info["warnings"]:
            _err.print(f"warning: {warning}", markup=False)
        if search or compare or evaluate:
            _show_report(trained.report())


def _mean_of(scores: Iterable[float | None]) -> str:
    """Return the mean of the scores that are finite, to four decimals."""
    known = [score for score in scores if score is not None]
    return f"{np.mean(known):.4f}" if known else "-"


app.add_typer(inference)
app.add_typer(batch)
app.add_typer(operations)
app.add_typer(audit_command)


def main() -> None:
    """Run the command; print an error as a sentence, without a traceback."""
    import httpx
    from pydantic import ValidationError

    try:
        app()
    except ValidationError as error:
        _fail("; ".join(_describe_invalid(e["loc"], e["msg"]) for e in error.errors()))
    except (ServiceError, JobFailed, ValueError, OSError) as error:
        _fail(str(error))
    except (httpx.TransportError, httpx.InvalidURL) as error:
        _fail(f"cannot reach the service ({error}); start it with 'sibling serve', or set --url")
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _describe_invalid(location: tuple[int | str, ...], message: str) -> str:
    """Return the message on an invalid setting, after the name of its variable."""
    from service.settings import PREFIX

    return ": ".join([*(f"{PREFIX}{name}".upper() for name in location[:1]), message])


def _fail(sentence: str) -> NoReturn:
    # no markup: names may contain brackets
    _err.print(f"error: {sentence}", markup=False, soft_wrap=True)
    raise SystemExit(1) from None


def _client(url: str) -> Client:
    return Client(url)


def _param(text: str) -> tuple[str, Any]:
    name, separator, value = text.partition("=")
    if not separator:
        raise typer.BadParameter(f"expected NAME=VALUE, got '{text}'")
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        return name, value  # text without quotes is a string


def _show_report(report: dict[str, Any]) -> None:
    search = report["search"]
    if search is not None:
        metric = search["metric"]
        rows = [
            {
                "candidate": ", ".join(f"{k}={v}" for k, v in candidate["params"].items()),
                metric: _format_score(candidate["mean"][metric]),
                "splits": candidate["n_splits"],
                "best": "*" if position == search["best"] else "",
            }
            for position, candidate in enumerate(search["candidates"])
        ]
        _show(rows, "candidate", metric, "splits", "best")
    evaluation = report["evaluation"]
    if evaluation is not None:
        rows = [
            {
                "held-out metric": metric,
                "mean over tasks": _format_score(evaluation["mean"][metric]),
                "over all rows": _format_score(evaluation["over_rows"][metric]),
            }
            for metric in evaluation["mean"]
        ]
        _show(rows, "held-out metric", "mean over tasks", "over all rows")
    for sentence in (report["comparison"] or {"sentences": []})["sentences"]:
        _out.print(sentence, markup=False, soft_wrap=True)


def _format_score(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4g}"


def _show(items: list[dict[str, Any]], *columns: str) -> None:
    table = Table(*columns, box=None)
    for item in items:
        values = [item[column] for column in columns]
        texts = (", ".join(v) if isinstance(v, list) else str(v) for v in values)
        table.add_row(*(Text(text) for text in texts))
    _out.print(table)
