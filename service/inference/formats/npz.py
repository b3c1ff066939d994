"""Sparse rows as .npz, with the arrays that a sparse X has in an upload."""

import io
from typing import Any, Final, NamedTuple

from algorithms.numerics.sparse_rows import as_canonical, is_sparse
from service.datasets.formats.npz_archive import read_archive
from service.datasets.formats.options import Limits
from service.datasets.formats.sparse_arrays import join_sparse
from service.datasets.issues import Rejected
from service.errors.problems import Problem
from service.inference.call import (
    Body,
    Call,
    InputSpec,
    Matrix,
    raise_invalid_data,
    raise_invalid_request,
    to_float64,
)
from service.inference.task_column import TaskSource

_LIMITS: Final = Limits(
    decompressed_bytes=512 * 1024 * 1024,
    decompression_ratio=1000,
    tasks=1,
    features=2**31 - 1,
    name_length=100,
)


class SparseRows(NamedTuple):
    """Rows that were received as a sparse matrix, :class:`scipy.sparse.csr_array`."""

    matrix: Any

    def n_values(self) -> int:
        """Return the number of stored values, and of rows."""
        return int(self.matrix.nnz + self.matrix.shape[0])

    def as_matrix(self, spec: InputSpec) -> Matrix:
        """Return the rows, which stay sparse."""
        if spec.kinds is not None:
            detail = f"{spec}, not all of them numbers; send the columns by name"
            raise_invalid_data(detail, task=spec.task)
        X = self.matrix
        if X.shape[1] != spec.width:
            raise_invalid_data(f"{spec}, got a sparse matrix of shape {X.shape}", task=spec.task)
        to_float64(X.data[:, None], task=spec.task)  # refuses integers that are not exact
        rows: Matrix = as_canonical(X)
        return rows


def read_npz(body: Body, tasks: TaskSource) -> Call:
    """Parse a sparse matrix, whose task is in the query."""
    if tasks.query is None:
        raise_invalid_request("query:task", "expected the query parameter 'task'")
    try:
        arrays = join_sparse(read_archive(io.BytesIO(body), _LIMITS, size=len(body)), _LIMITS)
    except Rejected as rejected:
        detail = rejected.issues[0].detail
        raise Problem("malformed-body", f"the body is not a valid .npz: {detail}") from None
    matrix = arrays.get("X")
    if len(arrays) != 1 or not is_sparse(matrix):
        detail = (
            "expected the arrays 'X.data', 'X.indices', 'X.indptr' and 'X.shape' of a sparse matrix"
        )
        raise Problem("malformed-body", f"{detail}, got {', '.join(sorted(arrays)[:10])}")
    return Call(tasks.query, SparseRows(matrix))
