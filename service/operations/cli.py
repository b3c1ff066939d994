"""``sibling backup``, ``restore``, ``doctor`` and ``config``."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from sibling.commands.app import App
from sibling.commands.output import is_json, print_json, print_list, print_result, print_text

operations = App()


@operations.command()
def backup(
    file: Annotated[Path, typer.Argument(help="New file for the backup.")],
) -> None:
    """Back up the database of SIBLING_DATABASE_URL, also while the service runs.

    It contains all datasets, models, jobs and hashed keys. PostgreSQL needs pg_dump.
    """
    from service.operations.backup import back_up
    from service.settings import MIB, Settings
    from service.storage.database import Database

    database = Database(Settings().resolved_database_url())
    try:
        size_bytes = back_up(database, file)
    finally:
        database.close()
    text = f"{size_bytes / MIB:.1f} MiB written to {file}"
    print_result(text, file=str(file), size_bytes=size_bytes)


@operations.command()
def restore(
    file: Annotated[Path, typer.Argument(help="File of 'sibling backup'.")],
) -> None:
    """Restore a backup into the empty database of SIBLING_DATABASE_URL.

    API keys are restored as they were at the backup. PostgreSQL needs pg_restore.
    """
    from service.operations.backup import restore as run
    from service.settings import Settings
    from service.storage.migration import reported_errors

    with reported_errors(f"{file} cannot be restored"):
        run(Settings().resolved_database_url(), file)
    print_result(f"{file} is restored", file=str(file))


@operations.command()
def doctor() -> None:
    """Check settings, database, disk, port, clocks and kernels; exit with 1 on errors."""
    from service.operations.doctor import examine
    from service.settings import Settings

    findings = []
    for finding in examine(Settings()):
        findings.append(finding)
        if not is_json():
            print_text(f"{finding.level:<8} {finding.check}: {finding.detail}")
    print_json([asdict(finding) for finding in findings])
    if any(finding.level == "error" for finding in findings):
        raise typer.Exit(1)


@operations.command()
def config() -> None:
    """Show the settings that are in effect here, without secrets."""
    from service.operations.configuration import effective_settings
    from service.settings import Settings

    print_list(effective_settings(Settings()), "variable", "value", "source")
