"""The states of a job and the table of legal transitions."""

from enum import StrEnum
from typing import Final


class JobState(StrEnum):
    """State of a job."""

    #: Its child jobs run; it is queued once they have all succeeded.
    WAITING = "waiting"
    QUEUED = "queued"
    #: Submitted to the pool, not yet started.
    SUBMITTED = "submitted"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TIMED_OUT = "timed_out"


class ShownJobState(StrEnum):
    """State of a job as the API shows it."""

    WAITING = JobState.WAITING.value
    QUEUED = JobState.QUEUED.value
    SUBMITTED = JobState.SUBMITTED.value
    RUNNING = JobState.RUNNING.value
    #: In place of the states above while a cancel request is pending.
    CANCELLING = "cancelling"
    SUCCEEDED = JobState.SUCCEEDED.value
    FAILED = JobState.FAILED.value
    CANCELLED = JobState.CANCELLED.value
    TIMED_OUT = JobState.TIMED_OUT.value


class AttemptCommand(StrEnum):
    """Command that a running attempt receives with every heartbeat."""

    CONTINUE = "continue"
    #: End a race of methods, and keep the best so far.
    FINISH = "finish"
    CANCEL = "cancel"
    #: Store a checkpoint, stop, and return the job to the queue.
    RELEASE = "release"


TRANSITIONS: Final[dict[JobState, frozenset[JobState]]] = {
    JobState.WAITING: frozenset({JobState.QUEUED, JobState.FAILED, JobState.CANCELLED}),
    JobState.QUEUED: frozenset({JobState.SUBMITTED, JobState.CANCELLED}),
    JobState.SUBMITTED: frozenset({JobState.RUNNING, JobState.QUEUED, JobState.CANCELLED}),
    JobState.RUNNING: frozenset(
        {
            JobState.SUCCEEDED,
            JobState.FAILED,
            JobState.CANCELLED,
            JobState.TIMED_OUT,
            JobState.QUEUED,  # the attempt was lost or released, and another may follow
        }
    ),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
    JobState.TIMED_OUT: frozenset(),
}

FINAL: Final = frozenset(state for state, targets in TRANSITIONS.items() if not targets)
#: The states that are not final.
UNFINISHED: Final = tuple(state for state in JobState if state not in FINAL)
ACTIVE: Final = frozenset({JobState.SUBMITTED, JobState.RUNNING})
