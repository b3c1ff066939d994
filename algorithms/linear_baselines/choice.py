"""The choice of gamma by leave-one-out, on a scale that does not hang on units."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.grid_ends import end_warnings
from algorithms.interface.trace import LoopState, Trace
from algorithms.linear.design import Design
from algorithms.linear_baselines.params import LeaveOneOutParams
from algorithms.numerics.centering import is_flat

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen gamma, how it was chosen, as JSON, and what the user should know of that."""

    gamma: float
    fit_info: dict[str, Any]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Errors(LoopState):
    """Errors (n_gammas, n) of the candidates, of which some are done: of all rows, and others."""

    errors: Array
    n_done: int


def choose_gamma(
    params: LeaveOneOutParams, error: Callable[[float], float], *, trace: Trace, task: str
) -> Choice:
    """Return gamma as given, or the one of least error, the largest if several.

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
    return choose_gammas(params, lambda gamma: [error(gamma)], trace=trace, task=task)[0]


def choose_gammas(
    params: LeaveOneOutParams,
    errors: Callable[[float], Sequence[float]],
    *,
    trace: Trace,
    task: str,
) -> tuple[Choice, list[float]]:
    """Return gamma for all rows and for each of some parts of them, as :func:`choose_gamma`.

    Parameters
    ----------
    errors
        Leave-one-out errors of a gamma: of all rows, and of each part. A part of which there is no
        error has the gamma of all.
    """
    if params.selection == "given":
        return Choice(params.gamma, {"gamma": params.gamma, "selection": "given"}), []
    tried = sorted(set(params.grid), reverse=True)

    def step(state: _Errors) -> _Errors:
        found = np.array(errors(tried[state.n_done]))
        if not np.isfinite(found[0]):
            raise InvalidData(
                f"task '{task}' and all others have one row, or rows that belong together, which "
                "leaves none to choose gamma by; use selection 'given'",
                task=task,
            )
        done, n_done = np.vstack([*state.errors, found]), state.n_done + 1
        left = 1 - n_done / len(tried)
        least = float(done[:, 0].min())
        return _Errors(objective=least, residual=left, errors=done, n_done=n_done)

    start = _Errors(objective=0.0, residual=1.0, errors=np.zeros((0, 1)), n_done=0)
    found = trace.run("selection", step, start, max_iter=len(tried), tolerance=0.0).errors
    gammas = [
        tried[i]
        for i in np.where(np.isfinite(found).all(axis=0), found, found[:, :1]).argmin(axis=0)
    ]
    fit_info = {
        "selection_gammas": tried,
        "selection_errors": [float(one) for one in found[:, 0]],
    }
    choice = Choice(
        gammas[0],
        {"gamma": gammas[0], "selection": "loo", **fit_info},
        end_warnings(params, {"gamma": gammas[0]}),
    )
    return choice, gammas[1:]


def mean_known(squares: Array) -> float:
    """Return the mean of what is known; NaN where nothing is."""
    known = squares[np.isfinite(squares)]
    return float(known.mean()) if known.size else np.nan


def column_variance(design: Design) -> float:
    """Return the mean variance of a column over the rows of all tasks; 1 where there is none."""
    X = np.concatenate(design.rows)
    q = design.basis.n_features if design.basis.references is None else 1
    variances = X.var(axis=0)
    variances[is_flat(variances, np.abs(X).max(axis=0))] = 0.0
    variance = float(variances.sum()) / q
    return variance if variance > 0 else 1.0
