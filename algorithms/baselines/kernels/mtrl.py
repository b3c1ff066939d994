"""MTRL: kernel machines with a learned output kernel of bounded trace.

    min  C Σ L(y_i, F(x_i, t_i)) + ½‖F‖²   over F and Θ >= 0, tr Θ <= τ

The method alternates between training the machines for a fixed Θ and the update
Θ ← τ B^{1/2} / tr B^{1/2}, B = ΘGΘ, which is optimal for fixed functions F. The bound on the trace
favours a low rank of Θ, so that all tasks are mixtures of a few latent ones. With κ = α/C and
g = G/C², the dual value of κ is C (Σ gain - ½ Cτ λ_max(g)), so the duality gap is known for any Θ.

τ is the number of outputs on both scales, so that C means the same as for a single task. Cost: dual
coordinate ascent for each Θ, and eigendecompositions (T, T).

Reference: Zhang, Yeung, *A convex formulation for learning task relationships in multi-task
learning*, UAI 2010, https://arxiv.org/abs/1203.3536
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from algorithms.families.kernel_machines.algorithm import MachineAlgorithm
from algorithms.families.kernel_machines.ascent import AscentMethod, coordinate_ascent
from algorithms.families.kernel_machines.building import Solution
from algorithms.families.kernel_machines.certificate import Certificate
from algorithms.families.kernel_machines.output_kernels import fixed_kernel
from algorithms.families.kernel_machines.params import MachineParams
from algorithms.families.kernel_machines.preparation import Prepared, loss_of
from algorithms.families.kernel_machines.problem import Problem
from algorithms.families.kernel_machines.work import estimate_ascent
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.trace import LoopState, Trace
from algorithms.interface.work import EIGEN_FLOPS, WorkEstimate, n_outputs, n_rows
from algorithms.numerics.arrays import Array
from algorithms.numerics.gaps import relative_gap

#: Maximum number of passes for one Θ; few, because the next Θ costs little.
INNER_PASSES = 20
#: Tolerance of the machines for one Θ, relative to the tolerance of the fit.
INNER_GAP_FRACTION = 0.1
#: Smallest eigenvalue of Θ relative to the mean; an eigenvalue of 0 would stay 0.
FLOOR = 1e-4
#: Steps if a task has up to so many rows for each output, and the exponent with which they decrease
#: with more rows; passes in each step. Counted in benchmarks.
N_STEPS: Final = 300.0
FEW_ROWS: Final = 30.0
DECREASE: Final = 1.4
PASSES_PER_STEP: Final = {"numbers": 2.0, "classes": 5.0}


class MTRLParams(MachineParams):
    """Parameters of MTRL."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MTRLState(LoopState):
    """Θ (T, T), the dual variables κ (n,) of its machines, and the best dual value / C."""

    Theta: Array
    kappa: Array
    dual: float


class MTRL(MachineAlgorithm[MTRLParams]):
    """Kernel machines with an output kernel of bounded trace."""

    name = "mtrl"
    title = "Multi-task relationship learning"
    summary = (
        "Kernel machines with a learned matrix of task relations of bounded trace. A published "
        "alternative to fmtl, for comparison."
    )
    reference = "Zhang and Yeung (2010), https://arxiv.org/abs/1203.3536"
    Params = MTRLParams

    def solver_work(self, summaries: Sequence[TaskSummary], params: MTRLParams) -> WorkEstimate:
        """Return the work of the machines for each Θ, and of the eigendecompositions."""
        m = n_outputs(summaries)
        ratio = FEW_ROWS * m * len(summaries) / n_rows(summaries)
        n_steps = min(max(N_STEPS * min(ratio, 1.0) ** DECREASE, 5.0), params.max_iter)
        kind = "numbers" if summaries[0].target == "numbers" else "classes"
        step_work = estimate_ascent(summaries, params, passes=PASSES_PER_STEP[kind])
        relations = WorkEstimate(
            f"{n_steps:.0f} eigendecompositions of the relations of {m:,} tasks",
            "use fewer tasks",
            flops=n_steps * 2 * EIGEN_FLOPS * m**3,
        )
        machines = replace(
            step_work.times(n_steps), largest=f"{n_steps:.0f} steps, each with {step_work.largest}"
        )
        return machines + relations

    def solve(
        self, prepared: Prepared, params: MTRLParams, *, seed: int, trace: Trace
    ) -> tuple[str, Solution]:
        """Return the machines and Θ."""
        return _solve(prepared, params, seed=seed, trace=trace)


def _solve(
    prepared: Prepared, params: MTRLParams, *, seed: int, trace: Trace
) -> tuple[str, Solution]:
    """Alternate between machines and Θ, and return the solution."""
    e, C = prepared.examples, params.C
    T, loss = e.n_outputs, loss_of(params, e)

    def state(
        Theta: Array, start: Array | None, best: float, products: Array | None = None
    ) -> MTRLState:
        problem = Problem(e, prepared.K, loss, fixed_kernel(Theta, C=C))
        method: AscentMethod = "blocks" if e.is_shared else "tasks"
        end = coordinate_ascent(
            problem, method, start=start, products=products, seed=seed, max_iter=INNER_PASSES,
            tolerance=INNER_GAP_FRACTION * params.tolerance, trace=Trace(),
        )  # fmt: skip
        solution = solution_at(problem, end.kappa, T=T)
        best = max(best, solution.certificate.dual)
        primal = solution.certificate.primal
        gap = relative_gap(primal, primal - best)
        return MTRLState(objective=C * best, residual=gap, Theta=Theta, kappa=end.kappa, dual=best)

    def step(before: MTRLState) -> MTRLState:
        problem = Problem(e, prepared.K, loss, fixed_kernel(before.Theta, C=C))
        products = problem.products(before.kappa)
        g = problem.gram(before.kappa, products)
        values, V = np.linalg.eigh(before.Theta @ g @ before.Theta)
        root = (V * np.sqrt(np.maximum(values, 0.0))) @ V.T
        trace_of_root = float(np.trace(root))
        if trace_of_root == 0.0:
            return state(before.Theta, before.kappa, before.dual, products)
        Theta = (1.0 - FLOOR) * T / trace_of_root * root + FLOOR * np.eye(T)
        return state(Theta, before.kappa, before.dual, products)

    end = trace.run(
        "alternation", step, state(np.eye(T), None, -np.inf), max_iter=params.max_iter,
        tolerance=params.tolerance,
    )  # fmt: skip
    problem = Problem(e, prepared.K, loss, fixed_kernel(end.Theta, C=C))
    return "alternation", solution_at(problem, end.kappa, T=T, trace=trace)


def solution_at(problem: Problem, kappa: Array, *, T: int, trace: Trace | None = None) -> Solution:
    """Return the solution for the given Θ, with its duality gap under the constraint tr Θ <= T.

    Parameters
    ----------
    trace
        Has the reason why the solver stopped; None: the solution has no reason.
    """
    e, theta, C = problem.examples, problem.kernel.Theta, problem.kernel.C
    products = problem.products(kappa)
    g = problem.gram(kappa, products)
    F = problem.predictions(products, theta)
    gains = problem.loss.gains(e.y, kappa, e.w)
    terms = problem.loss.values(e.y, F, e.w) - gains + kappa * F
    bound = 0.5 * C * T * max(float(np.linalg.eigvalsh(g)[-1]), 0.0)
    extra = bound - 0.5 * float(np.vdot(theta, g))
    dual = float(gains.sum()) - bound
    certificate = Certificate(dual + float(terms.sum()) + extra, dual, terms, extra)
    return Solution(kappa, theta, g, F, certificate, None if trace is None else trace.stop_reason)
