"""The outcome of an attempt."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

OutcomeKind = Literal[
    "succeeded",
    "scored",
    "failed",
    "cancelled",
    "timed_out",
    "lost",
    "released",
    "postponed",
    "fenced",
]

#: An absolute path of two or more parts; the last one is kept.
_PATH: Final = re.compile(r"(?<![\w.:/])(?:/[^\s/'\"`:;,()<>|]+)+/(?=[^\s/'\"`:;,()<>|])")


def without_paths(text: str) -> str:
    """Return a text with the names of files in place of their paths on the server."""
    return _PATH.sub("", text)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of an attempt.

    Parameters
    ----------
    kind
        ``scored`` for a child job, which has a result and no model; ``lost`` when the worker or
        the child process died; ``postponed`` when the machine lacked space, memory or file handles;
        ``released`` when it was stopped to continue elsewhere; ``fenced`` when the job has ended or
        another attempt owns it, so that the outcome is discarded.
    place
        Task, row, column and field that an error is about.
    """

    kind: OutcomeKind
    code: str = ""
    detail: str = ""
    place: dict[str, Any] = field(default_factory=dict)
    artifact: Path | None = None
    result: dict[str, Any] = field(default_factory=dict)
