"""Resolution of model names to versions, cached until the database changes."""

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from service.errors.problems import Problem
from service.models import store
from service.models.messages import unknown_model
from service.models.store import ServableVersion
from service.storage.database import Database

#: Size at which the cache is cleared.
_MAX_CACHED: Final = 10_000
#: Path of a route, owner, model name, and version (None for the latest).
Target: TypeAlias = tuple[str, str, str, int | None]


class ResolvedModel(NamedTuple):
    """Version of a model and the method to apply."""

    served: ServableVersion
    method: str


#: Calls a function in a thread.
RunInPool: TypeAlias = Callable[[Callable[[], ResolvedModel]], Coroutine[Any, Any, ResolvedModel]]


class ModelResolver:
    """Cache of models by owner, name and version.

    A commit may change the latest version. If the database reports commits, a target is resolved
    again after each commit and is always current; with other databases it may be a fraction of a
    second old. Unknown names are not cached.

    Parameters
    ----------
    single_process
        Whether this is the only server process of the database.
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
            There is no such model or version.
        """
        served = self.find_any(owner, name, version)
        if served is None:
            raise Problem("not-found", unknown_model(name, version))
        return served

    def find_any(self, owner: str, name: str, version: int | None) -> ServableVersion | None:
        """Return a version of a model, or None."""
        with self._database.read() as session:
            return store.find_served(session, owner, name, version)

    def wait_for_replicas(self) -> None:
        """Wait until the caches of other processes have expired."""
        if not self._single_process:
            time.sleep(self._database.change_token_ttl_s)

    def cached(self, target: Target) -> ResolvedModel | None:
        """Return the cached model of a target, None if it needs a query."""
        token = self._database.change_token()
        with self._lock:
            if token is None or token != self._token or len(self._cache) > _MAX_CACHED:
                self._cache.clear()
                self._token = token
            return self._cache.get(target)

    def resolve(self, target: Target, find: Callable[[], ResolvedModel]) -> ResolvedModel:
        """Return the model of a target from the cache, or else from ``find``."""
        cached = self.cached(target)
        if cached is not None:
            return cached
        token = self._token
        resolved = find()
        with self._lock:
            # if the token has changed, the query may not have seen the latest commit
            if token is not None and token == self._token:
                self._cache[target] = resolved
        return resolved

    async def resolve_in_pool(
        self, target: Target, find: Callable[[], ResolvedModel], run: RunInPool
    ) -> None:
        """Resolve a target in a thread; concurrent callers share the query.

        Errors are swallowed here: the caller resolves the target again and gets its own error.
        """
        pending = self._pending.get(target)
        if pending is None:
            work = run(partial(self.resolve, target, find))
            pending = self._pending[target] = asyncio.ensure_future(work)
            pending.add_done_callback(partial(self._resolved, target))
        await asyncio.wait([pending])

    def _resolved(self, target: Target, done: asyncio.Future[ResolvedModel]) -> None:
        del self._pending[target]
        if not done.cancelled():
            done.exception()  # mark as retrieved, or asyncio logs a warning
