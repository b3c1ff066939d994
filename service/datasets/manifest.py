"""Content of manifests, which describe datasets without their arrays."""

from collections.abc import Mapping
from typing import Any

from algorithms.interface.classes import complete_classes
from algorithms.interface.header import DEFAULT_TASK_COLUMN
from algorithms.interface.tasks import TaskSummary
from algorithms.wrappers.preparation.columns import Column


def feature_names_by_task(manifest: Mapping[str, Any]) -> dict[str, tuple[str, ...] | None]:
    """Return the column names of each task, or None for tasks without names."""
    shared = manifest["feature_names"]
    common = None if shared is None else tuple(shared)
    return {
        entry["name"]: tuple(entry["feature_names"]) if "feature_names" in entry else common
        for entry in manifest["tasks"]
    }


def count_unlabelled(manifest: Mapping[str, Any]) -> int:
    """Return the number of rows without a target, over all tasks that have targets."""
    return sum(entry.get("n_unlabelled", 0) for entry in manifest["tasks"])


def columns_of_manifest(manifest: Mapping[str, Any]) -> tuple[Column, ...] | None:
    """Return the kinds of the columns; None if all are numbers without missing values."""
    columns = manifest.get("columns")
    return None if columns is None else tuple(Column.from_json(column) for column in columns)


def task_column_of_manifest(manifest: Mapping[str, Any]) -> str:
    """Return the name of the column with the task of each row."""
    return str(manifest.get("task_column", DEFAULT_TASK_COLUMN))


def ignored_of_manifest(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Return the columns of an uploaded table that are not columns of its tasks."""
    return frozenset(manifest.get("ignored", ()))


def empty_of_manifest(manifest: Mapping[str, Any]) -> frozenset[str]:
    """Return the columns of an uploaded table that were left out since they have no value."""
    return frozenset(manifest.get("empty", ()))


def warnings_of(manifest: Mapping[str, Any], *, uses_numbers: bool = True) -> list[str]:
    """Return the warnings about a dataset; older manifests have none.

    Parameters
    ----------
    uses_numbers
        Whether targets that are numbers are used as such; else warnings about them are left out.
    """
    warnings: list[str] = list(manifest.get("warnings", ()))
    of_targets = () if uses_numbers else manifest.get("target_warnings", warnings)
    return [warning for warning in warnings if warning not in of_targets]


def summaries(
    manifest: Mapping[str, Any], *, with_unlabelled: bool = False
) -> tuple[TaskSummary, ...]:
    """Return summaries of the tasks, to check whether an algorithm supports them.

    Parameters
    ----------
    with_unlabelled
        Whether rows without a target count, as in :func:`service.datasets.canonical.read_all_rows`.
    """
    names = feature_names_by_task(manifest)
    entries = manifest["tasks"]
    classes = complete_classes(
        [tuple(entry.get("classes", ())) for entry in entries],
        [entry["n_samples"] for entry in entries],
    )
    n_more = {entry["name"]: with_unlabelled * entry.get("n_unlabelled", 0) for entry in entries}
    return tuple(
        TaskSummary(
            name=entry["name"],
            n_samples=entry["n_samples"] + n_more[entry["name"]],
            n_features=entry["n_features"],
            input=entry["input"],
            target=entry["target"],
            n_classes=len(own_classes),
            feature_names=names[entry["name"]],
            rows_hash=entry.get("rows_hash"),
            n_divisible=entry.get("n_divisible"),
            # counted among rows with targets only
            n_units=None if n_more[entry["name"]] else entry.get("n_units"),
            n_stored=entry.get("n_stored"),
            has_weights=entry.get("has_weights", False),
            n_shared_units=manifest.get("n_units"),
            class_counts=entry.get("target_summary", {}).get("counts"),
            classes=own_classes or None,
        )
        for entry, own_classes in zip(entries, classes, strict=True)
    )
