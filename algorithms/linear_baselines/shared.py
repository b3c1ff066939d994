"""What the linear baselines do alike."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.trace import LoopState, Trace
from algorithms.linear.design import Design
from algorithms.linear.targets import Classes, Targets
from algorithms.linear_baselines.params import LeaveOneOutParams

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Solved(LoopState):
    """W (T, q) and b (T,), found in one step."""

    W: Array
    b: Array


def solve_at_once(
    solve: Callable[[], tuple[Array, Array, float]], trace: Trace
) -> tuple[Array, Array]:
    """Give W and b by one step under the trace, the place where a cancel enters.

    Parameters
    ----------
    solve
        Gives W (T, q), b (T,) and the objective.
    """

    def step(state: _Solved) -> _Solved:
        del state
        W, b, objective = solve()
        return _Solved(objective=objective, residual=0.0, W=W, b=b)

    start = _Solved(objective=0.0, residual=1.0, W=np.zeros((1, 1)), b=np.zeros(1))
    found = trace.run("solution", step, start, max_iter=1, tolerance=0.5)
    return found.W, found.b


def column_variance(design: Design) -> float:
    """Give the mean variance of a column over the rows of all tasks; 1 where there is none."""
    X = np.concatenate(design.rows)
    q = design.basis.n_features if design.basis.references is None else 1
    variance = float(X.var(axis=0).sum()) / q
    return variance if variance > 0 else 1.0


def pooled(design: Design) -> Design:
    """Give the design of one task that holds all rows.

    Raises
    ------
    InvalidData
        The tasks have unlike labels.
    """
    check_same_classes(design.names, [one.classes for one in design.targets])
    Y = np.concatenate([one.Y for one in design.targets])
    joined = Targets(Y, design.targets[0].classes)
    return replace(design, names=("all",), rows=(np.concatenate(design.rows),), targets=(joined,))


def check_two_classes(summaries: Sequence[TaskSummary], *, what: str) -> None:
    """Raise InvalidData for a task of more than two classes."""
    for task in summaries:
        if task.n_classes > 2:
            raise InvalidData(
                f"task '{task.name}' has {task.n_classes} classes; {what} takes numbers or two "
                "classes per task, so merge classes or use form 'task' of ridge",
                task=task.name,
            )


def check_same_classes(names: Sequence[str], classes: Sequence[Classes | None]) -> None:
    """Raise InvalidData where tasks that are pooled have unlike labels."""
    for name, one in zip(names, classes, strict=True):
        if one != classes[0]:
            raise InvalidData(
                f"task '{names[0]}' has the classes {classes[0]}, task '{name}' {one}; "
                "form 'pooled' needs the same in all, so use form 'task'",
                task=name,
            )


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
                f"task '{task}' and all others have one row, which leaves none to choose gamma "
                "by; use selection 'given'",
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
