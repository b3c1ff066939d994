"""How long an upload of a large table takes to read, and how much memory, next to pandas.

The process that reads uploads parses the file, checks it, and writes the tasks with their summaries
and hashes; pandas only parses. Each runs in a process of its own, in turns. The ratio is of CPU
times, which other programs on the machine disturb least.
Run: python -m benchmarks.csv_upload --gigabytes 1
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq

from service.datasets.formats.options import Limits
from service.datasets.ingestion.supervision import IngestTask, ReaderProcess
from service.settings import MIB, Settings

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--gigabytes", type=float, default=1.0)
parser.add_argument("--rounds", type=int, default=3)
parser.add_argument("--folder", type=Path, help="a folder on disk")

N_COLUMNS, N_TASKS = 50, 100
BYTES_PER_ROW = {"csv": 990, "parquet": 8 * N_COLUMNS}
MEDIA_TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
PEERS = {"csv": "read_csv({!r})", "parquet": "read_parquet({!r})"}
WAIT_S = 0.02


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


def peak_of(pid: int) -> int:
    """Return the memory of a process and its children, or 0 if it has ended."""
    try:
        process = psutil.Process(pid)
        return sum(p.memory_info().rss for p in [process, *process.children(recursive=True)])
    except psutil.NoSuchProcess:
        return 0


def run(code: str) -> tuple[float, float, int]:
    """Return time, CPU time and largest memory of Python code in a process of its own."""
    started, peak = time.monotonic(), 0
    before = os.times()
    folders = os.pathsep.join(filter(None, [str(Path(__file__).parent), *sys.path]))
    with subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | {"PYTHONPATH": folders}
    ) as process:
        while process.poll() is None:
            peak = max(peak, peak_of(process.pid))
            time.sleep(WAIT_S)
    assert process.returncode == 0, code
    after = os.times()
    cpu = after.children_user + after.children_system
    cpu -= before.children_user + before.children_system
    return time.monotonic() - started, cpu, peak


def ours(folder: str, kind: str) -> None:
    """Read an upload as the service does."""
    settings = Settings()
    limits = Limits.from_settings(settings).model_copy(update={"decompressed_bytes": 2**34})
    memory = settings.ingest_memory_mb * MIB
    task = IngestTask(
        Path(folder),
        MEDIA_TYPES[kind],
        {},
        limits,
        memory,
        3600.0,
        n_threads=settings.resolved_ingest_threads(),
    )
    with ReaderProcess() as reader:
        result = reader.read(task)
    assert "manifest" in result, result


def main() -> None:
    """Print the table."""
    arguments = parser.parse_args()
    print(f"{'':<10}{'':<10}{'MB':>6}{'seconds':>9}{'CPU s':>8}{'pandas':>9}{'peak MB':>9}")
    for kind, call in PEERS.items():
        with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
            path = Path(name) / "upload"
            write(path, kind, arguments.gigabytes * 1e9)
            codes = {"ours": f"from csv_upload import ours; ours({name!r}, {kind!r})"}
            codes["pandas"] = "import pandas; pandas." + call.format(str(path))
            found = {title: [] for title in codes}
            for _ in range(arguments.rounds):
                for title, code in codes.items():
                    found[title].append(run(code))
            usual = statistics.median(cpu for _, cpu, _ in found["pandas"])
            size = path.stat().st_size / 1e6
            for title, measured in found.items():
                medians = [statistics.median(column) for column in zip(*measured, strict=True)]
                peak = max(peak for *_, peak in measured) / 1e6
                times = f"{medians[0]:9.1f}{medians[1]:8.1f}{medians[1] / usual:7.2f} x"
                print(f"{kind:<10}{title:<10}{size:6.0f}{times}{peak:9.0f}")


if __name__ == "__main__":
    main()
