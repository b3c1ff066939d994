"""Lets a request in as its owner, or tells why not. Asked before a body is read."""

import hashlib
import hmac
import time
from dataclasses import dataclass
from typing import Final

from service.access import store
from service.access.keys import Key, allows, parse_key
from service.database import Database, now
from service.errors import Problem

#: Owner of everything where nobody is asked who they are.
LOCAL_OWNER: Final = "local"
#: A key is looked up again after so long; a revoked one ends within this time.
_REMEMBER_S: Final = 2.0
_REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True)
class _Grant:
    """What a key allowed when it was looked up; good until a time of the monotonic clock."""

    owner: str
    scopes: list[str]
    until: float


class Gate:
    """Checks keys.

    Parameters
    ----------
    is_open
        Nobody is asked: everything belongs to one owner. For a service on loopback.
    """

    def __init__(self, database: Database, *, is_open: bool) -> None:
        self.is_open = is_open
        self.open_owner = LOCAL_OWNER
        self._database = database
        # by a hash of the header: no key is kept
        self._grants: dict[bytes, _Grant] = {}

    def known_owner(self, authorization: str | None, scope: str | None) -> str | None:
        """Give what :meth:`owner_of` gives, where the database need not be asked; else None."""
        if self.is_open:
            return self.open_owner
        if authorization is None:
            return None
        grant = self._grants.get(_digest(authorization))
        is_known = grant is not None and time.monotonic() < grant.until
        return grant.owner if grant and is_known and allows(grant.scopes, scope) else None

    def owner_of(self, authorization: str | None, scope: str | None) -> str:
        """Give the owner on whose behalf a request comes.

        Parameters
        ----------
        authorization
            The header: ``Bearer sib_...``.
        scope
            What the request needs; None: any key will do.

        Raises
        ------
        Problem
            There is no valid key, or it does not allow this.
        """
        if self.is_open:
            return self.open_owner
        if authorization is None:
            raise _unauthenticated("a key is needed; send 'Authorization: Bearer sib_...'")
        kind, _, text = authorization.partition(" ")
        key = parse_key(text.strip())
        if kind.lower() != "bearer" or key is None:
            raise _unauthenticated("the Authorization header is not 'Bearer sib_<id>_<secret>'")
        grant = self._look_up(key)
        if len(self._grants) >= _REMEMBERED:
            self._grants.clear()
        self._grants[_digest(authorization)] = grant
        if not allows(grant.scopes, scope):
            has = ", ".join(grant.scopes)
            raise Problem("forbidden", f"this needs the scope '{scope}'; the key has {has}")
        return grant.owner

    def _look_up(self, key: Key) -> _Grant:
        until = time.monotonic() + _REMEMBER_S
        with self._database.read() as session:
            row = store.get(session, key.id)
        # the same words for an unknown id and a wrong secret: ids are not to be found out
        secret_sha256 = "" if row is None else row.secret_sha256
        if not hmac.compare_digest(secret_sha256, key.secret_sha256()) or row is None:
            raise _unauthenticated("the key is not known here")
        if row.revoked_at is not None:
            raise _unauthenticated("the key was revoked")
        if row.expires_at is not None:
            left_s = (row.expires_at - now()).total_seconds()
            if left_s <= 0:
                raise _unauthenticated(f"the key expired at {row.expires_at.isoformat()}")
            until = min(until, time.monotonic() + left_s)
        return _Grant(row.owner, row.scopes, until)


def _digest(authorization: str) -> bytes:
    return hashlib.sha256(authorization.encode()).digest()


def _unauthenticated(detail: str) -> Problem:
    return Problem("unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"})
