"""Column names of the training data of model versions."""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

import sqlalchemy as sa
from sqlalchemy.orm import Session

from algorithms.registry import ALGORITHMS
from algorithms.wrappers.preparation.columns import Column
from service.datasets.formats.options import ReadOptions
from service.datasets.manifest import (
    columns_of_manifest,
    feature_names_by_task,
    ignored_of_manifest,
)
from service.datasets.number_writings import PLAIN_TABLE, NumberWritings
from service.storage.database import Database
from service.storage.tables import DatasetRow, VersionRow

#: Column names by task, or None for tasks without names.
NamesByTask: TypeAlias = Mapping[str, tuple[str, ...] | None]
#: Columns of numbers of the training rows, with their smallest and largest values.
Ranges: TypeAlias = Mapping[str, tuple[Column, float, float]]
#: Maximum number of cached versions; names of wide tasks take megabytes.
_MAX_CACHED: Final = 64
#: Options of the upload of the training data that rows are read with, too.
_ROW_OPTIONS: Final = (
    *("sheet", "variables", "missing_marker"),
    *("column_kind", "group_column", "ignore_column"),
)


class _Entry(NamedTuple):
    names: NamesByTask
    ignored: frozenset[str]
    all_names: frozenset[str]
    numbers: NumberWritings
    options: ReadOptions


class ColumnNames:
    """Cache of column names by version, which never change."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache: OrderedDict[str, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, version_id: str) -> NamesByTask:
        """Return the column names of each task of a version."""
        return self._find(version_id).names

    def ignored(self, version_id: str) -> frozenset[str]:
        """Return the columns of the training tables that the version does not use."""
        return self._find(version_id).ignored

    def numbers(self, version_id: str) -> NumberWritings:
        """Return how the numbers of the training tables were written."""
        return self._find(version_id).numbers

    def has(self, version_id: str, name: str) -> bool | None:
        """Return whether the training tables have a column with this name.

        The version need not use the column. None if no column has the name, but the columns of some
        tasks have no names.
        """
        entry = self._find(version_id)
        if name in entry.all_names:
            return True
        return None if None in entry.names.values() else False

    def options(self, version_id: str) -> ReadOptions:
        """Return the options of the upload that the version was trained on."""
        return self._find(version_id).options

    def ranges(self, version_id: str) -> Ranges:
        """Return the columns of numbers of the training tables with their ranges, if named."""
        with self._database.read() as session:
            tables = [manifest for manifest, _ in _trained_on(session, version_id)]
        return _ranges(tables, self.numbers(version_id))

    def _find(self, version_id: str) -> _Entry:
        with self._lock:
            if version_id in self._cache:
                self._cache.move_to_end(version_id)
                return self._cache[version_id]
        with self._database.read() as session:
            names = column_names(session, version_id)
            ignored = left_out_names(session, version_id)
            numbers = number_writings(session, version_id)
            all_names = ignored.union(*(columns or () for columns in names.values()))
            entry = _Entry(names, ignored, all_names, numbers, _options(session, version_id))
        with self._lock:
            self._cache[version_id] = entry
            if len(self._cache) > _MAX_CACHED:
                self._cache.popitem(last=False)
        return entry


def column_names(session: Session, version_id: str) -> NamesByTask:
    """Query the column names of each task of a version.

    If a version was adapted to new tasks, its older tasks have the column names of its base. If the
    algorithm requires the same columns in all tasks, new tasks have the names of older tasks.
    """
    sources = [
        (feature_names_by_task(manifest), algorithm)
        for manifest, algorithm in _trained_on(session, version_id)
    ]
    names, algorithm = sources.pop()
    names = dict(names)
    needs = ALGORITHMS[algorithm].needs
    shared = next(iter(names.values()))
    for new, _ in reversed(sources):
        names |= dict.fromkeys(new, shared) if needs.same_features else new
    return names


def left_out_names(session: Session, version_id: str) -> frozenset[str]:
    """Query the columns of the training tables of a version and its bases that are not used."""
    tables = (manifest for manifest, _ in _trained_on(session, version_id))
    return frozenset().union(*map(ignored_of_manifest, tables))


def number_writings(session: Session, version_id: str) -> NumberWritings:
    """Query how numbers were written, by the newest training table that has them as text.

    Columns that have no unit there have that of the newest older table with one.
    """
    tables = (manifest for manifest, _ in _trained_on(session, version_id))
    newest, *older = [*filter(None, map(NumberWritings.of_manifest, tables)), PLAIN_TABLE]
    columns = dict(newest.columns)
    for written in older:
        for name, writing in written.columns.items():
            current = columns.get(name, newest.common)
            if writing.unit and not current.unit:
                columns[name] = replace(current, unit=writing.unit)
    return replace(newest, columns=columns)


def _ranges(tables: Sequence[Mapping[str, Any]], written: NumberWritings) -> Ranges:
    """Return the named columns of numbers of some manifests, with their ranges over all tasks."""
    found: dict[str, tuple[Column, float, float]] = {}
    for manifest in tables:
        kinds = {column.name: column for column in columns_of_manifest(manifest) or ()}
        names_of = feature_names_by_task(manifest)
        for entry in manifest["tasks"]:
            features, names = entry.get("features"), names_of[entry["name"]]
            if features is None or names is None:
                continue
            for name, low, high in zip(names, features["min"], features["max"], strict=False):
                plain = Column(name, numbers=written.of(name), missing=written.missing)
                column = kinds.get(name, plain)
                if column.kind == "number" and low is not None and high is not None:
                    _, lowest, highest = found.get(name, (column, low, high))
                    found[name] = column, min(low, lowest), max(high, highest)
    return found


def _options(session: Session, version_id: str) -> ReadOptions:
    """Query the options of the upload of the training data that rows are read with, too."""
    query = sa.select(DatasetRow.options).join(VersionRow, VersionRow.dataset_id == DatasetRow.id)
    options = session.scalars(query.where(VersionRow.id == version_id)).one()
    kept = {name: options[name] for name in _ROW_OPTIONS if options.get(name)}
    return ReadOptions.model_validate(kept)


def _trained_on(session: Session, version_id: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield manifest and algorithm of a version, its base, the base of its base, and so on."""
    query = sa.select(DatasetRow.manifest, VersionRow.algorithm, VersionRow.base_id).join(
        DatasetRow, VersionRow.dataset_id == DatasetRow.id
    )
    following: str | None = version_id
    while following is not None:
        manifest, algorithm, following = session.execute(
            query.where(VersionRow.id == following)
        ).one()
        assert manifest is not None  # a model was trained on it
        yield manifest, algorithm


class TrainingTask(NamedTuple):
    """What the manifest of a training dataset says of a task.

    Attributes
    ----------
    names
        Names of its columns; None without names.
    kinds
        Kinds of the columns of its dataset, by name; empty if all are numbers.
    """

    entry: Mapping[str, Any]
    names: tuple[str, ...] | None
    kinds: Mapping[str, Column]


def training_tasks(session: Session, version_id: str) -> dict[str, TrainingTask]:
    """Query what the manifests of a version and its bases say of each task that was trained."""
    found: dict[str, TrainingTask] = {}
    for manifest, _ in _trained_on(session, version_id):
        kinds = {column.name: column for column in columns_of_manifest(manifest) or ()}
        names = feature_names_by_task(manifest)
        for entry in manifest["tasks"]:
            task = TrainingTask(entry, names[entry["name"]], kinds)
            found.setdefault(entry["name"], task)
    return found
