"""Errors of algorithms. The service maps them to HTTP.

Those about values that the caller gave are a ``ValueError``, too, as numerical libraries raise.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray


class AlgorithmError(Exception):
    """Base class of the errors of ``algorithms``.

    Parameters
    ----------
    message
        One sentence: the expected and the actual value, the place, and the remedy.
    task, row, column, field
        Location of the error, if known: task name, zero-based row, column name or zero-based
        number, parameter name.

    Attributes
    ----------
    place
        Part of the request that has the field: "params", unless the caller sets another one.
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


class InvalidData(AlgorithmError, ValueError):
    """The tasks are malformed or do not meet the algorithm's requirements."""

    code = "invalid-data"


@contextmanager
def rows_at(places: Sequence[int] | NDArray[np.intp]) -> Iterator[None]:
    """Let errors in some rows of a table have the numbers of these rows in the table.

    Parameters
    ----------
    places : (n_rows,)
        Numbers of the rows.
    """
    try:
        yield
    except InvalidData as error:
        if error.row is None:
            raise
        row = int(places[error.row])
        # the name of a task may contain the same words
        at = "row " if error.task is None else f"task '{error.task}', row "
        message = error.message.replace(f"{at}{error.row}", f"{at}{row}", 1)
        raise InvalidData(message, task=error.task, row=row, column=error.column) from None


class UnusedWeights(InvalidData):
    """Rows or classes have weights, which the algorithm does not use."""


class InvalidParams(AlgorithmError, ValueError):
    """A parameter is out of bounds, or unsuitable for these tasks."""

    code = "invalid-params"


class NotInstalled(InvalidParams):
    """A package that the algorithm needs for training is not installed here."""


class UnknownTask(AlgorithmError, ValueError):
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


def find_similar(name: str, known: Collection[str]) -> str | None:
    """Return the known name that a mistyped one most likely means, or None.

    A name with the same letters goes before others: letters are often swapped.
    """
    similar = get_close_matches(name, known, n=len(known) or 1)
    letters = sorted(name)
    # min returns the first, which is the most similar, of several
    return min(similar, key=lambda candidate: sorted(candidate) != letters, default=None)


def explain_unknown(name: str, known: Collection[str], *, what: str) -> str:
    """Return a message on an unknown name that suggests a similar one, or lists the known names.

    Parameters
    ----------
    what
        The term for a name in the message, such as "parameter".
    """
    text = f"unknown {what} '{name}'"
    similar = find_similar(name, known)
    if similar is not None:
        return f"{text}; did you mean '{similar}'?"
    return f"{text}; the {what}s are: {', '.join(known)}" if known else text
