"""What a check of an installation finds."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    level: Literal["ok", "warning", "error"]
    detail: str
