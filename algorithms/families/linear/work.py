"""Expected work of the preparation of tasks for linear methods."""

from collections.abc import Sequence
from typing import Final

from algorithms.families.linear.bases import Kernel
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import (
    EIGEN_FLOPS,
    FIT_STEPS,
    SVD_FLOPS,
    VALUE_BYTES,
    WorkEstimate,
    estimate_selection,
    n_outputs,
    n_rows,
    rows_bytes,
    without_fold,
)

#: Passes over the rows, and calls of each task: targets, standardisation, compression and scores.
PASSES: Final = 14.0
TASK_STEPS: Final = 40
#: Steps of a proximal gradient method with at least as many rows as coordinates in each task, and
#: with fewer, as counted in benchmarks, and the numbers of a step for each entry of the compressed
#: rows.
PROXIMAL_TALL, PROXIMAL_WIDE = 40.0, 200.0
PROXIMAL_VALUES: Final = 0.4
#: Calls of a step, for each function in a fit, and for each function in its predictions.
PROXIMAL_CALLS: Final = 20
FUNCTION_CALLS: Final = 20
PREDICTION_CALLS: Final = 25
#: Calls for units of one size in the leave-one-out errors of a candidate, the maximum number of
#: sizes in a task, and calls for each unit.
UNIT_SIZE_CALLS, MAX_UNIT_SIZES, UNIT_CALLS = 20, 8, 1.5
#: Multiple of k³ for a unit of k rows: a solution, and the eigenvalues that show if there is one.
UNIT_FLOPS: Final = 5.0
#: Numbers for each entry of a kernel matrix.
KERNEL_VALUES: Final = 7.0


def n_coordinates(summaries: Sequence[TaskSummary], *, kernel: Kernel = "linear") -> int:
    """Return the number of coordinates of the rows."""
    n = n_rows(summaries)
    return n if kernel != "linear" else min(summaries[0].n_features, n)


def unit_calls(summaries: Sequence[TaskSummary], *, is_pooled: bool = False) -> float:
    """Return the calls for units of several rows in the leave-one-out errors of a candidate.

    Parameters
    ----------
    is_pooled
        Whether units of the same size are computed together over all tasks.
    """
    units = [
        summary.n_samples if summary.n_units is None else summary.n_units for summary in summaries
    ]
    pairs = [(n, summary.n_samples - n) for n, summary in zip(units, summaries, strict=True)]
    n_large = sum(min(n, n_more) for n, n_more in pairs)
    most = [min(MAX_UNIT_SIZES, n_more) for _, n_more in pairs]
    return UNIT_SIZE_CALLS * (max(most) if is_pooled else sum(most)) + UNIT_CALLS * n_large


def shared_unit_flops(summaries: Sequence[TaskSummary]) -> float:
    """Return the operations for units of all tasks, if all have the same rows, for a candidate."""
    first = summaries[0].rows_hash
    if first is None or any(summary.rows_hash != first for summary in summaries):
        return 0.0
    return UNIT_FLOPS * summaries[0].n_samples * float(len(summaries)) ** 3


def estimate_preparation(
    summaries: Sequence[TaskSummary], *, kernel: Kernel = "linear"
) -> WorkEstimate:
    """Return the work of the design: standardised rows, and coordinates of their span or kernel."""
    n, d, T = n_rows(summaries), summaries[0].n_features, len(summaries)
    values = PASSES * rows_bytes(summaries) / VALUE_BYTES
    steps = FIT_STEPS + TASK_STEPS * T
    if kernel != "linear" or n < d:
        flops = EIGEN_FLOPS * n**3 + 2.0 * n**2 * d
        if kernel == "linear":
            flops = SVD_FLOPS * n**2 * d
        return WorkEstimate(
            f"the decomposition of the Gram matrix of {n:,} rows",
            "use fewer rows or kernel 'linear'",
            flops=flops,
            values=values + KERNEL_VALUES * n**2,
            steps=steps,
        )
    return WorkEstimate(
        f"the preparation of the {n:,} rows of {T:,} tasks",
        "use fewer rows, columns or tasks",
        flops=sum(2.0 * summary.n_samples * d * min(summary.n_samples, d) for summary in summaries),
        values=values,
        steps=steps,
    )


def estimate_proximal(
    summaries: Sequence[TaskSummary], *, max_iter: int, n_wide: float = PROXIMAL_WIDE
) -> WorkEstimate:
    """Return the work of a proximal gradient method for the squared loss of all tasks.

    Parameters
    ----------
    n_wide
        Number of steps with fewer rows than coordinates in each task.
    """
    q, m = n_coordinates(summaries), n_outputs(summaries)
    sizes = [summary.n_samples for summary in summaries]
    is_tall = sum(sizes) >= q * len(sizes)
    n_steps = min(PROXIMAL_TALL if is_tall else n_wide, max_iter)
    entries = sum(min(n, q) * q for n in sizes) * m / len(sizes)
    return WorkEstimate(
        f"{n_steps:g} steps with {q:,} coordinates of {m:,} functions",
        "use a larger 'tolerance'",
        flops=n_steps * SVD_FLOPS * m * q * min(m, q),
        values=n_steps * PROXIMAL_VALUES * entries,
        steps=n_steps * PROXIMAL_CALLS + FUNCTION_CALLS * m,
    )


def estimate_linear_predictions(summaries: Sequence[TaskSummary]) -> WorkEstimate:
    """Return the work of the predictions for the held-out rows of a fold."""
    return WorkEstimate(
        "predictions", "use fewer tasks", steps=PREDICTION_CALLS * n_outputs(summaries)
    )


def estimate_penalised(
    summaries: Sequence[TaskSummary],
    *,
    n_candidates: int,
    n_folds: int,
    max_iter: int,
    n_wide: float = PROXIMAL_WIDE,
) -> WorkEstimate:
    """Return the work of a proximal gradient method, including the selection.

    Parameters
    ----------
    n_candidates
        Number of candidates of the selection; 0 without.
    """
    solution = estimate_proximal(summaries, max_iter=max_iter, n_wide=n_wide)
    final = estimate_preparation(summaries) + solution
    if n_candidates == 0:
        return final
    fold = without_fold(summaries, n_folds)
    fold_work = estimate_proximal(fold, max_iter=max_iter, n_wide=n_wide)
    return estimate_selection(
        fold_work + estimate_linear_predictions(fold),
        final + estimate_preparation(fold).times(n_folds),
        n_candidates=n_candidates,
        n_folds=n_folds,
    )
