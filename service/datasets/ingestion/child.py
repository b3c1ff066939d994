"""The process that reads untrusted bytes: ``python -m service.datasets.ingestion.child TASK``.

TASK is a JSON file that names the upload and the output files. The process has no access to the
database or the settings, its memory and CPU time are limited, and it dies with its parent.
"""

import json
import resource
import sys
from pathlib import Path
from typing import Any

from service.datasets.canonical import write_tasks
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.registry import find_format
from service.datasets.formats.target_kinds import warn_of_codes
from service.datasets.issues import Rejected, out_of_memory
from service.processes import kill_with_parent


def main() -> None:
    """Read the upload, and write its tasks and manifest or its issues."""
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
    format_ = find_format(task["media_type"])
    options = ReadOptions.model_validate(task["options"])
    limits = Limits.model_validate(task["limits"])
    parsed = format_.read(Path(task["upload"]), options, limits)
    manifest = write_tasks(Path(task["content"]), parsed.tasks, columns=parsed.columns)
    # an explicit target_kind needs no warning
    codes = warn_of_codes(parsed.tasks) if options.target_kind == "auto" else []
    if parsed.ignored:
        manifest["ignored"] = sorted(parsed.ignored)
    manifest["warnings"] = [*parsed.notes, *codes]
    manifest["target_warnings"] = codes
    return manifest


if __name__ == "__main__":
    main()
