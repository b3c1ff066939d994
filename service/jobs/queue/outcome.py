"""The outcome of an attempt."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

OutcomeKind = Literal[
    "succeeded", "scored", "failed", "cancelled", "timed_out", "lost", "released", "fenced"
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of an attempt.

    Parameters
    ----------
    kind
        ``scored`` for a child job, which has a result and no model; ``lost`` when the worker or
        the child process died; ``released`` when it was stopped to continue elsewhere; ``fenced``
        when another attempt owns the row.
    place
        Task, row, column and field that an error is about.
    """

    kind: OutcomeKind
    code: str = ""
    detail: str = ""
    place: dict[str, Any] = field(default_factory=dict)
    artifact: Path | None = None
    result: dict[str, Any] = field(default_factory=dict)
