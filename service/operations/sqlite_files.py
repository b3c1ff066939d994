"""SQLite files of this machine."""

import sqlite3
from pathlib import Path

from service.storage.database import BUSY_TIMEOUT_S


def open_existing(path: Path) -> sqlite3.Connection:
    """Return a connection to an existing file; a missing file is not created."""
    uri = path.resolve().as_uri()
    return sqlite3.connect(f"{uri}?mode=rw", uri=True, timeout=BUSY_TIMEOUT_S)


def check_whole(connection: sqlite3.Connection) -> None:
    """Raise sqlite3.DatabaseError if SQLite finds damage in a file."""
    result = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if result != "ok":
        raise sqlite3.DatabaseError(result)
