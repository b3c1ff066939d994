"""FMTL with 397 one-against-all outputs over HTTP: 19,850 rows of 4,096 features, linear kernel.

    python -m benchmarks.fmtl_large [--classes 397] [--rows 50] [--features 4096] [--loss squared]

The data are synthetic and have the size of scene recognition with deep features: 50 rows of each
class around class means in a common subspace. The script uploads them as one task with 397
classes, trains a model by a job and calls it. It prints times, peak memory, duality gap and the
error rate on new rows.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import servers

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--classes", type=int, default=397)
parser.add_argument("--rows", type=int, default=50, help="rows of each class")
parser.add_argument("--features", type=int, default=4096)
parser.add_argument("--loss", default="squared")
parser.add_argument("--memory-mb", type=int, default=20_000)


def main() -> None:
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(40, options.features)) / np.sqrt(40)
    means = rng.normal(size=(options.classes, 40)) @ shared
    labels = np.arange(options.classes)

    def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
        which = np.repeat(labels, n)
        X = means[which] + 3.0 * rng.normal(size=(len(which), options.features))
        return X.astype(np.float32), np.array([f"class {c:03d}" for c in which])

    (X, y), (unseen, truth) = rows(options.rows), rows(2)
    with servers.service() as client, tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "scenes.npz"
        np.savez(path, **{"scenes/X": X, "scenes/y": y})
        began = time.monotonic()
        dataset = client.upload(path)
        print(f"{path.stat().st_size / 1e6:.0f} MB stored in {time.monotonic() - began:.0f} s")
        limits = {"memory_mb": options.memory_mb, "timeout_s": 3600}
        began = time.monotonic()
        job = client.train(
            dataset, "fmtl", model="scenes", limits=limits, kernel="linear", loss=options.loss
        )
        model = job.wait()
        history = model.history()
        params = model.info["lineage"]["params"]
        print(f"{X.shape[0]} x {X.shape[1]}, {options.classes} classes, loss {params['loss']}")
        print(f"job {time.monotonic() - began:.0f} s, fit {history['fit_s']:.0f} s")
        print(f"peak memory {history['peak_memory_mb'] / 1000:.1f} GB")
        print(f"relative gap {history['steps']['residual'][-1]:.1e}, {history['stop_reason']}")
        began = time.monotonic()
        predicted = model.predict(unseen.astype(np.float64), task="scenes")
        error = float(np.mean(predicted != truth))
        print(f"{len(predicted)} new rows in {time.monotonic() - began:.1f} s, error {error:.3f}")


if __name__ == "__main__":
    main()
