"""A new task with the features frozen: its own fit in the metric D."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.stopping import StoppingRule
from algorithms.interface.tasks import Task
from algorithms.interface.trace import Trace
from algorithms.linear.design import unit_of_rows
from algorithms.linear.functions import Functions
from algorithms.mtfl.margins import margin_problem
from algorithms.mtfl.model import SharedFeatureModel
from algorithms.mtfl.params import MTFLParams
from algorithms.mtfl.selection import MARGIN_LOSSES, form_of
from algorithms.mtfl.solver import Solution, solve
from algorithms.numerics.feature_norms import TraceNorm
from algorithms.numerics.losses import MarginLoss
from algorithms.numerics.ridge import ridge_regression
from algorithms.numerics.stacks import Block

Array = NDArray[np.float64]


def with_new_task(model: SharedFeatureModel, task: Task, *, trace: Trace) -> Functions:
    """Return the functions with those of a new task, fitted in the metric of D.

    With w = R v, D = RRᵀ, the penalty γ⟨w, D⁺w⟩ is γ‖v‖²: the problem of one task on its rows in
    the learned features, scaled by their importance, and in a unit whose squares do not overflow.
    """
    params = MTFLParams.model_validate(model.fit_info["params"])
    rows, targets = model.functions.new_rows(task, has_intercept=params.fit_intercept)
    R = model.U * np.sqrt(model.spectrum)
    unit = unit_of_rows(rows, form_of(params))
    R = R / unit
    A, gamma = rows @ R, model.fit_info["gamma"] / unit**2
    gap = 0.0
    if model.fit_info["loss"] == "square":
        V, b = ridge_regression(A, targets.Y, ridge=gamma, has_intercept=params.fit_intercept)
    else:
        loss = MARGIN_LOSSES[model.fit_info["loss"]]
        trace.expect_loops(targets.Y.shape[1])
        fits = [
            _fit_margins(
                Block(A, y[:, np.newaxis], np.zeros(1, dtype=np.intp)), params, gamma=gamma,
                loss=loss, trace=trace, loop=f"task '{task.name}', column {i}",
            )
            for i, y in enumerate(targets.Y.T, start=1)
        ]  # fmt: skip
        V, b = np.stack([fit.W[0] for fit in fits], axis=1), np.concatenate([f.b for f in fits])
        gap = max(fit.gap for fit in fits)
    found = model.functions.extended(task.name, targets, R @ V, intercept=b, fitted=A @ V + b)
    late = (
        f"task '{task.name}' joined with a relative duality gap of {gap:.1e}, above the tolerance "
        f"{params.tolerance:g}; train the model again with a larger max_iter or tolerance"
    )
    warnings = (late,) if gap > params.tolerance else ()
    return replace(found, warnings=(*found.warnings, *warnings))


def _fit_margins(
    block: Block, params: MTFLParams, *, gamma: float, loss: MarginLoss, trace: Trace, loop: str
) -> Solution:
    """Return W = vᵀ (1, r) and the intercept of one column of labels; its squared norm is ‖v‖²."""
    problem = margin_problem(
        [block],
        norm=TraceNorm(),
        gamma=gamma,
        loss=loss,
        has_intercept=params.fit_intercept,
    )
    stopping = StoppingRule(tolerance=params.tolerance, max_iter=params.max_iter)
    return solve(problem, None, solver="auto", stopping=stopping, trace=trace, loop=loop)
