"""Signatures of Standard Webhooks: https://github.com/standard-webhooks/standard-webhooks."""

import hmac
import secrets
from base64 import b64decode, b64encode
from typing import Final

_PREFIX: Final = "whsec_"
_SECRET_BYTES: Final = 32


def new_secret() -> str:
    """Return a new random secret."""
    return _PREFIX + b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def signed_headers(secret: str, event_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers that identify and sign a message.

    Parameters
    ----------
    timestamp
        Time of the attempt, in seconds; receivers refuse old ones.
    """
    key = b64decode(secret.removeprefix(_PREFIX))
    digest = hmac.digest(key, f"{event_id}.{timestamp}.".encode() + body, "sha256")
    return {
        "webhook-id": event_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{b64encode(digest).decode()}",
    }
