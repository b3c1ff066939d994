"""The solvers of MTFL, and the choice between them.

For the square loss ``auto`` selects ADMM if the curvatures of all tasks have a small ratio, and
variable projection otherwise. ADMM and proximal gradient need steps in proportion to the root of
that ratio, each of which costs O(T d²); a step of variable projection costs O(T d³). Proximal
gradient replaces ADMM for large problems in which a task has dependent columns.
``docs/benchmarks/speed.md`` has the times of all solvers.
"""

from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.trace import LoopState, StoppingRule, Trace
from algorithms.mtfl.admm import ADMMState, alternate_directions
from algorithms.mtfl.alternation import AlternationState, alternate
from algorithms.mtfl.factors import minimise_factors
from algorithms.mtfl.margins import MarginProblem, mean_scores
from algorithms.mtfl.projection import minimise_root
from algorithms.mtfl.proximal import descend_proximal
from algorithms.mtfl.square import SquareProblem, fit_in_metric, relative_gap
from algorithms.solvers.proximal_gradient import ProximalState

Array = NDArray[np.float64]
Solver = Literal["auto", "variable-projection", "admm", "proximal-gradient", "alternation"]

#: Largest ratio of curvatures over all tasks for which ADMM needs few steps, and the
#: same divided by d², for which its steps cost less than the fewer ones of variable projection.
WELL_CONDITIONED = 100.0
WELL_CONDITIONED_PER_SQUARE = 0.05
#: T d³ from which a step of variable projection costs so much that the other methods are faster
#: whatever the curvatures are.
LARGE_STEP = 5e7
#: Share of D that a warm start spreads over all directions, so that none has weight 0.
WARM_SHARE = 0.03


class _Limits(TypedDict):
    """What every solver takes: its loop, and when it ends."""

    trace: Trace
    loop: str
    max_iter: int
    tolerance: float


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The result of a solver.

    Parameters
    ----------
    W : (T, d)
    b : (T,)
        Intercepts; zero for the square loss, whose rows are centred.
    U : (d, r) or (d,)
        Root of D, D = UUᵀ with trace 1.
    objective, bound
        Value at W, and the dual lower bound on the optimum.
    solver
        Name of the solver.
    """

    W: Array
    b: Array
    U: Array
    objective: float
    bound: float
    solver: str

    @property
    def gap(self) -> float:
        """Relative duality gap."""
        return relative_gap(self.objective, self.bound)


def solve(
    problem: SquareProblem | MarginProblem,
    start: Solution | None,
    *,
    solver: Solver,
    stopping: StoppingRule,
    trace: Trace,
    loop: str,
) -> Solution:
    """Return the optimum.

    Parameters
    ----------
    start
        Solution of a similar problem for a warm start.
    """
    limits: _Limits = {
        "trace": trace,
        "loop": loop,
        "max_iter": stopping.max_iter,
        "tolerance": stopping.tolerance,
    }
    if isinstance(problem, MarginProblem):
        return _solve_margins(problem, start, limits)
    W = None if start is None else start.W
    if solver == "auto":
        solver = _suitable(problem)
    if solver == "variable-projection":
        return _by_projection(problem, W, limits)
    state: ADMMState | ProximalState | AlternationState
    if solver == "admm":
        state = alternate_directions(problem, W, **limits)
    elif solver == "proximal-gradient":
        shape = (problem.stacks.n_columns, problem.stacks.n_features)
        curvature = problem.stacks.curvatures[1]
        first = np.zeros(shape) if W is None else W
        state = descend_proximal(problem, first, L=curvature, **limits)
    else:  # Algorithm 1 from D = I/d, without a warm start
        state = alternate(problem, _even_root(problem), **limits)
    return _solution(state.W, problem.norm.root(state.W, 0.0), state, solver)


def _suitable(problem: SquareProblem) -> Solver:
    """Return the solver that 'auto' selects."""
    stacks = problem.stacks
    if stacks.n_columns * stacks.n_features**3 >= LARGE_STEP:
        return "proximal-gradient" if stacks.inverses is None else "admm"
    if not stacks.is_tall:  # a curvature is 0
        return "variable-projection"
    low, high = stacks.curvatures
    most = max(WELL_CONDITIONED, WELL_CONDITIONED_PER_SQUARE * stacks.n_features**2)
    return "admm" if high <= most * low and stacks.inverses is not None else "variable-projection"


def _by_projection(problem: SquareProblem, start: Array | None, limits: _Limits) -> Solution:
    W = _first_fit(problem) if start is None else start
    state = minimise_root(problem, problem.norm.spread_root(W, WARM_SHARE), **limits)
    W = problem.norm.lift(state.V, state.U)
    U = state.U / np.linalg.norm(state.U)
    return _solution(W, U, state, "variable-projection")


def _solve_margins(problem: MarginProblem, start: Solution | None, limits: _Limits) -> Solution:
    T, d = problem.stacks.n_columns, problem.stacks.n_features
    first = (np.zeros((T, d)), np.zeros(T))
    if start is not None:
        first = (start.W, start.b + mean_scores(problem, start.W))
    state = minimise_factors(problem, first, **limits)
    U = problem.norm.root(state.W, 0.0)
    b = state.b - mean_scores(problem, state.W)
    return Solution(state.W, b, U, state.objective, state.bound, "factors")


def _solution(W: Array, U: Array, state: LoopState, solver: str) -> Solution:
    """Return the solution for the square loss; the residual of the loop is the relative gap."""
    bound = state.objective * (1 - state.residual)
    return Solution(W, np.zeros(len(W)), U, state.objective, bound, solver)


def _first_fit(problem: SquareProblem) -> Array:
    """Return the optimal W (T, d) for the fixed metric D = I/d."""
    U = _even_root(problem)
    return problem.norm.lift(fit_in_metric(problem, U).V, U)


def _even_root(problem: SquareProblem) -> Array:
    d = problem.stacks.n_features
    root = np.full(d, d**-0.5)
    return np.diag(root) if problem.norm.is_full else root
