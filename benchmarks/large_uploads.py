"""Memory and time of a large upload over HTTP: the client sends it in parts, the service parses it.

The memory is the largest resident memory of the server process, and of the processes that read the
upload. Run: python -m benchmarks.large_uploads --gigabytes 1
"""

import argparse
import os
import tempfile
import threading
import time
from pathlib import Path

import psutil

from benchmarks.csv_upload import write
from benchmarks.servers import service

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--gigabytes", type=float, default=1.0)
LIMITS = {
    "SIBLING_MAX_DECOMPRESSED_BYTES": str(2**34),
    "SIBLING_INGEST_MEMORY_MB": "8192",
    "SIBLING_INGEST_TIMEOUT_S": "3600",
    "SIBLING_WORKER_SLOTS": "1",
}
WAIT_S = 0.05


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


def main() -> None:
    """Print the table."""
    arguments = parser.parse_args()
    os.environ.update(LIMITS)
    print(f"{'':<10}{'MB':>6}{'seconds':>9}{'server MB':>11}{'before':>8}{'reader MB':>11}")
    for kind in ("csv", "parquet"):
        with tempfile.TemporaryDirectory() as name, service() as client:
            path = Path(name) / f"table.{kind}"
            write(path, kind, arguments.gigabytes * 1e9)
            client.upload({"a": [[1.0], [2.0]]})  # what the first upload imports
            pids = [p.pid for p in psutil.Process().children() if "serve" in p.cmdline()]
            before = psutil.Process(pids[0]).memory_info().rss
            peaks, started = Peaks(pids[0]), time.monotonic()
            peaks.start()
            dataset = client.upload(path)
            seconds = time.monotonic() - started
            peaks.is_over = True
            peaks.join()
            assert len(dataset.tasks) == 100, dataset
            sizes = (path.stat().st_size, peaks.bytes["server"], before, peaks.bytes["reader"])
            mb = [size / 1e6 for size in sizes]
            print(f"{kind:<10}{mb[0]:6.0f}{seconds:9.1f}{mb[1]:11.0f}{mb[2]:8.0f}{mb[3]:11.0f}")


if __name__ == "__main__":
    main()
