"""Stored values of rows, which were encoded for one version, for other versions and datasets."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np

from algorithms.numerics.arrays import Array
from algorithms.wrappers.new_tasks import for_tasks
from algorithms.wrappers.preparation.columns import UNKNOWN_LEVEL, Column
from algorithms.wrappers.preparation.model import preparation_of
from algorithms.wrappers.preparation.recoding import recode
from service.models.store import ServableVersion
from service.monitoring.columns import names_of
from service.monitoring.context import MonitorServices

#: Maximum number of texts that a category gets from rows.
_MAX_TEXTS: Final = 200


class Decoded(NamedTuple):
    """Values of some rows of a task.

    Attributes
    ----------
    columns
        Their columns, whose levels include texts that the version did not know.
    X : (n_rows, n_columns)
        Values; a category whose text is not known is missing.
    """

    columns: tuple[Column, ...]
    X: Array


def columns_for(
    services: MonitorServices, served: ServableVersion, task: str, width: int
) -> tuple[Column, ...]:
    """Return the columns by which rows of a task are encoded for a version.

    Raises
    ------
    UnknownTask
        The version cannot predict the task.
    """
    model, _ = for_tasks(services.inference.models.get(served), [task], "common")
    preparation = preparation_of(model)
    if preparation is not None:
        return tuple(preparation.of(task).columns)
    return tuple(Column(name) for name in names_of(services.columns, served.id, task, width))


def decode(columns: Sequence[Column], rows: Sequence[Any]) -> Decoded:
    """Return the values of rows, which have ``values`` and ``unknown`` texts."""
    X = np.stack([np.frombuffer(row.values, "<f8") for row in rows])
    wider = list(columns)
    for j, column in enumerate(columns):
        if column.kind != "category":
            continue
        texts = [(row.unknown or {}).get(column.name, "") for row in rows]
        new = [text for text in dict.fromkeys(texts) if text and text not in column.levels]
        levels = (*column.levels, *new[:_MAX_TEXTS])
        place = {level: float(k) for k, level in enumerate(levels)}
        for i in np.flatnonzero(X[:, j] == UNKNOWN_LEVEL):
            X[i, j] = place.get(texts[i], np.nan)
        wider[j] = replace(column, levels=levels)
    return Decoded(tuple(wider), X)


def encode_for(
    services: MonitorServices, decoded: Decoded, served: ServableVersion, task: str
) -> Array:
    """Return decoded values as the input of another version.

    Raises
    ------
    InvalidData, UnknownTask
        The version has other columns, or cannot predict the task.
    """
    wanted = columns_for(services, served, task, decoded.X.shape[1])
    by_name = {column.name: j for j, column in enumerate(decoded.columns)}
    places = [by_name.get(column.name, -1) for column in wanted]
    if -1 in places or len(places) != len(by_name):
        return np.empty((0, len(wanted)))
    given = [decoded.columns[j] for j in places]
    return recode(decoded.X[:, places], given, wanted, task=task)
