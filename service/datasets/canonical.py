"""The one form in which datasets are kept: a safetensors file and a manifest."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.artifact import read_arrays, write_arrays
from algorithms.interface.tasks import Task, TaskSet, TaskSummary

FORMAT: Final = "sibling-dataset/1"
#: Summaries of features are left out of the manifest beyond so many of them in all tasks.
_MAX_SUMMARISED: Final = 20_000


def write_tasks(path: Path, tasks: Sequence[Task]) -> dict[str, Any]:
    """Write tasks to a file; give their manifest."""
    arrays: dict[str, NDArray[Any]] = {}
    entries = []
    n_summarised = sum(task.n_features for task in tasks)
    for task in tasks:
        arrays[f"{task.name}/X"] = task.X
        entry = _entry(task)
        if task.y is not None and task.target == "classes":
            classes, arrays[f"{task.name}/y"] = np.unique(task.y, return_inverse=True)
            entry["classes"] = classes.tolist()
        elif task.y is not None:
            arrays[f"{task.name}/y"] = task.y
        if n_summarised <= _MAX_SUMMARISED and task.input == "rows":
            entry["features"] = _summarise(task.X)
        entries.append(entry)
    write_arrays(path, arrays, header={"format": FORMAT})
    names = {task.feature_names for task in tasks}
    shared = next(iter(names)) if len(names) == 1 else None
    return {
        "format": FORMAT,
        "tasks": entries,
        "feature_names": None if shared is None else list(shared),
    }


def read_tasks(path: Path, manifest: Mapping[str, Any]) -> TaskSet:
    """Give the tasks that :func:`write_tasks` wrote."""
    arrays, _ = read_arrays(path)
    names = manifest["feature_names"]
    feature_names = None if names is None else tuple(names)
    tasks = []
    for entry in manifest["tasks"]:
        y = arrays.get(f"{entry['name']}/y")
        if entry["target"] == "classes":
            y = np.array(entry["classes"])[y]
        X = arrays[f"{entry['name']}/X"]
        tasks.append(Task(entry["name"], X, entry["input"], y, feature_names))
    return TaskSet(tuple(tasks))


def summaries(manifest: Mapping[str, Any]) -> tuple[TaskSummary, ...]:
    """Give the shapes of the tasks, which tell whether an algorithm fits them."""
    return tuple(
        TaskSummary(
            name=entry["name"],
            n_samples=entry["n_samples"],
            n_features=entry["n_features"],
            input=entry["input"],
            target=entry["target"],
            n_classes=len(entry.get("classes", ())),
        )
        for entry in manifest["tasks"]
    )


def _entry(task: Task) -> dict[str, Any]:
    return {
        "name": task.name,
        "n_samples": task.n_samples,
        "n_features": task.n_features,
        "input": task.input,
        "target": task.target,
    }


def _summarise(X: NDArray[Any]) -> dict[str, list[float]]:
    statistics = {"min": X.min(0), "max": X.max(0), "mean": X.mean(0), "std": X.std(0)}
    return {name: values.tolist() for name, values in statistics.items()}
