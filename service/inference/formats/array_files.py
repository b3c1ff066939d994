"""Files of arrays, such as .npz, safetensors and MATLAB, with the rows that uploads have."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, Final, NamedTuple, NoReturn

from algorithms.interface.tasks import Task
from algorithms.numerics.sparse_rows import as_canonical, is_sparse, take_columns
from service.datasets.formats.array_rows import options_of_rows, rows_of_parts
from service.datasets.formats.options import Limits
from service.datasets.formats.registry import FORMATS, Format
from service.datasets.issues import Rejected, ValidationIssue
from service.errors.problems import Problem
from service.inference.call import (
    ArrayRows,
    Body,
    Call,
    InputSpec,
    Matrix,
    Rows,
    RowsByTask,
    raise_invalid_data,
    raise_invalid_request,
    to_float64,
)
from service.inference.formats.table import TableRows, positions_of
from service.inference.task_column import TASK, TaskSource

_LIMITS: Final = Limits(
    decompressed_bytes=512 * 1024 * 1024,
    decompression_ratio=1000,
    tasks=10_000,
    features=2**31 - 1,
    name_length=1000,
)
#: Codes of issues about values; others are about the file.
_DATA_CODES: Final = ("invalid-task", "not-finite", "inexact-integer")


class SparseRows(NamedTuple):
    """Rows that were received as a sparse matrix, :class:`scipy.sparse.csr_array`."""

    matrix: Any
    names: Sequence[str] | None = None

    def n_values(self) -> int:
        """Return the number of stored values, and of rows."""
        return int(self.matrix.nnz + self.matrix.shape[0])

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Return the rows, which stay sparse."""
        if spec.kinds is not None:
            detail = f"{spec}, not all of them numbers; send the columns by name"
            raise_invalid_data(detail, task=spec.task)
        X = self.matrix
        if self.names is not None:
            X = take_columns(X, positions_of(self.names, X.shape[1], spec))
        if X.shape[1] != spec.width:
            raise_invalid_data(f"{spec}, got a sparse matrix of shape {X.shape}", task=spec.task)
        to_float64(X.data[:, None], task=spec.task)  # refuses integers that are not exact
        rows: Matrix = as_canonical(X)
        return rows


def read_arrays(format_: Format, body: Body, tasks: TaskSource) -> Call:
    """Parse a file of arrays; targets in it are left out."""
    assert format_.read_parts is not None  # of READERS
    options = options_of_rows(tasks.options())
    try:
        with NamedTemporaryFile() as file:  # the readers of MATLAB and safetensors need a path
            file.write(body)
            file.flush()
            parts = format_.read_parts(Path(file.name), options, _LIMITS)
            rows, labels = rows_of_parts(parts, _LIMITS)
    except Rejected as rejected:
        _raise_problem(rejected.issues[0], format_)
    chosen = tasks.choose({} if labels is None else {TASK: labels})
    if chosen is None:
        detail = "expected an array 'task' with the task of each row, or the query parameter 'task'"
        raise_invalid_request("query:task", detail)
    if len(rows) == 1:
        return Call(chosen, _rows_of(rows[0]))
    return Call(chosen, RowsByTask([(task.name, _rows_of(task)) for task in rows]))


def _raise_problem(issue: ValidationIssue, format_: Format) -> NoReturn:
    if issue.code in _DATA_CODES:
        raise_invalid_data(issue.detail, task=issue.task, row=issue.row, column=issue.column)
    if issue.code == "decompression-limit":
        raise Problem("body-too-large", f"{issue.detail}; send fewer rows per request")
    detail = f"the body is not a valid file ({format_.title}): {issue.detail}"
    raise Problem("malformed-body", detail)


def _rows_of(task: Task) -> Rows:
    names, X = task.feature_names, task.X
    if is_sparse(X):
        return SparseRows(X, names)
    return ArrayRows(X) if names is None else TableRows(tuple(names), [*X.T], len(X))


#: Readers by media type.
READERS: Final[dict[str, Callable[[Body, TaskSource], Call]]] = {
    media_type: partial(read_arrays, format_)
    for format_ in FORMATS
    if format_.read_parts is not None
    for media_type in format_.media_types
}
