"""Temporary folders of processes; other processes remove the folders of dead ones."""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path


def make_scratch(parent: Path) -> Path:
    """Make a folder in ``parent`` for this process, and remove folders of dead processes.

    A process that is killed cannot delete its files, such as checkpoints. The kernel holds the lock
    on a folder exactly as long as its process lives, even if it is frozen or in another container;
    a pid would not show that.
    """
    parent.mkdir(parents=True, exist_ok=True)
    guard = os.open(parent, os.O_RDONLY)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX)  # so that no folder is seen before it is locked
        _sweep(parent)
        scratch = Path(tempfile.mkdtemp(dir=parent))
        fcntl.flock(
            os.open(scratch, os.O_RDONLY), fcntl.LOCK_EX
        )  # stays open until the process ends
    finally:
        os.close(guard)
    return scratch


def sweep_scratch(parent: Path) -> None:
    """Remove the folders of dead processes in ``parent``, unless another process does that now."""
    guard = os.open(parent, os.O_RDONLY)
    try:
        fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _sweep(parent)
    except BlockingIOError:
        pass
    finally:
        os.close(guard)


def _sweep(parent: Path) -> None:
    for folder in parent.iterdir():
        _remove_if_abandoned(folder)


def _remove_if_abandoned(folder: Path) -> None:
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except PermissionError:  # of another user
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return
    else:
        shutil.rmtree(folder, ignore_errors=True)
    finally:
        os.close(descriptor)
