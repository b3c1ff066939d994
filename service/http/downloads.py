"""Downloads of stored bytes, whole or in part (RFC 9110, section 14)."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from service.errors.problems import Problem
from service.http.preconditions import is_not_modified

#: One range of bytes. Several ranges in a request are ignored, as the standard allows.
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
#: Responses of a download in the OpenAPI document, besides 200.
DOWNLOADED: Final[dict[int | str, dict[str, Any]]] = {
    206: {"description": "The bytes that the header `Range` asks for."},
    304: {"description": "Not modified."},
}


def download(
    request: Request,
    read: Callable[[int], Iterator[bytes]],
    *,
    tag: str,
    size_bytes: int,
    media_type: str,
    file: str,
) -> Response:
    """Return the response with a file, or with the part of it that Range asks for.

    Parameters
    ----------
    read
        Yields the bytes from an offset to the end.
    tag
        Strong ETag of the bytes.
    file
        Name of the file for the caller.

    Raises
    ------
    Problem
        The range begins behind the end of the file.
    """
    if is_not_modified(request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    headers = {
        "ETag": tag,
        "Accept-Ranges": "bytes",
        "Content-Disposition": f'attachment; filename="{file}"',
    }
    start, stop, status = 0, size_bytes, 200
    if request.headers.get("if-range", tag) == tag:
        found = _range_of(request.headers.get("range", ""), size_bytes)
        if found is not None:
            start, stop = found
            status = 206
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size_bytes}"
    headers["Content-Length"] = str(stop - start)
    content = _first_bytes(read(start), stop - start)
    return StreamingResponse(content, status, headers=headers, media_type=media_type)


def _range_of(header: str, size_bytes: int) -> tuple[int, int] | None:
    """Return the start and the end of a range; None if there is no range that can be used."""
    match = _RANGE.fullmatch(header.strip().replace(" ", ""))
    if match is None or match[0] == "bytes=-":
        return None
    first, last = match.groups()
    if not first:
        start, stop = max(0, size_bytes - int(last)), size_bytes
    else:
        start, stop = int(first), min(int(last) + 1 if last else size_bytes, size_bytes)
        if last and int(last) < start:
            return None
    if start >= size_bytes:
        raise Problem(
            "range-not-satisfiable",
            f"the range '{header}' begins behind the end of the {size_bytes} bytes",
            headers={"Content-Range": f"bytes */{size_bytes}"},
        )
    return start, stop


def _first_bytes(chunks: Iterator[bytes], n_bytes: int) -> Iterator[bytes]:
    for chunk in chunks:
        yield chunk[:n_bytes]
        n_bytes -= len(chunk)
        if n_bytes <= 0:
            return
