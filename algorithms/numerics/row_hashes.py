"""Hashes of rows of numbers."""

import math
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.numerics.sparse_rows import is_sparse

Hashes = NDArray[np.uint64]

#: Number of values per block, so that intermediate arrays fit into the CPU cache.
_BLOCK_VALUES: Final = 2**14
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def mix(values: Hashes) -> Hashes:
    """Return a hash of each value, by a bijection of 64-bit integers (splitmix64).

    Reference: Steele, Lea, Flood, *Fast splittable pseudorandom number generators*, OOPSLA 2014,
    doi:10.1145/2660193.2660195
    """
    z = values + _GOLDEN
    z = (z ^ (z >> np.uint64(30))) * _FIRST
    z = (z ^ (z >> np.uint64(27))) * _SECOND
    return z ^ (z >> np.uint64(31))


@lru_cache(maxsize=8)  # tasks often have as many columns as others
def _factors(width: int) -> Hashes:
    """Return the odd factor of each column."""
    return mix(np.arange(width, dtype=np.uint64)) | np.uint64(1)


def hash_rows(X: NDArray[np.float64]) -> Hashes:
    """Return a hash of each row; equal rows have equal hashes, and 0 equals -0.

    Two different rows have the same hash with a probability of about 5e-20. Sparse rows have the
    hashes of their dense copy.

    Parameters
    ----------
    X : (n_samples, ...), or (n_samples, n_features) and sparse

    Returns
    -------
    (n_samples,)
    """
    if is_sparse(X):
        return _hash_sparse_rows(X)
    rows = X.reshape(len(X), math.prod(X.shape[1:]))
    width = rows.shape[1]
    factors = _factors(width)
    size = max(1, _BLOCK_VALUES // max(width, 1))
    hashes = np.empty(len(rows), dtype=np.uint64)
    for first in range(0, len(rows), size):
        block: NDArray[Any] = rows[first : first + size] + 0.0  # -0 + 0 is 0
        hashes[first : first + size] = mix(block.view(np.uint64)) @ factors
    return hashes


def _hash_sparse_rows(X: Any) -> Hashes:
    """Return the hashes of the rows as dense arrays, computed from the stored values only."""
    factors = _factors(X.shape[1])
    zero = mix(np.zeros(1, dtype=np.uint64))
    changes = (mix((X.data + 0.0).view(np.uint64)) - zero) * factors[X.indices]
    sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(changes, dtype=np.uint64)])
    row_sums: Hashes = sums[X.indptr[1:]] - sums[X.indptr[:-1]]  # modulo 2**64, like all sums here
    return row_sums + zero * np.sum(factors, dtype=np.uint64)
