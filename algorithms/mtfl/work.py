"""Expected work of multi-task feature learning.

A step costs O(T n q) for T tasks of n rows, compressed to at most q coordinates. The
number of steps depends on the data: few if every task has more rows than coordinates, dozens
otherwise. The counts come from benchmarks.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from algorithms.families.linear.work import (
    TASK_STEPS,
    estimate_preparation,
    n_coordinates,
    unit_calls,
)
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import WorkEstimate, n_outputs, n_rows, without_fold
from algorithms.mtfl.params import MTFLParams
from algorithms.mtfl.selection import MIN_ROWS_PER_COLUMN, loss_of

#: Steps for one γ: with at least as many rows as coordinates in each task, and with fewer.
N_TALL, N_WIDE = 8.0, 35.0
#: The same for losses of margins: one, and more unless there are so many rows per coordinate.
N_MARGIN: Final = 8.0
MANY_ROWS: Final = 20.0
#: Numbers that pass through memory in a step for each entry of the compressed rows, and calls.
STEP_VALUES: Final = 1.0
STEP_CALLS: Final = 60
#: The same for losses of margins, for each entry of the rows, and the calls of each task.
MARGIN_VALUES: Final = 7.0
MARGIN_CALLS, MARGIN_TASK_CALLS = 400, 2.5
#: Numbers for each entry of the rows, and calls of each task, in a leave-one-out error.
LOO_VALUES: Final = 5.0
LOO_CALLS: Final = 55
#: Calls of each task in the fit and the scores of a candidate without a fold.
SCORE_CALLS: Final = 20


def estimate_mtfl(summaries: Sequence[TaskSummary], params: MTFLParams) -> WorkEstimate:
    """Return the work of the selection of γ, and of the final fit."""
    selection = _selection(summaries, params)
    final = estimate_preparation(summaries, kernel=params.kernel)
    final += _solution(summaries, params)
    n_candidates = len(set(params.grid))
    if selection == "given":
        return final
    if selection == "loo":
        return final + _solution(summaries, params).times(n_candidates) + _loo(summaries, params)
    fold = without_fold(summaries, params.n_folds)
    n = n_candidates * params.n_folds
    path = _solution(fold, params) + WorkEstimate(
        "scores", "use fewer tasks", steps=SCORE_CALLS * len(summaries)
    )
    prepared = estimate_preparation(fold, kernel=params.kernel).times(params.n_folds)
    return (
        final
        + prepared
        + replace(
            path.times(n),
            largest=f"{n} fits of {n_candidates} values of gamma, each {path.largest}",
            remedy="use a shorter 'grid', fewer folds, or selection 'given'",
        )
    )


def _selection(summaries: Sequence[TaskSummary], params: MTFLParams) -> str:
    if params.selection != "auto":
        return params.selection
    loss = loss_of(params, is_numbers=summaries[0].target == "numbers")
    q = n_coordinates(summaries, kernel=params.kernel)
    is_enough = n_rows(summaries) >= MIN_ROWS_PER_COLUMN * q
    return "loo" if loss == "square" and is_enough else "cv"


def _solution(summaries: Sequence[TaskSummary], params: MTFLParams) -> WorkEstimate:
    """Return the work of the solver for one γ, with a warm start."""
    q, m = n_coordinates(summaries, kernel=params.kernel), n_outputs(summaries)
    sizes = [summary.n_samples for summary in summaries]
    if loss_of(params, is_numbers=summaries[0].target == "numbers") != "square":
        ratio = sum(sizes) / len(sizes) / q
        n_steps = min(1.0 + N_MARGIN * min(1.0, MANY_ROWS / ratio), params.max_iter)
        return WorkEstimate(
            f"{n_steps:.0f} steps with the {sum(sizes):,} rows of {len(sizes):,} tasks",
            "use loss 'square'",
            values=n_steps * MARGIN_VALUES * sum(sizes) * q * m / len(sizes),
            steps=n_steps * (MARGIN_CALLS + MARGIN_TASK_CALLS * m),
        )
    n_steps = min(N_TALL if sum(sizes) >= q * len(sizes) else N_WIDE, params.max_iter)
    entries = sum(min(size, q) * q for size in sizes) * m / len(sizes)
    return WorkEstimate(
        f"{n_steps:g} steps with {q:,} coordinates of {m:,} functions",
        "use a larger 'tolerance'",
        values=n_steps * STEP_VALUES * entries,
        steps=n_steps * STEP_CALLS,
    )


def _loo(summaries: Sequence[TaskSummary], params: MTFLParams) -> WorkEstimate:
    q, n = n_coordinates(summaries, kernel=params.kernel), n_rows(summaries)
    n_candidates = len(set(params.grid))
    return WorkEstimate(
        f"the leave-one-out errors of {n_candidates} values of gamma for {n:,} rows",
        "use a shorter 'grid', or selection 'given'",
        flops=n_candidates * 4.0 * n * q * min(q, n / len(summaries)),
        values=n_candidates * LOO_VALUES * n * q,
        steps=n_candidates * (LOO_CALLS * len(summaries) + unit_calls(summaries))
        + TASK_STEPS * len(summaries),
    )
