"""Reader of .npz archives; the zip directory is checked before any member is decompressed."""

import zipfile
import zlib
from collections.abc import Collection
from itertools import compress
from pathlib import Path
from typing import IO, Any, Final

from numpy.typing import NDArray

from service.datasets.formats.npy_member import read_member
from service.datasets.formats.options import Limits
from service.datasets.formats.progress import report_progress
from service.datasets.issues import Rejected, ValidationIssues, reject

_COMPRESSIONS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED: Final = 0x1
#: ``X`` or the six parts of a sparse one, ``y``, ``groups``, ``sample_weight``, ``feature_names``.
_MAX_ARRAYS_PER_TASK: Final = 10
_SUFFIX: Final = ".npy"

Arrays = dict[str, NDArray[Any]]


def read_archive(
    file: Path | IO[bytes], limits: Limits, *, size: int, chosen: Collection[str] = ()
) -> Arrays:
    """Return the arrays of an .npz file by name, in the order of its directory.

    Parameters
    ----------
    size
        Size of the file in bytes.
    chosen
        Last parts of the names of the arrays to read, before a point. Default: all.

    Raises
    ------
    Rejected
        The archive is corrupt, too large when decompressed, or has members that are not arrays.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            _check_directory(members, size, limits)
            is_chosen = [_stem(member.filename) in chosen for member in members]
            if any(is_chosen):
                members = [*compress(members, is_chosen)]
            return _read_members(archive, members, limits)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as error:
        reject(
            "corrupt-archive", f"the file is not a complete .npz archive: {error}; send it again"
        )
    except (ValueError, RuntimeError, IndexError, OverflowError) as error:
        # zipfile raises these on malformed directories
        reject("corrupt-archive", f"the directory of the archive is corrupt: {error}")


def _stem(file_name: str) -> str:
    return file_name.removesuffix(_SUFFIX).rpartition("/")[2].partition(".")[0]


def check_archive_size(path: Path, limits: Limits, *, remedy: str) -> None:
    """Raise Rejected if a zip file is corrupt, or too large when decompressed.

    Parameters
    ----------
    remedy
        Advice if the compression ratio is too high.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            _check_size(archive.infolist(), path.stat().st_size, limits, remedy)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        reject("corrupt-file", f"the file is not a complete zip archive: {error}")


def _read_members(
    archive: zipfile.ZipFile, members: list[zipfile.ZipInfo], limits: Limits
) -> Arrays:
    issues = ValidationIssues()
    arrays: Arrays = {}
    n_bytes, total = 0, max(1, sum(member.compress_size for member in members))
    for member in members:
        n_bytes += member.compress_size
        name = member.filename.removesuffix(_SUFFIX)
        try:
            with archive.open(member) as file:
                arrays[name] = read_member(file, name, member.file_size, limits)
        except Rejected as rejected:
            issues.extend(rejected)
        report_progress(n_bytes / total)
    issues.check()
    return arrays


def _check_directory(members: list[zipfile.ZipInfo], size: int, limits: Limits) -> None:
    max_members = _MAX_ARRAYS_PER_TASK * limits.tasks + 1
    if len(members) > max_members:
        detail = f"the archive has {len(members)} arrays, the maximum is {max_members}"
        reject("too-many-tasks", f"{detail}; upload fewer tasks")
    _check_size(members, size, limits, "upload them uncompressed (np.savez)")
    issues = ValidationIssues()
    seen: set[str] = set()
    for member in members:
        if member.filename in seen:
            issues.add("duplicate-array", f"two arrays are named '{member.filename}'")
        seen.add(member.filename)
        _check_member(member, issues)
    issues.check()


def _check_size(members: list[zipfile.ZipInfo], size: int, limits: Limits, remedy: str) -> None:
    """Raise Rejected if the members are too large when decompressed."""
    n_bytes = sum(member.file_size for member in members)
    limits.check_decompressed(n_bytes, size, what="the decompressed contents", remedy=remedy)


def _check_member(member: zipfile.ZipInfo, issues: ValidationIssues) -> None:
    name = member.filename
    parts = name.removesuffix(_SUFFIX).split("/")
    if not name.endswith(_SUFFIX):
        issues.add("unexpected-array", f"'{name}' is not an array (.npy); remove it")
    elif "\\" in name or any(part in ("", ".", "..") for part in parts):
        task = "/".join(parts[:-1])
        detail = f"'{name}' is a file path, not the name of an array; rename the task '{task}'"
        issues.add("unexpected-array", detail)
    if member.flag_bits & _ENCRYPTED:
        issues.add("corrupt-archive", f"'{name}' is encrypted; upload it unencrypted")
    elif member.compress_type not in _COMPRESSIONS:
        detail = f"'{name}' uses compression method {member.compress_type}"
        issues.add("corrupt-archive", f"{detail}; use np.savez or np.savez_compressed")
