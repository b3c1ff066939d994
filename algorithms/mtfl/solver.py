"""The solvers of MTFL: ADMM for the square loss, and descent on factors for other losses.

Algorithm 1 of the paper is there for comparison. ``docs/benchmarks/speed.md`` has the times.
"""

from dataclasses import dataclass
from typing import Literal, TypedDict

import numpy as np

from algorithms.interface.trace import StoppingRule, Trace
from algorithms.mtfl.admm import ADMMState, alternate_directions
from algorithms.mtfl.alternation import AlternationState, alternate
from algorithms.mtfl.factors import minimise_factors
from algorithms.mtfl.margins import MarginProblem, mean_scores
from algorithms.mtfl.square import SquareProblem, relative_gap
from algorithms.numerics.arrays import Array

#: All but the last mean ADMM: two other methods, which were slower, had these names once.
Solver = Literal["auto", "variable-projection", "admm", "proximal-gradient", "alternation"]


class _Limits(TypedDict):
    """Arguments of every solver: its loop, and when it ends."""

    trace: Trace
    loop: str
    max_iter: int
    tolerance: float


@dataclass(frozen=True, slots=True, eq=False)
class MTFLSolution:
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
    start: MTFLSolution | None,
    *,
    solver: Solver,
    stopping: StoppingRule,
    trace: Trace,
    loop: str,
) -> MTFLSolution:
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
    if solver == "alternation":  # from D = I/d, without a warm start
        root = _even_root(problem)
        return _solution(problem, alternate(problem, root, **limits), "alternation")
    W = None if start is None else start.W
    return _solution(problem, alternate_directions(problem, W, **limits), "admm")


def _solve_margins(
    problem: MarginProblem, start: MTFLSolution | None, limits: _Limits
) -> MTFLSolution:
    T, d = problem.stacks.n_columns, problem.stacks.n_features
    first = (np.zeros((T, d)), np.zeros(T))
    if start is not None:
        first = (start.W, start.b + mean_scores(problem, start.W))
    state = minimise_factors(problem, first, **limits)
    U = problem.norm.root(state.W, 0.0)
    b = state.b - mean_scores(problem, state.W)
    return MTFLSolution(state.W, b, U, state.objective, state.bound, "factors")


def _solution(
    problem: SquareProblem, state: ADMMState | AlternationState, solver: str
) -> MTFLSolution:
    """Return the solution for the square loss; the residual of the loop is the relative gap."""
    W, bound = state.W, state.objective * (1 - state.residual)
    U = problem.norm.root(W, 0.0)
    return MTFLSolution(W, np.zeros(len(W)), U, state.objective, bound, solver)


def _even_root(problem: SquareProblem) -> Array:
    d = problem.stacks.n_features
    root = np.full(d, d**-0.5)
    return np.diag(root) if problem.norm.is_full else root
