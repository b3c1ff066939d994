"""Output-kernel learning with a diagonal Θ: a machine per task with a learned scale.

    min  C Σ_i L(y_i, F(x_i, t_i)) + ½‖F‖² + λ V(Θ),   Θ diagonal

This is problem (6) of FMTL (Jawanpuria et al. 2015) without relations between tasks: a gain of FMTL
over it is due to sharing, and not to a different regularisation of each task. V is a sum over
entries, so the problem decouples into one problem for each task or class, with the same λ.

Cost: dual coordinate ascent for each output.

Reference: Jawanpuria, Lapin, Hein, Schiele, *Efficient Output Kernel Learning for Multiple Tasks*,
NIPS 2015, https://arxiv.org/abs/1511.05706
"""

from dataclasses import replace

import numpy as np

from algorithms.families.kernel_machines.algorithm import MachineAlgorithm
from algorithms.families.kernel_machines.ascent import coordinate_ascent
from algorithms.families.kernel_machines.building import Solution, solution_of
from algorithms.families.kernel_machines.certificate import Certificate
from algorithms.families.kernel_machines.examples import Examples
from algorithms.families.kernel_machines.output_kernels import OutputKernel
from algorithms.families.kernel_machines.params import PenaltyParams
from algorithms.families.kernel_machines.preparation import Prepared, loss_of, mean_rows, penalty_of
from algorithms.families.kernel_machines.problem import Problem
from algorithms.interface.trace import Trace


class ScaledMachinesParams(PenaltyParams):
    """Parameters of machines with a learned scale."""


class ScaledMachines(MachineAlgorithm[ScaledMachinesParams]):
    """A kernel machine for each task with a learned scale."""

    name = "kernel-scaled"
    role = "single_task"
    title = "Kernel machine per task, learned scale"
    summary = (
        "A separate kernel machine for each task, with a strength that is learned as in fmtl. The "
        "baseline that separates gains of fmtl by sharing from gains by scaling."
    )
    reference = "Jawanpuria et al. (2015), https://arxiv.org/abs/1511.05706"
    Params = ScaledMachinesParams

    def solve(
        self, prepared: Prepared, params: ScaledMachinesParams, *, seed: int, trace: Trace
    ) -> tuple[str, Solution]:
        """Return the machine and the Θ_tt of each output."""
        kernel = penalty_of(params, mean_rows(prepared.examples))
        n_outputs = prepared.examples.n_outputs
        trace.expect_loops(len(trace.stop_reasons) + n_outputs)
        solutions = []
        for r in range(n_outputs):
            problem = _problem_of_output(prepared, r, params, kernel)
            end = coordinate_ascent(
                problem, "tasks", seed=seed, max_iter=params.max_iter, tolerance=params.tolerance,
                trace=trace, loop=f"output {r + 1}",
            )  # fmt: skip
            solutions.append(solution_of(problem, end.kappa, reason=trace.stop_reason))
        return "tasks", _combine(solutions)


def _problem_of_output(
    prepared: Prepared, r: int, params: ScaledMachinesParams, kernel: OutputKernel
) -> Problem:
    """Return the problem of a single output."""
    e = prepared.examples
    rows, part = e.rows[r], e.parts[r]
    n = part.stop - part.start
    output_examples: Examples = replace(
        e,
        X=np.ascontiguousarray(e.X[rows]),
        first=np.zeros(1, dtype=np.intp),
        stop=np.full(1, n, dtype=np.intp),
        offsets=np.array([0, n], dtype=np.intp),
        y=np.ascontiguousarray(e.y[part]),
        w=np.ascontiguousarray(e.w[part]),
    )
    K = None if prepared.K is None else np.ascontiguousarray(prepared.K[rows, rows])
    return Problem(output_examples, K, loss_of(params, e), kernel)


def _combine(solutions: list[Solution]) -> Solution:
    """Return the solution for all outputs, with zeros outside the diagonals."""
    reasons = [solution.reason for solution in solutions if solution.reason != "converged"]
    certificates = [solution.certificate for solution in solutions]
    return Solution(
        kappa=np.concatenate([solution.kappa for solution in solutions]),
        theta=np.diag([solution.theta[0, 0] for solution in solutions]),
        g=np.diag([solution.g[0, 0] for solution in solutions]),
        F=np.concatenate([solution.F for solution in solutions]),
        certificate=Certificate(
            primal=sum(certificate.primal for certificate in certificates),
            dual=sum(certificate.dual for certificate in certificates),
            terms=np.concatenate([certificate.terms for certificate in certificates]),
            penalty_gap=sum(certificate.penalty_gap for certificate in certificates),
        ),
        reason=reasons[0] if reasons else "converged",
    )
