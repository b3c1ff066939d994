"""Dual coordinate ascent by SDCA, task by task, or by blocks of rows that all tasks share.

*SDCA* (Algorithm 1 of Jawanpuria et al. 2015): single examples in random order, O(n + T) per step.
*Tasks*: each task in turn, with the contributions of the others fixed: sweeps at O(n_r + T) per
step until they change little, then one matrix-vector product. For tasks with different rows. The
penalty exp relates all tasks, so each pass begins with a pass of SDCA; sweeps alone need 3 to 30
times as many passes.
*Blocks*: 64 shared rows with all tasks: two sweeps on their kernel matrix, then one matrix product.
Blocks are random in every pass; fixed blocks need ten times as many passes.

One iteration is one pass over all examples. Its objective is the dual value, its residual the
relative duality gap.
"""

from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.trace import LoopState, Trace
from algorithms.kernel_machines.certificate import Certificate, certify
from algorithms.kernel_machines.examples import Examples
from algorithms.kernel_machines.losses import Loss
from algorithms.kernel_machines.output_kernels import OutputKernel
from algorithms.numerics import kernels_fmtl as kernels
from algorithms.numerics import kernels_fmtl_tasks as task_kernels

Array = NDArray[np.float64]
AscentMethod = Literal["sdca", "tasks", "blocks"]

#: Maximum number of sweeps over one task per pass.
TASK_SWEEPS = 20
#: Number of rows of a block, and of sweeps over it.
BLOCK_ROWS = 64
BLOCK_SWEEPS = 2
#: Number of passes between computations of the products from scratch; updates accumulate errors.
RECOMPUTE_EVERY = 10


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """A dual problem: examples with a kernel matrix, or with features if ``K`` is None.

    Parameters
    ----------
    examples
        ``examples.X`` are the features if ``K`` is None.
    K : (N, N) or None
    loss
        Loss of the predictions.
    kernel
        Output kernel.
    """

    examples: Examples
    K: Array | None
    loss: Loss
    kernel: OutputKernel

    def products(self, kappa: Array) -> Array:
        """Return κ_sᵀK (T, N) for a kernel matrix, or X_sᵀκ_s (T, d) for features."""
        e = self.examples
        source = e.X if self.K is None else self.K
        if not kappa.any():
            return np.zeros((e.n_outputs, source.shape[1]))
        if e.is_shared:
            return np.ascontiguousarray(kappa.reshape(e.n_outputs, -1) @ source)
        parts = [kappa[e.part(r)] @ source[e.rows(r)] for r in range(e.n_outputs)]
        return np.ascontiguousarray(np.stack(parts))

    def gram(self, kappa: Array, products: Array) -> Array:
        """Return g (T, T), exactly symmetric."""
        e = self.examples
        if self.K is None:
            g = products @ products.T
        elif e.is_shared:
            g = products @ kappa.reshape(e.n_outputs, -1).T
        else:
            parts = [products[:, e.rows(r)] @ kappa[e.part(r)] for r in range(e.n_outputs)]
            g = np.stack(parts, axis=1)
        return np.ascontiguousarray((g + g.T) / 2)

    def predictions(self, products: Array, theta: Array) -> Array:
        """Return the prediction F for each example, (n,)."""
        e = self.examples
        if self.K is None:
            mixed = theta @ products
            return np.concatenate([e.X[e.rows(r)] @ mixed[r] for r in range(e.n_outputs)])
        if e.is_shared:
            return np.asarray(theta @ products).ravel()
        return np.concatenate([theta[r] @ products[:, e.rows(r)] for r in range(e.n_outputs)])

    def certificate(
        self, kappa: Array, products: Array | None = None, g: Array | None = None
    ) -> Certificate:
        """Return the certificate of κ (n,)."""
        products = self.products(kappa) if products is None else products
        g = self.gram(kappa, products) if g is None else g
        F = self.predictions(products, self.kernel.theta(g))
        e = self.examples
        return certify(y=e.y, w=e.w, kappa=kappa, F=F, g=g, loss=self.loss, kernel=self.kernel)

    def initial_kappa(self) -> Array:
        """Return the initial κ (n,), scaled such that Θ is of moderate size."""
        kappa = self.loss.initial_kappa(self.examples.y, self.examples.w)
        return kappa * self.kernel.shrinkage(self.gram(kappa, self.products(kappa)))


@dataclass(frozen=True, slots=True, kw_only=True)
class AscentState(LoopState):
    """A dual point.

    Parameters
    ----------
    kappa : (n,)
    products : (T, N) or (T, d)
        κ_sᵀK or X_sᵀκ_s, updated in each step and recomputed at intervals.
    g : (T, T)
        κᵀKκ, task by task.
    epoch
        Number of passes; seeds the order of the next pass.
    """

    kappa: Array
    products: Array
    g: Array
    epoch: int

    def final(self) -> Self:
        """Return the state without the products, which follow from κ."""
        return replace(self, products=self.products[:0])


def coordinate_ascent(
    problem: Problem,
    method: AscentMethod,
    *,
    start: Array | None = None,
    seed: int,
    max_iter: int,
    tolerance: float,
    trace: Trace,
    loop: str = "ascent",
) -> AscentState:
    """Maximise the dual until the relative gap is below the tolerance; return the last state.

    Parameters
    ----------
    start : (n,) or None
        Initial κ.
    """
    sweep = {"sdca": _sdca_pass, "tasks": _task_pass, "blocks": _block_pass}[method]
    kappa = problem.initial_kappa() if start is None else start
    pieces = problem.loss.pieces(problem.examples.y, problem.examples.w)
    scale = problem.kernel.C

    def state(kappa: Array, products: Array, *, epoch: int) -> AscentState:
        g = problem.gram(kappa, products)
        certificate = problem.certificate(kappa, products, g)
        return AscentState(
            objective=scale * certificate.dual, residual=certificate.relative_gap, kappa=kappa,
            products=products, g=g, epoch=epoch,
        )  # fmt: skip

    def step(before: AscentState) -> AscentState:
        rng = np.random.default_rng([seed, before.epoch])
        kappa, products, g = before.kappa.copy(), before.products.copy(), before.g.copy()
        recompute = before.epoch % RECOMPUTE_EVERY == RECOMPUTE_EVERY - 1
        sweep(problem, pieces, kappa, products, g, rng=rng, recompute=recompute)
        return state(kappa, products, epoch=before.epoch + 1)

    first = state(kappa, problem.products(kappa), epoch=0)
    return trace.run(loop, step, first, max_iter=max_iter, tolerance=tolerance)


def _sdca_pass(
    problem: Problem,
    pieces: Array,
    kappa: Array,
    products: Array,
    g: Array,
    *,
    rng: np.random.Generator,
    recompute: bool,
) -> None:
    """Update κ and the products by a step for every example, in random order."""
    e, loss, kernel = problem.examples, problem.loss, problem.kernel
    row, output = e.row_and_output()
    source = e.X if problem.K is None else problem.K
    run = kernels.sdca_linear if problem.K is None else kernels.sdca_dense
    run(
        source, rng.permutation(len(kappa)), output, row, pieces, loss.epsilon, loss.is_logistic,
        kernel.rule, kernel.Theta, kappa, products, g,
    )  # fmt: skip
    if recompute:
        products[:] = problem.products(kappa)


def _task_pass(
    problem: Problem,
    pieces: Array,
    kappa: Array,
    products: Array,
    g: Array,
    *,
    rng: np.random.Generator,
    recompute: bool,
) -> None:
    """Update κ, products and g by sweeps over each output, with the others fixed."""
    e, loss, kernel, K = problem.examples, problem.loss, problem.kernel, problem.K
    if kernel.has_dense_theta:
        _sdca_pass(problem, pieces, kappa, products, g, rng=rng, recompute=False)
    keys = rng.random(len(kappa))
    steps = (pieces, loss.epsilon, loss.is_logistic, kernel.rule, kernel.Theta)
    if K is None:  # pass_linear recomputes the products in every pass
        task_kernels.pass_linear(
            e.X, e.first, e.offsets, keys, TASK_SWEEPS, *steps, kappa, products, g
        )
    else:
        task_kernels.pass_dense(
            K, e.first, e.offsets, keys, TASK_SWEEPS, recompute, *steps, kappa, products, g
        )


def _block_pass(
    problem: Problem,
    pieces: Array,
    kappa: Array,
    products: Array,
    g: Array,
    *,
    rng: np.random.Generator,
    recompute: bool,
) -> None:
    """Update κ and the products by sweeps over blocks of shared rows with all outputs."""
    e, loss, kernel, K = problem.examples, problem.loss, problem.kernel, problem.K
    T, N = e.n_outputs, len(e.X)
    kappas, by_output = kappa.reshape(T, N), pieces.reshape(T, N, 5)
    source = e.X if K is None else K
    order = rng.permutation(N)
    for start in range(0, N, BLOCK_ROWS):
        rows = order[start : start + BLOCK_ROWS]
        if K is None:
            K_II, B_I = e.X[rows] @ e.X[rows].T, e.X[rows] @ products.T
        else:
            K_II, B_I = K[np.ix_(rows, rows)], np.ascontiguousarray(products[:, rows].T)
        own = kappas[:, rows]
        task_kernels.block(
            K_II, BLOCK_SWEEPS, by_output[:, rows], loss.epsilon,
            loss.is_logistic, kernel.rule, kernel.Theta, own, B_I, g,
        )  # fmt: skip
        change = own - kappas[:, rows]
        moved = np.flatnonzero(change.any(axis=0))
        kappas[:, rows] = own
        products += change[:, moved] @ source[rows[moved]]
    if recompute:
        products[:] = problem.products(kappa)
