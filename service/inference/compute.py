"""Computation of an inference call, shared by every format and both protocols."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import UnknownTask, rows_at
from algorithms.interface.methods import CLASS_METHODS, OUTPUT_SHAPES
from algorithms.interface.model import Model, apply
from algorithms.wrappers.new_tasks import for_tasks
from service.errors.problems import Problem
from service.inference.call import (
    Call,
    InferenceResult,
    InputSpec,
    Matrix,
    RowsByTask,
    raise_invalid_data,
)
from service.inference.context import InferenceServices
from service.inference.task_column import MAX_NAME
from service.models.messages import unsupported_method
from service.models.resolver import ResolvedModel
from service.models.store import ServableVersion

#: With more rows than this, the size of the result is always learned from the first row.
_MIN_PROBED_ROWS = 1000
#: Outputs, their classes, and the encoded rows.
_Applied: TypeAlias = tuple[NDArray[Any], tuple[Any, ...], tuple[Matrix, ...]]


def compute(services: InferenceServices, resolved: ResolvedModel, call: Call) -> InferenceResult:
    """Return the outputs of a method of a model for some rows.

    Raises
    ------
    Problem
        The model has no such method, or cannot be applied to the rows.
    AlgorithmError
        A task is unknown, or a value is not finite.
    """
    served, method = resolved
    if method not in served.methods:
        raise Problem("unsupported-method", unsupported_method(served, method))
    tasks = [call.task] if isinstance(call.task, str) else list(dict.fromkeys(call.task))
    if not tasks:  # the outputs of no rows are as those of the first task
        first = services.models.get(served).tasks[0]
        result = compute(services, resolved, call._replace(task=first))
        if len(result.outputs):
            n_rows = len(result.outputs)
            raise_invalid_data(f"expected one task per row, got 0 tasks for {n_rows} rows")
        return result._replace(task=call.task)
    model, new_tasks = _for_tasks(services.models.get(served), tasks, call)
    if isinstance(call.rows, RowsByTask):
        outputs, classes, inputs = _apply_parts(services, resolved, model, call, call.rows)
    else:
        spec = (
            services.inputs.of_task(served, model, method, call.task)
            if isinstance(call.task, str) and not new_tasks
            else services.inputs.of_tasks(served, model, method, tasks)
        )
        outputs, classes, inputs = _apply(services, served, model, spec, call)
    return InferenceResult(
        served.name, served.version, call.task, method, outputs, classes, new_tasks, inputs
    )


def _for_tasks(model: Model, tasks: list[str], call: Call) -> tuple[Model, tuple[str, ...]]:
    """Return the model for some tasks, and which of these it was not trained on."""
    try:
        found = for_tasks(model, tasks, call.new_tasks)
    except UnknownTask as error:
        if isinstance(call.task, str):
            raise
        row = call.task.index(str(error.task))
        message = f"row {row}: {error.message}"
        raise UnknownTask(message, task=error.task, row=row) from None
    for name in found[1]:
        if "\0" in name or len(name) > MAX_NAME:  # monitors cannot store it
            first = None if isinstance(call.task, str) else call.task.index(name)
            where = "" if first is None else f"row {first}: "
            detail = f"{where}the task {name!r:.40} has a NUL character, or more than {MAX_NAME}"
            raise_invalid_data(f"{detail} characters", row=first)
    return found


def _apply(
    services: InferenceServices,
    served: ServableVersion,
    model: Model,
    spec: InputSpec,
    call: Call,
    *,
    n_rows: int | None = None,
) -> _Applied:
    """Return the outputs, their classes, and the encoded rows.

    Parameters
    ----------
    n_rows
        Number of rows of the request, of which the call may be a part.
    """
    method = spec.method
    try:
        rows = call.rows.as_matrix(spec)
    except Problem as problem:
        _name_own_task(problem, call.task)
        raise
    limit = services.settings.max_inference_rows
    n_rows = n_rows or rows.shape[0]
    if n_rows > limit:
        detail = f"the request has {n_rows} rows, the maximum is {limit}; send fewer per request"
        raise Problem("too-many-rows", detail)
    max_bytes = services.settings.max_response_bytes
    bounded = _BoundedMethod(model, method, call.level, served.artifact_bytes, max_bytes)
    if isinstance(call.task, str):
        outputs = bounded.apply(rows, call.task, n_rows=n_rows)
        return outputs, model.classes(call.task) if method in CLASS_METHODS else (), (rows,)
    return *_apply_by_task(bounded, rows, call.task), (rows,)


def _apply_parts(
    services: InferenceServices,
    resolved: ResolvedModel,
    model: Model,
    call: Call,
    by_task: RowsByTask,
) -> _Applied:
    """Return the outputs for rows of several tasks, whose columns may differ."""
    served, method = resolved
    parts, tasks, classes = [], [], []
    inputs: list[Matrix] = []
    for task, rows in by_task.parts:
        spec = services.inputs.of_tasks(served, model, method, [task])
        own = call._replace(task=task, rows=rows)
        outputs, labels, matrices = _apply(
            services, served, model, spec, own, n_rows=len(call.task)
        )
        parts.append(outputs)
        tasks.append(task)
        classes.append(labels)
        inputs += matrices
    _check_same_columns(model, method, parts, tasks)
    return np.concatenate(parts), classes[0], tuple(inputs)


def _name_own_task(problem: Problem, task_of: str | list[str]) -> None:
    """Let each error in a row name the task of that row, where all rows are read together."""
    if isinstance(task_of, str):
        return
    for entry in problem.errors:
        row = entry.get("row")
        if row is not None and row < len(task_of):
            entry["task"] = task_of[row]


class _BoundedMethod:
    """Method of a model with a limit on the size of its outputs.

    Parameters
    ----------
    artifact_bytes
        Size of the stored model.
    max_bytes
        Maximum size of the outputs.
    """

    def __init__(
        self, model: Model, method: str, level: float | None, artifact_bytes: int, max_bytes: int
    ) -> None:
        self.model = model
        self.method = method
        self._level = level
        self._artifact_bytes = artifact_bytes
        self._max_bytes = max_bytes

    def apply(self, rows: Matrix, task: str, *, n_rows: int) -> NDArray[Any]:
        """Return the outputs of rows.

        Parameters
        ----------
        n_rows
            Number of rows of the request, over all tasks; the limit is on their outputs.

        Raises
        ------
        Problem
            The outputs would be too large.
        """
        if self._may_exceed(n_rows):
            first_output = apply(self.model, self.method, rows[:1], task=task, level=self._level)
            n_bytes = first_output.nbytes * n_rows
            if n_bytes > self._max_bytes:
                detail = f"the outputs of {n_rows} rows take {n_bytes} bytes, the maximum is"
                raise Problem("too-many-rows", f"{detail} {self._max_bytes}; send fewer rows")
            if n_rows == 1:
                return first_output
        return apply(self.model, self.method, rows, task=task, level=self._level)

    def _may_exceed(self, n_rows: int) -> bool:
        """Return whether the outputs of this number of rows may be too large."""
        if n_rows > _MIN_PROBED_ROWS:
            return True
        # a model stores at least one number for each column of its outputs
        return self.method not in OUTPUT_SHAPES and n_rows * self._artifact_bytes > self._max_bytes


def _apply_by_task(
    bounded: _BoundedMethod, rows: Matrix, task_of: Sequence[str]
) -> tuple[NDArray[Any], tuple[Any, ...]]:
    """Return the outputs of rows of several tasks, in the order of the rows."""
    tasks = list(dict.fromkeys(task_of))
    n_rows = rows.shape[0]
    if len(task_of) != n_rows:
        raise_invalid_data(f"expected one task per row, got {len(task_of)} tasks for {n_rows} rows")
    code_of = {task: i for i, task in enumerate(tasks)}
    codes = np.array([code_of[task] for task in task_of])
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes, minlength=len(tasks)))[:-1]
    parts = []
    for task, chosen in zip(tasks, np.split(order, ends), strict=True):
        with rows_at(chosen):
            parts.append(bounded.apply(rows[chosen], task, n_rows=n_rows))
    _check_same_columns(bounded.model, bounded.method, parts, tasks)
    joined = np.concatenate(parts)
    outputs = np.empty_like(joined)
    outputs[order] = joined
    return outputs, bounded.model.classes(tasks[0]) if bounded.method in CLASS_METHODS else ()


def _check_same_columns(
    model: Model, method: str, parts: Sequence[NDArray[Any]], tasks: list[str]
) -> None:
    """Raise a problem if the outputs of the tasks differ in their columns or their kind."""
    first = parts[0]
    for part, task in zip(parts, tasks, strict=True):
        is_same = part.shape[1:] == first.shape[1:] and part.dtype.kind == first.dtype.kind
        if method in CLASS_METHODS and part.ndim == 2:
            is_same &= model.classes(task) == model.classes(tasks[0])
        if not is_same:
            raise_invalid_data(
                f"outputs of {method} for task '{task}' have other columns or another type "
                f"than for task '{tasks[0]}'; send the tasks in separate requests",
                task=task,
            )
