"""Adaptation of MTFL to a new task: a fit in the metric D, with fixed features."""

from dataclasses import replace

import numpy as np

from algorithms.families.linear.design import unit_of_rows, with_opposite_row
from algorithms.families.linear.functions import Functions
from algorithms.interface.tasks import Task
from algorithms.interface.trace import StoppingRule, Trace
from algorithms.mtfl.margins import margin_problem
from algorithms.mtfl.model import SharedFeatureModel
from algorithms.mtfl.params import MTFLParams
from algorithms.mtfl.selection import MARGIN_LOSSES, form_of
from algorithms.mtfl.solver import MTFLSolution, solve
from algorithms.numerics.feature_norms import TraceNorm
from algorithms.numerics.losses import MarginLoss
from algorithms.numerics.ridge import ridge_regression
from algorithms.numerics.stacks import Block


def adapt_functions(model: SharedFeatureModel, task: Task, *, trace: Trace) -> Functions:
    """Return the functions of the model and of a new task, which is fitted in the metric D.

    With w = R v and D = RRᵀ, the penalty γ⟨w, D⁺w⟩ is γ‖v‖². So this is the problem of a single
    task on the learned features, which are multiplied by the roots of their weights.
    """
    params = MTFLParams.model_validate(model.fit_info["params"])
    rows, targets = model.functions.new_rows(task, has_intercept=params.fit_intercept)
    R = model.U * np.sqrt(model.spectrum)
    unit = unit_of_rows(rows, form_of(params))
    R = R / unit
    A, gamma = rows @ R, model.fit_info["gamma"] / unit**2
    gap = 0.0
    if model.fit_info["loss"] == "square":
        V, b = ridge_regression(
            A,
            targets.Y,
            ridge=gamma,
            has_intercept=params.fit_intercept,
            weights=targets.weights,
        )
    else:
        loss = MARGIN_LOSSES[model.fit_info["loss"]]
        trace.expect_loops(targets.Y.shape[1])
        Z, labels = with_opposite_row(A, targets) if params.fit_intercept else (A, targets)
        fits = [
            _fit_margins(
                Block(Z, y[:, np.newaxis], np.zeros(1, dtype=np.intp), labels.weights), params,
                gamma=gamma, loss=loss, trace=trace, loop=f"task '{task.name}', column {i}",
            )
            for i, y in enumerate(labels.Y.T, start=1)
        ]  # fmt: skip
        V, b = np.stack([fit.W[0] for fit in fits], axis=1), np.concatenate([f.b for f in fits])
        gap = max(fit.gap for fit in fits)
    functions = model.functions.with_task(task.name, targets, R @ V, intercept=b, fitted=A @ V + b)
    warning = (
        f"the adaptation to task '{task.name}' stopped with a relative duality gap of {gap:.1e}, "
        f"above the tolerance {params.tolerance:g}; train the model again with a larger max_iter "
        "or tolerance"
    )
    warnings = (warning,) if gap > params.tolerance else ()
    return replace(functions, warnings=(*functions.warnings, *warnings))


def _fit_margins(
    block: Block, params: MTFLParams, *, gamma: float, loss: MarginLoss, trace: Trace, loop: str
) -> MTFLSolution:
    """Return the fit of one column of labels: W = vᵀ (1, r), with squared norm ‖v‖², and b."""
    problem = margin_problem(
        [block],
        norm=TraceNorm(),
        gamma=gamma,
        loss=loss,
        has_intercept=params.fit_intercept,
    )
    stopping = StoppingRule(tolerance=params.tolerance, max_iter=params.max_iter)
    return solve(problem, None, solver="auto", stopping=stopping, trace=trace, loop=loop)
