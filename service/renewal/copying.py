"""The labelled rows of a monitor as a dataset, for as long as it is combined and trained on."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import numpy as np
from sqlalchemy.orm import Session

from algorithms.interface.errors import AlgorithmError
from algorithms.interface.tasks import Task
from algorithms.wrappers.preparation.columns import Column
from algorithms.wrappers.preparation.recoding import recode
from service.access.quotas import check_upload
from service.access.stored_bytes import check_after_storing, lock_quotas
from service.datasets import store as dataset_store
from service.datasets.formats.parsed import Parsed
from service.datasets.ingestion.writing import write_parsed
from service.datasets.manifest import columns_of_manifest, feature_names_by_task
from service.datasets.number_writings import NumberWritings
from service.datasets.selection import MAX_ROWS
from service.http.idempotency import fingerprint
from service.monitoring.context import MonitorServices
from service.renewal.context import RenewalServices
from service.renewal.schemas import RenewalSpec
from service.renewal.store import Renewing
from service.renewal.values import Decoded, columns_for, decode
from service.storage.tables import DatasetRow, RenewalRow

MEDIA_TYPE: Final = "application/vnd.sibling.labelled-rows"
#: A task that the dataset does not have needs so many rows to become one; one that it has keeps
#: so many, so that the next version answers for it, too.
MIN_ROWS_OF_TASK: Final = 20


def why_not(manifest: Mapping[str, Any] | None) -> str | None:
    """Return why rows cannot be added to a dataset; None if they can."""
    if manifest is None:
        return "the dataset that the version was trained on is not there any more"
    for entry in manifest["tasks"]:
        if entry["input"] != "rows" or "n_stored" in entry:
            return "the dataset has no dense rows, which is all that monitors keep"
        if entry["target"] not in ("numbers", "classes"):
            return "the targets are neither numbers nor classes"
        if entry.get("has_groups"):
            return "the dataset has a column of groups, which new rows do not have"
    return None


def labelled_tasks(
    services: MonitorServices,
    renewing: Renewing,
    rows: Sequence[Any],
    manifest: Mapping[str, Any],
) -> Parsed:
    """Return labelled rows as tasks that can be combined with those of a dataset.

    Rows without all of their values, with a label of another kind, and few rows of a new task are
    left out.
    """
    entries = {entry["name"]: entry for entry in manifest["tasks"]}
    by_version: defaultdict[tuple[int, str, int], list[Any]] = defaultdict(list)
    for row in rows:
        by_version[row.version, row.task, len(row.values)].append(row)
    parts: defaultdict[str, list[tuple[Decoded, np.ndarray[Any, Any]]]] = defaultdict(list)
    for (version, task, n_bytes), group in by_version.items():
        served = services.inference.resolver.find_any(renewing.owner, renewing.name, version)
        if served is None:  # a deleted version: its columns are not known
            continue
        try:
            columns = columns_for(services, served, task, n_bytes // 8)
        except AlgorithmError:
            continue
        targets = _targets(group, entries.get(task, manifest["tasks"][0]))
        complete = [
            i
            for i, row in enumerate(group)
            if targets[i] is not None and not np.isinf(np.frombuffer(row.values, "<f8")).any()
        ]
        if complete and len(columns) == n_bytes // 8:
            y = np.array([targets[i] for i in complete])
            parts[task].append((decode(columns, [group[i] for i in complete]), y))
    return _parsed(parts, manifest)


def _targets(rows: Sequence[Any], entry: Mapping[str, Any]) -> list[float | int | str | None]:
    if entry["target"] == "numbers":
        return [_read(row.target, float) for row in rows]
    if all(isinstance(label, int) for label in entry["classes"]):
        return [_read(row.target, int) for row in rows]
    return [str(row.target) for row in rows]


def _read(label: Any, kind: type[int] | type[float]) -> int | float | None:
    """Return a number; None for a label of a version that predicted classes of other names."""
    try:
        return kind(label)
    except ValueError:
        return None


def _parsed(
    parts: Mapping[str, Sequence[tuple[Decoded, np.ndarray[Any, Any]]]],
    manifest: Mapping[str, Any],
) -> Parsed:
    names, entries = feature_names_by_task(manifest), {e["name"]: e for e in manifest["tasks"]}
    of_dataset = {column.name: column for column in columns_of_manifest(manifest) or ()}
    joint: dict[str, Column] = {}
    for decoded, _ in (part for of_task in parts.values() for part in of_task):
        for column in decoded.columns:
            known = joint.get(column.name, of_dataset.get(column.name, column))
            levels = tuple(dict.fromkeys(known.levels + column.levels))
            joint[column.name] = replace(known, levels=levels)
    tasks = []
    for task, of_task in parts.items():
        n_rows = sum(len(y) for _, y in of_task)
        if task not in entries and n_rows < MIN_ROWS_OF_TASK:
            continue
        first = [column.name for column in of_task[0][0].columns]
        wanted = [joint[name] for name in first]
        same = [(d, y) for d, y in of_task if [c.name for c in d.columns] == first]
        read = [(X, y) for X, y in ((_recoded(d, wanted, task), y) for d, y in same) if len(X)]
        if not read:
            continue
        X, y = (np.concatenate(part) for part in zip(*read, strict=True))
        has_weights = any(entry.get("has_weights") for entry in entries.values())
        tasks.append(
            Task.from_rows(
                task,
                X,
                y=y,
                feature_names=None if next(iter(names.values())) is None else first,
                weights=np.ones(len(y)) if has_weights else None,
                allows_missing=True,
            )
        )
    return Parsed.of(
        tasks,
        list(joint.values()),
        task_column=manifest.get("task_column"),
        numbers=NumberWritings.of_manifest(manifest),
    )


def _recoded(decoded: Decoded, wanted: Sequence[Column], task: str) -> np.ndarray[Any, Any]:
    """Return values as those of other columns; no rows if a version had columns of other kinds."""
    try:
        return recode(decoded.X, decoded.columns, wanted, task=task)
    except AlgorithmError:
        return decoded.X[:0]


def kept_rows(session: Session, row: RenewalRow) -> dict[str, list[int]] | None:
    """Return which rows of the dataset of a model are trained on again, by task; None for all."""
    base, new = (session.get(DatasetRow, id_) for id_ in (row.dataset_id, row.rows_id))
    if base is None or new is None:
        return None
    return rows_within(RenewalSpec.model_validate(row.rule), base, new, row.copied_at)


def rows_within(
    rule: RenewalSpec, base: DatasetRow, new: DatasetRow, moment: datetime
) -> dict[str, list[int]] | None:
    """Return the rows of a dataset that are within the bounds of a rule, by task; None for all.

    They are spread evenly over each task, since the order of rows may be that of their targets.

    Parameters
    ----------
    new
        Labelled rows that are added to it.
    """
    if rule.bounds == "new" or base.manifest is None or new.manifest is None:
        return None
    n_new = sum(entry["n_samples"] for entry in new.manifest["tasks"])
    sizes = {entry["name"]: entry["n_samples"] for entry in base.manifest["tasks"]}
    age = moment - base.created_at
    is_old = rule.max_age_days is not None and age > timedelta(days=rule.max_age_days)
    share = 0.0 if is_old else max(rule.max_rows - n_new, 0) / sum(sizes.values())
    if share >= 1:
        return None
    kept = {
        task: min(n, MAX_ROWS, max(MIN_ROWS_OF_TASK, int(share * n))) for task, n in sizes.items()
    }
    return {
        task: np.linspace(0, sizes[task] - 1, n).astype(int).tolist() for task, n in kept.items()
    }


@contextmanager
def written(services: RenewalServices, parsed: Parsed) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield a file with labelled rows, which is deleted at the end, and its manifest."""
    with services.datasets.ingester.scratch_folder() as folder:
        path = folder / "content"
        yield path, write_parsed(path, parsed)


def store_rows(
    services: RenewalServices,
    session: Session,
    renewing: Renewing,
    path: Path,
    manifest: dict[str, Any],
    *,
    options: dict[str, Any],
) -> DatasetRow:
    """Store a file with labelled rows as a dataset of the owner.

    Parameters
    ----------
    options
        Options of the dataset to which the rows are added.

    Raises
    ------
    Problem, StoredBytesExceeded
        A quota of the owner is full.
    """
    settings, owner = services.datasets.settings, renewing.owner
    lock_quotas(session, owner)
    check_upload(session, owner, settings, size_bytes=path.stat().st_size)
    blob = services.datasets.blobs.put_file(session, path)
    same = fingerprint(MEDIA_TYPE, renewing.row.monitor_id, str(renewing.row.attempt))
    new = dataset_store.NewDataset(owner, name_of(renewing), MEDIA_TYPE, options, same)
    row = dataset_store.create_ready(session, new, blob, manifest, blob)
    check_after_storing(session, owner, settings.max_stored_bytes)
    return row


def name_of(renewing: Renewing) -> str:
    """Return the name of the datasets of a training."""
    name = f"{renewing.name}@{renewing.monitor.alias}, renewal {renewing.row.attempt}"
    return name[-200:]
