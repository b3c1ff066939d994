"""What can go wrong in an algorithm, and nothing of how it is told over a wire."""

from typing import ClassVar


class AlgorithmError(Exception):
    """Root of every error that ``algorithms`` raises on purpose.

    Parameters
    ----------
    message
        One sentence: what was expected, what came, where, what to do.
    task, row, column, field
        The place, as far as it is known: task name, zero-based row, column name or
        zero-based number, parameter name.

    Attributes
    ----------
    place
        What the field is of: parameters, unless whoever asked for more says otherwise.
    """

    code: ClassVar[str] = "algorithm-error"

    def __init__(
        self,
        message: str,
        *,
        task: str | None = None,
        row: int | None = None,
        column: str | int | None = None,
        field: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.task = task
        self.row = row
        self.column = column
        self.field = field
        self.place = "params"


class InvalidData(AlgorithmError):
    """The tasks are malformed or do not fit the algorithm."""

    code = "invalid-data"


class InvalidParams(AlgorithmError):
    """A parameter is out of its bounds, alone or for these tasks."""

    code = "invalid-params"


class UnknownTask(AlgorithmError):
    """The model was not trained on the named task."""

    code = "unknown-task"


class InvalidArtifact(AlgorithmError):
    """A file is not a model that this version can read."""

    code = "invalid-artifact"


class Diverged(AlgorithmError):
    """The objective became infinite or not a number."""

    code = "diverged"


class TargetsTooLarge(InvalidData, Diverged):
    """The targets, which are not scaled, are too large for a solver."""


class Cancelled(AlgorithmError):
    """The caller asked to stop; raised between two iterations."""

    code = "cancelled"
