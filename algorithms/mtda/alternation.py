"""The paper's alternation for U_i = W_i P, its Theorem 1 mended; the optimum is the exact one.

Theorem 1, mended: for symmetric A (p, p) and positive semidefinite B (q, q), p > q, the maximum
of tr(WᵀAWB) over WᵀW = I is Σ_j λ_j(A)λ_j(B). It is reached by W = V_A V_Bᵀ Q, where V_A holds the
top-q eigenvectors of A and V_B those of B, *both in descending order*, and Q is orthogonal and
*commutes with B*. (The paper prints any Q: its proof swaps B for QBQᵀ, which has the same
eigenvalues and is another matrix. With A = diag(3,1,1,1,0,0,0,0), B = diag(2.5,1.5,1,0.25) and Q
a turn by 42.8 degrees in the plane of the first and the last axis, the value falls from 10.25 to
8.17.)

Here B = PPᵀ, a projector, and V_B = [P, P⊥]. Steps 2.3 and 2.4 of Table 1, which turn W_i by a Q
that does not commute with PPᵀ, lower the objective and are left out; in place of step 2.5, which
compares matrices whose signs are arbitrary, the loop ends on the change of the ratio α. Each
visit of a block is one step of Table 1, not a run to its end: with the fixed points of the paper,
and without loops inside of a loop.

A fixed point is the global optimum. The step of W_i lets U_i = W_i P be the top-d eigenvectors of
S_bⁱ - αS_tⁱ whatever P is. If no step raises α, each U_i has maximal tr(U_iᵀ(S_bⁱ - αS_tⁱ)U_i) at
this α, and their sum is 0: α is the root of F (see :mod:`algorithms.numerics.trace_ratio`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.eigen import complete
from algorithms.numerics.trace_ratio import Pencil, leading_with_ties

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlternationState(LoopState):
    """The blocks of the alternation.

    Parameters
    ----------
    P : (d', d)
    W : (sum of q_i, d')
        The W_i one below the other, in coordinates of the span and d' directions outside it.
    """

    P: Array
    W: Array


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """S_b and S_t of one task, in the coordinates of its W_i.

    Parameters
    ----------
    between : (n_classes, q)
        B with S_b = BᵀB.
    total : (q,)
        Diagonal of S_t, its ridge included.
    tie
        Difference below which eigenvalues of S_b - αS_t are equal.
    """

    between: Array
    total: Array
    tie: float

    def difference(self, alpha: float) -> Array:
        """Return S_b - αS_t, (q, q)."""
        return self.between.T @ self.between - alpha * np.diag(self.total)


def alternate(
    pencils: Sequence[Pencil],
    *,
    d_prime: int,
    max_iter: int,
    tolerance: float,
    trace: Trace,
    rng: np.random.Generator,
) -> AlternationState:
    """Return P and the W_i that maximise eq. 3, from random ones.

    Parameters
    ----------
    pencils
        All with the same k = d <= d', and d' dimensions each.
    """
    blocks = [_block(pencil, d_prime) for pencil in pencils]
    ends = np.cumsum([block.total.size for block in blocks])[:-1]
    W = [_orthonormal(rng, block.total.size, d_prime) for block in blocks]
    P = _orthonormal(rng, d_prime, pencils[0].k)
    alpha = ratio_of(blocks, W, P)

    def step(state: AlternationState) -> AlternationState:
        W, P = list(np.split(state.W, ends)), state.P
        for i, block in enumerate(blocks):
            A = block.difference(ratio_of(blocks, W, P))
            W[i] = best_factor(A, P, between=block.between, tie=block.tie)
        P = _best_common(blocks, W, ratio_of(blocks, W, P), d=P.shape[1])
        alpha = ratio_of(blocks, W, P)
        change = abs(alpha - state.objective)
        return AlternationState(objective=alpha, residual=change, P=P, W=np.concatenate(W))

    start = AlternationState(objective=alpha, residual=1.0, P=P, W=np.concatenate(W))
    return trace.run("alternation", step, start, max_iter=max_iter, tolerance=tolerance)


def ratio_of(blocks: Sequence[Block], W: Sequence[Array], P: Array) -> float:
    """Return the objective of eq. 3; 0 where there is no scatter at all."""
    U = [W_i @ P for W_i in W]
    between = sum(float(np.sum((b.between @ U_i) ** 2)) for U_i, b in zip(U, blocks, strict=True))
    total = sum(float(np.sum(b.total @ U_i**2)) for U_i, b in zip(U, blocks, strict=True))
    return between / total if total > 0 else 0.0


def best_factor(A: Array, P: Array, *, between: Array, tie: float) -> Array:
    """Return the W (p, d') with WᵀW = I of largest tr(WᵀAWPPᵀ): Theorem 1, mended.

    Parameters
    ----------
    A : (p, p)
        Symmetric, p >= d'.
    P : (d', d)
        Orthonormal columns.
    between : (n_classes, p)
        B with S_b = BᵀB. Of equal eigenvalues the one of larger S_b is taken: at the largest ratio
        the last useful direction and fillers, which tell no classes apart, are equal.
    tie
        Eigenvalues that differ by less are equal.
    """
    d_prime, d = P.shape
    U = leading_with_ties(A, between, d, tie=tie)
    return parts_from(complete(U.T, d_prime).T, P)


def parts_from(V: Array, P: Array) -> Array:
    """Return W = V [P, P⊥]ᵀ, whose W P is the first d of the d' columns of V (p, d')."""
    V_B = complete(P.T, P.shape[0]).T
    return np.asarray(V @ V_B.T)


def _best_common(blocks: Sequence[Block], W: Sequence[Array], alpha: float, *, d: int) -> Array:
    """Return the top-d eigenvectors of Σ W_iᵀ(S_bⁱ - αS_tⁱ)W_i, a step on eq. 6."""
    pairs = list(zip(W, blocks, strict=True))
    A = np.sum([W_i.T @ b.difference(alpha) @ W_i for W_i, b in pairs], axis=0)
    between = np.concatenate([b.between @ W_i for W_i, b in pairs])
    return leading_with_ties((A + A.T) / 2, between, d, tie=sum(b.tie for b in blocks))


def _block(pencil: Pencil, d_prime: int) -> Block:
    """Return the scatter matrices in the span, and in as many fillers as W_i may need."""
    n_fillers = min(pencil.n_fillers, d_prime)
    between = np.pad(pencil.between, ((0, 0), (0, n_fillers)))
    return Block(between, np.pad(pencil.total, (0, n_fillers)) + pencil.ridge, pencil.tie)


def _orthonormal(rng: np.random.Generator, p: int, q: int) -> Array:
    return np.linalg.qr(rng.standard_normal((p, q)))[0]
