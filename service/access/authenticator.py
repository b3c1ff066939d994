"""Authentication of requests by API key or session, before the body is read."""

import hashlib
import hmac
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from service.access import sessions, store
from service.access.keys import Key, allows, parse_key
from service.database import Database, now
from service.errors import Problem
from service.rows import KeyRow

#: Owner of all resources when authentication is off.
LOCAL_OWNER: Final = "local"
#: Scheme of the authorization that stands for the cookie of a session.
SESSION: Final = "Session"
#: Lifetime of a cached key; a revoked key is rejected within this time.
_CACHE_TTL_S: Final = 2.0
#: A key in use is refreshed this long before it expires, so that no request waits for it.
_REFRESH_BEFORE_S: Final = 1.0
_MAX_CACHED_KEYS: Final = 1024
#: Threads that refresh cached keys.
N_REFRESH_THREADS: Final = 2


@dataclass(frozen=True, slots=True)
class CachedKey:
    """Owner and scopes of a valid key, usable until a time of the monotonic clock."""

    key_id: str
    owner: str
    scopes: list[str]
    expires: float


@dataclass(frozen=True, slots=True)
class Caller:
    """What is known about the sender of a request; the id is unproven without an owner."""

    owner: str | None
    key_id: str | None
    scopes: Sequence[str] = ()


class Authenticator:
    """Authentication by API key, with a cache of valid keys.

    Parameters
    ----------
    is_open
        Accept requests without a key; one owner has all resources. For a service on loopback.
    session_lifetime
        Time after which a session ends.
    """

    def __init__(
        self,
        database: Database,
        *,
        is_open: bool,
        session_lifetime: timedelta,
    ) -> None:
        self.is_open = is_open
        self._session_lifetime = session_lifetime
        self.open_owner = LOCAL_OWNER
        self._database = database
        # keyed by a hash of the header, so that no key is stored
        self._cache: dict[bytes, CachedKey] = {}
        self._refreshing: set[bytes] = set()
        self._executor = ThreadPoolExecutor(N_REFRESH_THREADS, thread_name_prefix="keys")

    def cached_owner(self, authorization: str | None, scope: str | None) -> str | None:
        """Return the owner if the key is cached and has the scope, else None.

        Runs on the event loop; refreshes a key in the background before it expires.
        """
        if self.is_open:
            return self.open_owner
        if authorization is None:
            return None
        digest = _digest(authorization)
        cached = self._cache.get(digest)
        now_s = time.monotonic()
        if cached is None or now_s >= cached.expires or not allows(cached.scopes, scope):
            return None
        if cached.expires - now_s < _REFRESH_BEFORE_S and digest not in self._refreshing:
            self._refreshing.add(digest)
            self._executor.submit(self._refresh, authorization, digest)
        return cached.owner

    def describe(self, authorization: str | None) -> Caller:
        """Return the sender of a request after its authentication, without a database query."""
        if self.is_open:
            return Caller(self.open_owner, None, ["admin"])
        if authorization is None:
            return Caller(None, None)
        cached = self._cache.get(_digest(authorization))
        if cached is not None:
            return Caller(cached.owner, cached.key_id, cached.scopes)
        key = parse_key(authorization.partition(" ")[2].strip())
        return Caller(None, None if key is None else key.id)

    def _refresh(self, authorization: str, digest: bytes) -> None:
        """Look up a key again, and remove it from the cache if it is no longer valid."""
        try:
            cached = self._look_up(authorization)
        except Problem:
            self._cache.pop(digest, None)
        except SQLAlchemyError:
            pass  # let the cached key expire; the next request reports the database error
        else:
            self._cache[digest] = cached
        finally:
            self._refreshing.discard(digest)

    def close(self) -> None:
        """Stop refreshing cached keys."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def sign_in(self, text: str) -> str:
        """Open a session with an API key, and return its token.

        Raises
        ------
        Problem
            The key is invalid.
        """
        authorization = f"Bearer {text}"
        self.authenticate(authorization, None)
        with self._database.write() as session:
            expires_at = now() + self._session_lifetime
            return sessions.create(session, _key_of(authorization).id, expires_at=expires_at)

    def sign_out(self, authorization: str) -> None:
        """End a session; other processes reject it within seconds."""
        _, _, token = authorization.partition(" ")
        with self._database.write() as session:
            sessions.end(session, token)
        self._cache.pop(_digest(authorization), None)

    def authenticate(self, authorization: str | None, scope: str | None) -> str:
        """Return the owner of the key in a request.

        Parameters
        ----------
        authorization
            The header: ``Bearer sib_...``; or ``Session TOKEN`` of a cookie.
        scope
            Scope that the request needs; None accepts any key.

        Raises
        ------
        Problem
            The key is missing or invalid, or lacks the scope.
        """
        if self.is_open:
            return self.open_owner
        if authorization is None:
            raise _unauthenticated("an API key is required; send 'Authorization: Bearer sib_...'")
        try:
            cached = self._look_up(authorization)
        except Problem:  # the key may have been valid before
            self._cache.pop(_digest(authorization), None)
            raise
        if len(self._cache) >= _MAX_CACHED_KEYS:
            self._cache.clear()
        self._cache[_digest(authorization)] = cached
        if not allows(cached.scopes, scope):
            has = ", ".join(cached.scopes)
            raise Problem("forbidden", f"this request needs the scope '{scope}'; the key has {has}")
        return cached.owner

    def _look_up(self, authorization: str) -> CachedKey:
        expires = time.monotonic() + _CACHE_TTL_S
        is_session = authorization.startswith(f"{SESSION} ")
        row, ends = self._session(authorization) if is_session else self._key(authorization)
        if row.revoked_at is not None:
            raise _unauthenticated("the API key is revoked")
        for end, what in ((row.expires_at, "API key"), (ends, "session")):
            if end is not None:
                left_s = (end - now()).total_seconds()
                if left_s <= 0:
                    raise _unauthenticated(f"the {what} expired at {end.isoformat()}")
                expires = min(expires, time.monotonic() + left_s)
        return CachedKey(row.id, row.owner, row.scopes, expires)

    def _key(self, authorization: str) -> tuple[KeyRow, None]:
        """Return the row of the key in a request."""
        key = _key_of(authorization)
        with self._database.read() as session:
            row = store.get(session, key.id)
        # the same message for an unknown id and a wrong secret, so that ids cannot be probed
        secret_sha256 = "" if row is None else row.secret_sha256
        if not hmac.compare_digest(secret_sha256, key.secret_sha256()) or row is None:
            raise _unauthenticated("the API key is unknown")
        return row, None

    def _session(self, authorization: str) -> tuple[KeyRow, datetime]:
        """Return the key of a session, and when the session expires."""
        _, _, token = authorization.partition(" ")
        with self._database.read() as session:
            found = sessions.find(session, token)
        if found is None:
            raise _unauthenticated("the session has ended; sign in again")
        return found


def _key_of(authorization: str) -> Key:
    kind, _, text = authorization.partition(" ")
    if kind.lower() != "bearer":
        raise _unauthenticated("the Authorization header is not 'Bearer sib_<id>_<secret>'")
    key = parse_key(text.strip())
    if key is None:
        raise _unauthenticated("the API key is not of the form sib_<id>_<secret>; copy all of it")
    return key


def _digest(authorization: str) -> bytes:
    return hashlib.sha256(authorization.encode()).digest()


def _unauthenticated(detail: str) -> Problem:
    return Problem("unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"})
