"""Finds what serves a model; what was found is kept while nothing is written."""

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from service.database import Database
from service.errors import Problem
from service.inference.pool import ComputePool
from service.models import store
from service.models.store import Served

#: Targets that are remembered; beyond, all are forgotten.
_MOST: Final = 10_000
#: A route, and the owner, name and version that it is called with; no version: the latest.
Target: TypeAlias = tuple[str, str, str, int | None]


class Found(NamedTuple):
    """What a target stands for."""

    served: Served
    method: str


class Lookup:
    """Looks models up by owner, name and version.

    The latest version changes with a commit, so on a database that tells of commits it is looked
    up once after each, and an answer is true at the time of the call; on others it may be a
    fraction of a second old. That there is no such model is not remembered.

    Parameters
    ----------
    is_alone
        No other process serves from this database.
    """

    def __init__(self, database: Database, *, is_alone: bool) -> None:
        self._database = database
        self._is_alone = is_alone
        self._found: dict[Target, Found] = {}
        self._mark: int | None = None
        self._lock = threading.Lock()
        self._pending: dict[Target, asyncio.Future[Found]] = {}

    def find(self, owner: str, name: str, version: int | None) -> Served:
        """Give a version of a model, the latest by default, or raise that there is none."""
        found = self.find_any(owner, name, version)
        if found is None:
            suffix = "" if version is None else f" with version {version}"
            raise Problem("not-found", f"there is no model '{name}'{suffix}")
        return found

    def find_any(self, owner: str, name: str, version: int | None) -> Served | None:
        """Give a version of a model, or None."""
        with self._database.read() as session:
            return store.find_served(session, owner, name, version)

    def outlast(self) -> None:
        """Wait until no process answers by what it remembers of before a commit."""
        if not self._is_alone:
            time.sleep(self._database.change_token_ttl_s)

    def known(self, target: Target) -> Found | None:
        """Give what a target stands for, without a query; None where only a query can tell."""
        mark = self._database.change_token()
        with self._lock:
            if mark is None or mark != self._mark or len(self._found) > _MOST:
                self._found.clear()
                self._mark = mark
            return self._found.get(target)

    def find_target(self, target: Target, find: Callable[[], Found]) -> Found:
        """Give what a target stands for: what is known, or else what ``find`` gives."""
        known = self.known(target)
        if known is not None:
            return known
        mark = self._mark
        found = find()
        with self._lock:
            # a mark that has changed meanwhile may stand for what this did not see yet
            if mark is not None and mark == self._mark:
                self._found[target] = found
        return found

    async def renew(self, target: Target, find: Callable[[], Found], pool: ComputePool) -> None:
        """Look a target up in a thread; who comes meanwhile waits for the same.

        What went wrong is not told: whoever then looks for itself is told by that.
        """
        pending = self._pending.get(target)
        if pending is None:
            work = pool.run(partial(self.find_target, target, find))
            pending = self._pending[target] = asyncio.ensure_future(work)
            pending.add_done_callback(partial(self._renewed, target))
        await asyncio.wait([pending])

    def _renewed(self, target: Target, done: asyncio.Future[Found]) -> None:
        del self._pending[target]
        if not done.cancelled():
            done.exception()  # or it would be logged that nobody asked for it
