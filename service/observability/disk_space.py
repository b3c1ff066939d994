"""Checks of the disks that the service writes to."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

_MIB: Final = 1024 * 1024
#: Free space below which a disk counts as full: no blobs are written to SQLite then. They have
#: chunks of 4 MiB, and its log has each of them once more.
FULL_BYTES: Final = 16 * _MIB


class DiskSpace:
    """Free space of the disks of some folders.

    Parameters
    ----------
    folders
        Folders by their contents, such as "the database"; health is public and names no paths.
    min_free_bytes
        Free space below which a disk gets a warning.
    """

    def __init__(self, folders: Mapping[str, Path], *, min_free_bytes: int) -> None:
        self._folders = folders
        self._min_free_bytes = min_free_bytes

    def error(self) -> str | None:
        """Return the message that a disk is full; None if all disks have space."""
        return self._describe(lambda free: free < FULL_BYTES, "nothing more can be stored")

    def warning(self) -> str | None:
        """Return the message that a disk will be full soon; None if no disk will, or one is."""
        return self._describe(
            lambda free: FULL_BYTES <= free < self._min_free_bytes,
            f"less than {self._min_free_bytes // _MIB} MiB (SIBLING_MIN_FREE_BYTES)",
        )

    def _describe(self, is_short: Callable[[int], bool], why: str) -> str | None:
        for name, folder in self._folders.items():
            free_bytes = shutil.disk_usage(folder).free
            if is_short(free_bytes):
                return f"the disk of {name} has {free_bytes // _MIB} MiB of free space: {why}"
        return None
