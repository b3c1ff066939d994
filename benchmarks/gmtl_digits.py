"""Accuracy of grouped and clustered multi-task learning on the digits of Kang, Grauman and Sha.

    python -m benchmarks.gmtl_digits --data FOLDER

The ten classes against the rest are the tasks of the paper. Parameters are selected by
cross-validation of the 1,000 training rows.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from benchmarks.mtfl_data import load

METHODS = {
    "mtfl": {"selection": "cv"},
    "gmtl": {"selection": "cv", "standardise": "none", "n_starts": 3},
    "cmtl": {"selection": "cv", "standardise": "none"},
}

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, required=True, help="folder of kang_mnist_split1.npz")


def main(folder: Path) -> None:
    data = load(folder, "kang_mnist_split1.npz")
    X, y, part = data["X"].astype(float), data["y"].astype(int), data["part"]
    train = TaskSet((Task.from_rows("digits", X[part == 0], y=y[part == 0]),))
    for name, values in METHODS.items():
        algorithm, started = ALGORITHMS[name], time.process_time()
        params, rng = algorithm.parse(values), np.random.default_rng(0)
        model = algorithm.fit(train, params, trace=Trace(), rng=rng)
        seconds = time.process_time() - started
        right = model.predict(X[part == 2], task="digits") == y[part == 2]
        print(f"{name}: {np.mean(right):.1%} of {right.size} test rows, {seconds:.1f} s")


if __name__ == "__main__":
    arguments = parser.parse_args()
    with threadpool_limits(1):
        main(arguments.data)
