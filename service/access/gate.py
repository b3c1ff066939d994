"""Lets a request in as its owner, or tells why not. Asked before a body is read."""

import hmac
import time
from dataclasses import dataclass
from datetime import datetime
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
    owner: str
    scopes: list[str]
    secret_sha256: str
    expires_at: datetime | None
    is_revoked: bool
    looked_up: float


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
        self._grants: dict[str, _Grant] = {}

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
        if not allows(grant.scopes, scope):
            has = ", ".join(grant.scopes)
            raise Problem("forbidden", f"this needs the scope '{scope}'; the key has {has}")
        return grant.owner

    def is_ready(self, authorization: str | None) -> bool:
        """Tell whether :meth:`owner_of` answers without asking the database."""
        if self.is_open or authorization is None:
            return True
        key = parse_key(authorization.partition(" ")[2].strip())
        return key is None or not _is_old(self._grants.get(key.id))

    def _look_up(self, key: Key) -> _Grant:
        grant = self._grants.get(key.id)
        if grant is None or _is_old(grant):
            grant = self._read(key)
            if len(self._grants) >= _REMEMBERED:
                self._grants.clear()
            self._grants[key.id] = grant
        # the same words for an unknown id and a wrong secret: ids are not to be found out
        if not hmac.compare_digest(grant.secret_sha256, key.secret_sha256()):
            raise _unauthenticated("the key is not known here")
        if grant.is_revoked:
            raise _unauthenticated("the key was revoked")
        if grant.expires_at is not None and grant.expires_at <= now():
            raise _unauthenticated(f"the key expired at {grant.expires_at.isoformat()}")
        return grant

    def _read(self, key: Key) -> _Grant:
        with self._database.read() as session:
            row = store.get(session, key.id)
        if row is None:
            return _Grant("", [], "", None, is_revoked=False, looked_up=time.monotonic())
        return _Grant(
            row.owner,
            row.scopes,
            row.secret_sha256,
            row.expires_at,
            is_revoked=row.revoked_at is not None,
            looked_up=time.monotonic(),
        )


def _is_old(grant: _Grant | None) -> bool:
    return grant is None or time.monotonic() - grant.looked_up > _REMEMBER_S


def _unauthenticated(detail: str) -> Problem:
    return Problem("unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"})
