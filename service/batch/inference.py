"""An inference carried out, in the process that works: rows read, called and written by blocks."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from algorithms.interface.errors import Cancelled, InvalidData
from algorithms.interface.model import CLASS_METHODS, Model, apply
from algorithms.interface.trace import Step
from algorithms.registry import load_model
from service.batch.outputs import OutputFile
from service.columns import unpack_orders
from service.datasets.blocks import DatasetReader, DatasetWriter, Layout
from service.datasets.canonical import FORMAT

#: Rows that are called at a time: as many as one call over HTTP may well have.
CALLED_ROWS: Final = 1000
#: Fewer, where they are wide.
_MOST_VALUES: Final = 2**23


@dataclass(frozen=True, slots=True)
class _Work:
    """A task of the dataset, the task that it is called as, and the outputs of its first row."""

    name: str
    called: str
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
        """Return how many rows are called at a time."""
        widest = max(self.n_outputs, int(self.entry["n_features"]))
        return max(1, min(CALLED_ROWS, _MOST_VALUES // widest))


def infer(
    order: Mapping[str, Any],
    *,
    on_step: Callable[[Step], None],
    is_cancelled: Callable[[], bool],
) -> dict[str, Any]:
    """Return what the inference came to; its outputs are in the files that the order names.

    Raises
    ------
    InvalidData
        The rows are so large that the outputs overflow, or the outputs more than may be stored.
    Cancelled
        The caller asked to stop.
    """
    plan, started = order["plan"], time.monotonic()
    model = load_model(Path(order["base"]))
    reader = DatasetReader(Path(order["dataset"]), order["manifest"])
    source = _Source(reader, unpack_orders(plan["columns"]))
    # as many threads as a call over HTTP has: with more, sums would round in another order
    with threadpool_limits(plan["threads"], user_api="blas"), ExitStack() as stack:
        work = _lay_out(order, model, source)
        table = stack.enter_context(
            OutputFile(
                Path(order["artifact"]),
                plan["method"],
                work[0].sample.dtype.kind,
                _header(model, plan),
            )
        )
        dataset = None
        if plan["makes_dataset"]:
            arrays = [array for task in work for array in _arrays(task, source.reader)]
            dataset = stack.enter_context(DatasetWriter(Path(order["content"]), arrays))
        total, done = sum(task.n_rows for task in work), 0
        for outputs in _outputs(model, plan["method"], source, work, to=(table, dataset)):
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
        before=order["manifest"],
    )


def _lay_out(order: Mapping[str, Any], model: Model, source: "_Source") -> list[_Work]:
    """Return the tasks, each with the outputs of its first row, which tell what is to be stored."""
    entries = {entry["name"]: entry for entry in order["manifest"]["tasks"]}
    method = order["plan"]["method"]
    work = [
        _Work(name, called, entries[name], apply(model, method, source.first(name), task=called))
        for name, called in order["plan"]["tasks"].items()
    ]
    n_bytes = sum(task.n_rows * task.sample.nbytes for task in work)
    if n_bytes > order["max_bytes"]:
        most = order["max_bytes"]
        detail = f"the outputs take {n_bytes} bytes, more than {most}, the most for a dataset"
        raise InvalidData(f"{detail}; name fewer tasks at a time")
    return work


def _outputs(
    model: Model,
    method: str,
    source: "_Source",
    work: list[_Work],
    *,
    to: tuple[OutputFile, DatasetWriter | None],
) -> Iterator[NDArray[Any]]:
    """Yield the outputs block by block once they are written, and after each task its targets."""
    table, dataset = to
    for task in work:
        first = 0
        for rows in source.blocks(task.name, task.block_rows()):
            outputs = apply(model, method, rows, task=task.called)
            table.add(task.name, first, outputs)
            if dataset is not None:
                dataset.write(outputs.reshape(len(outputs), -1))
            first += len(rows)
            yield outputs
        if dataset is not None:
            reader = source.reader
            for values in chain(reader.targets(task.name), reader.groups(task.name)):
                dataset.write(values)


@dataclass(frozen=True, slots=True)
class _Source:
    """Rows as the model takes them: their columns in the order in which it learned them."""

    reader: DatasetReader
    orders: Mapping[str, list[int]]

    def blocks(self, task: str, n_rows: int) -> Iterator[NDArray[np.float64]]:
        """Return the rows of a task, so many at a time."""
        order = self.orders.get(task)
        for rows in self.reader.rows(task, n_rows):
            yield rows if order is None else np.ascontiguousarray(rows[:, order])

    def first(self, task: str) -> NDArray[np.float64]:
        """Return the first row of a task."""
        return next(self.blocks(task, 1))


def _header(model: Model, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the outputs are of, and what their columns stand for."""
    head = {name: plan[name] for name in ("model", "version", "method", "dataset_id")}
    if plan["method"] in CLASS_METHODS:
        classes = {name: list(model.classes(called)) for name, called in plan["tasks"].items()}
        head["classes"] = classes
    return head


def _arrays(task: _Work, reader: DatasetReader) -> list[Layout]:
    rows = Layout(f"{task.name}/X", np.dtype("<f8"), (task.n_rows, task.n_outputs))
    others = (reader.target_layout(task.name), reader.group_layout(task.name))
    return [rows, *(layout for layout in others if layout is not None)]


def _result(
    work: list[_Work], seconds: float, *, makes_dataset: bool, before: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what the inference came to."""
    total = sum(task.n_rows for task in work)
    return {
        "rows": total,
        "seconds": round(seconds, 6),
        "rows_per_s": round(total / max(seconds, 1e-9), 3),
        "n_tasks": len(work),
        "manifest": _manifest(work, before) if makes_dataset else None,
    }


def _manifest(work: list[_Work], before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest of the outputs: the same tasks, rows and targets, with other columns."""
    kept = ("name", "n_samples", "target", "classes", "has_groups")
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
