"""Choice of the solver for a problem.

Each has data on which all others take at least twice its time. *Spectral*: 60 classes of 40 columns
(sweeps take 19 times, Newton's method 11 times its time). *Alternating*: 397 classes of 1,985 rows
with a kernel (spectral 3.6, sweeps 4.1). *Newton*: Landmine with a linear kernel, squared loss and
C = 100 (sweeps 2 to 3, SDCA 7 to 9). *Sweeps*: Landmine with the hinge loss and C = 10 (SDCA 14).
*SDCA* is the paper's solver, and part of the sweeps for the penalty exp.
"""

from collections.abc import Sequence
from typing import Final

from algorithms.families.kernel_machines.ascent import AscentMethod, coordinate_ascent
from algorithms.families.kernel_machines.building import Solution, solution_of
from algorithms.families.kernel_machines.output_kernels import OutputKernel
from algorithms.families.kernel_machines.preparation import Prepared, loss_of
from algorithms.families.kernel_machines.problem import Problem
from algorithms.families.kernel_machines.work import (
    distinct_rows,
    estimate_ascent,
    estimate_ascent_of_machines,
    estimate_spectral,
    n_features,
)
from algorithms.fmtl.alternating import solve_alternating
from algorithms.fmtl.newton import solve_newton
from algorithms.fmtl.params import FMTLParams
from algorithms.fmtl.spectral import solve_spectral
from algorithms.interface.errors import InvalidParams
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.work import WorkEstimate, n_outputs

SMOOTH = ("squared", "huber", "squared-hinge", "logistic")
#: Largest number of rows for which an eigendecomposition of K is always the fastest.
MAX_SPECTRAL_ROWS = 300
#: With fewer rows per output, an eigendecomposition of K is the fastest.
MIN_ROWS_PER_OUTPUT = 4
#: Smallest number of examples per weight for which the primal problem is faster.
MIN_ROWS_PER_WEIGHT = 4
#: Steps of the spectral solver, and products with the features in Newton's method: counted in
#: benchmarks, like the share of the passes that related outputs need.
SPECTRAL_STEPS: Final = 6.0
NEWTON_PASSES: Final = 60.0
RELATED_SHARE: Final = 0.05


def check_solver(summaries: Sequence[TaskSummary], params: FMTLParams) -> None:
    """Raise InvalidParams if the selected solver cannot solve the problem."""
    if params.solver in ("auto", "sdca", "sweeps"):
        return
    is_classes = summaries[0].target == "classes"
    loss = params.loss if params.loss != "auto" else ("hinge" if is_classes else "squared")
    allowed = SMOOTH if params.solver == "newton" else ("squared",)
    if params.penalty != "power" or params.k != 1:
        _refuse(params, "needs penalty 'power' with k = 1")
    if loss not in allowed:
        _refuse(params, f"needs the loss {' or '.join(allowed)}, got {loss}")
    if params.solver == "newton" and params.kernel != "linear" and params.nystrom == 0:
        _refuse(params, "needs kernel 'linear' or landmarks")


def solve(
    prepared: Prepared, params: FMTLParams, kernel: OutputKernel, *, seed: int, trace: Trace
) -> tuple[str, Solution]:
    """Return the name of the solver and its solution."""
    problem = Problem(prepared.examples, prepared.K, loss_of(params, prepared.examples), kernel)
    name: str = params.solver if params.solver != "auto" else choose_solver(problem)
    _check_shape(problem, params, name)
    max_iter, tolerance = params.max_iter, params.tolerance
    if name == "spectral":
        solution = solve_spectral(
            problem, prepared.eigen, max_iter=max_iter, tolerance=tolerance, trace=trace
        )
    elif name == "alternating":
        solution = solve_alternating(
            problem, seed=seed, max_iter=max_iter, tolerance=tolerance, trace=trace
        )
    elif name == "newton":
        solution = solve_newton(problem, max_iter=max_iter, tolerance=tolerance, trace=trace)
    else:
        method: AscentMethod = "blocks" if problem.examples.is_shared else "tasks"
        name = method if name == "sweeps" else "sdca"
        end = coordinate_ascent(
            problem, "sdca" if name == "sdca" else method, seed=seed, max_iter=max_iter,
            tolerance=tolerance, trace=trace,
        )  # fmt: skip
        solution = solution_of(problem, end.kappa, reason=trace.stop_reason)
    return name, solution


def solver_work(summaries: Sequence[TaskSummary], params: FMTLParams) -> WorkEstimate:
    """Return the expected work of :func:`solve` with the solver that 'auto' is likely to choose."""
    N, m = distinct_rows(summaries), n_outputs(summaries)
    is_shared = len(summaries) == 1 or summaries[0].n_samples == N
    is_squared = params.loss == "squared" or summaries[0].target == "numbers"
    q = n_features(summaries, params, N)
    if params.penalty == "power" and params.k == 1 and is_squared:
        if is_shared:
            return estimate_spectral(summaries, params, n_iterations=SPECTRAL_STEPS)
        if q is not None and MIN_ROWS_PER_WEIGHT * q * m <= N:
            return estimate_ascent(summaries, params, passes=NEWTON_PASSES)
    return estimate_ascent_of_machines(summaries, params, related=RELATED_SHARE)


def choose_solver(problem: Problem) -> str:
    """Return the solver that was fastest in benchmarks for this kind and shape of problem."""
    e, loss, rule = problem.examples, problem.loss, problem.kernel.rule
    N, T = len(e.X), e.n_outputs
    if rule[:2] != (1, 1) or loss.name not in SMOOTH:
        return "sweeps"
    is_unweighted = loss.name == "squared" and bool((e.w == 1.0).all())
    if e.is_shared and is_unweighted:
        if problem.K is None or N <= MAX_SPECTRAL_ROWS or T > N // MIN_ROWS_PER_OUTPUT:
            return "spectral"
        return "alternating"
    if problem.K is None and len(e.y) >= MIN_ROWS_PER_WEIGHT * e.X.shape[1] * T:
        return "newton"
    return "sweeps"


def _check_shape(problem: Problem, params: FMTLParams, name: str) -> None:
    """Raise InvalidParams if the selected solver cannot be used with the examples."""
    e = problem.examples
    if name in ("spectral", "alternating"):
        if not e.is_shared:
            _refuse(params, "needs tasks on the same rows, or one task of several classes")
        if (e.w != 1.0).any():
            _refuse(params, "needs equal weights")
    if name == "alternating" and problem.K is None:
        _refuse(params, "needs a kernel matrix; use 'spectral' for a linear kernel")
    if name == "newton" and problem.K is not None:
        _refuse(params, "needs no more features than rows")


def _refuse(params: FMTLParams, reason: str) -> None:
    raise InvalidParams(
        f"solver '{params.solver}' {reason}; solver 'auto' works for every problem",
        field="solver",
    )
