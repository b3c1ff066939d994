"""Files that are complete under their name, whatever ends the process that writes them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

#: Ending of the names of files that are being written.
PARTIAL = ".part"
#: Letters of a name that the name of its part begins with: a name has at most 255 bytes.
_MAX_NAME_START = 40


@contextmanager
def replaced_file(path: Path, *, mode: int = 0o666, is_synced: bool = True) -> Iterator[Path]:
    """Yield an empty file beside ``path``, to be written and closed in the block; move it there.

    ``path`` has its old contents until the new ones are on the disk. A name is often on the disk
    before the contents: after a power failure, or on a full disk, the file would be empty. A pipe
    or a device, such as ``/dev/null``, is not replaced: it is what is yielded.

    Parameters
    ----------
    mode
        Permissions of the file, which the umask of the process reduces.
    is_synced
        Whether to wait for the disk; not for a file that another process reads at once, and that
        nobody needs after a restart.

    Raises
    ------
    OSError
        The file cannot be written, for example because the disk is full. No part of it is left.
    """
    if path.exists() and not path.is_file():
        yield path
        return
    start = path.name[:_MAX_NAME_START]
    partial = path.with_name(f"{start}.{uuid4().hex}{PARTIAL}")
    try:
        partial.touch(mode, exist_ok=False)
        yield partial
        if is_synced:
            with partial.open("rb") as file:
                os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
