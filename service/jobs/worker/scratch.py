"""A folder for the files of one process, which whoever comes later removes once it is dead."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path


def make_scratch(parent: Path) -> Path:
    """Return a new folder in ``parent`` for this process, and remove those of dead ones.

    A process that is killed cannot tidy up: a worker killed in the middle of a job would leave its
    checkpoint behind for ever. The kernel keeps the lock just as long as the process lives, frozen
    or not, in whatever container; a pid would not tell.
    """
    parent.mkdir(parents=True, exist_ok=True)
    guard = os.open(parent, os.O_RDONLY)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)  # nobody finds a folder between its making and its lock
        for folder in parent.iterdir():
            _remove_if_abandoned(folder)
        own = Path(tempfile.mkdtemp(dir=parent))
        fcntl.flock(os.open(own, os.O_RDONLY), fcntl.LOCK_EX)  # open until the process ends
    finally:
        os.close(guard)
    return own


def _remove_if_abandoned(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
