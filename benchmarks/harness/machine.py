"""The machine and the versions that a run is stored with; neither host name nor path."""

import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Final

import psutil

from benchmarks.harness.results import Machine

_LIBRARIES: Final = ("sibling", "numpy", "scipy", "numba", "scikit-learn", "pyarrow")
_ROOT: Final = Path(__file__).parents[2]


def machine() -> Machine:
    """Return this machine."""
    return Machine(
        processor=_processor(),
        n_cores=len(os.sched_getaffinity(0)),
        memory_gib=round(psutil.virtual_memory().total / 2**30),
        load=round(os.getloadavg()[0], 1),
    )


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that compute."""
    found = {name: metadata.version(name) for name in _LIBRARIES}
    return {"python": platform.python_version(), **found}


def commit() -> str | None:
    """Return the short hash of the commit that is checked out; None outside a repository."""
    command = ["git", "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
