"""What is wrong with an upload: every complaint that fits, each with its place."""

from dataclasses import asdict, dataclass
from typing import Any, Final

#: More than so many are counted, not told.
MAX_COMPLAINTS: Final = 100


@dataclass(frozen=True, slots=True)
class Complaint:
    """One thing wrong, and where: task, zero-based row, column."""

    detail: str
    task: str | None = None
    row: int | None = None
    column: str | int | None = None

    def to_json(self) -> dict[str, Any]:
        """Give the complaint as JSON."""
        return {key: value for key, value in asdict(self).items() if value is not None}


class Rejected(Exception):
    """The upload cannot be read; carries the complaints."""

    def __init__(self, *complaints: Complaint) -> None:
        super().__init__(complaints[0].detail)
        self.complaints = complaints


class Complaints:
    """Collects complaints, so that a user can mend them all at once."""

    def __init__(self) -> None:
        self._told: list[Complaint] = []
        self._n_more = 0

    def add(
        self,
        detail: str,
        *,
        task: str | None = None,
        row: int | None = None,
        column: str | int | None = None,
    ) -> None:
        """Add one."""
        if len(self._told) < MAX_COMPLAINTS:
            self._told.append(Complaint(detail, task, row, column))
        else:
            self._n_more += 1

    @property
    def is_full(self) -> bool:
        """Whether a further one would only be counted."""
        return len(self._told) >= MAX_COMPLAINTS

    def check(self) -> None:
        """Raise Rejected where there is any."""
        if self._n_more:
            self._told.append(Complaint(f"... and {self._n_more} more"))
        if self._told:
            raise Rejected(*self._told)
