"""What every parser shares: names, targets and tasks, checked the same way in every format."""

import unicodedata
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task
from service.datasets.complaints import Complaint, Complaints, Rejected
from service.datasets.options import Limits, TargetWish

Labels = NDArray[Any]


def check_name(name: str, limits: Limits, *, what: str) -> str:
    """Give a name in Unicode's composed form, or raise Rejected where it cannot be one."""
    composed = unicodedata.normalize("NFC", name)
    if not composed.strip():
        raise Rejected(Complaint(f"a {what} has an empty name"))
    if len(composed) > limits.name_length:
        raise Rejected(
            Complaint(
                f"the {what} '{composed[:40]}...' has a name of {len(composed)} characters, "
                f"more than {limits.name_length}"
            )
        )
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in composed):
        raise Rejected(Complaint(f"the {what} {composed!r} has a control character in its name"))
    return composed


def check_counts(n_tasks: int, n_features: int, limits: Limits) -> None:
    """Raise Rejected where there are more tasks or columns than the service takes."""
    if n_tasks > limits.tasks:
        raise Rejected(Complaint(f"{n_tasks} tasks are more than {limits.tasks}, the limit"))
    if n_features > limits.features:
        raise Rejected(
            Complaint(f"{n_features} columns are more than {limits.features}, the limit")
        )


def rows_task(
    name: str,
    X: NDArray[Any],
    y: Labels | None,
    feature_names: Sequence[str] | None,
    complaints: Complaints,
) -> Task | None:
    """Give the task of rows and targets, or None after adding the complaint."""
    try:
        task = Task.from_rows(name, X, y=y, feature_names=feature_names)
    except InvalidData as error:
        complaints.add(error.message, task=error.task, row=error.row, column=error.column)
        return None
    return task


def covariance_task(name: str, C: NDArray[Any], complaints: Complaints) -> Task | None:
    """Give the task of covariance matrices, or None after adding the complaint."""
    try:
        return Task.from_covariances(name, C)
    except InvalidData as error:
        complaints.add(error.message, task=error.task, row=error.row, column=error.column)
        return None


def as_targets(values: NDArray[Any], wish: TargetWish, *, task: str) -> Labels:
    """Give targets as floats or as labels.

    Raises
    ------
    Rejected
        The values are not what was wished for.
    """
    kind = values.dtype.kind
    if kind == "U":
        if wish == "numbers":
            detail = f"task '{task}': the targets are text, not numbers"
            raise Rejected(Complaint(detail, task=task))
        return values
    if kind not in "biuf":
        raise Rejected(
            Complaint(f"task '{task}': targets of type {values.dtype} are not read", task=task)
        )
    if wish == "classes" or kind == "b":
        return _as_labels(values, task)
    return values.astype(np.float64)


def _as_labels(values: NDArray[Any], task: str) -> Labels:
    whole = values.astype(np.int64) if values.dtype.kind != "f" else np.rint(values)
    if not np.array_equal(whole, values):
        detail = f"task '{task}': class labels are text or whole numbers, not fractions"
        raise Rejected(Complaint(detail, task=task))
    return whole.astype(np.int64)
