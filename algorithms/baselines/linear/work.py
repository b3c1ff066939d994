"""Expected work of the linear baselines.

A fit of one task of n rows and q coordinates takes O(n q²) once, and then O(n q) for each candidate
of a leave-one-out error in closed form. Iterative methods take O(n q²) for each Newton step, or
O(min(n, q) q) for each step of a proximal gradient method.
"""

from collections.abc import Sequence
from typing import Final

from algorithms.baselines.linear.params import LeaveOneOutParams
from algorithms.families.linear.bases import Kernel
from algorithms.families.linear.work import (
    estimate_preparation,
    n_coordinates,
    shared_unit_flops,
    unit_calls,
)
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import (
    EIGEN_FLOPS,
    WorkEstimate,
    count_candidates,
    estimate_selection,
    n_outputs,
    n_rows,
    without_fold,
)

#: Numbers for each entry of the rows, and calls of each task, in the errors of a candidate.
LOO_VALUES: Final = 2.0
LOO_CALLS: Final = 8
#: The same in mean-regularised learning, for each pair of candidates.
PAIR_VALUES: Final = 0.5
PAIR_CALLS: Final = 3
#: Newton steps of a logistic regression, their numbers for each entry of the rows, and the calls of
#: each fit and each task of it.
NEWTON_STEPS: Final = 5.0
NEWTON_VALUES: Final = 12.0
NEWTON_CALLS, NEWTON_TASK_CALLS = 100, 75


def estimate_ridge(
    summaries: Sequence[TaskSummary],
    params: LeaveOneOutParams,
    *,
    kernel: Kernel = "linear",
    is_pooled: bool = False,
    n_paths: int = 1,
) -> WorkEstimate:
    """Return the work of ridge regressions, with leave-one-out errors of each candidate.

    Parameters
    ----------
    is_pooled
        Whether there is one regression for the rows of all tasks.
    n_paths
        Number of spreads of the intercepts that are tried, each with all candidates.
    """
    q = n_coordinates(summaries, kernel=kernel)
    sizes = [n_rows(summaries)] if is_pooled else [summary.n_samples for summary in summaries]
    n_candidates = len(set(params.grid)) if params.selection == "loo" else 0
    flops = sum(4.0 * n * q * min(n, q) + EIGEN_FLOPS * min(n, q) ** 3 for n in sizes)
    flops += n_candidates * shared_unit_flops(summaries) * is_pooled
    entries = sum(n * min(n, q) for n in sizes)
    errors = WorkEstimate(
        f"{len(sizes):,} decompositions, and the leave-one-out errors of {n_candidates} candidates",
        "use fewer rows or columns, or a shorter 'grid'",
        flops=flops,
        values=n_candidates * LOO_VALUES * entries,
        steps=n_candidates * (LOO_CALLS * len(sizes) + unit_calls(summaries, is_pooled=is_pooled)),
    )
    return estimate_preparation(summaries, kernel=kernel) + errors.times(n_paths)


def estimate_mean_regularised(
    summaries: Sequence[TaskSummary], params: LeaveOneOutParams
) -> WorkEstimate:
    """Return the work of the elimination of the tasks' own parts for each candidate."""
    q, sizes = n_coordinates(summaries), [summary.n_samples for summary in summaries]
    is_loo = params.selection == "loo"
    n_gammas = len(set(params.grid)) if is_loo else 1
    n_pairs = count_candidates(params) if is_loo else 1
    decompositions = sum(4.0 * n * q * min(n, q) + EIGEN_FLOPS * min(n, q) ** 3 for n in sizes)
    common = EIGEN_FLOPS * q**3 + sum(2.0 * q**2 * min(n, q) for n in sizes)
    fit = WorkEstimate(
        f"the leave-one-out errors of {n_pairs} candidates for {sum(sizes):,} rows",
        "use fewer columns, or a shorter 'grid' or 'common_grid'",
        flops=decompositions + n_gammas * common + n_pairs * shared_unit_flops(summaries) * is_loo,
        values=n_pairs * PAIR_VALUES * sum(sizes) * q,
        steps=n_pairs * (PAIR_CALLS * len(sizes) + is_loo * unit_calls(summaries, is_pooled=True)),
    )
    return estimate_preparation(summaries) + fit


def estimate_logistic(
    summaries: Sequence[TaskSummary], *, n_candidates: int, n_folds: int, max_iter: int
) -> WorkEstimate:
    """Return the work of Newton's method, for each candidate and fold if there are several."""
    final = estimate_preparation(summaries) + _newton(summaries, max_iter=max_iter)
    if n_candidates == 0:
        return final
    fold = without_fold(summaries, n_folds)
    return estimate_selection(
        _newton(fold, max_iter=max_iter),
        final + estimate_preparation(fold).times(n_folds),
        n_candidates=n_candidates,
        n_folds=n_folds,
    )


def _newton(summaries: Sequence[TaskSummary], *, max_iter: int) -> WorkEstimate:
    q, n, m = n_coordinates(summaries), n_rows(summaries), n_outputs(summaries)
    share = m / len(summaries)
    n_steps = min(NEWTON_STEPS, max_iter)
    return WorkEstimate(
        f"{n_steps:g} Newton steps of {m:,} functions",
        "use fewer columns",
        flops=n_steps * (2.0 * n * q**2 * share + m * q**3),
        values=NEWTON_VALUES * n * q * share * n_steps / NEWTON_STEPS,
        steps=NEWTON_CALLS + NEWTON_TASK_CALLS * m,
    )
