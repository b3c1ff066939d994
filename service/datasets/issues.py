"""Validation issues of an upload, each with its location."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Final, NoReturn

#: Parsing stops after this many issues.
MAX_ISSUES: Final = 100

#: Codes of issues, with their meaning.
CODES: Final[dict[str, str]] = {
    "empty-file": "The upload has no bytes, a table has no header, an archive no arrays.",
    "no-rows": "A table or task has no rows.",
    "no-features": "No column is left as a feature.",
    "not-utf8": "The bytes are not UTF-8.",
    "invalid-quoting": "Quotes or line ends do not follow RFC 4180.",
    "line-too-long": "A line exceeds the maximum length.",
    "wrong-width": "A row has more or fewer cells than the header.",
    "duplicate-column": "Two columns have the same name.",
    "missing-column": "A column named in an option does not exist.",
    "missing-sheet": "A workbook has no sheet with the name in an option.",
    "missing-task": "A selected task does not exist.",
    "missing-row": "A selected row does not exist.",
    "different-columns": "A task has different columns in the datasets that are combined.",
    "different-targets": "A task has different kinds of targets in the datasets that are combined.",
    "different-groups": "The groups of the datasets that are combined cannot be put together.",
    "different-weights": "A task has weights in only one of the datasets that are combined.",
    "missing-source": "A dataset was deleted before it was combined with others.",
    "missing-option": "The layout requires an option that is missing.",
    "unused-option": "An option does not apply to this format or layout.",
    "empty-cell": "A task, target, group or weight is empty.",
    "not-a-number": "A number was expected, but the value is text.",
    "ambiguous-number": "A number can be read in two ways, and no value shows which is right.",
    "not-of-kind": "A value does not have the declared kind of its column.",
    "too-many-levels": "A category has more distinct values than the limit.",
    "not-finite": "A value is NaN or infinite.",
    "inexact-integer": "An integer is too large for an exact 64-bit float.",
    "mixed-types": "A column has values of several types.",
    "mixed-labels": "A target column contains both numbers and text.",
    "invalid-label": "A value cannot be a class label or group label.",
    "invalid-weight": "A weight is negative or not a finite number.",
    "too-many-classes": "The targets have more distinct labels than the limit.",
    "invalid-name": "The name of a task or column is empty, too long, or has control characters.",
    "duplicate-task": "Two tasks have the same name.",
    "too-many-tasks": "There are more tasks than the limit.",
    "too-many-features": "A task has more columns than the limit.",
    "decompression-limit": "The decompressed size exceeds the limit.",
    "quota-exceeded": "The dataset is larger than its upload, and exceeds the quota of its owner.",
    "corrupt-file": "The file is truncated or corrupt.",
    "corrupt-archive": "The zip archive is truncated, corrupt, encrypted or unsupported.",
    "duplicate-array": "Two arrays in the archive have the same name.",
    "unexpected-array": "A member of the archive belongs to neither layout.",
    "corrupt-array": "The header of an array is corrupt or does not match its data.",
    "object-array": "An array contains Python objects, which are not read for security.",
    "unsupported-dtype": "An array contains neither numbers nor text.",
    "wrong-shape": "The shape of an array does not match the layout.",
    "missing-names": "Some tasks have column names and others do not.",
    "missing-array": "An array required by the layout is missing.",
    "invalid-task": "The rows, targets or matrices of a task are invalid.",
    "ingest-out-of-memory": "Parsing needs more memory than the limit.",
    "ingest-timeout": "Parsing takes longer than the limit.",
    "resource-shortage": "The service lacks disk space or file handles; it tries again.",
    "parser-crashed": "The parser process crashed: a corrupt upload or a bug in the service.",
}


@dataclass(frozen=True, slots=True)
class ValidationIssue:
    """One problem of an upload, with its location.

    Parameters
    ----------
    code
        One of :data:`CODES`.
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
