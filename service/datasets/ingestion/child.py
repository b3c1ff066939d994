"""The process that reads untrusted bytes: ``python -m service.datasets.ingestion.child PARENT``.

It reads a task from each line of its input, carries it out in a child that it forks, and writes the
child's exit code and peak memory in bytes on a line. A task is JSON: the path of an upload, or of
datasets to combine, and those of the output files. A shortage is the number of its exit code,
since nothing can be written on a full disk. The processes have no access to the database or the
settings, the child's memory and CPU time are limited, and both die with PARENT, the process that
started them.
"""

import errno
import gc
import json
import os
import resource
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NoReturn

import pyarrow as pa

from service.datasets.canonical import read_tasks, read_unlabelled, write_tasks
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.progress import progress_to
from service.datasets.formats.registry import find_format
from service.datasets.formats.target_kinds import warn_of_codes
from service.datasets.ingestion.combination import combine
from service.datasets.ingestion.selected import SelectedDataset
from service.datasets.issues import Rejected, out_of_memory
from service.datasets.manifest import columns_of_manifest, ignored_of_manifest, warnings_of
from service.datasets.selection import Selection
from service.processes.lifetime import kill_with_parent
from service.storage.shortages import find_shortage

_PROGRESS_INTERVAL_S: Final = 0.5


def main() -> None:
    """Carry out the tasks, one after another."""
    kill_with_parent(int(sys.argv[1]))
    pa.array([])  # the first one imports pandas where it is installed
    gc.freeze()  # the imported modules stay shared with the children
    parent = os.getpid()
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            _carry_out(line, parent)
        _, status, usage = os.wait4(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)} {1024 * usage.ru_maxrss}\n")
        sys.stdout.flush()


def _carry_out(line: bytes, parent: int) -> NoReturn:
    """Write the learning tasks and manifest of a task, or its issues, and exit."""
    code = 1
    try:
        kill_with_parent(parent)
        task = json.loads(line)
        _redirect_output(task["log"])
        _limit_resources(task)
        Path(task["result"]).write_text(json.dumps(run(task), allow_nan=False))
        code = 0
    except BaseException as error:  # noqa: BLE001 - the interpreter of the parent must not go on
        shortage = find_shortage(error)
        if shortage is None:
            traceback.print_exc()
        else:
            code = shortage.number
    finally:
        with suppress(OSError):  # a full disk
            sys.stderr.flush()
        os._exit(code)


def _redirect_output(log: str) -> None:
    """Let this process print to a file, and read nothing: its streams are those of its parent."""
    for path, mode, stream in ((os.devnull, os.O_RDONLY, 0), (log, os.O_WRONLY | os.O_CREAT, 1)):
        file = os.open(path, mode, 0o600)
        os.dup2(file, stream)
        os.close(file)
    os.dup2(1, 2)


def _limit_resources(task: dict[str, Any]) -> None:
    memory, cpu = task["memory_bytes"], task["cpu_s"]
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))
    pa.set_cpu_count(task["n_threads"])  # a forked child starts its own threads
    # Arrow's own pool returns memory to the system and takes it back, for a fifth of the time
    pa.set_memory_pool(pa.system_memory_pool())


def run(task: dict[str, Any]) -> dict[str, Any]:
    """Return the manifest of an upload, or its issues."""
    try:
        return {"manifest": _read(task)}
    except Rejected as rejected:
        shortage = find_shortage(rejected)
        if shortage is not None and shortage.number != errno.ENOMEM:
            raise  # what seems to be a corrupt file is a full disk
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
        with progress_to(_ProgressFile(Path(task["progress"]))):
            parsed = find_format(task["media_type"]).read(Path(task["upload"]), options, limits)
        warns_of_codes = options.target_kind == "auto"  # an explicit target_kind needs no warning
    manifest = write_tasks(
        Path(task["content"]),
        parsed.tasks,
        columns=parsed.columns,
        unlabelled=parsed.unlabelled,
        n_threads=task["n_threads"],
    )
    codes = warn_of_codes(parsed.tasks) if warns_of_codes else []
    if parsed.ignored:
        manifest["ignored"] = sorted(parsed.ignored)
    if parsed.task_column is not None:
        manifest["task_column"] = parsed.task_column
    manifest["warnings"] = [*parsed.notes, *codes]
    manifest["target_warnings"] = codes
    return manifest


class _ProgressFile:
    """File with the share of the upload that has been parsed, written at most twice a second."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._written_s = 0.0

    def __call__(self, share: float) -> None:
        now = time.monotonic()
        if now - self._written_s >= _PROGRESS_INTERVAL_S:
            self._written_s = now
            self._path.write_text(f"{share:.6f}")


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
        has_labels="groups" in manifest or all(task.groups is None for task in tasks),
        unlabelled=read_unlabelled(Path(source["content"]), manifest),
    )
    return selected, bool(codes)


if __name__ == "__main__":
    main()
