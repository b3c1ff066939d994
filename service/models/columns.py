"""The names of the columns that versions of models were trained on."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.orm import Session

from algorithms.registry import ALGORITHMS
from service.database import Database
from service.datasets.canonical import feature_names_by_task
from service.rows import DatasetRow, VersionRow

#: Names of the columns by task; None where they have no names.
NamesByTask: TypeAlias = Mapping[str, tuple[str, ...] | None]
#: Versions whose names are kept: of wide tasks they take megabytes.
_MAX_KEPT: Final = 64


class ColumnNames:
    """Looks names up by version; they never change, so those of the last ones are kept."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._kept: OrderedDict[str, NamesByTask] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, version_id: str) -> NamesByTask:
        """Return the names of the columns of each task of a version."""
        with self._lock:
            if version_id in self._kept:
                self._kept.move_to_end(version_id)
                return self._kept[version_id]
        with self._database.read() as session:
            found = column_names(session, version_id)
        with self._lock:
            self._kept[version_id] = found
            if len(self._kept) > _MAX_KEPT:
                self._kept.popitem(last=False)
        return found


def column_names(session: Session, version_id: str) -> NamesByTask:
    """Return the names of the columns of each task of a version.

    Of a version that took new tasks, the names of the older tasks are those of its base. Where an
    algorithm needs the same columns in all tasks, the new tasks have the names of the older ones.
    """
    query = sa.select(DatasetRow.manifest, VersionRow.base_id, VersionRow.algorithm).join(
        DatasetRow, VersionRow.dataset_id == DatasetRow.id
    )
    found: list[NamesByTask] = []  # of the version, its base, the base of that, ...
    following: str | None = version_id
    while following is not None:
        one = session.execute(query.where(VersionRow.id == following)).one()
        manifest, following, algorithm = one
        found.append(feature_names_by_task(manifest))
    needs = ALGORITHMS[algorithm].needs
    names = dict(found.pop())
    shared = next(iter(names.values()))
    for new in reversed(found):
        names |= dict.fromkeys(new, shared) if needs.same_features else new
    return names
