"""Common selection of columns by the group lasso over tasks.

    min Σ_t ‖y_t − X_t w_t − b_t‖² + λ Σ_j (Σ_t w_tj²)^½

A column is used by all tasks or by none. λ is relative to the smallest λ for which no column is
used, which is twice the largest row norm of (X_tᵀy_t)_t. The problem is MTFL with a diagonal D,
with the norm in place of its square, so both have the same regularisation path. It is solved by
accelerated proximal gradient to a relative duality gap; a step costs one product per task.

Reference: Obozinski, Taskar, Jordan, *Joint covariate selection and joint subspace selection for
multiple classification problems*, Statistics and Computing 2010, doi:10.1007/s11222-008-9111-x
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal

import numpy as np
from pydantic import Field

from algorithms.baselines.linear.baseline import LinearBaseline, losses_of, prepare_design
from algorithms.baselines.linear.params import Columns
from algorithms.evaluation.selection.failures import failure_warnings
from algorithms.families.linear.design import Design
from algorithms.families.linear.model import LinearModel
from algorithms.families.linear.penalised import SquaredLoss
from algorithms.families.linear.work import estimate_penalised
from algorithms.interface.algorithm import PreparedFold
from algorithms.interface.params import (
    Folds,
    GapTolerance,
    Grid,
    Intercepts,
    Iterations,
    Params,
    end_warnings,
)
from algorithms.interface.target_scales import ScaleTargetsField, scales_by_task
from algorithms.interface.tasks import TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.interface.work import WorkEstimate
from algorithms.numerics.arrays import Array
from algorithms.numerics.feature_norms import ColumnNorm
from algorithms.numerics.gaps import relative_gap
from algorithms.numerics.stacks import Stacks
from algorithms.solvers.proximal_gradient import ProximalTrial, proximal_gradient

Share = Annotated[float, Field(gt=0.0, le=1.0)]

_NORM = ColumnNorm()
#: Steps with fewer rows than columns in each task, as counted in benchmarks.
N_WIDE: Final = 100.0


class SharedLassoParams(Params):
    """Parameters of the lasso with shared support."""

    GRIDS: ClassVar = {"share": "grid"}

    share: Share = Field(
        0.1,
        title="Regularisation",
        description="lambda relative to the smallest lambda for which no column is used; a small "
        "share keeps many columns. Used if 'selection' is 'given'.",
    )
    selection: Literal["given", "cv"] = Field(
        "cv",
        title="Choice of the regularisation",
        description="'given': use 'share'. 'cv': select from 'grid' by cross-validation of the "
        "training rows.",
    )
    grid: Grid[Share] = Field(
        (0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.003),
        max_length=200,
        title="Grid of the regularisation",
        description="Values of 'share' to try.",
    )
    n_folds: Folds = Field(3, description="Number of folds of the cross-validation.")
    standardise: Columns = "features"
    fit_intercept: Intercepts = True
    scale_targets: ScaleTargetsField = "moderated"
    tolerance: GapTolerance = 1e-5
    max_iter: Iterations = Field(5000, description="Maximum number of steps.")


class SharedLasso(LinearBaseline[SharedLassoParams]):
    """The group lasso over tasks."""

    name = "shared-lasso"
    title = "Lasso with shared support"
    summary = (
        "Linear regressions that use the same few columns in all tasks. For many columns of which "
        "most are irrelevant, and to find the relevant ones."
    )
    reference = "Obozinski, Taskar, Jordan (2010), doi:10.1007/s11222-008-9111-x"
    Params = SharedLassoParams

    def work(self, summaries: Sequence[TaskSummary], params: SharedLassoParams) -> WorkEstimate:
        """Return the work of the proximal gradient steps, and of the selection."""
        return estimate_penalised(
            summaries,
            n_candidates=len(set(params.grid)) if params.selection == "cv" else 0,
            n_folds=params.n_folds,
            max_iter=params.max_iter,
            n_wide=N_WIDE,
        )

    def fit(
        self, tasks: TaskSet, params: SharedLassoParams, *, trace: Trace, rng: np.random.Generator
    ) -> LinearModel:
        """Return the functions, for the given or selected regularisation."""
        self.check(tasks.summaries(), params)
        trace.expect_loops(1 + (params.selection == "cv"))
        fit_info: dict[str, Any] = {
            "params": params.model_dump(mode="json"),
            "selection": params.selection,
        }
        requested = params
        if params.selection == "cv":
            params, chosen = self.choose(
                tasks,
                params,
                n_folds=params.n_folds,
                scales=scales_by_task(
                    tasks, params.scale_targets, is_centered=params.fit_intercept
                ),
                trace=trace,
                rng=rng,
            )
            fit_info |= chosen
        design = prepare_design(tasks, params, coordinates="own")
        W, penalty, gap = _LassoProblem.of(design, params).solve(params, None, trace=trace)
        fit_info |= {
            "share": params.share,
            "lambda": penalty * design.row_unit * design.target_unit,
            "relative_gap": gap,
            "n_columns": int(np.sum(_NORM.values(W) > 0)),
        }
        ends = (
            end_warnings(requested, {"share": params.share}, losses=losses_of(requested, fit_info))
            if requested.selection == "cv"
            else ()
        )
        warnings = (*failure_warnings(fit_info.get("failed_candidates", ())), *ends)
        if gap > params.tolerance:
            message = f"stopped with a relative duality gap of {gap:.1e}; increase max_iter"
            warnings = (message, *warnings)
        return self.model_of(tasks, design, W, params=params, fit_info=fit_info, warnings=warnings)

    def prepare_fold(
        self, train: TaskSet, test: TaskSet, params: SharedLassoParams, *, rng: np.random.Generator
    ) -> PreparedFold[SharedLassoParams, LinearModel]:
        """Return a fold with one problem for every share, each started from the previous one."""
        del rng
        self.check(train.summaries(), params)
        design = prepare_design(train, params, coordinates="own")
        problem, W = _LassoProblem.of(design, params), None

        def fit(candidate: SharedLassoParams, trace: Trace) -> LinearModel:
            nonlocal W
            W, _, _ = problem.solve(candidate, W, trace=trace)
            return self.model_of(train, design, W, params=candidate, fit_info={})

        return PreparedFold(fit, test, has_warm_starts=True)


@dataclass(frozen=True, slots=True, eq=False)
class _LassoProblem:
    """The squared loss of all tasks, with the products Z (T, d) of rows and targets."""

    loss: SquaredLoss
    Z: Array

    @classmethod
    def of(cls, design: Design, params: SharedLassoParams) -> "_LassoProblem":
        loss = SquaredLoss.of(design, centre=params.fit_intercept)
        return cls(loss, loss.stacks.adjoint([part.Y for part in loss.stacks.parts]))

    def solve(
        self, params: SharedLassoParams, start: Array | None, *, trace: Trace
    ) -> tuple[Array, float, float]:
        """Return W (T, d), λ and the relative duality gap, from a start or from zero."""
        stacks, rest = self.loss.stacks, self.loss.rest
        penalty = params.share * 2 * _NORM.dual_norm(self.Z)
        state = proximal_gradient(
            lambda W: _evaluate(stacks, W, penalty=penalty, rest=rest),
            lambda W, step: _NORM.shrink(W, step * penalty, power=1),
            np.zeros_like(self.Z) if start is None else start,
            L=self.loss.curvature,
            trace=trace,
            loop="descent",
            max_iter=params.max_iter,
            tolerance=params.tolerance,
        )
        return state.W, penalty, state.residual


def _evaluate(stacks: Stacks, W: Array, *, penalty: float, rest: float) -> ProximalTrial:
    """Return gradient, objective and relative duality gap at W.

    The dual is Σ αy − ‖α‖²/4 with a dual norm of Z of at most λ; α = 2s·(residuals) with the best
    feasible s.
    """
    R = [part.Y - F for part, F in zip(stacks.parts, stacks.forward(W), strict=True)]
    Z = stacks.adjoint(R)
    size = sum(float(np.sum(r**2)) for r in R)
    gain = sum(float(np.vdot(part.Y, r)) for part, r in zip(stacks.parts, R, strict=True))
    value = rest + size + penalty * _NORM.norm(W)
    largest = 2 * _NORM.dual_norm(Z)
    s = min(gain / size, penalty / largest if largest > 0 else np.inf) if size > 0 else 0.0
    bound = rest + max(2 * s * gain - s**2 * size, 0.0)
    return ProximalTrial(-2 * Z, value, relative_gap(value, value - bound))
