"""Keys: ``sib_<id>_<secret>``. Only a hash of the secret is kept."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Final

#: What a key may allow. ``admin`` allows everything, for its owner; numbers about the work of all
#: owners are in ``metrics:read``.
SCOPES: Final = (
    "datasets:read",
    "datasets:write",
    "jobs:read",
    "jobs:write",
    "models:read",
    "models:write",
    "infer",
    "metrics:read",
    "admin",
)

_KEY: Final = re.compile(r"sib_([a-z0-9]{12})_([A-Za-z0-9_-]{32,128})")
_ID_BYTES: Final = 6
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Key:
    """A key as its bearer knows it."""

    id: str
    secret: str

    def text(self) -> str:
        """Return the key as it is written in a request."""
        return f"sib_{self.id}_{self.secret}"

    def secret_sha256(self) -> str:
        """Return what is kept of the secret: it is random and long, so one plain hash will do."""
        return hashlib.sha256(self.secret.encode()).hexdigest()


def new_key() -> Key:
    """Return a fresh key."""
    return Key(secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES))


def parse_key(text: str) -> Key | None:
    """Return the key in a text, or None where it is not of the form."""
    match = _KEY.fullmatch(text)
    return None if match is None else Key(match[1], match[2])


def allows(granted: list[str], needed: str | None) -> bool:
    """Return whether the scopes of a key allow what is needed; None: any key will do."""
    return needed is None or needed in granted or "admin" in granted
