"""Parser of Arrow IPC files (Feather) and streams: one table of all tasks."""

from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from algorithms.wrappers.preparation.pandas_types import read_as_stored
from service.datasets.formats.arrow_table import tasks_of
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.parquet import CORRUPT, VALUE_BYTES, first_line
from service.datasets.formats.parsed import Parsed
from service.datasets.formats.progress import report_progress
from service.datasets.issues import reject

_FILE_MAGIC: Final = b"ARROW1"
_FEATHER_1: Final = b"FEA1"
_REMEDY: Final = "write plain columns without compression, or send CSV"


def parse(path: Path, options: ReadOptions, limits: Limits) -> Parsed:
    """Return the tasks in an Arrow IPC file or stream."""
    with path.open("rb") as file:
        head = file.read(len(_FILE_MAGIC))
    if head.startswith(_FEATHER_1):
        reject("corrupt-file", "the file is Feather of version 1; write it as version 2")
    read_as_stored()
    try:
        with pa.OSFile(str(path)) as source:
            open_ = pa.ipc.open_file if head == _FILE_MAGIC else pa.ipc.open_stream
            with open_(source) as reader:
                table = _read(reader, source, limits)
        table.validate(full=True)
    except CORRUPT as error:
        expected = "Arrow IPC file or stream"
        reject("corrupt-file", f"the file is not a complete {expected}: {first_line(error)}")
    categories = frozenset(f.name for f in table.schema if pa.types.is_dictionary(f.type))
    return tasks_of(table, options, limits, categories=categories)


def _read(reader: Any, source: Any, limits: Limits) -> pa.Table:
    """Return the table of a file or stream; raise Rejected if its batches are too large."""
    is_file = hasattr(reader, "num_record_batches")
    indices = range(reader.num_record_batches) if is_file else None
    batches = (reader.get_batch(i) for i in indices) if indices is not None else iter(reader)
    kept, n_bytes, size = [], 0, source.size()
    for batch in batches:
        # encodings such as run-end, dictionary and null arrays are small until they are numbers
        n_bytes += max(batch.nbytes, VALUE_BYTES * batch.num_rows * batch.num_columns)
        limits.check_decompressed(n_bytes, size, what="the decoded columns", remedy=_REMEDY)
        kept.append(batch)
        report_progress(source.tell() / size)
    return pa.Table.from_batches(kept, reader.schema)
