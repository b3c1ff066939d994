"""The process that reads untrusted bytes, each upload in a fork.

A task is JSON with the path of an upload, or of datasets to combine, and the path of the file to
write. The processes have no access to the database or the settings.
"""

import errno
import gc
import time
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from service.datasets.canonical import read_tasks, read_unlabelled
from service.datasets.formats.inspection import inspect_tasks
from service.datasets.formats.options import InspectOptions, Limits, ReadOptions
from service.datasets.formats.progress import progress_to
from service.datasets.formats.registry import find_format
from service.datasets.formats.target_kinds import warn_of_codes
from service.datasets.ingestion.combination import combine
from service.datasets.ingestion.selected import SelectedDataset
from service.datasets.ingestion.writing import write_parsed
from service.datasets.issues import Rejected, out_of_memory
from service.datasets.manifest import columns_of_manifest, ignored_of_manifest, warnings_of
from service.datasets.number_writings import NumberWritings
from service.datasets.selection import Selection
from service.processes.requests import connect, in_fork, serve
from service.processes.wire import Wire
from service.storage.shortages import find_shortage

_PROGRESS_INTERVAL_S: Final = 0.5


def main() -> None:
    """Read the uploads of the supervisor."""
    wire = connect()
    pa.array([])  # the first one imports pandas where it is installed
    gc.freeze()  # the imported modules stay shared with the forks
    serve(wire, in_fork(_run))


def _run(task: dict[str, Any], wire: Wire) -> dict[str, Any]:
    """Return the result of a task, or the shortage that ended it."""
    pa.set_cpu_count(task["n_threads"])  # a fork starts its own threads
    # Arrow's own pool returns memory to the system and takes it back, for a fifth of the time
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        with progress_to(_Progress(wire)):
            return {"type": "read", "result": run(task)}
    except Exception as error:
        shortage = find_shortage(error)
        if shortage is None:
            raise
        return {"type": "postponed", "number": shortage.number}


def run(task: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of an upload, or what it has if it is only looked at, or its issues."""
    try:
        return {"inspection": _inspect(task)} if task["inspects"] else {"manifest": _read(task)}
    except MemoryError:
        return {"issues": [out_of_memory(task["memory_bytes"]).to_json()]}
    except Rejected as rejected:
        shortage = find_shortage(rejected)
        if shortage is not None and shortage.number != errno.ENOMEM:
            raise  # the file seems corrupt, but the disk is full
        return {"issues": [issue.to_json() for issue in rejected.issues]}


def _read(task: dict[str, Any]) -> dict[str, Any]:
    limits = Limits.model_validate(task["limits"])
    if task["sources"]:
        selected = [_selected(source) for source in task["sources"]]
        parsed = combine([dataset for dataset, _ in selected], limits)
        warns_of_codes = any(has_codes for _, has_codes in selected)
    else:
        options = ReadOptions.model_validate(task["options"])
        parsed = find_format(task["media_type"]).read(Path(task["upload"]), options, limits)
        warns_of_codes = options.target_kind == "auto"  # an explicit target_kind needs no warning
    codes = warn_of_codes(parsed.tasks) if warns_of_codes else []
    return write_parsed(Path(task["content"]), parsed, codes, n_threads=task["n_threads"])


def _inspect(task: dict[str, Any]) -> dict[str, Any]:
    options = InspectOptions.model_validate(task["options"])
    format_, limits = find_format(task["media_type"]), Limits.model_validate(task["limits"])
    parsed = format_.read(Path(task["upload"]), options, limits)
    found = parsed.inspection or inspect_tasks(parsed.tasks)
    return {"format": format_.title, **found, "notes": list(parsed.notes)}


class _Progress:
    """Messages with the share of the upload that has been parsed, at most two a second."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._sent_s = 0.0

    def __call__(self, share: float) -> None:
        now = time.monotonic()
        if now - self._sent_s >= _PROGRESS_INTERVAL_S:
            self._sent_s = now
            self._wire.send({"type": "progress", "progress": share})


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
        task_column=manifest.get("task_column"),
        numbers=NumberWritings.of_manifest(manifest),
        has_labels="groups" in manifest or all(task.groups is None for task in tasks),
        unlabelled=read_unlabelled(Path(source["content"]), manifest),
    )
    return selected, bool(codes)


if __name__ == "__main__":
    main()
