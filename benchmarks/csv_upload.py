"""How long the service takes to read a large table, and how much memory, next to pandas.

The process that reads uploads parses the file, checks it, and writes the tasks with their summaries
and hashes; pandas only parses. Both use a thread for each core: pandas from version 3.1 on, the
service up to four. Each runs in a new process, in turns. Imports are not counted, since the process
of the service waits for uploads; its peak memory includes that of the process that waits.

The second table is of uploads over HTTP: the client sends the file in parts, the service stores and
reads it. The memory is the largest resident memory of the server process, which was "before" when
nothing had been uploaded, and of the processes that read the upload.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq

from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Claim, Table
from service.datasets.formats.options import Limits
from service.datasets.ingestion.supervision import IngestTask, ReaderProcess
from service.settings import MIB, Settings

MAX_RATIO = 3.0
N_COLUMNS, N_TASKS = 50, 100
BYTES_PER_ROW = {"csv": 990, "parquet": 8 * N_COLUMNS}
MEDIA_TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
WAIT_S = 0.02
#: Settings of a service that takes files of this size.
LARGE = {
    "SIBLING_MAX_DECOMPRESSED_BYTES": str(2**34),
    "SIBLING_INGEST_MEMORY_MB": "8192",
    "SIBLING_INGEST_TIMEOUT_S": "3600",
    "SIBLING_WORKER_SLOTS": "1",
}


def write(path: Path, kind: str, n_bytes: float) -> None:
    """Write a table of normal numbers of about this size, in blocks."""
    rng = np.random.default_rng(0)
    n_rows = int(n_bytes / BYTES_PER_ROW[kind] / N_TASKS)
    writer = None
    for task in range(N_TASKS):
        columns = {f"x{j}": rng.normal(size=n_rows) for j in range(N_COLUMNS)}
        block = pa.table({"task": [f"t{task}"] * n_rows, **columns})
        if writer is None:
            open_ = pv.CSVWriter if kind == "csv" else pq.ParquetWriter
            writer = open_(str(path), block.schema)
        writer.write_table(block)
    assert writer is not None
    writer.close()


def read_with_pandas(folder: Path, kind: str) -> None:
    """Read the table with pandas, and print the time."""
    import pandas as pd  # noqa: PLC0415 - not in the memory of the service

    read: Callable[[Path], Any] = pd.read_csv if kind == "csv" else pd.read_parquet
    _print_time(psutil.Process(), lambda: read(folder / "upload"))


def read_with_service(folder: Path, kind: str) -> None:
    """Read the table as the service does, and print the time."""
    settings = Settings()
    limits = Limits.from_settings(settings).model_copy(update={"decompressed_bytes": 2**34})
    task = IngestTask(
        folder,
        MEDIA_TYPES[kind],
        {},
        limits,
        settings.ingest_memory_mb * MIB,
        3600.0,
        n_threads=settings.resolved_ingest_threads(),
    )
    with ReaderProcess() as reader:
        with tempfile.TemporaryDirectory() as name:  # the process answers once it has started
            (Path(name) / "upload").write_text("task,x\na,1\n")
            reader.read(IngestTask(Path(name), MEDIA_TYPES["csv"], {}, limits, 2**31, 60.0))
        process = psutil.Process().children()[0]
        _print_time(process, lambda: _check(reader.read(task)))


def _check(result: dict[str, Any]) -> None:
    assert "manifest" in result, result


def _print_time(process: psutil.Process, work: Callable[[], Any]) -> None:
    """Print the seconds, and the CPU seconds of a process and its children that have ended."""
    before, started = sum(process.cpu_times()[:4]), time.monotonic()
    work()
    seconds = time.monotonic() - started
    print(json.dumps([seconds, sum(process.cpu_times()[:4]) - before]))


READERS: dict[str, Callable[[Path, str], None]] = {
    "ours": read_with_service,
    "pandas": read_with_pandas,
}


def measure(reader: str, folder: Path, kind: str) -> tuple[float, float, float]:
    """Return time, CPU time and peak memory in MB of a reader in a new process."""
    command = [sys.executable, "-m", "benchmarks.csv_upload", reader, str(folder), kind]
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            peak = max(peak, _memory_of(process.pid))
            time.sleep(WAIT_S)
        assert process.stdout is not None
        printed = process.stdout.read()
    assert process.returncode == 0, command
    seconds, cpu = json.loads(printed)
    return seconds, cpu, peak / 1e6


def _memory_of(pid: int) -> int:
    """Return the memory of a process and its children, or 0 if it has ended."""
    try:
        process = psutil.Process(pid)
        return sum(p.memory_info().rss for p in [process, *process.children(recursive=True)])
    except psutil.NoSuchProcess:
        return 0


class Peaks(threading.Thread):
    """The largest memory of the processes of a service, by their kind."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid, self.bytes, self.is_over = pid, {"server": 0, "reader": 0}, False

    def run(self) -> None:
        """Look until it is over."""
        while not self.is_over:
            found = {"server": psutil.Process(self.pid).memory_info().rss, "reader": 0}
            for child in psutil.Process(self.pid).children(recursive=True):
                try:
                    if "service.datasets.ingestion.child" in child.cmdline():
                        found["reader"] = max(found["reader"], child.memory_info().rss)
                except psutil.NoSuchProcess:
                    continue
            self.bytes = {kind: max(found[kind], self.bytes[kind]) for kind in found}
            time.sleep(WAIT_S)


def upload(path: Path) -> tuple[int, float, int, int, int]:
    """Return MB, seconds and memory in MB of an upload over HTTP."""
    from benchmarks import servers  # noqa: PLC0415 - not in the memory of the readers

    with servers.service(**LARGE) as client:
        client.upload({"a": [[1.0], [2.0]]})  # what the first upload imports
        pids = [p.pid for p in psutil.Process().children() if "serve" in p.cmdline()]
        rss, peaks = psutil.Process(pids[0]).memory_info().rss, Peaks(pids[0])
        peaks.start()
        started = time.monotonic()
        client.upload(path)
        seconds = time.monotonic() - started
        peaks.is_over = True
        peaks.join()
    sizes = (path.stat().st_size, rss, peaks.bytes["server"], peaks.bytes["reader"])
    size, before, server, reader = (round(one / 1e6) for one in sizes)
    return size, round(seconds, 1), before, server, reader


def run(context: Context) -> Iterator[Block]:
    """Yield the tables of both formats, and whether the reading of CSV is fast enough."""
    n_bytes, n_rounds = (1e8, 1) if context.is_quick else (1e9, 3)
    rows: list[tuple[str, str, int, float, float, float, float, int]] = []
    uploads: list[tuple[str, int, float, int, int, int]] = []
    for kind in MEDIA_TYPES:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "upload"
            write(path, kind, n_bytes)
            found: dict[str, list[tuple[float, float, float]]] = {reader: [] for reader in READERS}
            for _ in range(n_rounds):
                for reader, measured in found.items():
                    measured.append(measure(reader, Path(name), kind))
            size = round(path.stat().st_size / 1e6)
            uploads.append((kind, *upload(path.rename(path.with_suffix(f".{kind}")))))
        medians = {
            reader: [statistics.median(column) for column in zip(*measured, strict=True)]
            for reader, measured in found.items()
        }
        for reader, (seconds, cpu, peak) in medians.items():
            ratio, cpu_ratio = seconds / medians["pandas"][0], cpu / medians["pandas"][1]
            times = (round(seconds, 1), round(ratio, 2), round(cpu, 1), round(cpu_ratio, 2))
            rows.append((kind, reader, size, *times, round(peak)))
    yield Table(
        columns=(
            "file",
            "reader",
            "MB",
            "s",
            "times pandas",
            "CPU s",
            "CPU, times pandas",
            "MB of memory",
        ),
        rows=tuple(rows),
        lower_is_better=("CPU, times pandas", "MB of memory"),
    )
    yield Table(
        caption="Uploads over HTTP:",
        columns=("file", "MB", "s", "server before, MB", "server, MB", "readers, MB"),
        rows=tuple(uploads),
        lower_is_better=("s", "server, MB", "readers, MB"),
    )
    ours = next(row for row in rows if row[:2] == ("csv", "ours"))
    yield Claim(
        text=f"Reading an upload of CSV takes at most {MAX_RATIO:g} times as long as pandas, by "
        "the clock and by CPU time.",
        is_confirmed=max(ours[4], ours[6]) <= MAX_RATIO,
    )


if __name__ == "__main__":
    READERS[sys.argv[1]](Path(sys.argv[2]), sys.argv[3])
