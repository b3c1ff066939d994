"""Backup of the database while the service runs, and restoration into an empty database.

The database contains everything: datasets, models, jobs, keys. SQLite is copied with its online
backup, PostgreSQL with ``pg_dump`` and ``pg_restore``, which have to be of the server's version or
newer. Both copy a snapshot, and writers do not wait.
"""

import os
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from service.audit import store as audit
from service.audit.events import command_event
from service.operations.sqlite_files import check_whole, open_existing
from service.storage.database import Database
from service.storage.migration import check_known, migrate, reported_errors

#: First bytes of a backup by the dialect of its database.
_MAGIC: Final = {"sqlite": b"SQLite format 3\0", "postgresql": b"PGDMP"}
#: Files that SQLite keeps beside a database.
_SIDE_FILES: Final = ("-wal", "-shm", "-journal")
#: The roles of another server may have other names.
_TOOL_OPTIONS: Final = ("--no-owner", "--no-privileges")


def back_up(database: Database, target: Path) -> int:
    """Write one snapshot of the database to a new file, and return its size in bytes.

    Raises
    ------
    OSError
        The file already exists or cannot be written, or the database cannot be read.
    """
    copy = _dump_sqlite if database.is_sqlite else _dump_postgres
    with _new_file(target) as partial:
        copy(database, partial)
    return target.stat().st_size


def restore(url: str, source: Path) -> None:
    """Restore a backup into an empty database, and migrate it to the schema of this version.

    Raises
    ------
    OSError
        The file is not a complete backup of this kind of database, or the database is not empty.
    SchemaMismatch
        A newer version of Sibling wrote the backup.
    """
    dialect = sa.make_url(url).get_backend_name()
    _check_magic(source, dialect)
    if dialect == "sqlite":
        _restore_sqlite(url, source)
    else:
        _restore_postgres(url, source)
    database = Database(url)
    try:
        migrate(database)
        with database.write() as session:
            audit.add(session, command_event("restore", f"/backups/{source.name}"))
    finally:
        database.close()


def _dump_sqlite(database: Database, partial: Path) -> None:
    try:
        with (
            closing(open_existing(Path(str(database.engine.url.database)))) as source,
            closing(sqlite3.connect(partial)) as copy,
        ):
            # in one step: a backup in several steps starts again whenever another process writes
            source.backup(copy)
            # one file, which can be read from a read-only disk
            copy.execute("PRAGMA journal_mode=DELETE")
            check_whole(copy)
    except sqlite3.Error as error:
        raise OSError(f"the database cannot be backed up: {error}") from error


def _restore_sqlite(url: str, source: Path) -> None:
    target = Path(sa.make_url(url).database or "").resolve()
    existing = [p for p in (target, *(Path(f"{target}{end}") for end in _SIDE_FILES)) if p.exists()]
    if any(path.stat().st_size for path in existing):
        raise OSError(
            f"the database {target} is not empty; move it away, or restore into another "
            "SIBLING_DATA_DIR"
        )
    for path in existing:
        path.unlink()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _new_file(target) as partial:
        try:
            with (
                closing(open_existing(source)) as backup,
                closing(sqlite3.connect(partial)) as copy,
            ):
                backup.backup(copy)
                check_whole(copy)
        except sqlite3.Error as error:
            raise OSError(f"{source} is not a complete backup: {error}") from error
        database = Database(f"sqlite:///{partial}")
        try:
            check_known(database)
        finally:
            database.close()  # the last connection merges the write-ahead log into the file


def _dump_postgres(database: Database, partial: Path) -> None:
    _run_tool(
        database.url,
        lambda dsn: ["pg_dump", dsn, *_TOOL_OPTIONS, "--format=custom", f"--file={partial}"],
        "the database cannot be backed up",
    )


def _restore_postgres(url: str, source: Path) -> None:
    with (
        closing(Database(url)) as database,
        reported_errors("the database cannot be reached"),
        database.engine.connect() as connection,
    ):
        tables = sa.inspect(connection).get_table_names()
    if tables:
        raise OSError(
            f"the database is not empty, it has the table '{tables[0]}'; create a new one with "
            "'createdb', and set SIBLING_DATABASE_URL to it"
        )
    _run_tool(
        url,
        # all or nothing
        lambda dsn: [
            "pg_restore",
            f"--dbname={dsn}",
            *_TOOL_OPTIONS,
            "--exit-on-error",
            "--single-transaction",
            str(source),
        ],
        f"{source} cannot be restored",
    )


def _run_tool(url: str, command: Callable[[str], list[str]], failure: str) -> None:
    """Run a tool of PostgreSQL; raise OSError with its message if it fails.

    The password is passed in the environment, since other users see the arguments of a process.
    """
    parsed = sa.make_url(url)
    dsn = parsed.set(drivername="postgresql", password=None).render_as_string()
    environment = dict(os.environ)
    if parsed.password is not None:
        environment["PGPASSWORD"] = str(parsed.password)
    arguments = command(dsn)
    try:
        end = subprocess.run(  # noqa: S603 - arguments are ours, without a shell
            arguments,
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except FileNotFoundError as error:
        raise OSError(
            f"{failure}: '{arguments[0]}' is not installed; install the client of the server's "
            "version of PostgreSQL, or see docs/how-to/back-up.md for its own commands"
        ) from error
    if end.returncode:
        raise OSError(f"{failure}: {end.stderr.strip()}")


def _check_magic(source: Path, dialect: str) -> None:
    with source.open("rb") as file:
        first = file.read(16)
    kinds = [name for name, magic in _MAGIC.items() if first.startswith(magic)]
    if kinds != [dialect]:
        kind = f"a backup of {kinds[0]}" if kinds else "no backup"
        raise OSError(
            f"{source} is {kind}; the database of SIBLING_DATABASE_URL can only be restored from "
            f"a backup of {dialect}"
        )


@contextmanager
def _new_file(target: Path) -> Iterator[Path]:
    """Yield a file beside the target, readable by its owner only; move it there at the end.

    Raises
    ------
    FileExistsError
        The target exists.
    """
    target = target.resolve()
    if target.exists():
        raise FileExistsError(f"{target} already exists; choose another file")
    with tempfile.TemporaryDirectory(
        dir=target.parent, prefix=f".{target.name}.", suffix=".part"
    ) as folder:
        partial = Path(folder) / target.name
        partial.touch(mode=0o600)
        yield partial
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        try:
            os.link(partial, target)  # unlike a rename, this fails if the target exists by now
        except FileExistsError:
            raise FileExistsError(f"{target} already exists; choose another file") from None
        except OSError:  # a file system without hard links
            partial.replace(target)
        _sync_directory(target.parent)


def _sync_directory(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
