"""Arrays of a task and texts of its labels: conversion, validation, detection of class codes.

Messages name the task and the place.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.numerics.arrays import Array
from algorithms.numerics.exact_integers import MAX_EXACT_INTEGER
from algorithms.numerics.sparse_rows import as_canonical, first_not_finite

MAX_LABEL_LENGTH: Final = 200
#: Characters of texts of several lines, which labels may be.
_LINE_BREAKS: Final = str.maketrans("", "", "\t\r\n")
#: Unicode categories not allowed in names: control characters and surrogates.
_FORBIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cs"})
_MAX_SHOWN: Final = 40
#: Range of the number of distinct integers that may be class codes. Ratings from 0 to 10 have more
#: values.
MIN_CODES, MAX_CODES = 2, 10
#: Class codes repeat: mean number of rows per value, at least.
MIN_ROWS_PER_CODE: Final = 2
#: Relative asymmetry above which a matrix is rejected as a covariance: far above rounding errors
#: in single precision, far below any real mistake.
SYMMETRY_RTOL = 1e-5
#: Relative size of negative eigenvalues that are accepted as rounding errors in single precision.
SEMIDEFINITE_RTOL = 1e-4
#: Absolute values, other than 0, whose squares neither overflow nor underflow in sums.
SIZE_RANGE = (1e-150, 1e150)


def as_floats(values: object, task: str) -> Array:
    """Return values as 64-bit floats."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise InvalidData(f"task '{task}' needs numbers, got {array.dtype}", task=task)
    return np.ascontiguousarray(array, dtype=np.float64)


def as_csr(values: Any, task: str) -> Any:
    """Return a sparse matrix in canonical form."""
    if values.dtype.kind not in "fiub":
        raise InvalidData(f"task '{task}' needs numbers, got {values.dtype}", task=task)
    return as_canonical(values)


def _one_per_row(raw: object, what: str, task: str, n_samples: int) -> NDArray[Any]:
    values = np.asarray(raw)
    if values.shape != (n_samples,):
        raise InvalidData(
            f"task '{task}' has {n_samples} rows but {what} of shape {values.shape}", task=task
        )
    return values


def as_targets(y: object, task: str, n_samples: int) -> NDArray[Any] | None:
    """Return the targets of a task; None without them."""
    if y is None:
        return None
    # every other stride of targets, such as a column of a table, has other rounding errors
    targets = np.ascontiguousarray(_one_per_row(y, "targets", task, n_samples))
    if targets.dtype.kind not in "fiuU":
        raise InvalidData(
            f"task '{task}' needs targets that are numbers or labels, got {targets.dtype}",
            task=task,
        )
    if targets.dtype.kind == "f" and not np.isfinite(targets).all():
        row = int(np.flatnonzero(~np.isfinite(targets))[0])
        raise InvalidData(
            f"task '{task}', row {row}: the target is {targets[row]}; expected a finite number",
            task=task,
            row=row,
        )
    return targets


def as_groups(groups: object, task: str, n_samples: int) -> NDArray[Any] | None:
    """Return the group of each row, integers as such; None without groups."""
    if groups is None:
        return None
    labels = _one_per_row(groups, "groups", task, n_samples)
    if labels.dtype.kind not in "biufU":
        raise InvalidData(
            f"task '{task}' needs groups that are numbers or text, got {labels.dtype}", task=task
        )
    if labels.dtype.kind != "f":
        return labels
    if not np.isfinite(labels).all():
        row = int(np.flatnonzero(~np.isfinite(labels))[0])
        raise InvalidData(
            f"task '{task}', row {row}: the group is {labels[row]}, expected text or a finite "
            "number",
            task=task,
            row=row,
        )
    is_integer = (
        bool((np.rint(labels) == labels).all()) and np.abs(labels).max() < MAX_EXACT_INTEGER
    )
    return labels.astype(np.int64) if is_integer else labels


def as_weights(
    weights: object, task: str, n_samples: int, *, has_targets: bool = False
) -> Array | None:
    """Return the weight of each row; None without weights.

    Parameters
    ----------
    has_targets
        Whether the task has targets, so that some weight must be positive.
    """
    if weights is None:
        return None
    values = _one_per_row(weights, "weights", task, n_samples)
    if values.dtype.kind not in "biuf":
        raise InvalidData(f"task '{task}' needs weights that are numbers, got {values.dtype}")
    values = values.astype(np.float64)
    low, high = SIZE_RANGE
    is_valid = (values == 0) | ((values >= low) & (values <= high))
    if not is_valid.all():
        row = int(np.flatnonzero(~is_valid)[0])
        raise InvalidData(
            f"task '{task}', row {row}: the weight is {values[row]:g}, expected 0 or a positive "
            f"number from {low:g} to {high:g}",
            task=task,
            row=row,
        )
    if has_targets and not values.any():
        raise InvalidData(
            f"the weights of task '{task}' are all zero; give some rows a positive weight, or "
            "remove the task",
            task=task,
        )
    return values


def check_size(values: Array, task: str) -> None:
    """Raise InvalidData if there are no rows or no columns."""
    if values.shape[0] == 0:
        raise InvalidData(f"task '{task}' has no rows", task=task)
    if values.shape[-1] == 0:
        raise InvalidData(f"task '{task}' has no columns", task=task)


def check_finite(values: Array, task: str, names: Sequence[str] | None) -> None:
    """Raise InvalidData if a value is not finite."""
    if np.isfinite(values).all():
        return
    place = np.argwhere(~np.isfinite(values))[0]
    row, column = int(place[0]), int(place[-1])
    label = column if names is None else names[column]
    raise InvalidData(
        f"task '{task}', row {row}, column {label!r} is {values[tuple(place)]}; "
        "every value must be a finite number",
        task=task,
        row=row,
        column=label,
    )


def check_stored(rows: Any, task: str, names: Sequence[str] | None) -> None:
    """Raise InvalidData if a stored value of sparse rows is not finite."""
    entry = first_not_finite(rows)
    if entry is None:
        return
    row, column, value = entry
    label = column if names is None else names[column]
    raise InvalidData(
        f"task '{task}', row {row}, column {label!r} is {value}; every stored value of sparse rows "
        "must be a finite number, and the others are 0, not missing",
        task=task,
        row=row,
        column=label,
    )


def check_covariances(matrices: Array, task: str) -> None:
    """Raise InvalidData if a matrix is not symmetric or not positive semidefinite."""
    for i, matrix in enumerate(matrices):
        scale = np.abs(matrix).max()
        if np.abs(matrix - matrix.T).max() > SYMMETRY_RTOL * scale:
            raise InvalidData(
                f"task '{task}', matrix {i} is not symmetric, as covariance matrices must be",
                task=task,
                row=i,
            )
        if np.linalg.eigvalsh(matrix)[0] < -SEMIDEFINITE_RTOL * scale:
            raise InvalidData(
                f"task '{task}', matrix {i} has a negative eigenvalue; "
                "covariance matrices must be positive semidefinite",
                task=task,
                row=i,
            )


def class_codes(targets: Iterable[NDArray[Any]]) -> list[float]:
    """Return the distinct values of the targets of all tasks if they look like class codes.

    That is, if all are integers (of any dtype) with :data:`MIN_CODES` to :data:`MAX_CODES` distinct
    values that repeat; the list is empty if not.
    """
    values: set[float] = set()
    n_rows = 0
    for y in targets:
        distinct = np.unique(y)
        values.update((distinct + 0.0).tolist())  # -0 is 0
        n_rows += len(y)
        if len(values) > MAX_CODES or not np.array_equal(np.rint(distinct), distinct):
            return []
    if len(values) < MIN_CODES or n_rows < MIN_ROWS_PER_CODE * len(values):
        return []
    return sorted(values)


def label_problem(label: str) -> str | None:
    """Return why a text cannot be a label, or None if it can."""
    if len(label) > MAX_LABEL_LENGTH:
        return f"a label of {len(label)} characters is longer than {MAX_LABEL_LENGTH}"
    if has_forbidden_character(label.translate(_LINE_BREAKS)):
        return f"the label {label[:_MAX_SHOWN]!r} has a control character; remove it"
    return None


def has_forbidden_character(text: str) -> bool:
    """Return whether a text has control characters or surrogates."""
    return any(unicodedata.category(character) in _FORBIDDEN_CATEGORIES for character in text)
