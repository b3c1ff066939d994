"""Batch inference in the child process: rows are read, computed and written in blocks."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from algorithms.interface.errors import Cancelled, InvalidData, rows_at
from algorithms.interface.methods import CLASS_METHODS, FEATURE_METHODS
from algorithms.interface.model import Model, apply
from algorithms.interface.trace import Step
from algorithms.numerics.sparse_rows import is_sparse, take_columns
from algorithms.registry import load_model
from algorithms.wrappers.new_tasks import with_new_tasks
from algorithms.wrappers.preparation.algorithm import check_numbers
from algorithms.wrappers.preparation.columns import UNKNOWN_LEVEL, Column
from algorithms.wrappers.preparation.encoder import collect_unknown
from algorithms.wrappers.preparation.model import preparation_of
from algorithms.wrappers.preparation.recoding import recode
from service.datasets.blocks import DatasetReader, DatasetWriter, Layout
from service.datasets.canonical import FORMAT
from service.datasets.column_orders import unpack_orders
from service.datasets.manifest import columns_of_manifest
from service.jobs.worker.output_file import OutputFile

#: Rows per block, similar to one inference request over HTTP.
BLOCK_ROWS: Final = 1000
#: Limit on the values of a block; wide rows make smaller blocks.
_MAX_VALUES: Final = 2**23
#: Maximum number of columns whose unknown values the result lists.
_MAX_UNKNOWN_COLUMNS: Final = 50


@dataclass(frozen=True, slots=True)
class _TaskWork:
    """A task of the dataset, the model's task for it, and the outputs of its first row."""

    name: str
    model_task: str
    entry: Mapping[str, Any]
    sample: NDArray[Any]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.entry["n_samples"])

    @property
    def n_outputs(self) -> int:
        """Number of outputs of a row."""
        return int(self.sample[0].size)

    def block_rows(self) -> int:
        """Return the number of rows per block."""
        n_values = int(self.entry.get("n_stored", self.n_rows * self.entry["n_features"]))
        widest = max(self.n_outputs, math.ceil(n_values / self.n_rows))
        return max(1, min(BLOCK_ROWS, _MAX_VALUES // widest))


def infer(
    request: Mapping[str, Any],
    *,
    on_step: Callable[[Step], None],
    is_cancelled: Callable[[], bool],
) -> dict[str, Any]:
    """Compute a batch inference into the files that the request names; return its result.

    Raises
    ------
    InvalidData
        The outputs overflow, or are larger than a dataset may be.
    Cancelled
        The job was cancelled.
    """
    plan, started = request["plan"], time.monotonic()
    model, new_tasks = load_model(Path(request["base"])), tuple(plan.get("new_tasks", ()))
    if new_tasks:
        model = with_new_tasks(model, new_tasks)
    reader = DatasetReader(Path(request["dataset"]), request["manifest"])
    columns = columns_of_manifest(request["manifest"])
    if plan["method"] not in FEATURE_METHODS:
        check_numbers(columns)
    unknown: dict[str, list[str]] = {}
    n_unknown: Counter[str] = Counter()
    orders = unpack_orders(plan["columns"])
    source = _Source(reader, orders, model, plan["method"], columns, n_unknown)
    # with as many threads as a request over HTTP: with others, sums round differently
    with (
        threadpool_limits(plan["threads"], user_api="blas"),
        collect_unknown(unknown),
        ExitStack() as stack,
    ):
        work = _prepare(request, model, source)
        table = stack.enter_context(
            OutputFile(
                Path(request["artifact"]),
                plan["method"],
                work[0].sample.dtype.kind,
                _header(model, plan),
            )
        )
        dataset = None
        if plan["makes_dataset"]:
            arrays = [array for task in work for array in _arrays(task, source.reader)]
            dataset = stack.enter_context(DatasetWriter(Path(request["content"]), arrays))
        total, done = sum(task.n_rows for task in work), 0
        for outputs in _outputs(model, plan.get("level"), source, work, to=(table, dataset)):
            done += len(outputs)
            on_step(_step(plan["method"], done, total, time.monotonic() - started))
            if is_cancelled():
                raise Cancelled(f"cancelled after {done} of {total} rows")
        if dataset is not None:
            dataset.finish()
    return _result(
        work,
        time.monotonic() - started,
        makes_dataset=plan["makes_dataset"],
        before=request["manifest"],
    ) | {
        "new_tasks": list(new_tasks),
        "unknown_categories": [
            {"column": column, "values": values, "n_rows": n_unknown[column]}
            for column, values in islice(unknown.items(), _MAX_UNKNOWN_COLUMNS)
        ],
    }


def _prepare(request: Mapping[str, Any], model: Model, source: "_Source") -> list[_TaskWork]:
    """Return the tasks, each with the outputs of its first row, which give shape and dtype."""
    entries = {entry["name"]: entry for entry in request["manifest"]["tasks"]}
    method = request["plan"]["method"]
    work = []
    for name, model_task in request["plan"]["tasks"].items():
        first, level = source.first(name, model_task), request["plan"].get("level")
        sample = apply(model, method, first, task=model_task, level=level)
        work.append(_TaskWork(name, model_task, entries[name], sample))
    n_bytes = sum(task.n_rows * task.sample.nbytes for task in work)
    if n_bytes > request["max_bytes"]:
        limit = request["max_bytes"]
        detail = f"the outputs take {n_bytes} bytes; the maximum for a dataset is {limit}"
        raise InvalidData(f"{detail}; select fewer tasks")
    return work


def _outputs(
    model: Model,
    level: float | None,
    source: "_Source",
    work: list[_TaskWork],
    *,
    to: tuple[OutputFile, DatasetWriter | None],
) -> Iterator[NDArray[Any]]:
    """Write the outputs block by block, and the targets after each task; yield each block."""
    table, dataset = to
    for task in work:
        first = 0
        for rows in source.blocks(task.name, task.model_task, task.block_rows()):
            source.count_unknown(rows, task.model_task)
            with rows_at(range(first, first + rows.shape[0])):
                outputs = apply(model, source.method, rows, task=task.model_task, level=level)
            table.add(task.name, first, outputs)
            if dataset is not None:
                dataset.write(outputs.reshape(len(outputs), -1))
            first += rows.shape[0]
            yield outputs
        if dataset is not None:
            for part in source.reader.parts(task.name):
                for values in source.reader.values(part):
                    dataset.write(values)


@dataclass(frozen=True, slots=True)
class _Source:
    """Rows of the dataset, with columns in the order and with the levels of the model."""

    reader: DatasetReader
    orders: Mapping[str, list[int]]
    model: Model
    method: str
    columns: tuple[Column, ...] | None
    n_unknown: Counter[str]

    def blocks(self, task: str, model_task: str, n_rows: int) -> Iterator[NDArray[np.float64]]:
        """Yield the rows of a task, at most ``n_rows`` at a time."""
        order = self.orders.get(task)
        width = self.model.width(self.method, task=model_task)
        for rows in self.reader.rows(task, n_rows):
            if order is None and rows.shape[1] < width:  # the last columns have no value
                order = list(range(width))
            ordered = rows if order is None else take_columns(_with_empty(rows, order), order)
            yield self._recode(ordered, order, task, model_task)

    def first(self, task: str, model_task: str) -> NDArray[np.float64]:
        """Return the first row of a task."""
        return next(self.blocks(task, model_task, 1))

    def _recode(
        self, rows: NDArray[np.float64], order: list[int] | None, task: str, model_task: str
    ) -> NDArray[np.float64]:
        wanted = self._wanted(model_task)
        if is_sparse(rows) or (wanted is None and self.columns is None):
            return rows  # a prepared model refuses sparse rows
        columns = self.columns
        if columns is None:
            columns = tuple(Column(column.name) for column in wanted or ())
        places = range(len(columns)) if order is None else order
        ordered = [columns[j] if j < len(columns) else None for j in places]
        if wanted is None:
            wanted = tuple(Column("" if column is None else column.name) for column in ordered)
        given = [theirs if c is None else c for c, theirs in zip(ordered, wanted, strict=True)]
        return recode(rows, given, wanted, task=task)

    def _wanted(self, model_task: str) -> tuple[Column, ...] | None:
        """Return the raw columns of the model for a task; None if it takes plain numbers."""
        preparation = preparation_of(self.model) if self.method in FEATURE_METHODS else None
        return None if preparation is None else preparation.of(model_task).columns

    def count_unknown(self, rows: NDArray[np.float64], model_task: str) -> None:
        """Count the rows with values of categories that no training row has, by column."""
        for j, column in enumerate(self._wanted(model_task) or ()):
            if column.kind == "category":
                self.n_unknown[column.name] += int((rows[:, j] == UNKNOWN_LEVEL).sum())


def _with_empty(rows: NDArray[np.float64], order: list[int]) -> NDArray[np.float64]:
    """Return rows with the columns without any value, which the dataset has left out."""
    n_empty = max(order) + 1 - rows.shape[1]
    return rows if n_empty <= 0 else np.pad(rows, ((0, 0), (0, n_empty)), constant_values=np.nan)


def _header(model: Model, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of the output file: model, method, dataset and classes."""
    head = {name: plan[name] for name in ("model", "version", "method", "dataset_id")}
    if plan["method"] in CLASS_METHODS:
        tasks = plan["tasks"].items()
        head["classes"] = {name: list(model.classes(model_task)) for name, model_task in tasks}
    return head


def _arrays(task: _TaskWork, reader: DatasetReader) -> list[Layout]:
    rows = Layout(f"{task.name}/X", np.dtype("<f8"), (task.n_rows, task.n_outputs))
    return [rows, *reader.parts(task.name)]


def _result(
    work: list[_TaskWork], seconds: float, *, makes_dataset: bool, before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the result of the job."""
    total = sum(task.n_rows for task in work)
    return {
        "rows": total,
        "seconds": round(seconds, 6),
        "rows_per_s": round(total / max(seconds, 1e-9), 3),
        "n_tasks": len(work),
        "manifest": _manifest(work, before) if makes_dataset else None,
    }


def _manifest(work: list[_TaskWork], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of the dataset of outputs, which has the same tasks, rows and targets."""
    kept = ("name", "n_samples", "target", "classes", "has_groups", "has_weights")
    tasks = [
        {name: task.entry[name] for name in kept if name in task.entry}
        | {"n_features": task.n_outputs, "input": "rows"}
        for task in work
    ]
    shared = {name: before[name] for name in ("groups", "warnings") if name in before}
    return {"format": FORMAT, "tasks": tasks, "feature_names": None} | shared


def _step(method: str, done: int, total: int, elapsed_s: float) -> Step:
    left = float(total - done)
    return Step(f"rows to {method}", done, total, math.nan, left, elapsed_s, done / total)
