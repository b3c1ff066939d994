"""The Parquet file of a batch inference: task, row number and outputs of every row.

The outputs of a row are a list, as tasks may differ in their number; predictions and variances are
single values.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from algorithms.interface.artifact import HEADER_KEY
from algorithms.interface.methods import OUTPUT_SHAPES

#: Limits on the values and rows that are buffered before a write.
_MAX_VALUES: Final = 2**20
_MAX_ROWS: Final = 2**16
_TYPES: Final = {"U": pa.string(), "i": pa.int64(), "f": pa.float64()}


class OutputFile:
    """Writer of an output file that buffers a bounded number of rows.

    Parameters
    ----------
    kind
        numpy dtype kind of the values: U, i or f.
    header
        Metadata, stored in the file as JSON.
    """

    def __init__(self, path: Path, method: str, kind: str, header: Mapping[str, Any]) -> None:
        self._is_scalar = OUTPUT_SHAPES.get(method) == ()
        value = _TYPES[kind]
        outputs = value if self._is_scalar else pa.list_(value)
        fields = [("task", pa.string()), ("row", pa.int64()), ("outputs", outputs)]
        about = {HEADER_KEY: json.dumps(header, ensure_ascii=False, sort_keys=True)}
        self._schema = pa.schema(fields, metadata=about)
        self._writer = pq.ParquetWriter(path, self._schema)
        self._batches: list[Any] = []
        self._n_values = self._n_rows = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self._flush()
        self._writer.close()

    def add(self, task: str, first: int, outputs: NDArray[Any]) -> None:
        """Add the outputs of consecutive rows of a task, starting at row ``first``."""
        n_rows = len(outputs)
        columns = [
            pa.array(pc.cast(pa.repeat(task, n_rows), pa.string())),
            pa.array(np.arange(first, first + n_rows)),
            self._column(outputs),
        ]
        self._batches.append(pa.record_batch(columns, schema=self._schema))
        self._n_rows += n_rows
        self._n_values += outputs.size
        if self._n_values >= _MAX_VALUES or self._n_rows >= _MAX_ROWS:
            self._flush()

    def _column(self, outputs: NDArray[Any]) -> Any:
        if self._is_scalar:
            return pa.array(outputs, self._schema.field("outputs").type)
        wide = outputs.reshape(len(outputs), -1)
        ends = np.arange(len(wide) + 1, dtype=np.int32) * wide.shape[1]
        return pa.ListArray.from_arrays(ends, pa.array(np.ascontiguousarray(wide).ravel()))

    def _flush(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches, self._schema))
        self._batches = []
        self._n_values = self._n_rows = 0
