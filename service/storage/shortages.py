"""Shortages of the machine or the database, such as a full disk, as the cause of an error.

A shortage passes, and no caller caused it: the request is refused, or the job tried again.
"""

import errno
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

DATABASE: Final = "the database"
CACHE: Final = "the cache in the data directory"
UPLOADS: Final = "the folder of uploads in the data directory"
JOBS: Final = "the folder of jobs in the data directory"

#: Errors of a machine that lacks a resource which others may release.
NUMBERS: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN}
)
#: NumPy raises this without a number when a disk is full.
_SHORT_WRITE: Final = re.compile(r"\d+ requested and \d+ written")
#: SQLite reports some lacks of space by the operation that failed; the shared memory of its
#: write-ahead log is a file.
_SQLITE: Final = {
    sqlite3.SQLITE_FULL: errno.ENOSPC,
    sqlite3.SQLITE_IOERR_SHMSIZE: errno.ENOSPC,
    sqlite3.SQLITE_NOMEM: errno.ENOMEM,
}
#: SQLSTATE of PostgreSQL: disk_full, out_of_memory.
_POSTGRESQL: Final = {"53100": errno.ENOSPC, "53200": errno.ENOMEM}


@dataclass(frozen=True, slots=True)
class Shortage:
    """The missing resource, as a number of :data:`NUMBERS`, and the place, if it is known."""

    number: int
    place: str | None = None

    def __str__(self) -> str:
        """Return the words of the system and the place: ``No space left on device (the cache)``."""
        resource = os.strerror(self.number)
        return resource if self.place is None else f"{resource} ({self.place})"


class ShortOf(OSError):
    """An error of the system due to a shortage, with its place."""

    def __init__(self, shortage: Shortage) -> None:
        super().__init__(shortage.number, str(shortage))
        self.shortage = shortage

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy the error: the constructor does not take its ``args``."""
        return type(self), (self.shortage,), vars(self)


@contextmanager
def shortages_in(place: str) -> Iterator[None]:
    """Let errors of the system that are due to a shortage name a place."""
    try:
        yield
    except OSError as error:
        shortage = find_shortage(error)
        if shortage is None or shortage.place is not None:
            raise
        raise ShortOf(Shortage(shortage.number, place)) from error


def find_shortage(error: BaseException) -> Shortage | None:
    """Return the shortage that caused an error; None otherwise."""
    cause: BaseException | None = error
    while cause is not None:
        shortage = _shortage_of(cause)
        if shortage is not None:
            return shortage
        cause = cause.__cause__ or cause.__context__
    return None


def _shortage_of(error: BaseException) -> Shortage | None:
    if isinstance(error, ShortOf):
        return error.shortage
    if isinstance(error, OSError):
        is_short_write = _SHORT_WRITE.search(str(error)) is not None
        number = errno.ENOSPC if is_short_write else error.errno
        return Shortage(number) if number in NUMBERS else None
    number = None
    if isinstance(error, sqlite3.Error):
        number = _SQLITE.get(getattr(error, "sqlite_errorcode", 0))
    elif isinstance(code := getattr(error, "sqlstate", None), str):
        number = _POSTGRESQL.get(code)  # an error of psycopg, which trainings do not import
    return None if number is None else Shortage(number, DATABASE)
