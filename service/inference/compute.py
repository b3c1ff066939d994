"""A call computed: one path for every format and both protocols."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.model import CLASS_METHODS, FEATURE_METHODS, Model, apply
from service.context import Services
from service.errors import Problem
from service.inference.call import Call, InferenceResult, InputSpec, Matrix, raise_invalid_data
from service.inference.resolver import ResolvedModel
from service.models.store import ServableVersion

#: More rows than this are tried with one first, so that the size of the answer is known.
_MIN_PROBED_ROWS = 1000


def compute(services: Services, resolved: ResolvedModel, call: Call) -> InferenceResult:
    """Return the outputs of a method of a model for some rows.

    Raises
    ------
    Problem
        The model has no such method, or the rows do not fit it.
    AlgorithmError
        A task is unknown, or a value is not finite.
    """
    served, method = resolved
    if method not in served.methods:
        can = ", ".join(served.methods)
        detail = f"'{served.name}' ({served.algorithm}) cannot {method}; it can {can}"
        raise Problem("unsupported-method", f"model {detail}")
    model = services.models.get(served)
    outputs, classes = _apply(services, served, model, method, call)
    return InferenceResult(served.name, served.version, call.task, method, outputs, classes)


def _apply(
    services: Services, served: ServableVersion, model: Model, method: str, call: Call
) -> tuple[NDArray[Any], tuple[Any, ...]]:
    tasks = [call.task] if isinstance(call.task, str) else list(dict.fromkeys(call.task))
    if not tasks:
        raise Problem("invalid-data", "no row names a task, so no width is known; send rows")
    width = _width(model, method, tasks)
    columns = partial(_names, services, served, method, tasks)
    spec = InputSpec(tasks[0], method, width, method in model.takes_missing, columns)
    rows = call.rows.as_matrix(spec)
    limit = services.settings.max_inference_rows
    if len(rows) > limit:
        raise Problem("too-many-rows", f"{len(rows)} rows came, more than {limit} at a time")
    run = _Run(model, method, services.settings.max_answer_bytes)
    if isinstance(call.task, str):
        outputs = run.of(rows, call.task, n_rows=len(rows))
        return outputs, model.classes(call.task) if method in CLASS_METHODS else ()
    return _by_task(run, rows, call.task, tasks)


def _width(model: Model, method: str, tasks: list[str]) -> int:
    """Give the width of rows; those of several tasks must be of one."""
    width = model.width(method, task=tasks[0])
    for task in tasks[1:]:
        other = model.width(method, task=task)
        if other != width:
            raise_invalid_data(
                f"task '{tasks[0]}' takes rows of {width} numbers, task '{task}' of {other}; send "
                "the rows of each width in a call of their own",
                task=task,
            )
    return width


def _names(
    services: Services, served: ServableVersion, method: str, tasks: list[str]
) -> tuple[str, ...] | None:
    """Return the names of the columns that rows of all these tasks have, None without names."""
    if method not in FEATURE_METHODS:
        return None
    names_of = services.columns.of(served.id)
    names = names_of[tasks[0]]
    for task in tasks[1:]:
        if names_of[task] != names:
            raise_invalid_data(
                f"tasks '{tasks[0]}' and '{task}' were trained on columns of other names; send the "
                "rows of each in a call of their own",
                task=task,
            )
    return names


class _Run:
    """Runs a method on rows of one task, within bounds."""

    def __init__(self, model: Model, method: str, max_bytes: int) -> None:
        self.model = model
        self.method = method
        self._max_bytes = max_bytes

    def of(self, rows: Matrix, task: str, *, n_rows: int) -> NDArray[Any]:
        """Give the outputs of rows, where those of ``n_rows`` like them are not too many."""
        if n_rows > _MIN_PROBED_ROWS:
            one = apply(self.model, self.method, rows[:1], task=task)
            if one.nbytes * n_rows > self._max_bytes:
                detail = f"the answer to {n_rows} rows has {one.nbytes * n_rows} bytes, more than"
                raise Problem("too-many-rows", f"{detail} {self._max_bytes}; send fewer at a time")
        return apply(self.model, self.method, rows, task=task)


def _by_task(
    run: _Run, rows: Matrix, task_of: Sequence[str], tasks: list[str]
) -> tuple[NDArray[Any], tuple[Any, ...]]:
    """Give the outputs of rows that each name their task, in the order of the rows."""
    if len(task_of) != len(rows):
        raise_invalid_data(
            f"{len(rows)} rows came with {len(task_of)} tasks; name one task for each row"
        )
    _check_finite(run, rows, task_of)
    number = {task: i for i, task in enumerate(tasks)}
    which = np.array([number[task] for task in task_of])
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which, minlength=len(tasks)))[:-1]
    parts = [
        run.of(rows[chosen], task, n_rows=len(rows))
        for task, chosen in zip(tasks, np.split(order, ends), strict=True)
    ]
    _check_alike(run, parts, tasks)
    joined = np.concatenate(parts)
    outputs = np.empty_like(joined)
    outputs[order] = joined
    return outputs, run.model.classes(tasks[0]) if run.method in CLASS_METHODS else ()


def _check_finite(run: _Run, rows: Matrix, task_of: Sequence[str]) -> None:
    """Have a bad value told by its row in the call: a model would count in those of its task."""
    takes_missing = run.method in run.model.takes_missing
    is_bad = np.isinf(rows) if takes_missing else ~np.isfinite(rows)
    if is_bad.any():
        row, column = (int(i) for i in np.argwhere(is_bad)[0])
        raise_invalid_data(
            f"task '{task_of[row]}', row {row}, column {column} is {rows[row, column]}; every "
            "value must be a finite number",
            task=task_of[row],
            row=row,
            column=column,
        )


def _check_alike(run: _Run, parts: Sequence[NDArray[Any]], tasks: list[str]) -> None:
    """Refuse what could not stand in one array, or only with columns of several meanings."""
    first = parts[0]
    for part, task in zip(parts, tasks, strict=True):
        is_alike = part.shape[1:] == first.shape[1:] and part.dtype.kind == first.dtype.kind
        if run.method in CLASS_METHODS and part.ndim == 2:
            is_alike &= run.model.classes(task) == run.model.classes(tasks[0])
        if not is_alike:
            raise_invalid_data(
                f"what {run.method} gives for task '{task}' has other columns or kinds of values "
                f"than for task '{tasks[0]}'; call them one by one",
                task=task,
            )
