"""The command ``sibling``: run the service, or use a running one."""

import os
from contextlib import closing
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer

from service.access.cli import keys
from service.operations.cli import operations
from sibling import JobFailed, ServiceError, __version__
from sibling.commands.algorithms import algorithms
from sibling.commands.app import App
from sibling.commands.audit import audit
from sibling.commands.datasets import datasets
from sibling.commands.exit_codes import MEANINGS, ExitCode, exit_code
from sibling.commands.infer import batch
from sibling.commands.jobs import jobs
from sibling.commands.models import models, naming
from sibling.commands.output import print_note, print_result, print_text
from sibling.commands.predict import inference
from sibling.commands.train import training
from sibling.commands.webhooks import webhooks

_EXIT_CODES: Final = "\n\n".join(f"{code}: {meaning}" for code, meaning in MEANINGS.items())

app = App(
    name="sibling",
    help="Train related tasks together, and serve the models over HTTP.",
    epilog=f"Exit codes\n\n{_EXIT_CODES}",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(is_asked: bool) -> None:  # noqa: FBT001 - typer passes the value
    if is_asked:
        print_text(f"sibling {__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Handle the options that come before a command."""
    del version  # its callback has printed it


@app.command(has_result=False)
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

    flags = {"host": host, "port": port, "data_dir": data_dir}
    # server processes read their settings from the environment
    os.environ.update({f"SIBLING_{k.upper()}": str(v) for k, v in flags.items() if v is not None})
    run(Settings())


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
    from service.audit import store as audit
    from service.audit.events import command_event
    from service.settings import Settings
    from service.storage.database import Database
    from service.storage.migration import migrate as run
    from service.storage.migration import newest_revision, reported_errors

    database = Database(Settings().resolved_database_url())
    with closing(database), reported_errors("the database cannot be migrated"):
        database.wait(wait_s)
        run(database, lock_timeout_s=lock_timeout_s)
        with database.write() as session:
            audit.add(session, command_event("migrate", f"/schema/{newest_revision()}"))
    print_result(f"the schema is {newest_revision()}", schema=newest_revision())


@app.command(has_result=False)
def scheduler(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port to listen on.")] = 8786,
) -> None:
    """Run a scheduler for workers on other machines; SIBLING_TLS_DIR enables TLS."""
    from service.jobs.worker.cluster import run_scheduler
    from service.settings import Settings

    run_scheduler(host, port, Settings())


@app.command(has_result=False)
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
    text = f"certificates {'created' if is_new else 'already exist'} in {folder}"
    print_result(text, folder=str(folder), created=is_new)


@app.command(has_result=False)
def demo() -> None:
    """Run an end-to-end demo: start a service, train over HTTP, compare the models."""
    import uvicorn  # noqa: F401 - raises if a package is missing, before another process starts

    from service.operations.demo import run

    run()


app.add_typer(algorithms, name="algorithms")
app.add_typer(datasets, name="datasets")
app.add_typer(training)
app.add_typer(jobs, name="jobs")
app.add_typer(models, name="models")
app.add_typer(naming)
app.add_typer(inference)
app.add_typer(batch)
app.add_typer(keys, name="keys")
app.add_typer(webhooks, name="webhooks")
app.add_typer(operations)
app.add_typer(audit)


def main() -> None:
    """Run the command; print an error as a sentence, without a traceback."""
    from pydantic import ValidationError

    try:
        app(prog_name="sibling")  # also when run by python -m sibling
    except ValidationError as error:
        _fail("; ".join(_describe_invalid(e["loc"], e["msg"]) for e in error.errors()))
    except (ServiceError, JobFailed, ValueError, OSError) as error:
        _fail(str(error), exit_code(error))
    except ModuleNotFoundError as error:
        install = "pip install 'sibling[server]'"
        _fail(f"'{error.name}' is not installed; the service runs here after: {install}")
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.INTERRUPTED) from None


def _describe_invalid(location: tuple[int | str, ...], message: str) -> str:
    """Return the message on an invalid setting, after the name of its variable."""
    from service.settings import PREFIX

    return ": ".join([*(f"{PREFIX}{name}".upper() for name in location[:1]), message])


def _fail(sentence: str, code: ExitCode = ExitCode.ERROR) -> NoReturn:
    print_note(f"error: {sentence}")
    raise SystemExit(code) from None
