"""Resumable uploads of large files (tus protocol)."""

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence
from io import BufferedReader
from typing import Any, Final

import httpx

from sibling.client.errors import ServiceError, ServiceUnreachable, json_of
from sibling.client.http import Http, path
from sibling.client.progress import OnProgress

#: Size from which a file is uploaded in parts.
MIN_BYTES: Final = 32 * 1024 * 1024
PART_BYTES: Final = 8 * 1024 * 1024
#: Maximum number of consecutive attempts per request, and the pause after the first failure.
_MAX_ATTEMPTS: Final = 8
_FIRST_PAUSE_S: Final = 0.5
_MAX_PAUSE_S: Final = 20.0
TUS: Final = {"Tus-Resumable": "1.0.0"}
_OFFSET_MISMATCH: Final = "offset-mismatch"
_CHECKSUM_MISMATCH: Final = "checksum-mismatch"
_QUOTA_EXCEEDED: Final = "quota-exceeded"
_TRANSIENT: Final = frozenset({408, 429, 502, 503, 504})
_CHANGED: Final = "the file has changed during the upload; upload it again"


async def upload_resumably(
    http: Http,
    file: BufferedReader,
    media_type: str,
    query: Mapping[str, str | Sequence[str]],
    on_progress: OnProgress,
) -> str:
    """Upload a file, and return the id of its dataset.

    If an earlier upload of the same file was interrupted, even in another process, it is resumed.

    Parameters
    ----------
    query
        Name and options of the dataset.
    on_progress
        Called with the number of bytes sent so far, and the size of the file.

    Raises
    ------
    ServiceError
        The service refuses the upload.
    ServiceUnreachable
        The service cannot be reached for a minute.
    ValueError
        The file has changed during the upload.
    """
    size = os.fstat(file.fileno()).st_size
    sha256 = (await http.call(hashlib.file_digest, file, "sha256")).hexdigest()
    tag = hashlib.sha256(repr((sha256, media_type, dict(query))).encode()).hexdigest()
    values = {"filetype": media_type, "tag": tag, "sha256": sha256}
    upload = await _find(http, tag) or await _begin(http, size, query, values)
    url = path("v1", "uploads", upload["id"])
    offset, n_failed = int(upload["offset"]), 0
    while offset < size:
        on_progress(offset, size)
        try:
            if n_failed:
                offset = _offset(await http.send("HEAD", url, headers=TUS))
            if offset < size:
                file.seek(offset)
                data = file.read(PART_BYTES)
                if not data:  # the file is shorter now
                    await http.send("DELETE", url)
                    raise ValueError(_CHANGED)
                offset = await _send(http, url, data, offset)
            n_failed = 0
        except (ServiceUnreachable, ServiceError) as error:
            if isinstance(error, ServiceError) and error.code == _CHECKSUM_MISMATCH:
                raise ValueError(_CHANGED) from None
            n_failed += 1
            await _pause(http, n_failed, error)
    on_progress(size, size)
    return str((await http.get(url))["dataset_id"])


async def _find(http: Http, tag: str) -> dict[str, Any] | None:
    """Return the incomplete upload with this tag, or None."""
    uploads = http.pages("/v1/uploads")
    async for upload in uploads:
        if upload["tag"] == tag and upload["dataset_id"] is None:
            return upload
    return None


async def _begin(
    http: Http,
    size: int,
    query: Mapping[str, str | Sequence[str]],
    values: Mapping[str, str],
) -> dict[str, Any]:
    """Create an upload, and return it.

    A request that failed may have created it all the same, so it is looked for before another one.
    """
    n_failed = 0
    while True:
        try:
            return await _create(http, size, query, values)
        except (ServiceUnreachable, ServiceError) as error:
            n_failed += 1
            await _pause(http, n_failed, error)
        created = await _find(http, values["tag"])
        if created is not None:
            return created


async def _create(
    http: Http,
    size: int,
    query: Mapping[str, str | Sequence[str]],
    values: Mapping[str, str],
) -> dict[str, Any]:
    pairs = (f"{key} {base64.b64encode(v.encode()).decode()}" for key, v in values.items())
    headers = {**TUS, "Upload-Length": str(size), "Upload-Metadata": ",".join(pairs)}
    response = await http.send("POST", "/v1/uploads", retry=False, params=query, headers=headers)
    created: dict[str, Any] = json_of(response)
    return created


async def _send(http: Http, url: str, data: bytes, offset: int) -> int:
    """Send a part, and return the offset of the next one."""
    headers = {
        **TUS,
        "Upload-Offset": str(offset),
        "Content-Type": "application/offset+octet-stream",
    }
    response = await http.send("PATCH", url, retry=False, headers=headers, content=data)
    return _offset(response)


async def _pause(http: Http, n_failed: int, error: Exception) -> None:
    """Wait before another attempt; raise the error if there is no further attempt."""
    if n_failed == _MAX_ATTEMPTS or not _is_transient(error):
        raise error
    await http.sleep(min(_FIRST_PAUSE_S * 2 ** (n_failed - 1), _MAX_PAUSE_S))


def _offset(response: httpx.Response) -> int:
    return int(response.headers["upload-offset"])


def _is_transient(error: Exception) -> bool:
    """Return whether a retry from the offset that the service reports may succeed."""
    if not isinstance(error, ServiceError):
        return True
    is_transient = error.status in _TRANSIENT and error.code != _QUOTA_EXCEEDED
    return is_transient or error.code == _OFFSET_MISMATCH
