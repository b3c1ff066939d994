"""API keys: ``sib_<id>_<secret>``. Only a hash of the secret is stored."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Final, Literal, get_args

#: Scopes of a key. ``admin`` includes all scopes, for the resources of its owner; ``metrics:read``
#: shows figures about all owners, and ``audit:read`` the changes of all owners. ``operator`` is not
#: part of it: it makes other scopes reach the keys, jobs and quotas of all owners.
Scope = Literal[
    "datasets:read",
    "datasets:write",
    "jobs:read",
    "jobs:write",
    "models:read",
    "models:write",
    "infer",
    "keys:read",
    "keys:write",
    "webhooks:read",
    "webhooks:write",
    "metrics:read",
    "audit:read",
    "admin",
    "operator",
]
SCOPES: Final[tuple[Scope, ...]] = get_args(Scope)
#: What a key with a scope can do.
MEANINGS: Final[dict[Scope, str]] = {
    "datasets:read": "see and download datasets",
    "datasets:write": "upload and delete datasets",
    "jobs:read": "see jobs and their results",
    "jobs:write": "train models, cancel and delete jobs",
    "models:read": "see models, reports and plots, and download models",
    "models:write": "delete models, and move aliases",
    "infer": "call models for predictions",
    "keys:read": "see keys, and how much of its quotas an owner uses",
    "keys:write": "create and revoke keys, with scopes that the key itself has",
    "webhooks:read": "see webhooks and their deliveries",
    "webhooks:write": "have events sent to other programs, and stop it",
    "metrics:read": "see figures about the service and all owners",
    "audit:read": "see the changes of all owners",
    "admin": "do all of this",
    "operator": "with the above, see and cancel jobs of all owners, see, create and revoke keys of "
    "all, and see what they store",
}
#: The owner that stands for all owners in requests of operators.
ALL_OWNERS: Final = "*"

#: Scopes of common purposes.
PRESETS: Final[dict[str, tuple[Scope, ...]]] = {
    "calls models": ("models:read", "infer"),
    "trains": (
        *("datasets:read", "datasets:write", "jobs:read", "jobs:write"),
        *("models:read", "models:write", "infer"),
    ),
    "administers": ("admin",),
    "operates the service": ("admin", "operator"),
}

_KEY: Final = re.compile(r"sib_([a-z0-9]{12})_([A-Za-z0-9_-]{32,128})")
_ID_BYTES: Final = 6
_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class Key:
    """An API key with its secret."""

    id: str
    secret: str

    def text(self) -> str:
        """Return the key as text, as requests send it."""
        return f"sib_{self.id}_{self.secret}"

    def secret_sha256(self) -> str:
        """Return the hash that is stored; for a long random secret, a plain hash is safe."""
        return hashlib.sha256(self.secret.encode()).hexdigest()


def new_key() -> Key:
    """Return a new random key."""
    return Key(secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES))


def parse_key(text: str) -> Key | None:
    """Parse a key, or return None if the text is no key."""
    match = _KEY.fullmatch(text)
    return None if match is None else Key(match[1], match[2])


def allows(granted: list[str], needed: str | None) -> bool:
    """Return whether the scopes include the needed scope; None needs no scope.

    The data of other owners are for keys with the scope ``operator`` itself only.
    """
    return needed is None or needed in granted or ("admin" in granted and needed != "operator")
