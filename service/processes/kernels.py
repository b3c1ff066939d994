"""Whether the numba kernels are compiled in their cache on disk, for this code and processor.

A process must not compute with kernels that it has compiled itself: until they are loaded from the
cache, they may use another copy of a function that several kernels share, and differ in the last
bit; equal jobs would then give different models. So servers and workers let another process compile
them when they start, if set-up has not done it.
"""

import fcntl
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Final

from service.observability.logs import log

_ROOT: Final = Path(__file__).parents[2]
#: Files with kernels.
_SOURCES: Final = (
    "algorithms/numerics/*.py",
    "algorithms/numerics/kernels/*.py",
    "service/inference/formats/*.py",
)
_STAMP: Final = "sibling-kernels"
#: Lines of /proc/cpuinfo that decide which instructions the compiler may use.
_PROCESSOR: Final = ("model name", "flags", "Features")


def is_compiled() -> bool:
    """Return whether the cache has all kernels."""
    return _is_stamped(_fingerprint())


def ensure_compiled() -> None:
    """Compile all kernels unless the cache has them, in processes that end with this one."""
    expected = _fingerprint()
    if _is_stamped(expected):
        return
    with _lock():
        if not _is_stamped(expected):  # else another process has done it meanwhile
            log.info("kernels.compiling", why="this code has not been compiled on this processor")
            command = [sys.executable, "-P", "-m", "service.operations.warm", str(os.getpid())]
            subprocess.run(command, check=False)  # noqa: S603 - our own interpreter and module


def set_compiled() -> None:
    """Note that the cache has all kernels."""
    for folder in _folders():
        with suppress(OSError):  # the next one may be writable
            folder.mkdir(parents=True, exist_ok=True)
            (folder / _STAMP).write_text(_fingerprint())
            return


def _folders() -> list[Path]:
    """Return the folders of the stamp: beside the cache, or else in the home directory."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    cache = Path(chosen) if chosen else _ROOT / "algorithms" / "numerics" / "__pycache__"
    return [cache, Path.home() / ".cache" / "sibling"]


def _is_stamped(expected: str) -> bool:
    """Return whether a stamp is as expected; a read-only one may be of other code."""
    for folder in _folders():
        with suppress(OSError):
            if (folder / _STAMP).read_text() == expected:
                return True
    return False


def _fingerprint() -> str:
    """Return a hash of all that the compiled code depends on: sources, versions, processor."""
    parts = [str(_ROOT), platform.python_version(), version("numba"), version("numpy")]
    for pattern in _SOURCES:
        for path in sorted(_ROOT.glob(pattern)):
            state = path.stat()
            parts.append(f"{path.name} {state.st_size} {int(state.st_mtime)}")
    parts += [platform.machine(), *_processor()]
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def _processor() -> list[str]:
    """Return the properties of the processors; none where the system does not list them."""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return sorted({line for line in lines if line.startswith(_PROCESSOR)})
    return []


@contextmanager
def _lock() -> Iterator[None]:
    """Let one process at a time compile; where no file can be written, all do."""
    with ExitStack() as stack:
        with suppress(OSError):
            folder = _folders()[-1]
            folder.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context((folder / f"{_STAMP}.lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
