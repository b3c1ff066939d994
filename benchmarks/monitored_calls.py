"""What a monitor costs a call of one row: the same model with and without, in turns, in one run.

Processor time of the server, which other programs on the machine change little, is divided by the
number of calls. The columns are 20 numbers, and the model is calibrated, so that the monitor
computes an interval for each row that it keeps. Beside it stands what a million rows take on disk:
by how much the file of the database grows.
"""

import argparse
import os
import sqlite3
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import psutil
import uvloop

from benchmarks.serving_calls import KEY, Server, http_request, measure
from benchmarks.serving_servers import sibling
from sibling import Client

N_FEATURES = 20
ALIAS = "watched@production"
SHARES = {"without": None, "all rows": 1.0, "1 of 10 rows": 0.1}


def train(client: Client) -> None:
    rng = np.random.default_rng(0)
    tasks = {name: rng.standard_normal((200, N_FEATURES)) for name in ("a", "b", "c")}
    targets = {
        name: X @ np.ones(N_FEATURES) + rng.standard_normal(200) for name, X in tasks.items()
    }
    model = client.train(
        client.upload(tasks, targets), "ridge", model="watched", calibration=True
    ).wait()
    model.set_alias("production")


def request(rows: np.ndarray) -> bytes:
    body = b'{"task": "a", "inputs": ' + str(rows.tolist()).encode() + b"}"
    headers = {"Content_Type": "application/json", "Authorization": f"Bearer {KEY}"}
    return http_request("/v1/models/watched@production/predict", body, **headers)


@contextmanager
def watched(client: Client, share: float | None, folder: Path) -> Iterator[None]:
    if share is None:
        yield
        return
    monitor, before = client.set_monitor(ALIAS, share=share), database_bytes(folder)
    yield
    found, n_bytes = monitor.refresh(), database_bytes(folder) - before
    n_rows = max(found["n_rows"], 1)
    print(
        f"    {found['n_rows']} rows kept, {found['n_dropped']} dropped; a million rows count as "
        f"{found['n_bytes'] / n_rows:.0f} MB, and take {n_bytes / n_rows:.0f} MB on disk"
    )
    monitor.delete()


def database_bytes(folder: Path) -> int:
    """Return the size of the database that is in use: its pages, without free ones."""
    (file,) = folder.rglob("sibling.db")
    with closing(sqlite3.connect(file)) as database:
        pages, free, size = (
            int(database.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
    return (pages - free) * size


def processor_s(port: int) -> float:
    """Return the processor time of the process that listens on a port."""
    (server,) = {
        c.pid
        for c in psutil.net_connections("tcp")
        if c.status == "LISTEN" and c.laddr.port == port
    }
    times = psutil.Process(server).cpu_times()
    return times.user + times.system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--connections", type=int, nargs="*", default=[1, 32])
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    rows = np.random.default_rng(1).standard_normal((1, N_FEATURES))
    with tempfile.TemporaryDirectory() as name, sibling(Path(name) / "ours") as port:
        server = Server("sibling", port, request)
        with Client(f"http://127.0.0.1:{port}", api_key=KEY) as client:
            train(client)
            for connections in options.connections:
                found: dict[str, list[tuple[float, float, float]]] = {n: [] for n in SHARES}
                for _ in range(options.rounds):
                    for label, share in SHARES.items():
                        with watched(client, share, Path(name)):
                            before = processor_s(port)
                            result = uvloop.run(measure(server, rows, connections, options.seconds))
                            spent = processor_s(port) - before
                        n_calls = result.per_s * options.seconds
                        found[label].append((spent / n_calls * 1e6, result.per_s, result.p99_ms))
                report(connections, found)


def report(connections: int, found: dict[str, list[tuple[float, float, float]]]) -> None:
    print(f"\n{connections} connections{'':8}{'us/call':>9}{'calls/s':>9}{'p99 ms':>8}{'cost':>8}")
    plain = statistics.median(one[0] for one in found["without"])
    for label, results in found.items():
        cpu, per_s, p99 = (statistics.median(column) for column in zip(*results, strict=True))
        print(f"{label:22}{cpu:9.1f}{per_s:9.0f}{p99:8.2f}{cpu / plain - 1:8.1%}", flush=True)


if __name__ == "__main__":
    main()
