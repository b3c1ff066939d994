"""Datatypes of the Open Inference Protocol and their numpy dtypes."""

import struct
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

#: Numeric datatypes, which are little-endian in the protocol.
NUMBERS: Final[dict[str, np.dtype[Any]]] = {
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "INT8": np.dtype("<i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "UINT8": np.dtype("<u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
}
BYTES: Final = "BYTES"
BOOL: Final = "BOOL"
_DATATYPE_OF_KIND: Final = {"f": "FP64", "i": "INT64", "u": "INT64"}
_LENGTH: Final = struct.Struct("<I")


def datatype_of(array: NDArray[Any]) -> str:
    """Return the datatype of an output."""
    return _DATATYPE_OF_KIND.get(array.dtype.kind, BYTES)


def to_bytes(array: NDArray[Any]) -> bytes:
    """Return the values of an output as a binary tensor."""
    datatype = datatype_of(array)
    if datatype != BYTES:
        return array.astype(NUMBERS[datatype], copy=False).tobytes()
    texts = (str(text).encode() for text in array.ravel().tolist())
    return b"".join(part for text in texts for part in (_LENGTH.pack(len(text)), text))


def read_strings(data: bytes) -> Iterable[str]:
    """Yield the strings of a binary tensor, each preceded by its length in four bytes.

    Raises
    ------
    ValueError
        A string exceeds the end of the data, or is not UTF-8.
    """
    start = 0
    while start < len(data):
        if start + _LENGTH.size > len(data):
            raise ValueError(f"the length at byte {start} is truncated")
        end = start + _LENGTH.size + _LENGTH.unpack_from(data, start)[0]
        if end > len(data):
            raise ValueError(
                f"the string at byte {start} ends at byte {end}, the tensor has {len(data)} bytes"
            )
        yield data[start + _LENGTH.size : end].decode()
        start = end
