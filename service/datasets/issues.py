"""What is wrong with an upload: every issue that fits, each with its place."""

from dataclasses import asdict, dataclass
from typing import Any, Final, NoReturn

#: Reading stops at so many: nobody mends more in one go.
MAX_ISSUES: Final = 100

#: Every code of a issue, with what it means.
CODES: Final[dict[str, str]] = {
    "empty-file": "The upload has no bytes, a table has no header, an archive no arrays.",
    "no-rows": "A table or a task has no rows.",
    "no-features": "No column is left to be a feature.",
    "not-utf8": "The bytes are not UTF-8.",
    "invalid-quoting": "Quotes or line ends are not as RFC 4180 has them.",
    "line-too-long": "A line is far beyond any row of numbers.",
    "wrong-width": "A row has more or fewer cells than the header.",
    "duplicate-column": "Two columns have one name.",
    "missing-column": "A column that an option names is not there.",
    "missing-option": "The layout needs an option that was not given.",
    "unused-option": "An option has no meaning for this format or layout.",
    "empty-cell": "A cell is empty; every value is needed.",
    "not-a-number": "Text stands where a number is needed.",
    "not-finite": "A value is NaN or infinite.",
    "inexact-integer": "An integer is too large to be kept exactly.",
    "mixed-labels": "One target column holds both numbers and text.",
    "invalid-label": "A value cannot name a class.",
    "too-many-classes": "Targets have more distinct labels than a manifest can list.",
    "invalid-name": "A task or column has no name, one too long, or one with control characters.",
    "duplicate-task": "Two tasks have one name.",
    "too-many-tasks": "There are more tasks than the limit.",
    "too-many-features": "A task has more columns than the limit.",
    "decompression-limit": "Decompressed, the upload is beyond the limit.",
    "corrupt-archive": "The zip archive is truncated, damaged, encrypted or of an unusual kind.",
    "duplicate-array": "Two arrays of the archive have one name.",
    "unexpected-array": "A member of the archive is not an array of either layout.",
    "corrupt-array": "An array's header is damaged, or does not fit its bytes.",
    "object-array": "An array holds Python objects, which are never read.",
    "unsupported-dtype": "An array holds neither numbers nor text.",
    "wrong-shape": "An array has another shape than its layout needs.",
    "missing-names": "Some tasks name their columns and others do not.",
    "missing-array": "The layout needs an array that is not there.",
    "invalid-task": "The rows, targets or matrices of a task do not make a task.",
    "ingest-out-of-memory": "Reading needs more memory than the limit.",
    "ingest-timeout": "Reading takes longer than the limit.",
    "parser-crashed": "The reading process died: a damaged upload, or a defect of ours.",
}


@dataclass(frozen=True, slots=True)
class ValidationIssue:
    """One thing wrong, and where.

    Parameters
    ----------
    code
        One of :data:`CODES`.
    row
        Zero-based row of the table or array that was sent.
    column
        Name of the column, or its zero-based number where it has none.
    parameter
        The query parameter to blame.
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
    """The upload cannot be read; carries the issues."""

    def __init__(self, *issues: ValidationIssue) -> None:
        super().__init__(issues[0].detail)
        self.issues = issues


def reject(code: str, detail: str, **place: Any) -> NoReturn:
    """Raise Rejected with one issue, after which reading on would tell nothing."""
    raise Rejected(ValidationIssue(code, detail, **place))


class ValidationIssues:
    """Collects issues, so that a user can mend them all at once."""

    def __init__(self) -> None:
        self._told: list[ValidationIssue] = []

    def __bool__(self) -> bool:
        return bool(self._told)

    def add(self, code: str, detail: str, **place: Any) -> None:
        """Add one.

        Raises
        ------
        Rejected
            It was the last one that is kept.
        """
        self._told.append(ValidationIssue(code, detail, **place))
        if len(self._told) >= MAX_ISSUES:
            raise Rejected(*self._told)

    def extend(self, rejected: Rejected) -> None:
        """Add those of one part of the upload, and go on to the next part."""
        for issue in rejected.issues:
            self.add(**issue.to_json())

    def check(self) -> None:
        """Raise Rejected where there is any."""
        if self._told:
            raise Rejected(*self._told)


def out_of_memory(limit_bytes: int) -> ValidationIssue:
    """Return the issue of an upload that is too large to be read here."""
    return ValidationIssue(
        "ingest-out-of-memory",
        f"reading the upload needs more than {limit_bytes // 1024**2} MiB of memory, the limit "
        "here; send fewer rows or tasks at a time, or have the operator raise ingest_memory_mb",
    )
