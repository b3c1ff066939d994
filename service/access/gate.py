"""Lets a request in as its owner, or tells why not. Asked before a body is read."""

import asyncio
import hashlib
import hmac
import time
from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy.exc import SQLAlchemyError

from service.access import store
from service.access.keys import Key, allows, parse_key
from service.database import Database, now
from service.errors import Problem

#: Owner of everything where nobody is asked who they are.
LOCAL_OWNER: Final = "local"
#: A key is looked up again after so long; a revoked one ends within this time.
_REMEMBER_S: Final = 2.0
#: One that is still in use is looked up so long before, so that no call waits for it.
_RENEW_S: Final = 1.0
_REMEMBERED: Final = 1024


@dataclass(frozen=True, slots=True)
class _Grant:
    """What a key allowed when it was looked up; good until a time of the monotonic clock."""

    owner: str
    scopes: list[str]
    until: float


class Bearer(NamedTuple):
    """Who calls: an Authorization header, and the hash by which its grant is remembered."""

    authorization: str
    digest: bytes


def bearer_of(authorization: str | None) -> Bearer | None:
    """Return the bearer of a header, who may call any number of times; None where there is none."""
    return None if authorization is None else Bearer(authorization, _digest(authorization))


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
        self._renewed: set[bytes] = set()

    def known_owner(self, bearer: Bearer | None, scope: str | None) -> str | None:
        """Return what :meth:`owner_of` gives, where the database need not be asked; else None.

        Called on the event loop, where a key that is in use is looked up again in time.
        """
        if self.is_open:
            return self.open_owner
        if bearer is None:
            return None
        grant = self._grants.get(bearer.digest)
        now_s = time.monotonic()
        if grant is None or now_s >= grant.until or not allows(grant.scopes, scope):
            return None
        if grant.until - now_s < _RENEW_S and bearer.digest not in self._renewed:
            self._renewed.add(bearer.digest)
            asyncio.get_running_loop().run_in_executor(None, self._renew, *bearer)
        return grant.owner

    def _renew(self, authorization: str, digest: bytes) -> None:
        """Look a key up again; one that is no longer good is forgotten at once."""
        try:
            grant = self._look_up(_key_of(authorization))
        except Problem:
            self._grants.pop(digest, None)
        except SQLAlchemyError:
            pass  # the grant ends in its time, and who calls then is told why
        else:
            self._grants[digest] = grant
        finally:
            self._renewed.discard(digest)

    def owner_of(self, authorization: str | None, scope: str | None) -> str:
        """Return the owner on whose behalf a request comes.

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
        grant = self._look_up(_key_of(authorization))
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


def _key_of(authorization: str) -> Key:
    kind, _, text = authorization.partition(" ")
    key = parse_key(text.strip())
    if kind.lower() != "bearer" or key is None:
        raise _unauthenticated("the Authorization header is not 'Bearer sib_<id>_<secret>'")
    return key


def _digest(authorization: str) -> bytes:
    return hashlib.sha256(authorization.encode()).digest()


def _unauthenticated(detail: str) -> Problem:
    return Problem("unauthenticated", detail, headers={"WWW-Authenticate": "Bearer"})
