"""A right that one process at a time holds, kept in a row."""

import math
import time
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import CursorResult
from sqlalchemy.exc import IntegrityError

from service.database import Database
from service.jobs.queue.liveness import Silence
from service.processes import ProcessIdentity, this_process
from service.rows import LeaseRow

#: A lease is renewed when it is older than this part of its time.
_RENEW_PART: Final = 0.1


class Lease:
    """A lease: renewed by its holder, taken over when the renewals stop.

    Nobody compares clocks: a waiting process watches the count of renewals by its own monotonic
    clock. A holder that is known to be dead on this machine is replaced at once.
    """

    def __init__(self, database: Database, name: str, *, lease_s: float) -> None:
        self._database = database
        self._name = name
        self._lease_s = lease_s
        self._me = this_process().to_text()
        self._renewed_at = -math.inf
        self._silence: Silence[str] = Silence()

    def hold(self) -> bool:
        """Renew or take the lease; tell whether it is held now.

        One that was renewed a short while ago needs no other write.
        """
        if time.monotonic() - self._renewed_at < _RENEW_PART * self._lease_s:
            return True
        began = time.monotonic()
        is_held = self._renew()
        self._renewed_at = began if is_held else -math.inf
        return is_held

    def release(self) -> None:
        """Return the lease back, so that another process need not wait."""
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
                if row.holder != self._me and not self._is_free(row):
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

    def _is_free(self, row: LeaseRow) -> bool:
        if ProcessIdentity.from_text(row.holder).is_certainly_dead():
            return True
        self._silence.look()
        self._silence.forget_all_but([row.holder])
        return self._silence.of(row.holder, row.renewals) > self._lease_s
