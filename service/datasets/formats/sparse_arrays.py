"""Sparse matrices among named arrays: ``X.data``, ``X.indices``, ``X.indptr`` and ``X.shape``.

These are the arrays of a matrix in compressed sparse rows (CSR), as ``scipy.sparse.save_npz`` names
them. Its ``X.format`` and ``X._is_array`` may be present, too. MATLAB stores compressed sparse
columns, which are converted.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array

from service.datasets.formats.options import Limits
from service.datasets.formats.validation import check_counts
from service.datasets.issues import reject

#: Parts of a sparse matrix.
PARTS: Final = ("data", "indices", "indptr", "shape")
_STEM: Final = "X."
_CSR: Final = b"csr"
_ALONG: Final = {_CSR: "row", b"csc": "column"}
_SAVED: Final = frozenset({*PARTS, "format", "_is_array"})


def join_sparse(arrays: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Return the arrays with each sparse matrix as one entry ``X``, or ``<task>/X``.

    Raises
    ------
    Rejected
        A part is absent, parts do not fit together, or there is a dense array of the same name.
    """
    if arrays.keys() >= {"data", "shape", "format"}:  # a file of scipy.sparse.save_npz
        arrays = {_STEM + name if name in _SAVED else name: a for name, a in arrays.items()}
    owners: dict[str, None] = {}
    for name in arrays:
        prefix, _, last = name.rpartition("/")
        if last.startswith(_STEM) and last.removeprefix(_STEM) in PARTS:
            owners[f"{prefix}/X" if prefix else "X"] = None
    for owner in owners:
        task = owner.rpartition("/")[0] or None
        parts = {part: arrays.pop(f"{owner}.{part}", None) for part in PARTS}
        along = _along(arrays.pop(f"{owner}.format", None), owner, task)
        absent = next((part for part, array in parts.items() if array is None), None)
        if absent is not None:
            detail = f"the sparse matrix '{owner}' lacks the array '{owner}.{absent}'; expected"
            names = ", ".join(f"'{owner}.{part}'" for part in PARTS)
            reject("missing-array", f"{detail} {names}", task=task)
        arrays.pop(f"{owner}._is_array", None)
        if owner in arrays:
            detail = f"there is an array '{owner}' beside the sparse matrix of this name"
            reject("unexpected-array", f"{detail}; remove one of them", task=task)
        shape = _shape(parts.pop("shape"), owner, task, limits)
        matrix = compressed_matrix(**parts, shape=shape, name=owner, task=task, along=along)
        arrays[owner] = matrix.tocsr()
    return arrays


def _along(array: NDArray[Any] | None, owner: str, task: str | None) -> str:
    """Return whether a matrix is compressed along rows or columns, which the parts do not show."""
    format_ = _CSR if array is None else array.tolist()
    along = _ALONG.get(format_ if isinstance(format_, bytes) else str(format_).encode())
    if along is None:
        detail = f"'{owner}.format' is neither 'csr' nor 'csc'; save matrix.tocsr()"
        reject("unexpected-array", detail, task=task)
    return along


def compressed_matrix(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    *,
    shape: tuple[int, int],
    name: str,
    task: str | None,
    along: str,
) -> Any:
    """Check the arrays of a matrix in compressed sparse rows, or columns, and return the matrix.

    Parameters
    ----------
    data, indices : (n_stored,)
        Values, and their columns (rows if ``along`` is "column").
    indptr : (n_rows + 1,)
        Position of the first value of each row (column), and the number of values.
    along
        "row" or "column".

    Raises
    ------
    Rejected
        Sizes differ, ``indptr`` is not increasing, or an index is out of range.
    """
    major, minor = shape if along == "row" else shape[::-1]
    for part, array in (("data", data), ("indices", indices), ("indptr", indptr)):
        if array.ndim != 1:
            detail = f"'{name}.{part}' needs one dimension, got shape {array.shape}"
            reject("wrong-shape", detail, task=task)
        if part != "data" and array.dtype.kind not in "iu":
            detail = f"'{name}.{part}' has dtype {array.dtype}; integers are required"
            reject("unsupported-dtype", detail, task=task)
    if data.dtype.kind not in "fiub":
        detail = f"'{name}.data' has dtype {data.dtype}; numbers are required"
        reject("not-a-number", detail, task=task)
    if len(indptr) != major + 1:
        detail = f"'{name}.indptr' has {len(indptr)} entries; expected {major + 1}, one more than"
        reject("wrong-shape", f"{detail} the shape {shape} has {along}s", task=task)
    if len(indices) != len(data):
        detail = f"'{name}.indices' has {len(indices)} entries, '{name}.data' {len(data)}"
        reject("wrong-shape", f"{detail}; expected one index for each value", task=task)
    steps = indptr.astype(np.int64)
    if steps[0] != 0 or steps[-1] != len(data) or (np.diff(steps) < 0).any():
        detail = f"'{name}.indptr' must increase from 0 to the number of values, {len(data)}"
        reject("corrupt-array", f"{detail}; write the matrix again", task=task)
    is_outside = (indices < 0) | (indices >= minor)
    if is_outside.any():
        place = int(np.flatnonzero(is_outside)[0])
        at = int(np.searchsorted(steps, place, side="right")) - 1
        other = "column" if along == "row" else "row"
        detail = f"{along} {at} of '{name}' has a value in {other} {indices[place]}, but there are"
        row = at if along == "row" else None
        reject("corrupt-array", f"{detail} {minor} {other}s, from 0", task=task, row=row)
    kind = csr_array if along == "row" else csc_array
    return kind((data, indices.astype(np.int64), steps), shape=shape)


def rows_of_columns(matrix: Any, name: str, limits: Limits) -> Any:
    """Return a matrix of MATLAB, in compressed sparse columns, as rows after checking it.

    Raises
    ------
    Rejected
        Its indices are out of range, or it has too many rows or columns.
    """
    columns = matrix.tocsc() if matrix.format == "coo" else matrix  # indices of coo are checked
    n, d = (int(size) for size in columns.shape)
    check_counts(1, d, limits)
    if 8 * n > limits.decompressed_bytes:
        detail = f"'{name}' has {n} rows, whose index takes more than the limit of"
        reject("decompression-limit", f"{detail} {limits.decompressed_bytes} bytes")
    checked = compressed_matrix(
        columns.data,
        columns.indices,
        columns.indptr,
        shape=(n, d),
        name=name,
        task=None,
        along="column",
    )
    return checked.tocsr()


def _shape(shape: NDArray[Any], name: str, task: str | None, limits: Limits) -> tuple[int, int]:
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        detail = f"'{name}.shape' needs two integers, got {shape.dtype} of shape {shape.shape}"
        reject("wrong-shape", detail, task=task)
    n, d = (int(size) for size in shape)
    if n < 1 or d < 1:
        code = "no-rows" if n < 1 else "no-features"
        detail = f"'{name}' has shape {(n, d)}; at least one row and column are required"
        reject(code, detail, task=task)
    check_counts(1, d, limits)
    return n, d
