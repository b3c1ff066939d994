"""The first API key of a new deployment, taken from the settings."""

from sqlalchemy.exc import IntegrityError

from service.access import store
from service.access.keys import parse_key
from service.audit import store as audit
from service.audit.events import command_event
from service.database import Database
from service.settings import Settings

OWNER = "admin"


def ensure_bootstrap_key(database: Database, settings: Settings) -> bool:
    """Store the key of the settings if there is no key yet; return whether a key exists.

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
    try:
        with database.write() as session:
            has_key = store.has_any(session)
            if not has_key and key is not None:
                store.create(session, key, owner=OWNER, scopes=["admin"], expires_at=None)
                audit.add(session, command_event("bootstrap key", f"/keys/{key.id}"))
                has_key = True
    except IntegrityError:  # another replica stored it at the same time
        return True
    return has_key
