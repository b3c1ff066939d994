"""Finds what serves a model; what was found is kept while nothing is written."""

import threading
from typing import Final

from service.database import Database
from service.errors import Problem
from service.models import store
from service.models.store import Served

#: Names that are remembered; beyond, all are forgotten.
_MOST: Final = 10_000


class Lookup:
    """Looks models up by owner, name and version.

    An answer is true at the time of the call: the latest version changes with a commit, so on a
    database that tells of commits it is looked up once after each, and on others at every call.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._found: dict[tuple[str, str, int | None], Served | None] = {}
        self._mark: int | None = None
        self._lock = threading.Lock()

    def find(self, owner: str, name: str, version: int | None) -> Served:
        """Give a version of a model, the latest by default, or raise that there is none."""
        found = self.find_any(owner, name, version)
        if found is None:
            suffix = "" if version is None else f" with version {version}"
            raise Problem("not-found", f"there is no model '{name}'{suffix}")
        return found

    def find_any(self, owner: str, name: str, version: int | None) -> Served | None:
        """Give a version of a model, or None."""
        key = (owner, name, version)
        mark = self._database.mark()
        with self._lock:
            if mark is None or mark != self._mark or len(self._found) > _MOST:
                self._found.clear()
                self._mark = mark
            elif key in self._found:
                return self._found[key]
        with self._database.read() as session:
            found = store.find_served(session, owner, name, version)
        with self._lock:
            # a mark that has changed meanwhile may stand for what this did not see yet
            if mark is not None and mark == self._mark:
                self._found[key] = found
        return found
