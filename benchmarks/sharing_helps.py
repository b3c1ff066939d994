"""Comparison reports of the service on real data, with their sentences.

    python -m benchmarks.sharing_helps --data FOLDER

The script starts a service in a temporary folder.

- School: MTFL on the ten official splits.
- Landmine: MTFL, 160 rows of each field, AUC.
- Faces: MTDA on ORL, Yale and PIE (ten persons).
- Two synthetic problems: one in which sharing hurts, and one with unrelated tasks.
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import servers
from sibling import Client

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, required=True)
parser.add_argument("--only", nargs="*", default=[])

LIMITS = {"timeout_s": 3600}


def main() -> None:
    options = parser.parse_args()
    with servers.service() as client:
        for name, study in STUDIES.items():
            if name in (options.only or STUDIES):
                study(client, options.data)


def school(client: Client, data: Path) -> None:
    with np.load(data / "school.npz") as file:
        X, y, task, train = (file[k] for k in ("X", "y", "task", "train"))
    names = {t: f"school {t:03d}" for t in np.unique(task)}
    rows = {names[t]: X[task == t].astype(float) for t in names}
    targets = {names[t]: y[task == t].astype(float) for t in names}
    given = [
        {names[t]: np.flatnonzero(~split[task == t]).tolist() for t in names} for split in train
    ]
    splits = {"scheme": "given", "given": given}
    options = {"splits": splits, "metric": "explained_variance"}
    report(client, "School, ten official splits", rows, targets, "mtfl", compare=options)


def landmine(client: Client, data: Path) -> None:
    with np.load(data / "landmine.npz") as file:
        X, y, task = (file[k] for k in ("X", "y", "task19"))
    rng = np.random.default_rng(0)
    chosen = {f"field {t:02d}": rng.permutation(np.flatnonzero(task == t))[:160] for t in range(19)}
    rows = {name: X[index].astype(float) for name, index in chosen.items()}
    targets = {name: np.where(y[index] == 1, "mine", "clutter") for name, index in chosen.items()}
    splits = {"scheme": "holdout", "n_splits": 10, "test_size": 0.5}
    options = {"splits": splits, "metric": "auc"}
    report(client, "Landmine, 80 rows a field", rows, targets, "mtfl", compare=options)


def faces(client: Client, data: Path) -> None:
    rows, targets = {}, {}
    for name in ("orl", "yale", "pie10"):
        with np.load(data / f"{name}_32x32.npz") as file:
            rows[name] = file["X"].astype(float)
            targets[name] = np.array([f"{name} {k:02d}" for k in file["y"]])
    options = {"splits": {"scheme": "holdout", "n_splits": 5, "test_size": 0.6}}
    params = {"d_grid": [8, 16, 32], "gamma_grid": [0.01, 0.1]}
    report(client, "ORL, Yale, PIE", rows, targets, "mtda", compare=options, **params)


def hurts(client: Client, _: Path) -> None:
    rng = np.random.default_rng(0)
    rows = {}
    for t in range(8):
        basis = np.linalg.qr(rng.normal(size=(10, 2)))[0]
        rows[f"t{t}"] = 2 * rng.normal(size=(40, 2)) @ basis.T + rng.normal(size=(40, 10))
    params = {"k": 2, "lam": 1e6, "selection": "given"}
    report(client, "Synthetic: equal subspaces", rows, None, "rmt-pca", compare=True, **params)


def unrelated(client: Client, _: Path) -> None:
    rng = np.random.default_rng(1)
    rows = {f"t{t}": rng.normal(size=(30, 10)) for t in range(6)}
    targets = {name: X @ rng.normal(size=10) + rng.normal(size=30) for name, X in rows.items()}
    report(client, "Synthetic: unrelated", rows, targets, "mtfl", compare=True)


def report(client: Client, title: str, rows: Any, targets: Any, algorithm: str, **job: Any) -> None:
    dataset = client.upload(rows, targets)
    started = time.perf_counter()
    model = client.train(dataset, algorithm, model=algorithm, limits=LIMITS, **job).wait()
    found = model.report()["comparison"]
    print(f"\n{title}: {algorithm}, {found['n_splits']} splits, "
          f"{time.perf_counter() - started:.0f} s; verdict: {found['verdict']}")  # fmt: skip
    for sentence in found["sentences"]:
        print(f"  {sentence}")
    print(f"  by task: {dict(Counter(task['verdict'] for task in found['tasks'].values()))}")
    sys.stdout.flush()


STUDIES = {
    "hurts": hurts,
    "unrelated": unrelated,
    "faces": faces,
    "landmine": landmine,
    "school": school,
}

if __name__ == "__main__":
    main()
