"""Expected memory of kernel machines."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from algorithms.families.kernel_machines.params import MachineParams
from algorithms.interface.tasks import TaskSummary
from algorithms.interface.work import (
    DEFAULT_COPIES,
    VALUE_BYTES,
    MemoryEstimate,
    estimate_rows,
    rows_bytes,
)

#: Matrices as large as the kernel matrix at the peak: itself, and a temporary copy.
MATRIX_COPIES: Final = 2
#: Matrices as large as the output kernel at the peak.
OUTPUT_COPIES: Final = 8
#: A task of more classes has an output for each.
MAX_BINARY_CLASSES: Final = 2
#: Landmarks that the error message suggests.
SUGGESTED_LANDMARKS: Final = 2000


def estimate_machine(summaries: Sequence[TaskSummary], params: MachineParams) -> MemoryEstimate:
    """Return the memory of the rows, of the kernel matrix or features, and of the output kernel.

    Tasks of equal size may have the same rows, which count once in the kernel matrix; they are
    taken as different.
    """
    inputs, outputs = _estimate_inputs(summaries, params), _estimate_outputs(summaries)
    largest = max(inputs, outputs, key=lambda part: part.n_bytes)
    return replace(largest, n_bytes=inputs.n_bytes + outputs.n_bytes)


def _estimate_outputs(summaries: Sequence[TaskSummary]) -> MemoryEstimate:
    """Return the memory of the relations of all outputs; a task of c > 2 classes has c outputs."""
    T = sum(
        summary.n_classes if summary.n_classes > MAX_BINARY_CLASSES else 1 for summary in summaries
    )
    return MemoryEstimate(
        OUTPUT_COPIES * VALUE_BYTES * T**2,
        f"the relations of {T:,} tasks and their classes",
        "use fewer tasks, or a linear method",
    )


def _estimate_inputs(summaries: Sequence[TaskSummary], params: MachineParams) -> MemoryEstimate:
    n, d = sum(task.n_samples for task in summaries), summaries[0].n_features
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
        remedy = f"use nystrom={SUGGESTED_LANDMARKS}, or kernel 'linear'"
    matrix = MATRIX_COPIES * VALUE_BYTES * n * n_columns
    return MemoryEstimate(DEFAULT_COPIES * rows_bytes(summaries) + matrix, largest, remedy)
