"""Kinds of targets that algorithms can use, and targets as tasks have them."""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData, InvalidParams
from algorithms.interface.tasks import TaskSummary
from sibling.frames import as_entries, is_missing

Kind = Literal["numbers", "classes"]
#: Values of the parameter ``target`` of algorithms that can use both kinds.
CHOICES: Final = ("auto", "numbers", "classes")


def kinds_of(algorithm: Algorithm[Any, Any]) -> tuple[Kind, ...]:
    """Return the kinds of targets that an algorithm can use; empty if it ignores targets."""
    needs = algorithm.needs
    used = needs.optional_target if needs.target == "none" else needs.target
    kinds: tuple[Kind, ...] = ("numbers", "classes")
    return tuple(kind for kind in kinds if used in ("any", kind))


@cache
def takes_three_classes(algorithm: Algorithm[Any, Any]) -> bool:
    """Return whether a task may have more than two classes."""
    task = TaskSummary("", n_samples=99, n_features=99, target="classes", n_classes=3)
    try:
        algorithm.check([task], algorithm.Params())
    except InvalidData:
        return False
    return True


def kind_of(y: Any, kinds: tuple[Kind, ...], *, target: str, is_needed: bool) -> Kind | None:
    """Return the kind as which targets are used; None if they are ignored.

    Parameters
    ----------
    kinds
        Kinds that the algorithm predicts.
    target
        The parameter ``target``.
    is_needed
        Whether the algorithm needs targets. Others ignore numbers where they predict classes only.

    Raises
    ------
    InvalidParams
        The parameter has another value.
    InvalidData
        A target is missing.
    """
    if target not in CHOICES:
        expected = ", ".join(map(repr, CHOICES))
        raise InvalidParams(f"'target': expected one of {expected}, got {target!r}", field="target")
    if y is None or not kinds:
        return None
    check_complete(y, "target")
    if target in kinds:
        return "numbers" if target == "numbers" else "classes"
    parts = list(y.values()) if isinstance(y, Mapping) else [y]
    if len(kinds) == 2:
        return "classes" if any(map(_has_labels, parts)) else "numbers"
    if is_needed:
        return kinds[0]
    is_ignored = any(type_of_target(part).startswith("continuous") for part in parts)
    return None if is_ignored else kinds[0]


def check_complete(values: Any, what: str, *, task: str | None = None) -> None:
    """Raise InvalidData if a label is missing: its text would be a label of its own.

    Missing values in arrays of numbers are left to other checks.
    """
    if isinstance(values, Mapping):
        for name, part in values.items():
            check_complete(part, what, task=str(name))
        return
    entries = np.asarray(values) if hasattr(values, "dtype") else as_entries(values)
    if entries.dtype.kind not in "OmM":
        return
    for row, value in enumerate(entries.ravel()):
        if is_missing(value):
            where = f"row {row}" if task is None else f"task '{task}', row {row}"
            raise InvalidData(
                f"{where}: the {what} is missing; add it, or leave the row out", task=task, row=row
            )


def _has_labels(y: Any) -> bool:
    """Return whether targets are text, booleans or of a categorical dtype."""
    return str(getattr(y, "dtype", "")) == "category" or np.asarray(y).dtype.kind in "bOUST"


def as_labels(y: NDArray[Any]) -> NDArray[Any]:
    """Return class labels as text or integers, as tasks have them.

    Raises
    ------
    ValueError
        The targets are continuous, or of mixed types.
    """
    check_classification_targets(y)
    if y.dtype.kind in "biuf":
        return y.astype(np.int64)
    if y.dtype.kind == "O" and not all(isinstance(label, str) for label in y):
        raise InvalidData("expected class labels that are all text or all integers, got both")
    return y.astype(str)
