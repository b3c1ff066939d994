"""Least-squares problems of several tasks, compressed to at most as many rows as columns.

Σ_t ‖y_t − X_t w_t‖² = Σ_t ‖y'_t − X'_t w_t‖² + constant  for all W
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtrs

from algorithms.numerics.centering import column_means, times_roots
from algorithms.numerics.stacks import Block, Stacks, merge_equal_rows, stack_blocks

#: Smallest ratio of rows to columns for which XᵀX costs much less than a QR decomposition.
MIN_TALL_RATIO = 1.5
#: Smallest diagonal entry of R relative to the largest, and part of ‖Y‖² that no W explains, for
#: which XᵀX is precise enough: relative errors of XᵀX of 1e-15 become at most about 1e-10.
MIN_TALL_DIAGONAL = 1e-2
MIN_TALL_CONSTANT = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """The least-squares problems of all tasks.

    Parameters
    ----------
    stacks
        Blocks of at most d rows each.
    remainder
        Constant part of the sum of squares.
    """

    stacks: Stacks
    remainder: float

    @classmethod
    def of(cls, blocks: Sequence[Block], *, centre: bool) -> Self:
        """Return the problems of blocks, with rows and targets centred if ``centre`` is true.

        Blocks are centred and compressed one at a time, so that only one copy of rows exists.
        """
        small = [compress(weighted(block, centre=centre)) for block in merge_equal_rows(blocks)]
        return cls(
            stack_blocks([compressed for compressed, _ in small]), sum(left for _, left in small)
        )


def weighted(block: Block, *, centre: bool) -> Block:
    """Return the block, centred if ``centre`` is true, times the roots of its weights.

    Sums of its squared residuals are then weighted.
    """
    X, Y, w = block.X, block.Y, block.weights
    if centre:
        X, Y = X - column_means(X, w), Y - column_means(Y, w)
    return Block(times_roots(X, w), times_roots(Y, w), block.columns)


def compress(block: Block) -> tuple[Block, float]:
    """Return a block of at most d rows with the same least-squares problem, and a constant.

    With X = QR, ‖Y − XW‖² = ‖QᵀY − RW‖² + ‖Y − QQᵀY‖² for all W; the last term is the constant.
    Tall blocks that are well conditioned get R from XᵀX = RᵀR, which costs a tenth; R from X itself
    loses no precision.
    """
    n, d = block.X.shape
    if n <= d:
        return block, 0.0
    compressed = _compress_tall(block) if n >= MIN_TALL_RATIO * d else None
    if compressed is not None:
        return compressed
    Q, R = np.linalg.qr(block.X)
    Y = Q.T @ block.Y
    return Block(R, Y, block.columns), float(np.sum((block.Y - Q @ Y) ** 2))


def _compress_tall(block: Block) -> tuple[Block, float] | None:
    """Return the block and the constant from XᵀX and XᵀY; None if that would lose precision.

    The errors grow with the squared condition number of X, and with the ratio of ‖Y‖² to the
    constant. The diagonal of R bounds the condition number from below, but the bound is close.
    """
    G, B = block.X.T @ block.X, block.X.T @ block.Y
    lower, info = dpotrf(G.T, lower=1, clean=1)  # the transposed view is in LAPACK's order
    scales = np.abs(np.diag(lower))
    if info or scales.min() < MIN_TALL_DIAGONAL * scales.max():
        return None
    Y, _ = dtrtrs(lower, B, lower=1)
    total = float(np.vdot(block.Y, block.Y))
    constant = total - float(np.vdot(Y, Y))
    if constant < MIN_TALL_CONSTANT * total:
        return None
    return Block(np.asarray(lower.T), Y, block.columns), constant
