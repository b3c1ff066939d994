"""The paper's alternation for U_i = W_i P with a corrected Theorem 1; it reaches the optimum.

Theorem 1, corrected: for symmetric A (p, p) and positive semidefinite B (q, q), p > q, the maximum
of tr(WᵀAWB) over WᵀW = I is Σ_j λ_j(A)λ_j(B). It is attained by W = V_A V_Bᵀ Q, where V_A has the
top-q eigenvectors of A and V_B those of B, *both in descending order*, and Q is orthogonal and
*commutes with B*. The paper allows any Q, but its proof replaces B by QBQᵀ, which has the same
eigenvalues and is a different matrix. Counterexample: A = diag(3,1,1,1,0,0,0,0),
B = diag(2.5,1.5,1,0.25), and Q a rotation by 42.8 degrees in the plane of the first and the last
axis, for which the value is 8.17 instead of 10.25.

Here B = PPᵀ is a projector and V_B = [P, P⊥]. Steps 2.3 and 2.4 of Table 1 rotate W_i by a Q that
does not commute with PPᵀ; they decrease the objective and are omitted. Step 2.5 compares matrices
with arbitrary signs; the loop stops on the change of the ratio α instead. Each visit of a block is
one step of Table 1, without inner loops, which has the same fixed points.

A fixed point is the global optimum: the step of W_i makes U_i = W_i P the top-d eigenvectors of
S_bⁱ - αS_tⁱ for any P. If no step increases α, each U_i maximises tr(U_iᵀ(S_bⁱ - αS_tⁱ)U_i) at this
α, and their sum is 0, so α is the root of F (see :mod:`algorithms.numerics.trace_ratio`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.eigen import complete
from algorithms.numerics.trace_ratio import Pencil, leading_with_ties


@dataclass(frozen=True, slots=True, kw_only=True)
class MTDAState(LoopState):
    """State of the alternation.

    Parameters
    ----------
    P : (d', d)
    W : (sum of q_i, d')
        All W_i, concatenated, in coordinates of the span and of d' directions outside it.
    """

    P: Array
    W: Array


@dataclass(frozen=True, slots=True, eq=False)
class ScatterBlock:
    """The matrices S_b and S_t of one task, in the coordinates of its W_i.

    Parameters
    ----------
    between : (n_classes, q)
        B with S_b = BᵀB.
    total : (q,)
        Diagonal of S_t with its ridge.
    tie
        Tolerance for equal eigenvalues of S_b - αS_t.
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
) -> MTDAState:
    """Return the P and W_i that maximise eq. 3, from a random start.

    Parameters
    ----------
    pencils
        One per task, all with the same k = d <= d' and with at least d' dimensions.
    """
    blocks = [_block(pencil, d_prime) for pencil in pencils]
    ends = np.cumsum([block.total.size for block in blocks])[:-1]
    W = [_orthonormal(rng, block.total.size, d_prime) for block in blocks]
    P = _orthonormal(rng, d_prime, pencils[0].k)
    alpha = ratio_of(blocks, W, P)

    def step(state: MTDAState) -> MTDAState:
        W, P = list(np.split(state.W, ends)), state.P
        for i, block in enumerate(blocks):
            A = block.difference(ratio_of(blocks, W, P))
            W[i] = best_factor(A, P, between=block.between, tie=block.tie)
        P = _best_common(blocks, W, ratio_of(blocks, W, P), d=P.shape[1])
        alpha = ratio_of(blocks, W, P)
        change = abs(alpha - state.objective)
        return MTDAState(objective=alpha, residual=change, P=P, W=np.concatenate(W))

    start = MTDAState(objective=alpha, residual=1.0, P=P, W=np.concatenate(W))
    return trace.run("alternation", step, start, max_iter=max_iter, tolerance=tolerance)


def ratio_of(blocks: Sequence[ScatterBlock], W: Sequence[Array], P: Array) -> float:
    """Return the objective of eq. 3; 0 if there is no scatter."""
    U = [W_i @ P for W_i in W]
    between = sum(float(np.sum((b.between @ U_i) ** 2)) for U_i, b in zip(U, blocks, strict=True))
    total = sum(float(np.sum(b.total @ U_i**2)) for U_i, b in zip(U, blocks, strict=True))
    return between / total if total > 0 else 0.0


def best_factor(A: Array, P: Array, *, between: Array, tie: float) -> Array:
    """Return the W (p, d') with WᵀW = I that maximises tr(WᵀAWPPᵀ), by the corrected Theorem 1.

    Parameters
    ----------
    A : (p, p)
        Symmetric, p >= d'.
    P : (d', d)
        Orthonormal columns.
    between : (n_classes, p)
        B with S_b = BᵀB. Among equal eigenvalues, directions with the largest S_b are used: at the
        largest ratio, the last useful direction and fillers have equal eigenvalues.
    tie
        Eigenvalues that differ by less count as equal.
    """
    d_prime, d = P.shape
    U = leading_with_ties(A, between, d, tie=tie)
    return parts_from(complete(U.T, d_prime).T, P)


def parts_from(V: Array, P: Array) -> Array:
    """Return W = V [P, P⊥]ᵀ, for which W P are the first d of the d' columns of V (p, d')."""
    V_B = complete(P.T, P.shape[0]).T
    return np.asarray(V @ V_B.T)


def _best_common(
    blocks: Sequence[ScatterBlock], W: Sequence[Array], alpha: float, *, d: int
) -> Array:
    """Return the top-d eigenvectors of Σ W_iᵀ(S_bⁱ - αS_tⁱ)W_i, a step on eq. 6."""
    pairs = list(zip(W, blocks, strict=True))
    A = np.sum([W_i.T @ b.difference(alpha) @ W_i for W_i, b in pairs], axis=0)
    between = np.concatenate([b.between @ W_i for W_i, b in pairs])
    return leading_with_ties((A + A.T) / 2, between, d, tie=sum(b.tie for b in blocks))


def _block(pencil: Pencil, d_prime: int) -> ScatterBlock:
    """Return the scatter matrices in the span and in up to d' fillers."""
    n_fillers = min(pencil.n_fillers, d_prime)
    between = np.pad(pencil.between, ((0, 0), (0, n_fillers)))
    return ScatterBlock(between, np.pad(pencil.total, (0, n_fillers)) + pencil.ridge, pencil.tie)


def _orthonormal(rng: np.random.Generator, p: int, q: int) -> Array:
    return np.linalg.qr(rng.standard_normal((p, q)))[0]
