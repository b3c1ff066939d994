"""Tensors: datatypes of the protocol and what they are here."""

import struct
from collections.abc import Iterable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

#: Numbers, little-endian as the protocol has them; all are converted to float64.
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
_OF_KIND: Final = {"f": "FP64", "i": "INT64", "u": "INT64"}
_LENGTH: Final = struct.Struct("<I")


def datatype_of(array: NDArray[Any]) -> str:
    """Return the datatype that an output is sent as."""
    return _OF_KIND.get(array.dtype.kind, BYTES)


def to_bytes(array: NDArray[Any]) -> bytes:
    """Return the values of an output as they stand in a binary body."""
    datatype = datatype_of(array)
    if datatype != BYTES:
        return array.astype(NUMBERS[datatype], copy=False).tobytes()
    texts = (str(text).encode() for text in array.ravel().tolist())
    return b"".join(part for text in texts for part in (_LENGTH.pack(len(text)), text))


def read_texts(data: bytes) -> Iterable[str]:
    """Return the texts of a binary tensor, each after its length in four bytes.

    Raises
    ------
    ValueError
        A length reaches beyond the end, or a text is not UTF-8.
    """
    start = 0
    while start < len(data):
        if start + _LENGTH.size > len(data):
            raise ValueError(f"a length is cut off at byte {start}")
        end = start + _LENGTH.size + _LENGTH.unpack_from(data, start)[0]
        if end > len(data):
            raise ValueError(f"the text at byte {start} reaches to byte {end} of {len(data)}")
        yield data[start + _LENGTH.size : end].decode()
        start = end
