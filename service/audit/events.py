"""The audit event, and the limit of refused requests that are stored."""

import getpass
import os
import socket
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

from service.processes.token_buckets import TokenBuckets
from service.storage.database import now

#: Maximum number of refused requests that are stored per owner, and of all requests without a valid
#: key: at once, and then per second. Otherwise any caller could fill the database.
MAX_REFUSED_AT_ONCE: Final = 300
REFUSED_PER_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """One request or command that changed something, or tried to.

    Attributes
    ----------
    operation
        ``operationId`` of the route in the OpenAPI document, or the name of the command.
    object
        Path of the resource, such as ``/v1/jobs/job_1``; None if there is none (yet).
    status
        HTTP status; None for a command, and for a client that disconnected before the response.
    code
        Error code of a refused request.
    owner
        Owner of the API key; None for a command, and for a request without a valid key.
    key_id
        Id of the API key; with status 401, the id that the caller claimed.
    source
        Address of the client, or ``user@host`` of a command.
    reason
        Why the service did it by itself.
    """

    operation: str
    object: str | None = None
    status: int | None = None
    code: str | None = None
    owner: str | None = None
    key_id: str | None = None
    source: str | None = None
    request_id: str | None = None
    reason: str | None = None
    created_at: datetime = field(default_factory=now)

    def log_fields(self) -> dict[str, Any]:
        """Return the fields of a log event, which has a time of its own."""
        fields = asdict(self)
        del fields["created_at"]
        return fields

    def is_refused(self) -> bool:
        """Return whether the request changed nothing."""
        return self.status is not None and self.status >= 400


def command_event(operation: str, object_path: str | None = None) -> AuditEvent:
    """Return the event of a command that an operator runs on this machine."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):  # a user id without a name
        user = str(os.getuid())
    return AuditEvent(operation, object_path, source=f"{user}@{socket.gethostname()}")


class RefusalLimit:
    """Limit of the stored refused requests, by owner, and of all requests without a valid key.

    Parameters
    ----------
    clock
        Returns seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._buckets = TokenBuckets(REFUSED_PER_S, size=MAX_REFUSED_AT_ONCE, clock=clock)

    def admits(self, event: AuditEvent) -> bool:
        """Return whether to store the event, and count it."""
        # without a key: to sign out without a session, or to disconnect before the response
        is_limited = event.owner is None or event.is_refused()
        return not is_limited or not self._buckets.take(event.owner)
