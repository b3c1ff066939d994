"""Resolves names of models to versions; results are cached until the database changes."""

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
from service.models.store import ServableVersion

#: Targets that are cached; beyond, all are dropped.
_MAX_CACHED: Final = 10_000
#: A route, and the owner, name and version that it is called with; no version: the latest.
Target: TypeAlias = tuple[str, str, str, int | None]


class ResolvedModel(NamedTuple):
    """The version that a target stands for, and the method to apply."""

    served: ServableVersion
    method: str


class ModelResolver:
    """Resolves models by owner, name and version.

    The latest version changes with a commit. On a database that reports commits a target is
    resolved once after each, and is true at the time of the call; on others it may be a fraction of
    a second old. A name that does not exist is not cached.

    Parameters
    ----------
    single_process
        No other process serves from this database.
    """

    def __init__(self, database: Database, *, single_process: bool) -> None:
        self._database = database
        self._single_process = single_process
        self._cache: dict[Target, ResolvedModel] = {}
        self._token: int | None = None
        self._lock = threading.Lock()
        self._pending: dict[Target, asyncio.Future[ResolvedModel]] = {}

    def find(self, owner: str, name: str, version: int | None) -> ServableVersion:
        """Return a version of a model, the latest by default.

        Raises
        ------
        Problem
            There is none.
        """
        found = self.find_any(owner, name, version)
        if found is None:
            suffix = "" if version is None else f" with version {version}"
            raise Problem("not-found", f"there is no model '{name}'{suffix}")
        return found

    def find_any(self, owner: str, name: str, version: int | None) -> ServableVersion | None:
        """Return a version of a model, or None."""
        with self._database.read() as session:
            return store.find_served(session, owner, name, version)

    def wait_for_replicas(self) -> None:
        """Wait until the caches of other processes have expired."""
        if not self._single_process:
            time.sleep(self._database.change_token_ttl_s)

    def cached(self, target: Target) -> ResolvedModel | None:
        """Return what a target stands for if that needs no query, else None."""
        token = self._database.change_token()
        with self._lock:
            if token is None or token != self._token or len(self._cache) > _MAX_CACHED:
                self._cache.clear()
                self._token = token
            return self._cache.get(target)

    def resolve(self, target: Target, find: Callable[[], ResolvedModel]) -> ResolvedModel:
        """Return what a target stands for: from the cache, or else from ``find``."""
        cached = self.cached(target)
        if cached is not None:
            return cached
        token = self._token
        found = find()
        with self._lock:
            # a token that has changed meanwhile may stand for what this query did not see yet
            if token is not None and token == self._token:
                self._cache[target] = found
        return found

    async def resolve_in_pool(
        self, target: Target, find: Callable[[], ResolvedModel], pool: ComputePool
    ) -> None:
        """Resolve a target in a thread; concurrent callers share the query.

        Errors are swallowed here: the caller resolves the target itself and gets its own.
        """
        pending = self._pending.get(target)
        if pending is None:
            work = pool.run(partial(self.resolve, target, find))
            pending = self._pending[target] = asyncio.ensure_future(work)
            pending.add_done_callback(partial(self._resolved, target))
        await asyncio.wait([pending])

    def _resolved(self, target: Target, done: asyncio.Future[ResolvedModel]) -> None:
        del self._pending[target]
        if not done.cancelled():
            done.exception()  # or asyncio would log that it was never retrieved
