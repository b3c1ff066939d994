"""Relations that FMTL learns between the 19 fields of Landmine, plotted by the service.

    python -m benchmarks.fmtl_relations --data FOLDER [--rows 0]

The first ten fields are foliated land, the other nine bare earth or desert. The models do not get
this information. For p = 2, 4/3 and 8/7 a job learns all fields with a linear kernel and squared
loss, and selects C by cross-validation. The script prints the mean absolute strength of relations
within and between both groups, the share of weak pairs, and whether the order of the tasks in the
plot separates the groups.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import servers
from sibling import Client, Dataset

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", type=Path, required=True)
parser.add_argument("--rows", type=int, default=0, help="rows of each field; 0: all")

N_FOLIATED = 10
GRID = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0]


def main() -> None:
    options = parser.parse_args()
    with servers.service() as client:
        dataset = upload(client, options.data, n_rows=options.rows)
        print("p      chosen C   within foliated, within bare, between   weak   separated")
        for k, p in ((1, "2"), (2, "4-3"), (4, "8-7")):
            learn(client, dataset, k=k, p=p)


def upload(client: Client, folder: Path, *, n_rows: int) -> Dataset:
    with np.load(folder / "landmine.npz", allow_pickle=False) as file:
        X, field = file["X"].astype(float), file["task19"]
        y = np.where(file["y"] == 1, "mine", "ground")
    rng, rows, labels = np.random.default_rng(0), {}, {}
    for i in range(19):
        group = "foliated" if i < N_FOLIATED else "bare"
        chosen = rng.permutation(np.flatnonzero(field == i))[: n_rows or None]
        rows[f"{group} {i + 1:02}"], labels[f"{group} {i + 1:02}"] = X[chosen], y[chosen]
    return client.upload(rows, labels, name="landmine")


def learn(client: Client, dataset: Dataset, *, k: int, p: str) -> None:
    fixed: dict[str, Any] = {"kernel": "linear", "loss": "squared", "k": k}
    search = {"space": {"C": GRID}, "metric": "auc"}
    model = client.train(dataset, "fmtl", model=f"p-{p}", search=search, **fixed).wait()
    relations = model.relations()
    size = np.abs(np.array(relations["strength"]))
    is_bare = np.array([name.startswith("bare") for name in relations["names"]])
    off = ~np.eye(len(size), dtype=bool)
    means = [
        size[np.ix_(a, b)][off[np.ix_(a, b)]].mean()
        for a, b in ((~is_bare, ~is_bare), (is_bare, is_bare), (is_bare, ~is_bare))
    ]
    n_changes = int(np.count_nonzero(np.diff(is_bare)))
    print(
        f"{p:5} {model.info['lineage']['params']['C']:9g}   "
        + "  ".join(f"{mean:.3f}" for mean in means)
        + f"   {relations['sparsity']:.0%}   {'yes' if n_changes == 1 else f'{n_changes} changes'}"
    )
    print(f"      {relations['sentence']}")


if __name__ == "__main__":
    main()
