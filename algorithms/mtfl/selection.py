"""Selection of γ along a path: by leave-one-out in closed form, or by cross-validation."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from algorithms.evaluation import Split, fold_splits
from algorithms.families.linear.design import Design, Form, prepare
from algorithms.families.linear.targets import decode
from algorithms.interface.errors import InvalidData
from algorithms.interface.target_scales import numeric_targets
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import StoppingRule, Trace
from algorithms.interface.units import units_of
from algorithms.interface.weights import weights_of
from algorithms.mtfl.margins import MarginProblem, margin_problem
from algorithms.mtfl.params import MTFLParams
from algorithms.mtfl.solver import MTFLSolution, Solver, solve
from algorithms.mtfl.square import SquareProblem
from algorithms.numerics.arrays import Array, Indices
from algorithms.numerics.feature_norms import ColumnNorm, FeatureNorm, TraceNorm
from algorithms.numerics.leave_one_out import leave_one_out_errors
from algorithms.numerics.losses import Hinge, Logistic, MarginLoss

Loss = Literal["square", "logistic", "hinge"]

#: Smallest tolerance of fits that are only compared; error rates need less accuracy.
PATH_TOLERANCE = {"square": 1e-4, "logistic": 1e-3, "hinge": 1e-3}

#: Smallest number of rows of all tasks per column for which 'auto' selects leave-one-out.
MIN_ROWS_PER_COLUMN = 20

MARGIN_LOSSES: dict[str, MarginLoss] = {"logistic": Logistic(), "hinge": Hinge()}


@dataclass(frozen=True, slots=True)
class ChosenGamma:
    """The selected γ on the scale of the parameters, and the results of the selection as JSON."""

    gamma: float
    fit_info: dict[str, Any]

    @classmethod
    def given(cls, gamma: float) -> "ChosenGamma":
        """Return the choice for a given γ."""
        return cls(gamma, {"selection": "given"})


def loss_of(params: MTFLParams, *, is_numbers: bool) -> Loss:
    """Return the loss for the given kind of targets."""
    if params.loss != "auto":
        return params.loss
    return "square" if is_numbers else "logistic"


def form_of(params: MTFLParams) -> Form:
    """Return the parameters of the basis functions."""
    return Form(params.standardise, params.kernel, params.width, params.degree)


def design_of(tasks: TaskSet, params: MTFLParams) -> Design:
    """Return the design of the tasks, in coordinates in which the norm is the paper's."""
    return prepare(
        tasks,
        form_of(params),
        scale_targets=params.scale_targets,
        has_intercept=params.fit_intercept,
        coordinates="own" if params.features == "selected" else "rotated",
    )


def gamma_unit(design: Design, params: MTFLParams) -> float:
    """Return the unit of γ in terms of the design's rows.

    On the relative scale it is tr S² / tr S, where S is the second moment of the rows, centred per
    task if there are intercepts: the mean of the eigenvalues of S, weighted by themselves.
    """
    if params.gamma_scale == "absolute":
        return design.row_unit**-2
    weights = design.weights_of_rows
    size = sum(map(len, design.rows)) if weights is None else float(weights.sum())
    # several target columns of one task share its rows, which count once
    share = 1 / np.repeat(design.sizes, design.sizes)
    S = design.least_squares(centre=params.fit_intercept).stacks.moment(share) / size
    trace = float(np.trace(S))
    return float(np.sum(S**2)) / trace if trace > 0 else 1.0


def problem_of(
    design: Design, params: MTFLParams, gamma: float, *, loss: Loss
) -> SquareProblem | MarginProblem:
    """Return the problem for γ on the absolute scale; with another γ it shares all arrays."""
    norm: FeatureNorm = TraceNorm() if params.features == "learned" else ColumnNorm()
    if loss == "square":
        squares = design.least_squares(centre=params.fit_intercept)
        return SquareProblem(squares.stacks, squares.remainder, norm, gamma)
    if params.fit_intercept:
        design = design.with_opposite_rows()
    return margin_problem(
        design.weighted_blocks(),
        norm=norm,
        gamma=gamma,
        loss=MARGIN_LOSSES[loss],
        has_intercept=params.fit_intercept,
    )


def follow_path(
    design: Design,
    params: MTFLParams,
    gammas: Sequence[float],
    *,
    loss: Loss,
    tolerance: float,
    trace: Trace,
    loop: str,
) -> Iterator[MTFLSolution]:
    """Yield the solution for each γ on the absolute scale, with warm starts in the given order.

    Parameters
    ----------
    loop
        Name in the trace; γ is added, on the scale of the parameter.
    """
    solver: Solver = params.solver
    unit = gamma_unit(design, params)
    problem = problem_of(design, params, unit, loss=loss)
    solution: MTFLSolution | None = None
    for gamma in gammas:
        solution = solve(
            replace(problem, gamma=gamma),
            solution,
            solver=solver,
            stopping=StoppingRule(tolerance=tolerance, max_iter=params.max_iter),
            trace=trace,
            loop=f"{loop} {gamma / unit:.6g}",
        )
        yield solution


def choose_gamma(
    tasks: TaskSet,
    design: Design,
    params: MTFLParams,
    *,
    loss: Loss,
    trace: Trace,
    rng: np.random.Generator,
) -> ChosenGamma:
    """Return the given γ, or the γ of the grid with the smallest error (the largest of equal)."""
    selection = selection_of(design, params, loss)
    if selection == "given":
        return ChosenGamma.given(params.gamma)
    grid = sorted(set(params.grid), reverse=True)
    if selection == "loo":
        errors = _loo_errors(design, params, grid, units_of(tasks).by_task(), trace=trace)
    else:
        seed = int(rng.integers(2**32))
        errors = _cv_errors(tasks, params, grid, loss=loss, trace=trace, seed=seed)
    best = int(np.argmin(errors))
    fit_info = {
        "selection": selection,
        "selection_gammas": grid,
        "selection_errors": [float(error) for error in errors],
    }
    return ChosenGamma(grid[best], fit_info)


def selection_of(design: Design, params: MTFLParams, loss: Loss) -> Literal["given", "loo", "cv"]:
    """Return the method that selects γ; with few rows, leave-one-out with fixed D is optimistic."""
    if params.selection != "auto":
        return params.selection
    n_rows = sum(len(X) for X in design.rows)
    is_enough = n_rows >= MIN_ROWS_PER_COLUMN * design.rows[0].shape[1]
    return "loo" if loss == "square" and is_enough else "cv"


def n_loops(design: Design, params: MTFLParams, loss: Loss) -> int:
    """Return the number of loops that :func:`choose_gamma` runs."""
    repeats = {"given": 0, "loo": 1, "cv": params.n_folds}[selection_of(design, params, loss)]
    return repeats * len(set(params.grid))


def _loo_errors(
    design: Design,
    params: MTFLParams,
    grid: Sequence[float],
    units: Sequence[Indices],
    *,
    trace: Trace,
) -> Array:
    """Return the mean squared leave-one-out error with fixed D for each γ, (n_gammas,)."""
    unit = gamma_unit(design, params)
    gammas = [gamma * unit for gamma in grid]
    path = follow_path(
        design,
        params,
        gammas,
        loss="square",
        tolerance=_path_tolerance(params, "square"),
        trace=trace,
        loop="loo, gamma",
    )
    errors = trace.stage(
        "loo",
        lambda: np.array(
            [
                leave_one_out_error(
                    design, solution.U, gamma, has_intercept=params.fit_intercept, units=units
                )
                for gamma, solution in zip(gammas, path, strict=True)
            ]
        ),
    )
    if not np.isfinite(errors).all():
        raise InvalidData(
            f"task '{design.names[0]}' and all others have only one row, or rows that must stay "
            "together, so no row can be held out to select gamma; use selection 'given'",
            task=design.names[0],
        )
    return design.target_unit**2 * errors


def leave_one_out_error(
    design: Design,
    U: Array,
    gamma: float,
    *,
    has_intercept: bool,
    units: Sequence[Indices] | None = None,
) -> float:
    """Return the mean squared leave-one-out error in the metric D = UUᵀ; NaN if there is none.

    With weights of rows, the mean is weighted.

    Parameters
    ----------
    U : (q, r) or (q,)
        Root of D with trace 1.
    units
        Unit of each row of each task, (n_t,); rows of one unit are left out together.
    """
    squares = []
    for t, (X, targets) in enumerate(zip(design.rows, design.targets, strict=True)):
        A = X @ U if U.ndim == 2 else X * U
        unit = None if units is None else units[t]
        errors = leave_one_out_errors(
            A,
            targets.Y,
            ridge=gamma,
            has_intercept=has_intercept,
            unit=unit,
            weights=targets.weights,
        )
        squares.append(np.mean(errors**2, axis=1))
    all_squares = np.concatenate(squares)
    if not np.isfinite(all_squares).any():
        return np.nan
    weights = design.weights_of_rows
    if weights is None:
        return float(np.nanmean(all_squares))
    return float(np.nansum(all_squares) / weights[np.isfinite(all_squares)].sum())


def _cv_errors(
    tasks: TaskSet,
    params: MTFLParams,
    grid: Sequence[float],
    *,
    loss: Loss,
    trace: Trace,
    seed: int,
) -> Array:
    """Return the cross-validation error of each γ: mean squared error, or error rate.

    Squared errors are in the scaled units of each fold, so that all tasks count the same.
    """
    totals, size = np.zeros(len(grid)), 0.0
    for fold, split in enumerate(fold_splits(tasks, n_folds=params.n_folds, seed=seed), start=1):
        totals += trace.stage(
            f"fold {fold}",
            partial(_fold_losses, split, params, grid, loss=loss, trace=trace, fold=fold),
        )
        size += sum(float(weights_of(task).sum()) for task in split.test)
    return totals / size


def _fold_losses(
    split: Split,
    params: MTFLParams,
    grid: Sequence[float],
    *,
    loss: Loss,
    trace: Trace,
    fold: int,
) -> Array:
    """Return the loss on the test rows for each γ, (n_gammas,)."""
    design = design_of(split.train, params)
    unit = gamma_unit(design, params)
    path = follow_path(
        design,
        params,
        [gamma * unit for gamma in grid],
        loss=loss,
        tolerance=_path_tolerance(params, loss),
        trace=trace,
        loop=f"fold {fold}, gamma",
    )
    losses = [_test_loss(split, design, params, solution, loss=loss) for solution in path]
    return np.array(losses)


def _test_loss(
    split: Split, design: Design, params: MTFLParams, solution: MTFLSolution, *, loss: Loss
) -> float:
    """Return the weighted sum of squared errors, or of wrong labels, on the test rows."""
    W, b = solution.W, intercepts_of(design, params, solution, loss=loss)
    weights = design.weights(W)
    parts = dict(zip(design.names, zip(design.targets, design.columns, strict=True), strict=True))
    total = 0.0
    for task in split.test:
        targets, columns = parts[task.name]
        scores = design.basis.images(task.X, weights[:, columns]) + b[columns]
        predicted = decode(scores, targets.classes)
        if targets.classes is None:
            losses = (predicted - numeric_targets(task) / targets.scale) ** 2
        else:
            losses = predicted != task.y
        total += float(np.sum(weights_of(task) * losses))
    return design.target_unit**2 * total


def intercepts_of(
    design: Design, params: MTFLParams, solution: MTFLSolution, *, loss: Loss
) -> Array:
    """Return b (T,), computed from means for the square loss."""
    if not params.fit_intercept:
        return np.zeros(len(solution.W))
    return design.intercepts(solution.W) if loss == "square" else solution.b


def _path_tolerance(params: MTFLParams, loss: Loss) -> float:
    return max(params.tolerance, PATH_TOLERANCE[loss])
