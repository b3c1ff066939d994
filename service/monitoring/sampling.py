"""The choice of the rows that a monitor keeps."""

from hashlib import blake2b
from typing import Final

_HASH_BYTES: Final = 8


def is_kept(row_id: str, share: float) -> bool:
    """Return whether a share of all rows has a row, by a hash of its id: the same everywhere."""
    if share >= 1:
        return True
    digest = blake2b(row_id.encode(), digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest) < share * 2.0 ** (8 * _HASH_BYTES)
