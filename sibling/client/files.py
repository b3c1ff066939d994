"""Files with rows for a model, whose format is known by their first bytes."""

import codecs
import gzip
import io
import zlib
from typing import Any, Final

import numpy as np
import orjson
from numpy.typing import NDArray

_CSV: Final = "text/csv"
_JSON: Final = "application/json"
_LINES: Final = "application/x-ndjson"
_NPZ: Final = "application/x-npz"
_SAFETENSORS: Final = "application/vnd.safetensors"
#: Media types of files of rows, by their first bytes.
_MEDIA_TYPES: Final = {
    b"PAR1": "application/vnd.apache.parquet",
    b"\xff\xff\xff\xff": "application/vnd.apache.arrow.stream",
    b"ARROW1": "application/vnd.apache.arrow.file",
    b"MATLAB ": "application/x-matlab-data",
    b"\x89HDF": "application/x-matlab-data",
    b"PK\x03\x04": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
#: Encodings by their byte order mark.
_MARKS: Final = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_NPY_MAGIC: Final = b"\x93NUMPY"
_GZIP_MAGIC: Final = b"\x1f\x8b"
_ZIP_MAGIC: Final = b"PK\x03\x04"
#: Name of a member that every workbook has, as it is in the archive.
_WORKBOOK: Final = b"xl/workbook.xml"


def parse_rows(body: bytes, name: str) -> NDArray[Any] | tuple[bytes, str]:
    """Return the rows of a file: an array, or bytes for the service with their media type.

    Parameters
    ----------
    name
        Name of the file for messages.

    Raises
    ------
    ValueError
        The file is empty, damaged, or of a format that has no rows for a model.
    """
    try:
        return _parse(body)
    except ValueError as error:
        raise ValueError(f"{name} {error}") from error


def _parse(body: bytes) -> NDArray[Any] | tuple[bytes, str]:
    if body.startswith(_GZIP_MAGIC):
        body = _decompress(body)
    if not body.strip():
        raise ValueError("is empty; expected rows of numbers")
    if body.startswith(_NPY_MAGIC):
        return _read_npy(body)
    if body.startswith(_ZIP_MAGIC) and _WORKBOOK not in body:
        return body, _NPZ
    if body[8:9] == b"{" and int.from_bytes(body[:8], "little") < len(body):  # size of its header
        return body, _SAFETENSORS
    encoding = next((name for mark, name in _MARKS.items() if body.startswith(mark)), None)
    text = body if encoding is None else body.decode(encoding, "replace").encode()
    if text.lstrip()[:1] in (b"[", b"{"):
        return _read_json(text)
    return body, next((t for magic, t in _MEDIA_TYPES.items() if body.startswith(magic)), _CSV)


def _decompress(body: bytes) -> bytes:
    try:
        return gzip.decompress(body)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"is not a valid .gz file: {error}") from error


def _read_npy(body: bytes) -> NDArray[Any]:
    try:
        array: NDArray[Any] = np.load(io.BytesIO(body), allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"is not a valid .npy file: {error}") from error
    return array


def _read_json(body: bytes) -> tuple[bytes, str]:
    """Return JSON records, or lines of records, and their media type; other text is CSV."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        first, *_ = body.splitlines()
        try:
            orjson.loads(first)
        except orjson.JSONDecodeError:
            return body, _CSV
        return body, _LINES
    records = [document] if isinstance(document, dict) and not _has_lists(document) else document
    rows = records if isinstance(records, list) else []
    if not all(isinstance(record, dict) for record in rows):
        raise ValueError('is JSON, but not a list of records such as [{"age": 61}]')
    return body if records is document else orjson.dumps(records), _JSON


def _has_lists(document: dict[str, Any]) -> bool:
    """Return whether an object has lists: records by task, or a request; a record has none."""
    return any(isinstance(value, list) for value in document.values())
