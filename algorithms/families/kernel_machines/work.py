"""Expected work and memory of kernel machines.

With N rows, m outputs and n examples, the kernel matrix takes O(N² d) operations, and a pass of
dual coordinate ascent O(nN), or O(nq) with q features. The number of passes depends on the data;
the counts come from benchmarks.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from algorithms.families.kernel_machines.params import MachineParams
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import (
    DEFAULT_COPIES,
    EIGEN_FLOPS,
    FIT_STEPS,
    TASK_STEPS,
    VALUE_BYTES,
    MemoryEstimate,
    WorkEstimate,
    estimate_rows,
    n_outputs,
    n_rows,
    rows_bytes,
)

#: Numbers that pass through memory for each entry of a kernel matrix, in a fit and in predictions.
KERNEL_VALUES: Final = 7.0
PREDICTION_VALUES: Final = 3.0
#: Sweeps over the rows of a task in each pass, and the cost of a sweep: it works on rows in the
#: cache, which are faster to read than rows in memory.
SWEEPS: Final = 8.0
SWEEP_VALUES: Final = 0.15
#: Passes over the kernel matrix, or the features, in each pass of the ascent: products,
#: predictions and the certificate.
PASS_VALUES: Final = 0.12
#: Passes of the ascent over separate machines, of numbers and of classes.
PASSES: Final = {"numbers": 3.0, "classes": 7.0}
#: Passes for each of m related outputs.
RELATED_PASSES: Final = {"numbers": 0.9, "classes": 1.6}
#: Passes of the candidates of a selection, relative to the passes of the default C.
SELECTION_PASSES: Final = {"numbers": 1.3, "classes": 1.8}
#: Steps of one pass, and of each output in it.
PASS_STEPS, OUTPUT_STEPS = 40, 3
#: Matrices as large as the kernel matrix at the peak: itself, and a temporary copy.
MATRIX_COPIES: Final = 2
#: Matrices as large as the output kernel at the peak.
OUTPUT_COPIES: Final = 8
#: Landmarks that error messages suggest.
SUGGESTED_LANDMARKS: Final = 2000
USE_LANDMARKS: Final = f"use nystrom={SUGGESTED_LANDMARKS}, or kernel 'linear'"


def distinct_rows(summaries: Sequence[TaskSummary], *, is_shared: bool = False) -> int:
    """Return the number of distinct rows; tasks on the same rows have the same kernel matrix."""
    hashes = {summary.rows_hash for summary in summaries}
    if is_shared or (len(hashes) == 1 and None not in hashes):
        return summaries[0].n_samples
    return n_rows(summaries)


def n_features(summaries: Sequence[TaskSummary], params: MachineParams, N: int) -> int | None:
    """Return the number of features of an explicit map; None if there is a kernel matrix."""
    d = summaries[0].n_features
    if params.kernel == "linear":
        return d + 1 if d < N else None
    if params.kernel != "precomputed" and 0 < params.nystrom < N:
        return params.nystrom
    return None


def estimate_kernel(
    summaries: Sequence[TaskSummary], params: MachineParams, *, is_shared: bool = False
) -> WorkEstimate:
    """Return the work of the kernel matrix, or of the features."""
    N, d = distinct_rows(summaries, is_shared=is_shared), summaries[0].n_features
    q = n_features(summaries, params, N)
    steps = FIT_STEPS + TASK_STEPS * len(summaries)
    values = 10.0 * N * d
    if q is None:
        cost = 2.0 if params.kernel in ("linear", "precomputed") else KERNEL_VALUES
        return WorkEstimate(
            f"the kernel matrix of {N:,} rows",
            "use fewer rows" if params.kernel in ("linear", "precomputed") else USE_LANDMARKS,
            flops=2.0 * N**2 * d,
            values=values + cost * N**2,
            steps=steps,
        )
    if params.kernel == "linear":
        return WorkEstimate(
            f"passes over the {N:,} rows", "use fewer rows or columns", values=values, steps=steps
        )
    return WorkEstimate(
        f"the {q:,} features of {N:,} rows",
        "use a smaller 'nystrom', or kernel 'linear'",
        flops=2.0 * N * q * (d + q) + EIGEN_FLOPS * q**3,
        values=values + KERNEL_VALUES * N * q,
        steps=steps,
    )


def estimate_ascent(
    summaries: Sequence[TaskSummary], params: MachineParams, *, passes: float
) -> WorkEstimate:
    """Return the work of some passes of dual coordinate ascent."""
    N, m = distinct_rows(summaries), n_outputs(summaries)
    q = n_features(summaries, params, N)
    sizes = [summary.n_samples for summary in summaries for _ in range(n_outputs([summary]))]
    width = N if q is None else q
    sweeps = sum(size * (size if q is None else 2.0 * width) for size in sizes)
    passed = sum(sizes) * width * PASS_VALUES + sum(sizes) * m
    passes = min(passes, params.max_iter)
    kind = "kernel matrix" if q is None else "features"
    remedy = (
        USE_LANDMARKS
        if q is None and params.kernel not in ("linear", "precomputed")
        else "use fewer rows"
    )
    return WorkEstimate(
        f"{passes:.0f} passes over the {kind} of {N:,} rows",
        f"{remedy}, or a larger 'tolerance'",
        values=passes * (SWEEPS * SWEEP_VALUES * sweeps + passed),
        steps=passes * (PASS_STEPS + OUTPUT_STEPS * m),
    )


def estimate_ascent_of_machines(
    summaries: Sequence[TaskSummary], params: MachineParams, *, related: float = 0.0
) -> WorkEstimate:
    """Return the work of the ascent of machines, for the default C or the candidates of a grid.

    Parameters
    ----------
    related
        Share of the passes that related outputs need in addition, 0 to 1.
    """
    kind = "numbers" if summaries[0].target == "numbers" else "classes"
    factor = SELECTION_PASSES[kind] if params.selection == "cv" else 1.0
    passes = PASSES[kind] + related * RELATED_PASSES[kind] * n_outputs(summaries)
    return estimate_ascent(summaries, params, passes=factor * passes)


def estimate_spectral(
    summaries: Sequence[TaskSummary], params: MachineParams, *, n_iterations: float
) -> WorkEstimate:
    """Return the work of an eigendecomposition of shared rows, and of iterations for Θ."""
    N, m = distinct_rows(summaries, is_shared=True), n_outputs(summaries)
    order = n_features(summaries, params, N) or N
    return WorkEstimate(
        f"the eigendecomposition of the kernel of {N:,} rows",
        f"use nystrom={SUGGESTED_LANDMARKS}, or fewer rows",
        flops=EIGEN_FLOPS * order**3
        + n_iterations * (2 * EIGEN_FLOPS * m**3 + 12.0 * order * m**2)
        + 4.0 * N * order * m,
        steps=n_iterations * PASS_STEPS,
    )


def estimate_predictions(
    summaries: Sequence[TaskSummary], params: MachineParams, *, is_shared: bool = False
) -> WorkEstimate:
    """Return the work of predictions for the held-out rows of a fold."""
    n, N = n_rows(summaries), distinct_rows(summaries, is_shared=is_shared)
    q = n_features(summaries, params, N)
    share = 1 / params.n_folds
    width = (1 - share) * N if q is None else q
    cost = 1.0 if params.kernel == "linear" else PREDICTION_VALUES
    return WorkEstimate(
        "predictions",
        "use fewer rows",
        values=cost * share * n * width,
        steps=TASK_STEPS * len(summaries),
    )


def estimate_machine(summaries: Sequence[TaskSummary], params: MachineParams) -> MemoryEstimate:
    """Return the memory of the rows, of the kernel matrix or features, and of the output kernel.

    Tasks of equal size may have the same rows, which count once in the kernel matrix; they are
    taken as different.
    """
    inputs, m = _estimate_inputs(summaries, params), n_outputs(summaries)
    outputs = MemoryEstimate(
        OUTPUT_COPIES * VALUE_BYTES * m**2,
        f"the relations of {m:,} tasks and their classes",
        "use fewer tasks, or a linear method",
    )
    largest = max(inputs, outputs, key=lambda part: part.n_bytes)
    return replace(largest, n_bytes=inputs.n_bytes + outputs.n_bytes)


def _estimate_inputs(summaries: Sequence[TaskSummary], params: MachineParams) -> MemoryEstimate:
    n, d = n_rows(summaries), summaries[0].n_features
    if params.kernel == "linear" and n >= d:
        return estimate_rows(summaries)
    n_columns = n
    if params.kernel == "linear":
        largest, remedy = f"the Gram matrix of {n:,} rows", "use fewer rows"
    elif params.kernel == "precomputed":
        largest = f"the kernel matrix of {n:,} rows"
        remedy = "use another kernel with nystrom, or fewer rows"
    elif 0 < params.nystrom < n:
        n_columns = params.nystrom
        largest = f"the {n_columns:,} features of {n:,} rows"
        remedy = "use a smaller 'nystrom', or kernel 'linear'"
    else:
        largest = f"the kernel matrix of {n:,} rows"
        remedy = USE_LANDMARKS
    matrix = MATRIX_COPIES * VALUE_BYTES * n * n_columns
    return MemoryEstimate(DEFAULT_COPIES * rows_bytes(summaries) + matrix, largest, remedy)
