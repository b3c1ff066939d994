"""Resumable uploads of large files (tus protocol)."""

import base64
import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Final

import httpx

from service.client.errors import ServiceError
from service.client.http import Http, path

#: Size from which a file is uploaded in parts.
MIN_BYTES: Final = 32 * 1024 * 1024
PART_BYTES: Final = 8 * 1024 * 1024
#: Maximum number of consecutive attempts per part, and the pause after the first failure.
_MAX_ATTEMPTS: Final = 8
_FIRST_PAUSE_S: Final = 0.5
_MAX_PAUSE_S: Final = 20.0
_HASHED_BYTES: Final = 1024 * 1024
_TUS: Final = {"Tus-Resumable": "1.0.0"}
_OFFSET_MISMATCH: Final = "offset-mismatch"

#: Called with the number of bytes received and the total number of bytes.
OnProgress = Callable[[int, int], None]


def upload_resumably(
    http: Http,
    file: BinaryIO,
    media_type: str,
    query: Mapping[str, str | Sequence[str]],
    on_progress: OnProgress,
) -> str:
    """Upload a file, and return the id of its dataset.

    If an earlier upload of the same file was interrupted, even in another process, it is resumed.

    Raises
    ------
    ServiceError
        The service refuses the upload.
    TransportError
        The service cannot be reached, after several attempts.
    """
    size = os.fstat(file.fileno()).st_size
    upload = _find(http, _tag(file, media_type, query))
    if upload is None:
        upload = _begin(http, size, media_type, query, _tag(file, media_type, query))
    url = path("v1", "uploads", upload["id"])
    offset, n_failed = int(upload["offset"]), 0
    while offset < size:
        on_progress(offset, size)
        file.seek(offset)
        try:
            offset, n_failed = _send(http, url, file.read(PART_BYTES), offset), 0
        except (httpx.TransportError, ServiceError) as error:
            n_failed += 1
            if n_failed == _MAX_ATTEMPTS or not _is_transient(error):
                raise
            time.sleep(min(_FIRST_PAUSE_S * 2 ** (n_failed - 1), _MAX_PAUSE_S))
            offset = int(http.send("HEAD", url, headers=_TUS).headers["upload-offset"])
    on_progress(size, size)
    return str(http.send("GET", url).json()["dataset_id"])


def _tag(file: BinaryIO, media_type: str, query: Mapping[str, str | Sequence[str]]) -> str:
    """Return a text that is the same for the same file and options."""
    stat = os.fstat(file.fileno())
    file.seek(0)
    parts = (file.read(_HASHED_BYTES), stat.st_size, stat.st_mtime_ns, media_type, dict(query))
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _find(http: Http, tag: str) -> dict[str, Any] | None:
    """Return the incomplete upload with this tag, or None."""
    uploads = http.pages("/v1/uploads")
    return next((u for u in uploads if u["tag"] == tag and u["dataset_id"] is None), None)


def _begin(
    http: Http,
    size: int,
    media_type: str,
    query: Mapping[str, str | Sequence[str]],
    tag: str,
) -> dict[str, Any]:
    values = {"filetype": media_type, "tag": tag}
    pairs = (f"{key} {base64.b64encode(v.encode()).decode()}" for key, v in values.items())
    headers = {**_TUS, "Upload-Length": str(size), "Upload-Metadata": ",".join(pairs)}
    begun: dict[str, Any] = http.send("POST", "/v1/uploads", params=query, headers=headers).json()
    return begun


def _send(http: Http, url: str, data: bytes, offset: int) -> int:
    """Send a part, and return the offset of the next one."""
    headers = {
        **_TUS,
        "Upload-Offset": str(offset),
        "Content-Type": "application/offset+octet-stream",
    }
    response = http.send("PATCH", url, retry=False, headers=headers, content=data)
    return int(response.headers["upload-offset"])


def _is_transient(error: Exception) -> bool:
    """Return whether a retry from the offset that the service reports may succeed."""
    if not isinstance(error, ServiceError):
        return True
    return error.code == _OFFSET_MISMATCH or error.status in (429, 503)
