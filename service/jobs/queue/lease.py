"""A lease that at most one process holds at a time, stored as a database row."""

import math
import time
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import CursorResult
from sqlalchemy.exc import IntegrityError

from service.jobs.queue.liveness import LivenessTracker
from service.processes.lifetime import ProcessIdentity, this_process
from service.storage.database import Database
from service.storage.tables import LeaseRow

#: Name of the dispatcher's lease.
LEASE_NAME: Final = "dispatcher"
#: A lease is renewed once this fraction of its timeout has passed.
_RENEW_FRACTION: Final = 0.1


class Lease:
    """A lease that its holder renews; another process takes it when renewals stop.

    Clocks of different machines are never compared: a waiting process watches the renewal counter
    by its own monotonic clock. A holder known to be dead on this machine is replaced at once.
    """

    def __init__(self, database: Database, name: str, *, timeout_s: float) -> None:
        self._database = database
        self._name = name
        self._timeout_s = timeout_s
        self._me = this_process().to_text()
        self._renewed_at = -math.inf
        self._liveness: LivenessTracker[str] = LivenessTracker()

    def acquire(self) -> bool:
        """Renew or take the lease; return whether this process holds it.

        A lease that was renewed recently is not written again.
        """
        if time.monotonic() - self._renewed_at < _RENEW_FRACTION * self._timeout_s:
            return True
        started = time.monotonic()
        is_held = self._renew()
        self._renewed_at = started if is_held else -math.inf
        return is_held

    def release(self) -> None:
        """Release the lease, so that another process can take it at once."""
        self._renewed_at = -math.inf
        with self._database.write() as session:
            session.execute(
                sa.delete(LeaseRow).where(LeaseRow.name == self._name, LeaseRow.holder == self._me)
            )

    def _renew(self) -> bool:
        try:
            with self._database.write() as session:
                row = session.get(LeaseRow, self._name)
                if row is None:
                    session.add(LeaseRow(name=self._name, renewals=1, holder=self._me))
                    return True
                if row.holder != self._me and not self._has_expired(row):
                    return False
                result = session.execute(
                    sa.update(LeaseRow)
                    .where(
                        LeaseRow.name == self._name,
                        LeaseRow.holder == row.holder,
                        LeaseRow.renewals == row.renewals,
                    )
                    .values(renewals=row.renewals + 1, holder=self._me)
                    .execution_options(synchronize_session=False)
                )
                assert isinstance(result, CursorResult)
                return result.rowcount == 1
        except IntegrityError:  # another process created the row at the same time
            return False

    def _has_expired(self, row: LeaseRow) -> bool:
        if ProcessIdentity.from_text(row.holder).is_certainly_dead():
            return True
        self._liveness.tick()
        self._liveness.retain([row.holder])
        return self._liveness.silent_for(row.holder, row.renewals) > self._timeout_s
