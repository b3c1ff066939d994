"""The choice of gamma by leave-one-out, on a scale that does not hang on units."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.trace import LoopState, Trace
from algorithms.linear.design import Design
from algorithms.linear_baselines.params import LeaveOneOutParams

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen gamma, and how it was chosen, as JSON."""

    gamma: float
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Errors(LoopState):
    """Errors (n_gammas,) of the candidates, of which some are done."""

    errors: Array
    n_done: int


def choose_gamma(
    params: LeaveOneOutParams, error: Callable[[float], float], *, trace: Trace, task: str
) -> Choice:
    """Give gamma as given, or the one of least error, the largest if several.

    Parameters
    ----------
    error
        Leave-one-out error of a gamma; NaN where there is none.
    task
        A task to name in a complaint.

    Raises
    ------
    InvalidData
        No error can be told, since no task has two rows.
    """
    if params.selection == "given":
        return Choice(params.gamma, {"gamma": params.gamma, "selection": "given"})
    tried = sorted(set(params.grid), reverse=True)

    def step(state: _Errors) -> _Errors:
        errors, n_done = state.errors.copy(), state.n_done + 1
        errors[state.n_done] = error(tried[state.n_done])
        if not np.isfinite(errors[state.n_done]):
            raise InvalidData(
                f"task '{task}' and all others have one row, or rows that belong together, which "
                "leaves none to choose gamma by; use selection 'given'",
                task=task,
            )
        left = 1 - n_done / len(tried)
        least = float(errors[:n_done].min())
        return _Errors(objective=least, residual=left, errors=errors, n_done=n_done)

    start = _Errors(objective=0.0, residual=1.0, errors=np.zeros(len(tried)), n_done=0)
    found = trace.run("selection", step, start, max_iter=len(tried), tolerance=0.0).errors
    gamma = tried[int(np.argmin(found))]
    facts = {
        "selection_gammas": tried,
        "selection_errors": [float(one) for one in found],
    }
    return Choice(gamma, {"gamma": gamma, "selection": "loo", **facts})


def mean_known(squares: Array) -> float:
    """Give the mean of what is known; NaN where nothing is."""
    known = squares[np.isfinite(squares)]
    return float(known.mean()) if known.size else np.nan


def column_variance(design: Design) -> float:
    """Give the mean variance of a column over the rows of all tasks; 1 where there is none."""
    X = np.concatenate(design.rows)
    q = design.basis.n_features if design.basis.references is None else 1
    variance = float(X.var(axis=0).sum()) / q
    return variance if variance > 0 else 1.0
