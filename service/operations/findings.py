"""Results of the checks of an installation."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    level: Literal["ok", "warning", "error"]
    detail: str
