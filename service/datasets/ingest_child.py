"""The process that reads untrusted bytes: ``python -m service.datasets.ingest_child ORDER``.

ORDER is a JSON file that names the upload and where to put the result. The process has no
database and no network to use, a bounded memory, and dies with its parent.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from service.datasets.canonical import write_tasks
from service.datasets.complaints import Complaint, Rejected
from service.datasets.formats import find_format
from service.datasets.options import Limits, ReadOptions

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Read the upload; write its tasks and manifest, or the complaints."""
    order = json.loads(Path(sys.argv[1]).read_text())
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != order["parent"]:
        sys.exit(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (order["memory_bytes"], order["memory_bytes"]))
    Path(order["answer"]).write_text(json.dumps(_answer(order)))


def _answer(order: dict[str, Any]) -> dict[str, Any]:
    try:
        return {"manifest": _read(order)}
    except Rejected as rejected:
        return {"complaints": [complaint.to_json() for complaint in rejected.complaints]}
    except MemoryError:
        limit = order["memory_bytes"] // 2**20
        detail = f"reading the upload needs more than {limit} MiB of memory, the limit"
        return {"complaints": [Complaint(detail).to_json()]}


def _read(order: dict[str, Any]) -> dict[str, Any]:
    format_ = find_format(order["media_type"])
    assert format_ is not None
    options = ReadOptions.model_validate(order["options"])
    limits = Limits.model_validate(order["limits"])
    return write_tasks(
        Path(order["content"]), format_.parse(Path(order["upload"]), options, limits)
    )


if __name__ == "__main__":
    main()
