"""Padded stacks of tasks with different numbers of rows, so that batched calls handle many tasks.

A *block* is a matrix of rows with its columns of targets: one column for a single task, several for
tasks on the same rows or for the classes of one task. Each column of targets has a row w of W
(T, d), where T counts columns of targets; W is the transpose of the papers' W.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpotrf

Array = NDArray[np.float64]

#: Smallest ratio of rows to columns for which XᵀX costs much less than a QR decomposition.
MIN_TALL_RATIO = 1.5
#: Smallest diagonal entry of R relative to the largest, and part of ‖Y‖² that no W explains, for
#: which XᵀX is precise enough: relative errors of XᵀX of 1e-15 become at most about 1e-10.
MIN_TALL_DIAGONAL = 1e-2
MIN_TALL_CONSTANT = 1e-4


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

    @property
    def is_tall(self) -> bool:
        """Whether every block has at least as many rows of positive weight as features."""
        return all((part.weight > 0).sum(axis=1).min() >= self.n_features for part in self.parts)

    @cached_property
    def curvatures(self) -> tuple[float, float]:
        """The smallest and the largest eigenvalue of 2 XᵀX over all blocks."""
        low, high = np.inf, 0.0
        for part in self.parts:
            Xt = np.swapaxes(part.X, 1, 2)
            is_wide = part.X.shape[1] < self.n_features
            values = np.linalg.eigvalsh(part.X @ Xt if is_wide else Xt @ part.X)
            low = min(low, float(values.min()))
            high = max(high, float(values.max()))
        return (2 * max(low, 0.0) if self.is_tall else 0.0), 2 * high

    def with_rows(self, change: Callable[[Array], Array], n_features: int) -> "Stacks":
        """Return the stacks with changed rows; ``change`` maps (g, n, d) to (g, n, n_features)."""
        parts = tuple(
            Stack(change(part.X), part.Y, part.weight, part.columns) for part in self.parts
        )
        return Stacks(parts, self.n_columns, n_features)


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
    out = np.zeros((n, rows.shape[1]))
    out[: len(rows)] = rows
    return out


def merge_equal_rows(blocks: Sequence[Block]) -> list[Block]:
    """Merge blocks with identical rows and weights; the result is in order of first occurrence."""
    groups: dict[tuple[tuple[int, ...], bytes, bytes], list[Block]] = {}
    for block in blocks:
        key = block.X.shape, block.X.tobytes(), _weights(block).tobytes()
        groups.setdefault(key, []).append(block)
    return [
        Block(
            same[0].X,
            np.concatenate([block.Y for block in same], axis=1),
            np.concatenate([block.columns for block in same]),
            same[0].weights,
        )
        for same in groups.values()
    ]


def compress(block: Block) -> tuple[Block, float]:
    """Return a block of at most d rows with the same least-squares problem, and a constant.

    With X = QR, ‖Y − XW‖² = ‖QᵀY − RW‖² + ‖Y − QQᵀY‖² for all W; the last term is the constant.
    Tall blocks that are well conditioned get R from XᵀX = RᵀR, which costs a tenth; R from X itself
    loses no precision.
    """
    n, d = block.X.shape
    if n <= d:
        return block, 0.0
    found = _compress_tall(block) if n >= MIN_TALL_RATIO * d else None
    if found is not None:
        return found
    Q, R = np.linalg.qr(block.X)
    Y = Q.T @ block.Y
    return Block(R, Y, block.columns), float(np.sum((block.Y - Q @ Y) ** 2))


def _compress_tall(block: Block) -> tuple[Block, float] | None:
    """Return the block and the constant from XᵀX and XᵀY; None if that would lose precision.

    The errors grow with the squared condition number of X, and with the ratio of ‖Y‖² to the
    constant. The diagonal of R bounds the condition number from below, but the bound is close.
    """
    G, B = block.X.T @ block.X, block.X.T @ block.Y
    R, info = dpotrf(G, clean=1)
    scales = np.abs(np.diag(R))
    if info or scales.min() < MIN_TALL_DIAGONAL * scales.max():
        return None
    Y = solve_triangular(R, B, trans=1, check_finite=False)
    total = float(np.sum(block.Y**2))
    constant = total - float(np.sum(Y**2))
    if constant < MIN_TALL_CONSTANT * total:
        return None
    return Block(np.asarray(R), Y, block.columns), constant
