"""Columns of rows that are kept, and their values as bytes."""

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from service.models.columns import ColumnNames


def names_of(columns: ColumnNames, version_id: str, task: str, width: int) -> Sequence[str]:
    """Return the names of the columns of a task of a version; their positions without names."""
    by_task = columns.of(version_id)
    names = by_task.get(task, next(iter(by_task.values())))  # of tasks that were not trained
    return names or [str(j) for j in range(width)]


def stored_values(
    X: NDArray[np.float64], names: Sequence[str], never_keep: Collection[str]
) -> list[bytes]:
    """Return encoded rows (n_rows, n_columns) as bytes, infinite in columns that are not kept."""
    kept = np.array(X, "<f8")
    kept[:, [j for j, name in enumerate(names) if name in never_keep]] = np.inf
    return [row.tobytes() for row in kept]
