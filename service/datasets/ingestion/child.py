"""The process that reads untrusted bytes: ``python -m service.datasets.ingestion.child TASK``.

TASK is a JSON file that names the upload, or datasets to combine, and the output files. The process
has no access to the database or the settings, its memory and CPU time are limited, and it dies with
its parent.
"""

import json
import resource
import sys
from pathlib import Path
from typing import Any

from service.datasets.canonical import (
    columns_of_manifest,
    ignored_of_manifest,
    read_tasks,
    warnings_of,
    write_tasks,
)
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.registry import find_format
from service.datasets.formats.target_kinds import warn_of_codes
from service.datasets.ingestion.combination import SelectedDataset, combine
from service.datasets.issues import Rejected, out_of_memory
from service.datasets.selection import Selection
from service.processes import kill_with_parent


def main() -> None:
    """Read the task, and write its learning tasks and manifest or its issues."""
    task = json.loads(Path(sys.argv[1]).read_text())
    _limit_resources(task)
    Path(task["result"]).write_text(json.dumps(run(task), allow_nan=False))


def _limit_resources(task: dict[str, Any]) -> None:
    kill_with_parent(task["parent"])
    memory, cpu = task["memory_bytes"], task["cpu_s"]
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))


def run(task: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of an upload, or its issues."""
    try:
        return {"manifest": _read(task)}
    except Rejected as rejected:
        return {"issues": [issue.to_json() for issue in rejected.issues]}
    except MemoryError:
        return {"issues": [out_of_memory(task["memory_bytes"]).to_json()]}


def _read(task: dict[str, Any]) -> dict[str, Any]:
    limits = Limits.model_validate(task["limits"])
    if task["sources"]:
        selected = [_selected(source) for source in task["sources"]]
        parsed = combine([one for one, _ in selected], limits)
        warns_of_codes = any(has_codes for _, has_codes in selected)
    else:
        options = ReadOptions.model_validate(task["options"])
        parsed = find_format(task["media_type"]).read(Path(task["upload"]), options, limits)
        warns_of_codes = options.target_kind == "auto"  # an explicit target_kind needs no warning
    manifest = write_tasks(Path(task["content"]), parsed.tasks, columns=parsed.columns)
    codes = warn_of_codes(parsed.tasks) if warns_of_codes else []
    if parsed.ignored:
        manifest["ignored"] = sorted(parsed.ignored)
    manifest["warnings"] = [*parsed.notes, *codes]
    manifest["target_warnings"] = codes
    return manifest


def _selected(source: dict[str, Any]) -> tuple[SelectedDataset, bool]:
    """Return a stored dataset with its selection, and whether its targets may be class codes."""
    manifest = source["manifest"]
    tasks = read_tasks(Path(source["content"]), manifest)
    codes = manifest.get("target_warnings", [])
    selected = SelectedDataset(
        tasks,
        Selection.model_validate(source["selection"], strict=False),
        columns_of_manifest(manifest),
        notes=tuple(note for note in warnings_of(manifest) if note not in codes),
        ignored=tuple(ignored_of_manifest(manifest)),
        has_labels="groups" in manifest or all(task.groups is None for task in tasks),
    )
    return selected, bool(codes)


if __name__ == "__main__":
    main()
