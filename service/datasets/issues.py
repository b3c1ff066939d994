"""Validation issues of an upload, each with its location."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final, NoReturn

#: Parsing stops after this many issues.
MAX_ISSUES: Final = 100


@dataclass(frozen=True, slots=True)
class ValidationIssue:
    """One problem of an upload, with its location.

    Parameters
    ----------
    code
        What is wrong, such as ``not-a-number``, for programs.
    row
        Zero-based row of the uploaded table or array.
    column
        Name of the column, or its zero-based number if it has no name.
    parameter
        The query parameter that caused it.
    """

    code: str
    detail: str
    task: str | None = None
    row: int | None = None
    column: str | int | None = None
    parameter: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the issue as JSON."""
        return {key: value for key, value in asdict(self).items() if value is not None}


class Rejected(Exception):
    """The upload is invalid; ``issues`` lists why."""

    def __init__(self, *issues: ValidationIssue) -> None:
        super().__init__(issues[0].detail)
        self.issues = issues

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to copy the error, which takes its issues."""
        return type(self), self.issues, vars(self)


def reject(code: str, detail: str, **place: Any) -> NoReturn:
    """Raise Rejected with a single issue that makes further parsing pointless."""
    raise Rejected(ValidationIssue(code, detail, **place))


class ValidationIssues:
    """Collection of issues, so that all are reported at once."""

    def __init__(self) -> None:
        self._issues: list[ValidationIssue] = []

    def __bool__(self) -> bool:
        return bool(self._issues)

    def add(self, code: str, detail: str, **place: Any) -> None:
        """Add an issue.

        Raises
        ------
        Rejected
            The maximum number of issues is reached.
        """
        self._issues.append(ValidationIssue(code, detail, **place))
        if len(self._issues) >= MAX_ISSUES:
            raise Rejected(*self._issues)

    def extend(self, rejected: Rejected) -> None:
        """Add the issues of one part of the upload."""
        for issue in rejected.issues:
            self.add(**issue.to_json())

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Add the issues of a part of the upload that is rejected in the block."""
        try:
            yield
        except Rejected as rejected:
            self.extend(rejected)

    def check(self) -> None:
        """Raise Rejected if there are any issues."""
        if self._issues:
            raise Rejected(*self._issues)


def out_of_memory(limit_bytes: int) -> ValidationIssue:
    """Return the issue of an upload that exceeds the memory limit."""
    return ValidationIssue(
        "ingest-out-of-memory",
        f"parsing the upload needs more than {limit_bytes // 1024**2} MiB of memory, the limit; "
        "upload fewer rows or tasks, or ask the operator to raise SIBLING_INGEST_MEMORY_MB",
    )
