"""Authentication of requests by API key or session, before the body is read."""

import hashlib
import hmac
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from threading import Lock
from typing import Final

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from service.access import sessions, store
from service.access.keys import Key, allows, parse_key
from service.errors.problems import Problem
from service.storage.database import Database, now
from service.storage.tables import KeyRow

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
    """Sender of a request; without an owner, the id of the key is unproven."""

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
        self._cache_lock = Lock()
        #: Number of sessions that were signed out; a key read before the last one is not cached.
        self._n_signed_out = 0
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
            self._look_up(authorization)
        except (Problem, SQLAlchemyError):
            pass  # a cached key expires; the next request reports the error of the database
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
        self.authenticate(authorization, None)  # without a transaction that writes
        with self._database.write() as session:
            self.confirm(session, authorization, None)
            expires_at = now() + self._session_lifetime
            return sessions.create(session, _key_of(authorization).id, expires_at=expires_at)

    def sign_out(self, authorization: str) -> None:
        """End a session; other processes reject it within seconds."""
        _, _, token = authorization.partition(" ")
        with self._database.write() as session:
            is_ended = sessions.end(session, token)
        with self._cache_lock:
            self._n_signed_out += is_ended
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
        cached = self._look_up(authorization)
        _check_scope(cached.scopes, scope)
        return cached.owner

    def confirm(
        self, session: Session, authorization: str | None, scope: str | None
    ) -> KeyRow | None:
        """Return the key of a request as it is now, not as it was cached.

        For changes that grant access: nobody can revoke the key until the transaction ends.

        Returns
        -------
        KeyRow or None
            None if the service is open.

        Raises
        ------
        Problem
            The key has been revoked or has expired, or lacks the scope.
        """
        if self.is_open or authorization is None:
            return None
        try:
            row, ends = _find(session, authorization, is_locked=True)
            _seconds_left(row, ends)
        except Problem:
            self._cache.pop(_digest(authorization), None)
            raise
        _check_scope(row.scopes, scope)
        return row

    def _look_up(self, authorization: str) -> CachedKey:
        """Return a valid key and cache it; remove an invalid key from the cache.

        The key is read again if a session was signed out meanwhile: if it was the session of this
        request, it would be accepted until it leaves the cache.
        """
        digest, n_signed_out = _digest(authorization), self._n_signed_out
        expires = time.monotonic() + _CACHE_TTL_S
        try:
            with self._database.read() as session:
                row, ends = _find(session, authorization)
            left_s = _seconds_left(row, ends)
        except Problem:  # the key may have been valid before
            self._cache.pop(digest, None)
            raise
        if left_s is not None:
            expires = min(expires, time.monotonic() + left_s)
        cached = CachedKey(row.id, row.owner, row.scopes, expires)
        with self._cache_lock:
            if n_signed_out == self._n_signed_out:
                if len(self._cache) >= _MAX_CACHED_KEYS:
                    self._cache.clear()
                self._cache[digest] = cached
                return cached
        return self._look_up(authorization)


def _find(
    session: Session, authorization: str, *, is_locked: bool = False
) -> tuple[KeyRow, datetime | None]:
    """Return the row of the key in a request, or of its session, and when the session expires."""
    if authorization.startswith(f"{SESSION} "):
        _, _, token = authorization.partition(" ")
        found = sessions.find(session, token, is_locked=is_locked)
        if found is None:
            raise _unauthenticated("the session has ended; sign in again")
        return found
    key = _key_of(authorization)
    row = store.get(session, key.id, is_locked=is_locked)
    # the same message for an unknown id and a wrong secret, so that ids cannot be probed
    secret_sha256 = "" if row is None else row.secret_sha256
    if not hmac.compare_digest(secret_sha256, key.secret_sha256()) or row is None:
        raise _unauthenticated("the API key is unknown")
    return row, None


def _seconds_left(row: KeyRow, session_ends: datetime | None) -> float | None:
    """Return the time until a key or its session expires; None for never.

    Raises
    ------
    Problem
        The key is revoked, or it or the session has expired.
    """
    if row.revoked_at is not None:
        raise _unauthenticated("the API key is revoked")
    left = []
    for end, what in ((row.expires_at, "API key"), (session_ends, "session")):
        if end is not None:
            left.append((end - now()).total_seconds())
            if left[-1] <= 0:
                raise _unauthenticated(f"the {what} expired at {end.isoformat()}")
    return min(left, default=None)


def _check_scope(granted: list[str], needed: str | None) -> None:
    """Raise a problem unless the scopes of a key include the needed scope."""
    if not allows(granted, needed):
        has = ", ".join(granted)
        raise Problem("forbidden", f"this request needs the scope '{needed}'; the key has {has}")


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
