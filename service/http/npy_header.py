"""Headers of arrays in the .npy format, read without pickle and without trust in them."""

import ast
import math
from collections.abc import Callable
from typing import Any, Final, NamedTuple

_MAGIC: Final = b"\x93NUMPY"
#: Size of the length field by format version. Version 3 differs from 2 only in names of fields,
#: which no supported array has.
_LENGTH_BYTES: Final = {1: 2, 2: 4, 3: 4}
#: A typical header has about a hundred bytes.
_MAX_HEADER_BYTES: Final = 10_000
#: Size of the longest header, with the bytes before it.
MAX_SIZE_BYTES: Final = len(_MAGIC) + 2 + max(_LENGTH_BYTES.values()) + _MAX_HEADER_BYTES
#: Limit on the product of the lengths of all axes that are not empty: NumPy computes the size in
#: bytes of an array from these, even if the array is empty.
_MAX_PRODUCT: Final = 2**48
_FIELDS: Final = {"descr", "fortran_order", "shape"}


class InvalidHeader(ValueError):
    """A header is not valid; the message has "it", the header, as its subject."""


class NpyHeader(NamedTuple):
    """Type, memory order and shape of an array, as its header states them.

    Attributes
    ----------
    descr
        Description of the dtype, not checked.
    size_bytes
        Size of the header itself, with the bytes before it.
    """

    descr: Any
    is_fortran: bool
    shape: tuple[int, ...]
    size_bytes: int


def read_header(read: Callable[[int], bytes]) -> NpyHeader:
    """Return the header at the beginning of a file.

    Parameters
    ----------
    read
        Returns the next bytes, fewer than asked for only at the end of the file.

    Raises
    ------
    InvalidHeader
        The file has no valid header.
    """
    start = read(8)
    n_length = _LENGTH_BYTES.get(start[6], 0) if len(start) == 8 else 0
    if not start.startswith(_MAGIC) or not n_length:
        raise InvalidHeader("it does not begin with the magic bytes of .npy")
    length = int.from_bytes(read(n_length), "little")
    if length > _MAX_HEADER_BYTES:
        raise InvalidHeader(f"its header has {length} bytes, more than {_MAX_HEADER_BYTES}")
    text = read(length)
    if len(text) != length:
        raise InvalidHeader("it ends within its header")
    return NpyHeader(*_parse(text.decode("latin-1")), 8 + n_length + length)


def _parse(text: str) -> tuple[Any, bool, tuple[int, ...]]:
    """Return the description of the dtype, whether columns are contiguous, and the shape."""
    try:
        fields = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise InvalidHeader("its header is corrupt") from error
    if not isinstance(fields, dict) or fields.keys() != _FIELDS:
        raise InvalidHeader("its header is corrupt")
    is_fortran, shape = fields["fortran_order"], fields["shape"]
    if not isinstance(is_fortran, bool) or not _is_shape(shape):
        raise InvalidHeader("its header has no valid shape")
    return fields["descr"], is_fortran, shape


def _is_shape(shape: object) -> bool:
    """Return whether NumPy can have an array of a shape, by the types and sizes of its lengths."""
    if not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        return False
    product: int = math.prod(n for n in shape if n)
    return product <= _MAX_PRODUCT
