"""When an iterative solver stops."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StoppingRule:
    """Limits of one iterative solver.

    Parameters
    ----------
    tolerance
        The solver has converged once its residual is at most this. The solver defines the
        residual, for example a relative duality gap or a relative gradient norm.
    max_iter
        Maximum number of iterations.
    """

    tolerance: float
    max_iter: int
