"""Selection of gamma by leave-one-out, and the unit of gamma."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from algorithms.baselines.linear.params import LeaveOneOutParams
from algorithms.families.linear.design import Design
from algorithms.interface.errors import InvalidData
from algorithms.interface.params import end_warnings
from algorithms.interface.trace import LoopState, Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import column_variances, is_flat


@dataclass(frozen=True, slots=True)
class GammaChoice:
    """The selected gamma, the results of the selection as JSON, and warnings."""

    gamma: float
    fit_info: dict[str, Any]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Errors(LoopState):
    """Errors of the first ``n_done`` candidates, (n_done, 1 + n_parts).

    The first column is the error over all rows; the other columns are errors over the parts of
    :func:`choose_gammas`.
    """

    errors: Array
    n_done: int


def choose_gamma(
    params: LeaveOneOutParams, error: Callable[[float], float], *, trace: Trace, task: str
) -> GammaChoice:
    """Return the given gamma, or the largest gamma with the smallest error.

    Parameters
    ----------
    error
        Returns the leave-one-out error of a gamma; NaN if no row can be left out.
    task
        Name of a task for the error message.

    Raises
    ------
    InvalidData
        No row can be left out, because no task has two rows.
    """
    return choose_gammas(params, lambda gamma: [error(gamma)], trace=trace, task=task)[0]


def choose_gammas(
    params: LeaveOneOutParams,
    errors: Callable[[float], Sequence[float]],
    *,
    trace: Trace,
    task: str,
) -> tuple[GammaChoice, list[tuple[float, dict[float, float]]]]:
    """Return the gamma of :func:`choose_gamma` for all rows, and for each part with its errors.

    Parameters
    ----------
    errors
        Returns the leave-one-out errors of a gamma: over all rows, and over each part, such as the
        rows of a task. A part whose error is NaN gets the gamma of all rows.
    """
    if params.selection == "given":
        return GammaChoice(params.gamma, {"gamma": params.gamma, "selection": "given"}), []
    grid = sorted(set(params.grid), reverse=True)

    def step(state: _Errors) -> _Errors:
        row = np.array(errors(grid[state.n_done]))
        if not np.isfinite(row[0]):
            raise InvalidData(
                f"task '{task}' and all others have only one row, or rows that must stay together, "
                "so no row can be held out to select gamma; use selection 'given'",
                task=task,
            )
        done, n_done = np.vstack([*state.errors, row]), state.n_done + 1
        left = 1 - n_done / len(grid)
        smallest = float(done[:, 0].min())
        return _Errors(objective=smallest, residual=left, errors=done, n_done=n_done)

    start = _Errors(objective=0.0, residual=1.0, errors=np.zeros((0, 1)), n_done=0)
    table = trace.run("selection", step, start, max_iter=len(grid), tolerance=0.0).errors
    gammas = [
        grid[i]
        for i in np.where(np.isfinite(table).all(axis=0), table, table[:, :1]).argmin(axis=0)
    ]
    fit_info = {
        "selection_gammas": grid,
        "selection_errors": [float(error) for error in table[:, 0]],
    }
    along = [dict(zip(grid, column, strict=True)) for column in table.T.tolist()]
    choice = GammaChoice(
        gammas[0],
        {"gamma": gammas[0], "selection": "loo", **fit_info},
        end_warnings(params, {"gamma": gammas[0]}, losses={"gamma": along[0]}),
    )
    return choice, list(zip(gammas[1:], along[1:], strict=True))


def mean_known(squares: Array, weights: Array | None = None) -> float:
    """Return the mean of squares (n,) that are finite; NaN if there are none.

    Parameters
    ----------
    weights : (n,) or None
        Weights by which the squares have been multiplied.
    """
    is_known = np.isfinite(squares)
    if not is_known.all():
        squares, weights = squares[is_known], None if weights is None else weights[is_known]
    if not squares.size:
        return np.nan
    return float(squares.sum() / (squares.size if weights is None else weights.sum()))


def column_variance(design: Design) -> float:
    """Return the mean variance of a column over the rows of all tasks; 1 if all are constant."""
    X, weights = np.concatenate(design.rows), design.weights_of_rows
    q = design.basis.n_features if design.basis.references is None else 1
    variances = column_variances(X, weights)
    variances[is_flat(variances, np.abs(X).max(axis=0))] = 0.0
    variance = float(variances.sum()) / q
    return variance if variance > 0 else 1.0
