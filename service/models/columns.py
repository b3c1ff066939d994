"""Column names of the training data of model versions."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import sqlalchemy as sa
from sqlalchemy.orm import Session

from algorithms.registry import ALGORITHMS
from service.database import Database
from service.datasets.manifest import feature_names_by_task, ignored_of_manifest
from service.rows import DatasetRow, VersionRow

#: Column names by task, or None for tasks without names.
NamesByTask: TypeAlias = Mapping[str, tuple[str, ...] | None]
#: Maximum number of cached versions; names of wide tasks take megabytes.
_MAX_CACHED: Final = 64


class ColumnNames:
    """Cache of column names by version, which never change."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache: OrderedDict[str, tuple[NamesByTask, frozenset[str]]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, version_id: str) -> NamesByTask:
        """Return the column names of each task of a version."""
        return self._find(version_id)[0]

    def ignored(self, version_id: str) -> frozenset[str]:
        """Return the columns of the training tables that the version does not use."""
        return self._find(version_id)[1]

    def _find(self, version_id: str) -> tuple[NamesByTask, frozenset[str]]:
        with self._lock:
            if version_id in self._cache:
                self._cache.move_to_end(version_id)
                return self._cache[version_id]
        with self._database.read() as session:
            found = (
                column_names(session, version_id),
                ignored_of_manifest(_manifest(session, version_id)),
            )
        with self._lock:
            self._cache[version_id] = found
            if len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        return found


def _manifest(session: Session, version_id: str) -> Mapping[str, Any]:
    """Query the manifest of the dataset that a version was trained on."""
    query = sa.select(DatasetRow.manifest).join(VersionRow, VersionRow.dataset_id == DatasetRow.id)
    manifest: Mapping[str, Any] | None = session.execute(
        query.where(VersionRow.id == version_id)
    ).scalar_one()
    assert manifest is not None  # a model was trained on it
    return manifest


def column_names(session: Session, version_id: str) -> NamesByTask:
    """Query the column names of each task of a version.

    If a version was adapted to new tasks, the names of older tasks are those of its base. If the
    algorithm requires the same columns in all tasks, new tasks have the names of older ones.
    """
    query = sa.select(DatasetRow.manifest, VersionRow.base_id, VersionRow.algorithm).join(
        DatasetRow, VersionRow.dataset_id == DatasetRow.id
    )
    found: list[NamesByTask] = []  # of the version, its base, the base of its base, ...
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
