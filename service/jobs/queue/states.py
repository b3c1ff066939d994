"""The states of a job and the one table of legal moves."""

from enum import StrEnum
from typing import Final


class JobState(StrEnum):
    """Where a job stands."""

    #: Its parts are at work; it is queued once they have all succeeded.
    WAITING = "waiting"
    QUEUED = "queued"
    #: Handed to the engine, not yet begun.
    SUBMITTED = "submitted"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class Wish(StrEnum):
    """What the service wants of a running attempt."""

    GO_ON = "go_on"
    CANCEL = "cancel"
    #: Keep a checkpoint, stop, and give the job back.
    RELEASE = "release"


#: Shown in place of an active state while a cancel is pending.
CANCELLING: Final = "cancelling"

MOVES: Final[dict[JobState, frozenset[JobState]]] = {
    JobState.WAITING: frozenset({JobState.QUEUED, JobState.FAILED, JobState.CANCELLED}),
    JobState.QUEUED: frozenset({JobState.SUBMITTED, JobState.CANCELLED}),
    JobState.SUBMITTED: frozenset({JobState.RUNNING, JobState.QUEUED, JobState.CANCELLED}),
    JobState.RUNNING: frozenset(
        {
            JobState.SUCCEEDED,
            JobState.FAILED,
            JobState.CANCELLED,
            JobState.TIMED_OUT,
            JobState.QUEUED,  # the attempt was lost and another may follow
        }
    ),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
    JobState.TIMED_OUT: frozenset(),
}

FINAL: Final = frozenset(state for state, nexts in MOVES.items() if not nexts)
ACTIVE: Final = frozenset({JobState.SUBMITTED, JobState.RUNNING})
