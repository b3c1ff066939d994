"""Reader of one .npy array of an archive; its header is checked before use."""

import math
import warnings
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from service.datasets.formats.options import Limits
from service.datasets.issues import reject
from service.http.npy_header import InvalidHeader, read_header

_MAX_DIMENSIONS: Final = 3
_MAX_NUMBER_BYTES: Final = 8
_READ_BYTES: Final = 1024 * 1024
#: The only array of bytes, which ``scipy.sparse.save_npz`` writes.
_SPARSE_FORMATS: Final = frozenset({"X.format", "format"})


@dataclass(frozen=True, slots=True)
class Header:
    """Type, shape and memory order of an array, as its header states them."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool

    @property
    def size_bytes(self) -> int:
        """Size of the array data according to the shape."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_member(file: IO[bytes], name: str, size_bytes: int, limits: Limits) -> NDArray[Any]:
    """Return the array in a member of an archive, with native byte order and in C order.

    Parameters
    ----------
    size_bytes
        Size of the member in the directory of the archive, already checked.

    Raises
    ------
    Rejected
        The header is corrupt, does not match the size of the data, or the array needs pickle.
    """
    header, n_read = _read_header(file, name)
    _check_dtype(header.dtype, name, limits)
    n_data = size_bytes - n_read
    if header.size_bytes != n_data:
        reject(
            "corrupt-array",
            f"array '{name}' has shape {header.shape} of {header.dtype} in its header, which takes "
            f"{header.size_bytes} bytes, but contains {n_data}; write the file again",
        )
    data = _read_bytes(file, n_data, name)
    order: Any = "F" if header.is_fortran else "C"
    array = data.view(header.dtype).reshape(header.shape, order=order)
    if header.dtype.kind == "U":
        _check_text(array, name)
    return np.ascontiguousarray(array, dtype=header.dtype.newbyteorder("=")).reshape(header.shape)


def _read_header(file: IO[bytes], name: str) -> tuple[Header, int]:
    """Return the header, and how many bytes it took."""
    try:
        descr, is_fortran, shape, n_read = read_header(file.read)
        dtype = _dtype_of(descr)
    except InvalidHeader as error:
        reject("corrupt-array", f"array '{name}' is not valid: {error}; write the file again")
    if len(shape) > _MAX_DIMENSIONS:
        detail = f"array '{name}' has {len(shape)} dimensions; at most {_MAX_DIMENSIONS} are used"
        reject("wrong-shape", detail)
    return Header(dtype, shape, is_fortran), n_read


def _dtype_of(descr: Any) -> np.dtype[Any]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # of descriptions that NumPy will no longer accept
            return npy_format.descr_to_dtype(descr)
    except Exception as error:  # NumPy lets through whatever a strange description raises
        raise InvalidHeader("its header has no valid dtype") from error


def _check_dtype(dtype: np.dtype[Any], name: str, limits: Limits) -> None:
    if dtype.hasobject:
        reject(
            "object-array",
            f"array '{name}' contains Python objects, which are not read for security; store "
            "numbers or text (dtype float, int or str)",
        )
    if dtype.kind == "S" and name.rpartition("/")[2] in _SPARSE_FORMATS:
        return
    is_number = dtype.kind in "biuf" and dtype.itemsize <= _MAX_NUMBER_BYTES
    if not is_number and dtype.kind != "U":
        detail = f"array '{name}' has dtype {str(dtype)[:40]!r}; use integers, floats up to 64 bits"
        reject("unsupported-dtype", f"{detail}, booleans or text (dtype str)")
    if dtype.kind == "U" and dtype.itemsize > 4 * limits.name_length:
        detail = f"array '{name}' contains texts of up to {dtype.itemsize // 4} characters"
        reject("unsupported-dtype", f"{detail}, more than {limits.name_length}")


def _read_bytes(file: IO[bytes], size: int, name: str) -> NDArray[np.uint8]:
    """Return exactly ``size`` bytes, and reject the array if more follow."""
    data = np.empty(size, np.uint8)
    position = 0
    while position < size:
        data_read = file.read(min(_READ_BYTES, size - position))
        if not data_read:
            detail = f"array '{name}' ends after {position} of {size} bytes; write the file again"
            reject("corrupt-array", detail)
        data[position : position + len(data_read)] = np.frombuffer(data_read, np.uint8)
        position += len(data_read)
    if file.read(1):  # reading to the end also verifies the checksum
        reject(
            "corrupt-array",
            f"array '{name}' has more bytes than the archive's directory says",
        )
    return data


def _check_text(array: NDArray[Any], name: str) -> None:
    """Reject invalid code points, on which NumPy would fail later."""
    kind = array.dtype.newbyteorder("=").str[0] if array.dtype.isnative else array.dtype.str[0]
    points = np.ascontiguousarray(array).reshape(-1).view(f"{kind}u4")
    if (points > 0x10FFFF).any() or ((points >= 0xD800) & (points < 0xE000)).any():
        reject("corrupt-array", f"array '{name}' contains invalid Unicode code points")
