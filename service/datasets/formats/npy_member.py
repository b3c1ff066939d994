"""One array of an archive: its header is read as data, checked, and only then believed."""

import ast
import math
import re
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from service.datasets.formats.options import Limits
from service.datasets.issues import reject

_MAGIC: Final = b"\x93NUMPY"
#: The header of a plain array has some hundred bytes.
_MAX_HEADER_BYTES: Final = 10_000
_MAX_DIMENSIONS: Final = 3
_PIECE_BYTES: Final = 1024 * 1024
_DTYPE: Final = re.compile(r"[<>|=]?(?:b1|[iu][1248]|f[248]|U[0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Header:
    """What the header of an array says."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool

    @property
    def size_bytes(self) -> int:
        """Bytes that the array has, by its shape."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_member(file: IO[bytes], name: str, size_bytes: int, limits: Limits) -> NDArray[Any]:
    """Return the array in a member of an archive, native and in C order.

    Parameters
    ----------
    size_bytes
        Size of the member by the archive's directory, which was checked.

    Raises
    ------
    Rejected
        The header is damaged, promises other bytes than there are, or the array needs pickle.
    """
    text, n_read = _read_header_text(file, name)
    header = _parse_header(text, name, limits)
    held = size_bytes - n_read
    if header.size_bytes != held:
        reject(
            "corrupt-array",
            f"array '{name}' says it has shape {header.shape} of {header.dtype}, "
            f"{header.size_bytes} bytes, but holds {held}; write the file again",
        )
    data = _read_bytes(file, held, name)
    order: Any = "F" if header.is_fortran else "C"
    array = data.view(header.dtype).reshape(header.shape, order=order)
    if header.dtype.kind == "U":
        _check_text(array, name)
    return np.ascontiguousarray(array, dtype=header.dtype.newbyteorder("=")).reshape(header.shape)


def _read_header_text(file: IO[bytes], name: str) -> tuple[str, int]:
    """Return the header as text, and how many bytes it took."""
    start = file.read(8)
    n_length = {1: 2, 2: 4, 3: 4}.get(start[6] if len(start) == 8 else 0, 0)
    if not start.startswith(_MAGIC) or not n_length:
        reject("corrupt-array", f"'{name}.npy' does not begin as an array of NumPy does")
    length = int.from_bytes(file.read(n_length), "little")
    if length > _MAX_HEADER_BYTES:
        detail = f"array '{name}' has a header of {length} bytes, more than {_MAX_HEADER_BYTES}"
        reject("corrupt-array", detail)
    raw = file.read(length)
    if len(raw) != length:
        reject("corrupt-array", f"array '{name}' ends within its header")
    return raw.decode("latin-1"), 8 + n_length + length


def _parse_header(text: str, name: str, limits: Limits) -> Header:
    try:
        fields = ast.literal_eval(text.strip())
        descr, is_fortran, shape = fields["descr"], fields["fortran_order"], fields["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, MemoryError, RecursionError):
        reject("corrupt-array", f"the header of array '{name}' cannot be read")
    if not isinstance(is_fortran, bool) or not _is_shape(shape):
        reject("corrupt-array", f"the header of array '{name}' has no proper shape")
    if len(shape) > _MAX_DIMENSIONS:
        detail = f"array '{name}' has {len(shape)} dimensions; no layout has more than 3"
        reject("wrong-shape", detail)
    return Header(_read_dtype(descr, name, limits), shape, is_fortran)


def _is_shape(shape: object) -> bool:
    return isinstance(shape, tuple) and all(type(n) is int and 0 <= n < 2**62 for n in shape)


def _read_dtype(descr: object, name: str, limits: Limits) -> np.dtype[Any]:
    if isinstance(descr, str) and "O" in descr:
        reject(
            "object-array",
            f"array '{name}' holds Python objects, which are never read; "
            "store numbers or text (dtype float, int or str)",
        )
    if not isinstance(descr, str) or not _DTYPE.fullmatch(descr):
        detail = (
            f"array '{name}' has dtype {str(descr)[:40]!r}; send integers, floats up to 64 bits"
        )
        reject("unsupported-dtype", f"{detail}, booleans or text (dtype str)")
    dtype: np.dtype[Any] = np.dtype(descr)
    if dtype.kind == "U" and dtype.itemsize > 4 * limits.name_length:
        detail = f"array '{name}' holds texts of up to {dtype.itemsize // 4} characters"
        reject("unsupported-dtype", f"{detail}, more than {limits.name_length}")
    return dtype


def _read_bytes(file: IO[bytes], size: int, name: str) -> NDArray[np.uint8]:
    """Return exactly so many bytes, and see to it that nothing follows them."""
    data = np.empty(size, np.uint8)
    position = 0
    while position < size:
        piece = file.read(min(_PIECE_BYTES, size - position))
        if not piece:
            detail = f"array '{name}' ends after {position} of {size} bytes; write the file again"
            reject("corrupt-array", detail)
        data[position : position + len(piece)] = np.frombuffer(piece, np.uint8)
        position += len(piece)
    if file.read(1):  # also makes the archive compare its checksum
        reject("corrupt-array", f"array '{name}' has more bytes than its archive says")
    return data


def _check_text(array: NDArray[Any], name: str) -> None:
    """Refuse what is no text: numpy would fail on it far from here."""
    kind = array.dtype.newbyteorder("=").str[0] if array.dtype.isnative else array.dtype.str[0]
    points = np.ascontiguousarray(array).reshape(-1).view(f"{kind}u4")
    if (points > 0x10FFFF).any() or ((points >= 0xD800) & (points < 0xE000)).any():
        reject("corrupt-array", f"array '{name}' holds code points that no text has")
