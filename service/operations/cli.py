"""``sibling backup``, ``sibling restore`` and ``sibling doctor``."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from service.settings import MIB

operations = typer.Typer()
_out = Console(highlight=False, soft_wrap=True)


@operations.command()
def backup(
    file: Annotated[Path, typer.Argument(help="New file for the backup.")],
) -> None:
    """Back up the database of SIBLING_DATABASE_URL, also while the service runs.

    It contains all datasets, models, jobs and hashed keys. PostgreSQL needs pg_dump.
    """
    from service.database import Database
    from service.operations.backup import back_up
    from service.settings import Settings

    database = Database(Settings().resolved_database_url())
    try:
        size_bytes = back_up(database, file)
    finally:
        database.close()
    _out.print(f"{size_bytes / MIB:.1f} MiB written to {file}", markup=False)


@operations.command()
def restore(
    file: Annotated[Path, typer.Argument(help="File of 'sibling backup'.")],
) -> None:
    """Restore a backup into the empty database of SIBLING_DATABASE_URL.

    API keys are those of the time of the backup. PostgreSQL needs pg_restore.
    """
    from service.operations.backup import restore as run
    from service.schema import SchemaMismatch
    from service.settings import Settings

    try:
        run(Settings().resolved_database_url(), file)
    except SchemaMismatch as error:
        raise OSError(f"{file} cannot be restored: {error}") from error
    _out.print(f"{file} is restored", markup=False)


@operations.command()
def doctor() -> None:
    """Check settings, database, disk, scheduler and kernels; exit with 1 on errors."""
    from service.operations.doctor import examine
    from service.settings import Settings

    has_error = False
    for finding in examine(Settings()):
        _out.print(f"{finding.level:<8} {finding.check}: {finding.detail}", markup=False)
        has_error = has_error or finding.level == "error"
    if has_error:
        raise typer.Exit(1)
