"""Raw rows of one table as another table has them: a model reads a dataset by its own columns."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Final

import numpy as np

from algorithms.interface.errors import InvalidData
from algorithms.numerics.arrays import Array
from algorithms.wrappers.preparation.columns import UNKNOWN_LEVEL, Column
from algorithms.wrappers.preparation.encoder import encode, without_markers
from algorithms.wrappers.preparation.invalid_column import InvalidColumn

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - moments have no zone


def recode(X: Array, given: Sequence[Column], wanted: Sequence[Column], *, task: str) -> Array:
    """Return raw rows as values of other columns, such as the columns of a model.

    A part of a table may have columns of other kinds: all of its codes are digits, or none of its
    dates shows which number is the day. A level that the wanted column does not have becomes
    :data:`UNKNOWN_LEVEL`.

    Parameters
    ----------
    X : (n_samples, n_columns)
        Rows with the columns ``given``; ``wanted`` has the same order.

    Raises
    ------
    InvalidData
        A column has another kind, and a value that is not one of the wanted kind.
    """
    if list(given) == list(wanted):
        return X
    recoded = X.copy()
    for j, (ours, theirs) in enumerate(zip(given, wanted, strict=True)):
        if ours.kind == theirs.kind and ours.levels == theirs.levels:
            if theirs.kind == "number" and theirs.missing:
                recoded[:, j] = without_markers(X[:, j], theirs.missing)
            continue
        try:
            recoded[:, j] = _read_as(X[:, j], ours, theirs)
        except InvalidColumn as error:
            raise InvalidData(
                f"task '{task}', column '{theirs.name}' is of the kind {ours.kind}; "
                f"expected {theirs.kind}: {error.message}",
                task=task,
                column=theirs.name,
            ) from None
    return recoded


def _read_as(values: Array, ours: Column, theirs: Column) -> Array:
    """Return the values of a column as those of another column of the same name."""
    distinct, positions = np.unique(values, return_inverse=True)
    known = ~np.isnan(distinct)
    read = np.full(len(distinct), np.nan)
    if ours.kind == "category":
        known &= distinct != UNKNOWN_LEVEL
        raw: list[Any] = [ours.levels[int(code)] for code in distinct[known]]
        if theirs.kind == "category":
            read[distinct == UNKNOWN_LEVEL] = UNKNOWN_LEVEL
    else:
        raw = [_raw(value, ours, theirs) for value in distinct[known].tolist()]
    read[known] = encode(raw, theirs)
    recoded: Array = read[positions]
    return recoded


def _raw(value: float, ours: Column, theirs: Column) -> Any:
    """Return a number of a column as the object that it stands for: of a category, its level."""
    level = _levels(ours, theirs).get(value) if theirs.kind == "category" else None
    if level is not None:
        return level
    if ours.kind == "date":
        return _EPOCH + timedelta(seconds=value)
    return bool(value) if ours.kind == "boolean" else value


@lru_cache(256)
def _levels(ours: Column, theirs: Column) -> dict[float, str]:
    """Return the levels of a category by their values in another column, where that has one."""
    levels: dict[float, list[str]] = {}
    for level in theirs.levels:
        with suppress(InvalidColumn):
            levels.setdefault(float(encode([level], ours)[0]), []).append(level)
    return {value: names[0] for value, names in levels.items() if len(names) == 1}
