"""Error rates of MTDA and its baselines on faces, by the protocol of the paper.

    python -m benchmarks.mtda_faces --data FOLDER [--quick] [--jobs 2]

FOLDER contains ``orl_32x32.npz``, ``yale_32x32.npz`` and ``pie10_32x32.npz``; each is a task. Over
20 random splits, p images of each person are for training and all others for testing by 1-NN in
the projected space.

Free parameters (d, gamma, d') are selected by stratified cross-validation inside the training
images: per task for single-task methods, for all tasks together otherwise. In the "joint" rows,
d and gamma are selected for all tasks together, as for MTDA, but each task has its own trace ratio:
a difference between MTDA and "LDA-tr, joint" is due to the common ratio, and a difference between
"LDA-tr, joint" and "LDA-tr" is due to the common selection.

"MTDA (paper)" has the parameters of the paper: gamma = 0, d' = 300, rows only centred. The paper
does not print d; here it is c - 1 of the smallest task. As d <= c - 1 and n - 1 <= d_i, every task
gets its null-space LDA, and "LDA-tr (paper)" must be equal.

The t values compare MTDA, split by split, with the best single-task method and with the joint rows.
The best method is the one with the smallest test error, which favours it; the splits overlap, which
makes every |t| too large.
"""

import argparse
import multiprocessing
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import ttest_rel
from threadpoolctl import threadpool_limits

from algorithms.evaluation import error_rates, grid_candidates, select_params, stratified_split
from algorithms.interface.tasks import TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from benchmarks.faces import load_faces

Array = NDArray[np.float64]

IMAGES = (2, 3, 4, 5)
D_GRID = (2, 4, 8, 16, 32, 64)
GAMMA_GRID = (0.001, 0.01, 0.1, 1.0, 10.0)
CHOSEN: dict[str, Any] = {"selection": "cv", "d_grid": D_GRID}
RIDGE: dict[str, Any] = {**CHOSEN, "gamma_grid": GAMMA_GRID}
PAPER: dict[str, Any] = {"gamma": 0.0, "d": 9, "standardise": "center"}

#: Row of the table, algorithm, parameters.
METHODS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("PCA", "pca-classifier", {**CHOSEN, "d_grid": (*D_GRID, 128, 256)}),
    ("LDA-rt", "lda-rt", RIDGE),
    ("Fisherface", "lda-rt", {**CHOSEN, "form": "fisherface"}),
    ("LDA-tr", "lda-tr", RIDGE),
    ("LDA-null", "lda-null", CHOSEN),
    (
        "Aggregate",
        "aggregate",
        {**RIDGE, "gamma_grid": (0.01, 0.1, 1.0), "d_prime_grid": (30, 100)},
    ),
    ("MTDA", "mtda", RIDGE),
    ("LDA-rt, joint", "lda-rt", RIDGE),
    ("LDA-tr, joint", "lda-tr", RIDGE),
    ("MTDA (paper)", "mtda", PAPER),
    ("LDA-tr (paper)", "lda-tr", PAPER),
)
#: Rows whose parameters are selected for all tasks together, as for MTDA.
JOINT = ("LDA-rt, joint", "LDA-tr, joint")
SINGLE = ("PCA", "LDA-rt", "Fisherface", "LDA-tr", "LDA-null")


def trial(split: int, *, tasks: TaskSet, p: int) -> Array:
    """Return the test error of every method on every task, (n_methods, n_tasks)."""
    parts = stratified_split(tasks, n_train=p, rng=np.random.default_rng([split, p]))
    found = []
    for label, name, values in METHODS:
        algorithm = ALGORITHMS[name]
        params = algorithm.Params(**values, n_folds=min(p, 3))
        rng = np.random.default_rng(split)
        if label in JOINT:
            tried, trace = grid_candidates(params, prefer_large=("gamma",)), Trace()
            params = select_params(
                algorithm, parts.train, tried, n_folds=params.n_folds, trace=trace, rng=rng
            ).params
        model = algorithm.fit(parts.train, params, trace=Trace(), rng=rng)
        found.append(list(error_rates(model, parts.test).values()))
    return np.array(found)


def report(errors: Array, tasks: TaskSet, *, p: int) -> None:
    """Print the table for one p; errors are (n_splits, n_methods, n_tasks)."""
    labels = [label for label, _, _ in METHODS]
    cells = np.concatenate([errors, errors.mean(axis=2, keepdims=True)], axis=2)
    heads = [*tasks.names, "mean"]
    print(f"\np = {p}, {len(errors)} splits\n{'':15}" + "".join(f"{h:>17}" for h in heads))
    for m, label in enumerate(labels):
        row = "".join(
            f"   {cells[:, m, t].mean():.4f} ± {cells[:, m, t].std(ddof=1):.4f}"
            for t in range(len(heads))
        )
        print(f"{label:15}{row}")
    single = [labels.index(label) for label in SINGLE]
    ours = cells[:, labels.index("MTDA")]
    print("t of MTDA against other methods (t > 0: MTDA has more errors):")
    for others in (single, *([labels.index(label)] for label in JOINT)):
        row = ""
        for t in range(len(heads)):
            best = min(others, key=lambda m, t=t: cells[:, m, t].mean())
            test = ttest_rel(ours[:, t], cells[:, best, t])
            row += f"{labels[best]:>14}{test.statistic:>+6.1f}"
        print(row)
    sys.stdout.flush()


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the .npz files")
    parser.add_argument("--quick", action="store_true", help="three splits, not 20")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    args = parser.parse_args()
    tasks = load_faces(args.data)
    print({task.name: (task.n_samples, task.n_features) for task in tasks})
    started = time.monotonic()
    with multiprocessing.Pool(args.jobs) as pool:
        for p in IMAGES:
            work = partial(trial, tasks=tasks, p=p)
            report(np.array(pool.map(work, range(3 if args.quick else 20), 1)), tasks, p=p)
    print(f"\n{time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
