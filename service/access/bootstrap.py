"""The first API key of a new deployment, taken from the settings."""

import contextlib

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from service.access import store
from service.access.keys import Key, parse_key
from service.audit import store as audit
from service.audit.events import command_event
from service.settings import Settings
from service.storage.database import Database

OWNER = "admin"


def ensure_bootstrap_key(database: Database, settings: Settings) -> bool:
    """Store the key of the settings if no key is valid; return whether a key is valid afterwards.

    A stored key stays as it is: a revoked key stays revoked.

    Raises
    ------
    ValueError
        The setting is not a valid key.
    """
    text = settings.bootstrap_key.get_secret_value()
    key = parse_key(text) if text else None
    if text and key is None:
        raise ValueError(
            "SIBLING_BOOTSTRAP_KEY is not sib_<id>_<secret>: 12 of a-z 0-9, then 32 or more of "
            "A-Z a-z 0-9 _ -"
        )
    # another replica may store it at the same time
    with contextlib.suppress(IntegrityError), database.write() as session:
        if key is not None and is_needed(session, key):
            store.create(session, key, owner=OWNER, scopes=["admin"], expires_at=None)
            audit.add(session, command_event("bootstrap key", f"/v1/keys/{key.id}"))
    with database.read() as session:
        return store.has_active(session)


def is_needed(session: Session, key: Key) -> bool:
    """Return whether a service stores the key of its settings when it starts."""
    return not store.has_active(session) and store.get(session, key.id) is None
