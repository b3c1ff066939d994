"""Padded stacks of tasks with different numbers of rows, so that batched calls handle many tasks.

A *block* is a matrix of rows with its columns of targets: one column for a single task, several for
tasks on the same rows or for the classes of one task. Each column of targets has a row w of W
(T, d), where T counts columns of targets; W is the transpose of the papers' W.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dtrtri

from algorithms.numerics.arrays import Array

#: Largest condition number of a block, times at most its number of columns, with an inverse.
MAX_CONDITION = 1e6


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Rows with their targets.

    Parameters
    ----------
    X : (n, d)
    Y : (n, m)
    columns : (m,)
        Position of each column of Y among the T columns of all blocks.
    weights : (n,) or None
        Weights of the losses of the rows; None: 1.
    """

    X: Array
    Y: Array
    columns: NDArray[np.intp]
    weights: Array | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """Blocks of similar numbers of rows, padded with rows of zeros.

    There are g blocks, padded to n rows each, with m columns of targets each.

    Parameters
    ----------
    X : (g, n, d)
    Y : (g, n, m)
    weight : (g, n, 1)
        Weight of a row, 1 without weights; 0 for padding.
    columns : (g, m)
        Position of each column of Y among the T columns of all blocks.
    """

    X: Array
    Y: Array
    weight: Array
    columns: NDArray[np.intp]

    def gather(self, W: Array) -> Array:
        """Return the rows of W (T, d) for the columns of this stack, (g, m, d)."""
        return np.asarray(W[self.columns])


@dataclass(frozen=True, eq=False)
class Stacks:
    """All blocks of a problem.

    Parameters
    ----------
    n_columns
        T, the number of columns of targets.
    n_features
        d, the number of columns of every X.
    """

    parts: tuple[Stack, ...]
    n_columns: int
    n_features: int

    def forward(self, W: Array) -> tuple[Array, ...]:
        """Return the products X w for all rows w of W (T, d): an array (g, n, m) for each stack."""
        return tuple(part.X @ np.swapaxes(part.gather(W), 1, 2) for part in self.parts)

    def adjoint(self, A: Sequence[Array]) -> Array:
        """Return Z (T, d) with the rows z_t = X_tᵀα_t.

        Parameters
        ----------
        A
            One array (g, n, m) for each stack; α_t is its column for column t of the targets.
        """
        Z = np.zeros((self.n_columns, self.n_features))
        for part, a in zip(self.parts, A, strict=True):
            Z[part.columns] = np.swapaxes(a, 1, 2) @ part.X
        return Z

    def sums(self, A: Sequence[Array]) -> Array:
        """Return the sums over rows (T,), given an array A (g, n, m) for each stack."""
        out = np.zeros(self.n_columns)
        for part, a in zip(self.parts, A, strict=True):
            out[part.columns] = a.sum(axis=1)
        return out

    def moment(self, share: Array) -> Array:
        """Return Σ_t share_t X_tᵀX_t, (d, d), or the matrix (n, n) with the same eigenvalues > 0.

        The latter is returned if all blocks together have fewer rows than columns.

        Parameters
        ----------
        share : (T,)
            Not negative.
        """
        factors = [share[part.columns].sum(axis=1) for part in self.parts]
        if sum(part.X.shape[0] * part.X.shape[1] for part in self.parts) < self.n_features:
            rows = np.concatenate(
                [_flat(part.X, f) for part, f in zip(self.parts, factors, strict=True)]
            )
            return np.asarray(rows @ rows.T)
        total = np.zeros((self.n_features, self.n_features))
        for i, (part, f) in enumerate(zip(self.parts, factors, strict=True)):
            if part.X.shape[1] < self.n_features:
                rows = _flat(part.X, f)
                total += rows.T @ rows
            else:
                total += np.tensordot(f, self.inner_products[i], 1)
        return total

    @cached_property
    def inner_products(self) -> tuple[Array, ...]:
        """XᵀX of every block, (g, d, d) for each stack; XXᵀ, (g, n, n), if n < d."""
        transposed = (np.swapaxes(part.X, 1, 2) for part in self.parts)
        return tuple(
            part.X @ Xt if part.X.shape[1] < self.n_features else Xt @ part.X
            for part, Xt in zip(self.parts, transposed, strict=True)
        )

    @cached_property
    def largest_curvature(self) -> float:
        """The largest eigenvalue of 2 XᵀX over all blocks."""
        values = (np.linalg.eigvalsh(inner)[:, -1].max() for inner in self.inner_products)
        return 2 * float(max(values))

    @cached_property
    def inverses(self) -> tuple[Array, ...] | None:
        """The inverse of every block, (g, d, d) for each stack.

        None if a block is not triangular, as compressed ones of more than d rows are, or if it is
        nearly singular.
        """
        d = self.n_features
        below = np.tri(d, k=-1, dtype=bool)
        inverses = []
        for part in self.parts:
            if part.X.shape[1] != d or part.X[:, below].any():
                return None
            inverse = np.empty_like(part.X)
            for t, X in enumerate(part.X):
                transposed, info = dtrtri(X.T, lower=1)
                if info:
                    return None
                inverse[t] = transposed.T
            squares = [
                np.einsum("gij,gij->g", matrices, matrices) for matrices in (part.X, inverse)
            ]
            if np.sqrt(squares[0] * squares[1]).max() > MAX_CONDITION * d:
                return None
            inverses.append(inverse)
        return tuple(inverses)


def _flat(X: Array, factors: Array) -> Array:
    """Return the rows (g n, d) of a stack X (g, n, d), times the roots of factors (g,)."""
    return np.asarray((X * np.sqrt(factors)[:, np.newaxis, np.newaxis]).reshape(-1, X.shape[2]))


def stack_blocks(blocks: Sequence[Block]) -> Stacks:
    """Return the blocks in stacks; padding at most doubles the rows."""
    groups: dict[tuple[int, int], list[Block]] = {}
    for block in blocks:
        size = 1 << max(len(block.X) - 1, 0).bit_length()
        groups.setdefault((size, block.Y.shape[1]), []).append(block)
    n_columns = sum(block.Y.shape[1] for block in blocks)
    parts = tuple(_stack(groups[key]) for key in sorted(groups))
    return Stacks(parts, n_columns, blocks[0].X.shape[1])


def _stack(blocks: Sequence[Block]) -> Stack:
    n = max(len(block.X) for block in blocks)
    return Stack(
        np.stack([_padded(block.X, n) for block in blocks]),
        np.stack([_padded(block.Y, n) for block in blocks]),
        np.stack([_padded(_weights(block)[:, np.newaxis], n) for block in blocks]),
        np.stack([block.columns for block in blocks]),
    )


def _weights(block: Block) -> Array:
    return np.ones(len(block.X)) if block.weights is None else block.weights


def _padded(rows: Array, n: int) -> Array:
    if len(rows) == n:
        return rows
    out = np.zeros((n, rows.shape[1]))
    out[: len(rows)] = rows
    return out


def merge_equal_rows(blocks: Sequence[Block]) -> list[Block]:
    """Merge blocks with identical rows and weights; the result is in order of first occurrence."""
    counts = Counter(map(_ends, blocks))
    groups: dict[tuple[Hashable, ...], list[Block]] = {}
    for block in blocks:
        key: tuple[Hashable, ...] = (_ends(block),)
        if counts[key[0]] > 1:  # only then are all rows compared
            key = (*key, block.X.tobytes(), _weights(block).tobytes())
        groups.setdefault(key, []).append(block)
    return [
        Block(
            same[0].X,
            np.concatenate([block.Y for block in same], axis=1),
            np.concatenate([block.columns for block in same]),
            same[0].weights,
        )
        if len(same) > 1
        else same[0]
        for same in groups.values()
    ]


def _ends(block: Block) -> Hashable:
    """Return the shape, the first and the last row."""
    return block.X.shape, block.X[:1].tobytes(), block.X[-1:].tobytes()
