"""The process that reads untrusted bytes: ``python -m service.datasets.ingestion.child ORDER``.

ORDER is a JSON file that names the upload and where to put the result. The process knows no
database and no settings, has bounded memory and time, and dies with its parent.
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
from service.processes import die_with


def main() -> None:
    """Read the upload; write its tasks and manifest, or the issues."""
    order = json.loads(Path(sys.argv[1]).read_text())
    _confine(order)
    answer = _answer(order)
    Path(order["answer"]).write_text(json.dumps(answer, allow_nan=False))


def _confine(order: dict[str, Any]) -> None:
    die_with(order["parent"])
    memory, cpu = order["memory_bytes"], order["cpu_s"]
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))


def _answer(order: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"manifest": _read(order)}
    except Rejected as rejected:
        return {"issues": [issue.to_json() for issue in rejected.issues]}
    except MemoryError:
        return {"issues": [out_of_memory(order["memory_bytes"]).to_json()]}


def _read(order: dict[str, Any]) -> dict[str, Any]:
    format_ = find_format(order["media_type"])
    options = ReadOptions.model_validate(order["options"])
    limits = Limits.model_validate(order["limits"])
    tasks = format_.parse(Path(order["upload"]), options, limits)
    manifest = write_tasks(Path(order["content"]), tasks)
    # who says what the targets are needs no warning
    manifest["warnings"] = warn_of_codes(tasks) if options.target_kind == "auto" else []
    return manifest


if __name__ == "__main__":
    main()
