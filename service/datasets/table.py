"""The rows of a dataset as one table: CSV, or a stream of Arrow record batches."""

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task
from algorithms.numerics.sparse_rows import is_sparse
from algorithms.wrappers.preparation.columns import Column
from service.datasets.canonical import read_tasks, read_unlabelled
from service.datasets.distributions import task_columns
from service.datasets.manifest import columns_of_manifest

CSV: Final = "text/csv"
ARROW_STREAM: Final = "application/vnd.apache.arrow.stream"
#: Media types, the default first, and the ends of file names.
TABLE_TYPES: Final = {CSV: ".csv", ARROW_STREAM: ".arrows"}
#: Values of a block; a response holds one block at a time.
_BLOCK_VALUES: Final = 250_000
_MICROSECONDS: Final = 1e6
#: Texts that spreadsheet programs compute, and those of them that are numbers.
_FORMULA: Final = r"^[=+@\t\r-]"
_NUMBER: Final = r"^[+-]?[0-9]*[.,]?[0-9]+([eE][+-]?[0-9]+)?$"


class DatasetTable:
    """The rows of some tasks of a dataset.

    The columns are the task, the features, and target, group and weight if the tasks have them,
    named as in the upload: an upload of the table with the same options gives the same tasks. Rows
    without a target follow the other rows of their task. CSV has an apostrophe before texts that a
    spreadsheet program would compute, such as ``=1+1``.

    Parameters
    ----------
    content
        The file with the tasks.
    options
        Options of the upload.
    names
        The tasks; if empty, all.

    Raises
    ------
    UnknownTask
        There is no task of one of the names.
    InvalidData
        The tasks have different columns, or covariance matrices.
    """

    def __init__(
        self,
        content: Path,
        manifest: Mapping[str, Any],
        *,
        options: Mapping[str, Any],
        names: Sequence[str],
    ) -> None:
        all_tasks = read_tasks(content, manifest)
        further = {task.name: task for task in read_unlabelled(content, manifest)}
        tasks = [all_tasks[name] for name in dict.fromkeys(names)] if names else list(all_tasks)
        self._columns = _common_columns(tasks, columns_of_manifest(manifest))
        self._tasks = [part for t in tasks for part in (t, further.get(t.name)) if part is not None]
        self._labels = {
            name: kind
            for name in ("y", "groups", "weights")
            if (kind := _common_type([getattr(task, name) for task in tasks])) is not None
        }
        taken = {column.name for column in self._columns}
        titles = [
            _free(title, taken)
            for title in (_titles(options)[name] for name in ("task", *self._labels))
        ]
        fields = [pa.field(c.name, _TYPES[c.kind]) for c in self._columns]
        types = [pa.string(), *self._labels.values()]
        self.schema = pa.schema(
            [(titles[0], types[0]), *fields, *zip(titles[1:], types[1:], strict=True)]
        )

    def chunks(self, media_type: str) -> Iterator[bytes]:
        """Yield the bytes of the table in one of :data:`TABLE_TYPES`."""
        sink = _Sink()
        is_csv = media_type == CSV
        open_ = pv.CSVWriter if is_csv else pa.ipc.new_stream
        with open_(sink, _inert_names(self.schema) if is_csv else self.schema) as writer:
            for batch in self._batches():
                writer.write_batch(_inert(batch) if is_csv else batch)
                yield sink.take()
        yield sink.take()

    def _batches(self) -> Iterator[pa.RecordBatch]:
        n_rows = max(1, _BLOCK_VALUES // max(1, len(self._columns)))
        for task in self._tasks:
            for start in range(0, task.n_samples, n_rows):
                yield self._batch(task, slice(start, start + n_rows))

    def _batch(self, task: Task, rows: slice) -> pa.RecordBatch:
        X: Any = task.X[rows].toarray() if is_sparse(task.X) else task.X[rows]
        arrays = [pa.array([task.name] * len(X), pa.string())]
        arrays += [_as_uploaded(column, X[:, j]) for j, column in enumerate(self._columns)]
        for name, kind in self._labels.items():
            labels = getattr(task, name)
            values = pa.nulls(len(X)) if labels is None else pa.array(labels[rows].tolist())
            arrays.append(values.cast(kind))
        return pa.record_batch(arrays, schema=self.schema)


def _inert(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose texts no spreadsheet program takes for formulas; numbers stay."""
    arrays = [
        inert_texts(array) if pa.types.is_string(array.type) else array for array in batch.columns
    ]
    return pa.record_batch(arrays, schema=_inert_names(batch.schema))


def _inert_names(schema: pa.Schema) -> pa.Schema:
    names = inert_texts(pa.array(schema.names, pa.string())).to_pylist()
    return pa.schema([field.with_name(name) for name, field in zip(names, schema, strict=True)])


def inert_texts(texts: pa.Array) -> pa.Array:
    """Return texts with an apostrophe before those that begin as a formula."""
    begins = pc.match_substring_regex(texts, _FORMULA)
    is_formula = pc.and_not(begins, pc.match_substring_regex(texts, _NUMBER))
    return pc.if_else(is_formula, pc.binary_join_element_wise("'", texts, ""), texts)


class _Sink(io.RawIOBase):
    """A file whose bytes are taken while it is written."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        """Return true."""
        return True

    def write(self, data: Any) -> int:
        """Keep bytes until they are taken."""
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        """Return the bytes that were written since the last call."""
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken


_TYPES: Final = {
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "category": pa.string(),
    "date": pa.timestamp("us"),
}


def _common_columns(tasks: Sequence[Task], kinds: Sequence[Column] | None) -> list[Column]:
    first = tasks[0]
    for task in tasks:
        if task.input == "covariances":
            detail = f"task '{task.name}' has covariance matrices, which are not rows of a table"
            raise InvalidData(detail, task=task.name)
        if (task.n_features, task.feature_names) != (first.n_features, first.feature_names):
            raise InvalidData(
                f"tasks '{first.name}' and '{task.name}' have different columns; choose tasks with "
                "the same ones",
                task=task.name,
            )
    return task_columns(first, kinds, n_max=first.n_features)


def _common_type(labels: Sequence[NDArray[Any] | None]) -> pa.DataType | None:
    """Return the type of the labels of all tasks; None if no task has labels."""
    kinds = {array.dtype.kind for array in labels if array is not None}
    if not kinds:
        return None
    if kinds <= set("iu"):
        return pa.int64()
    return pa.float64() if kinds <= set("fiu") else pa.string()


def _titles(options: Mapping[str, Any]) -> dict[str, str]:
    """Return the names of the columns with tasks, targets, groups and weights in the upload."""
    targets: Sequence[str] = options.get("target_column") or ()
    return {
        "task": options.get("task_column") or "task",
        "y": targets[0] if len(targets) == 1 else "target",
        "groups": options.get("group_column") or "group",
        "weights": options.get("weight_column") or "weight",
    }


def _free(title: str, taken: set[str]) -> str:
    """Return a title that is not taken, and take it."""
    while title in taken:
        title += "_"
    taken.add(title)
    return title


def _as_uploaded(column: Column, values: NDArray[np.float64]) -> pa.Array:
    """Return stored numbers as they were uploaded, with nulls for missing values."""
    is_missing = np.isnan(values)
    if column.kind == "number":
        return pa.array(values, mask=is_missing)
    if column.kind == "boolean":
        return pa.array(values == 1, mask=is_missing)
    filled = np.where(is_missing, -1, values)
    if column.kind == "category":
        levels = pa.array(list(column.levels), pa.string())
        return levels.take(pa.array(filled.astype(np.int64), mask=filled < 0))
    moments = np.round(filled * _MICROSECONDS).astype(np.int64)
    return pa.array(moments, mask=is_missing).cast(_TYPES["date"])
