"""Check of an installation: from settings and database to the port, clocks and kernels.

No check changes the database or creates a file that stays; missing kernels are compiled.
"""

import difflib
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from service.access import store
from service.access.bootstrap import is_needed
from service.access.keys import parse_key
from service.models.store import MAX_NAMED, list_reserved
from service.operations.configuration import CLIENT_VARIABLES
from service.operations.findings import Finding
from service.operations.sqlite_files import check_whole, open_existing
from service.operations.surroundings import (
    check_clock,
    check_port,
    check_running_service,
    check_versions,
)
from service.settings import MIB, PREFIX, Settings
from service.storage.database import Database
from service.storage.migration import SchemaMismatch, check_schema

#: Modules whose functions are compiled.
_COMPILED: Final = ("algorithms.", "service.")


def examine(settings: Settings, *, has_kernels: bool = True) -> Iterator[Finding]:
    """Yield the finding of each check.

    Parameters
    ----------
    has_kernels
        Whether to check the compiled kernels too, which takes seconds.
    """
    yield check_versions()
    yield _check_settings()
    yield from _check_database(settings)
    yield _check_data_dir(settings)
    yield _check_scheduler(settings)
    yield check_port(settings)
    running = check_running_service()
    if running is not None:
        yield running
    if has_kernels:
        yield _check_kernels()


def environment_names() -> list[str]:
    """Return the names of the environment variables that have our prefix."""
    return sorted(name for name in os.environ if name.startswith(PREFIX))


def _check_settings() -> Finding:
    settings = [f"{PREFIX}{name}".upper() for name in Settings.model_fields] + [*CLIENT_VARIABLES]
    unknown = [name for name in environment_names() if name.upper() not in settings]
    if unknown:
        return Finding("settings", "warning", "; ".join(_describe(n, settings) for n in unknown))
    return Finding("settings", "ok", f"{len(environment_names())} from the environment")


def _describe(unknown: str, settings: Sequence[str]) -> str:
    similar = difflib.get_close_matches(unknown.upper(), settings, n=1)
    hint = f"did you mean {similar[0]}?" if similar else "see docs/reference/settings.md"
    return f"{unknown} is not a setting, {hint}"


def _check_database(settings: Settings) -> Iterator[Finding]:
    url = sa.make_url(settings.resolved_database_url())
    shown = url.render_as_string(hide_password=True)
    if url.get_backend_name() == "sqlite":
        path = Path(url.database or "")
        if not path.exists() and (not path.parent.exists() or path.parent.is_dir()):
            yield Finding("database", "ok", f"{path} will be created at the first start")
            return
        error = _sqlite_error(path)
        if error is not None:
            yield Finding("database", "error", f"{path}: {error}; restore a backup")
            return
    database = Database(settings.resolved_database_url())
    try:
        error = database.connection_error()
        if error is not None:
            yield Finding("database", "error", f"{shown} does not respond ({error})")
            return
        yield Finding("database", "ok", shown)
        yield _check_revision(database)
        yield _check_keys(database, settings)
        yield _check_model_names(database)
        yield check_clock(database)
    finally:
        database.close()


def _sqlite_error(path: Path) -> str | None:
    """Return the error that SQLite finds in a file, or None."""
    try:
        with closing(open_existing(path)) as connection:
            check_whole(connection)
    except sqlite3.Error as error:
        return str(error)
    return None


def _check_revision(database: Database) -> Finding:
    try:
        check_schema(database)
    except SchemaMismatch as error:
        return Finding("schema", "error", str(error))
    except SQLAlchemyError as error:
        return Finding("schema", "error", f"cannot be read ({type(error).__name__})")
    return Finding("schema", "ok", "matches this version")


def _check_keys(database: Database, settings: Settings) -> Finding:
    if not settings.requires_keys():
        return Finding("keys", "ok", f"not required on {settings.host}")
    key = parse_key(settings.bootstrap_key.get_secret_value())
    try:
        with database.read() as session:
            has_key = store.has_active(session) or (key is not None and is_needed(session, key))
    except SQLAlchemyError as error:
        return Finding("keys", "error", f"cannot be read ({type(error).__name__})")
    if not has_key:
        detail = "requests need a key, but none is valid; run 'sibling keys create'"
        return Finding("keys", "error", detail)
    return Finding("keys", "ok", "required")


def _check_model_names(database: Database) -> Finding:
    try:
        with database.read() as session:
            reserved = list_reserved(session)
    except SQLAlchemyError as error:
        return Finding("model names", "error", f"cannot be read ({type(error).__name__})")
    if not reserved:
        return Finding("model names", "ok", "none ends in a method")
    names = ", ".join(f"'{name}' of {owner}" for owner, name in reserved[:MAX_NAMED])
    detail = (
        f"under /v2, calls of other models come to {names} ({len(reserved)} in all); train such "
        "models again under another name, and delete their versions"
    )
    return Finding("model names", "warning", detail)


def _check_data_dir(settings: Settings) -> Finding:
    folder = settings.data_dir.resolve()
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent  # the service creates the missing folders
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(b"0")
        free_bytes = shutil.disk_usage(existing).free
    except OSError as error:
        return Finding("data directory", "error", f"{folder} cannot be written: {error.strerror}")
    detail = f"{folder} has {free_bytes // MIB} MiB of free space"
    if free_bytes < settings.min_free_bytes:
        minimum = f"{settings.min_free_bytes // MIB} MiB (SIBLING_MIN_FREE_BYTES)"
        detail += f", less than {minimum}; free some, or jobs will fail"
        return Finding("data directory", "error", detail)
    return Finding("data directory", "ok", detail)


def _check_scheduler(settings: Settings) -> Finding:
    if not settings.scheduler_url:
        n_slots = settings.resolved_worker_slots()
        return Finding("scheduler", "ok", f"a pool on this machine with {n_slots} slot(s)")
    from service.jobs.worker.cluster import check_version
    from service.jobs.worker.tls import find_security

    url = settings.scheduler_url
    try:
        check_version(url, find_security(url, settings.tls_dir))
    except (OSError, ValueError) as error:
        return Finding("scheduler", "error", f"{url}: {error}")
    return Finding("scheduler", "ok", f"{url} runs this version")


def _check_kernels() -> Finding:
    """Load every compiled function, and count functions that were not in the cache on disk."""
    from numba.core.dispatcher import Dispatcher

    from algorithms.numerics import warm
    from service.operations.warm import warm_decimals

    try:
        warm_decimals()
        warm.main()
    except (OSError, RuntimeError) as error:  # numba raises RuntimeError for its cache folder
        return Finding("kernels", "error", f"{error}; set NUMBA_CACHE_DIR to a writable folder")
    compiled = {
        id(value): value
        for name, module in list(sys.modules.items())
        if name.startswith(_COMPILED)
        for value in vars(module).values()
        if isinstance(value, Dispatcher)
    }
    n_missing = sum(1 for kernel in compiled.values() if kernel.stats.cache_misses)
    if n_missing:
        were = "was" if n_missing == 1 else "were"
        detail = (
            f"{n_missing} of {len(compiled)} {were} not compiled until now; run 'python -m "
            "service.operations.warm' after an installation, or the first jobs wait for it"
        )
        return Finding("kernels", "warning", detail)
    return Finding("kernels", "ok", f"{len(compiled)} in the cache")
