"""A job of 1,000 tasks over HTTP: how long each part takes, and the memory of the training.

Starts a service of its own on a temporary folder. Run: python -m benchmarks.service_many_tasks
"""

import argparse
import time

import numpy as np

from benchmarks import servers
from sibling import Client

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--tasks", type=int, default=1000)
parser.add_argument("--features", type=int, default=64)
parser.add_argument("--rows", type=int, default=30)
parser.add_argument("--k", type=int, default=5)


def main() -> None:
    options = parser.parse_args()
    with servers.service() as client:
        measure(client, options)


def measure(client: Client, options: argparse.Namespace) -> None:
    rows = tilted_tasks(options)
    started = time.perf_counter()
    dataset = client.upload(rows, name="many tasks")
    uploaded = time.perf_counter()
    job = client.train(dataset, "rmt-pca", k=options.k)
    model = job.wait()
    trained = time.perf_counter()
    Z = model.transform(rows["task 0"], task="task 0")
    called = time.perf_counter()
    history = model.history()
    print(f"{options.tasks} tasks, d={options.features}, n={options.rows}, k={options.k}")
    print(f"  upload and parsing      {uploaded - started:8.2f} s")
    print(f"  job, submit to model    {trained - uploaded:8.2f} s")
    print(
        f"    of it the fit         {history['fit_s']:8.2f} s  ({history['stop_reason']}, "
        f"{history['steps']['iteration'][-1]} iterations)"
    )
    print(f"  first transform         {called - trained:8.3f} s  {Z.shape}")
    print(f"  peak memory of training {history['peak_memory_mb']:8.0f} MiB")
    print(f"  artifact                {model.info['artifact_bytes'] / 2**20:8.1f} MiB")


def tilted_tasks(options: argparse.Namespace) -> dict[str, np.ndarray]:
    """Return tasks whose principal subspaces are near each other."""
    rng = np.random.default_rng(0)
    spread = np.diag(np.geomspace(3.0, 0.3, options.features))
    tasks = {}
    for t in range(options.tasks):
        tilt = np.eye(options.features) + 0.05 * rng.normal(size=(options.features,) * 2)
        tasks[f"task {t}"] = rng.normal(size=(options.rows, options.features)) @ spread @ tilt
    return tasks


if __name__ == "__main__":
    main()
