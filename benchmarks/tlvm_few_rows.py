"""Reconstruction by TLVM, for several weights of the divergence, and by PCA for few target rows.

    python -m benchmarks.tlvm_few_rows --data FOLDER [--seeds 3]

FOLDER contains ``usps.npz``, ``yale_32x32.npz``, ``orl_32x32.npz`` and ``parkinsons.npz``. The
script prints the mean of ‖y - ŷ‖ over unseen rows of the target, for 5, 20 and 50 training rows.

- USPS: 300 rows of digit 3 or 6 to each other digit, and 60 rows of each of 0-4 to 5-9 and back,
  all from the official training part; unseen rows are from the official test part.
- Faces: Yale to ORL, half of which is unseen; pixels from 0 to 1.
- Voices: the patient with the most recordings to eight others, half of whose rows are unseen;
  columns in units of the source's standard deviation.

There are L = 10 latent dimensions (voices: 5). "chosen": λ or the weight is selected on a held-out
third of the target's training rows; then the model is fitted to all of them.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from algorithms.interface.tasks import Task
from benchmarks.tlvm_transfer import Problem, choose, distance, fit, halves, load

Array = NDArray[np.float64]

SHOTS = (5, 20, 50)
LAMS = (0.0, 0.01, 0.1, 1.0)
WEIGHTS = (0.0, 1.0, 10.0, 100.0)
Tried = tuple[dict[str, Any], ...]
#: Row of the table, algorithm, and the sets of parameters from which one is selected.
METHODS: tuple[tuple[str, str, Tried], ...] = (
    *((f"TLVM λ = {lam:g}", "tlvm", ({"lam": lam},)) for lam in LAMS),
    ("TLVM, λ chosen", "tlvm", tuple({"lam": lam} for lam in LAMS)),
    ("GP-LVM source", "gp-lvm", ({"rows": "source"},)),
    ("GP-LVM target", "gp-lvm", ({},)),
    *((f"PCA, weight {w:g}", "transfer-pca", ({"weight": w},)) for w in WEIGHTS),
    ("PCA, weight chosen", "transfer-pca", tuple({"weight": w} for w in WEIGHTS)),
    ("PPCA, weight 10", "ppca", ({"rows": "weighted", "weight": 10.0},)),
    ("PCA target", "pca", ({},)),
)


def with_tests(source: Task, targets: Sequence[Task], tests: Sequence[Task], seed: int) -> Problem:
    """Return a problem with up to 50 target rows in random order."""
    rng = np.random.default_rng([seed, 7])
    train = [halves(task, rng, n_train=max(SHOTS))[0] for task in targets]
    return Problem(source, tuple(train), tuple(tests))


def parts_of_usps(folder: Path) -> tuple[Array, NDArray[np.int64], NDArray[np.bool_]]:
    X, y = load(folder, "usps", 2000.0)
    with np.load(folder / "usps.npz", allow_pickle=False) as file:
        return X, y, file["train"].astype(bool)


def digits(folder: Path, seed: int) -> list[Problem]:
    """Return the problems from 3 and 6 to each other digit."""
    X, y, is_train = parts_of_usps(folder)
    rng = np.random.default_rng([seed, 4])

    def rows(k: int, *, train: bool, n: int) -> Task:
        return Task.from_rows(
            str(k), X[rng.permutation(np.flatnonzero((y == k) & (is_train == train)))[:n]]
        )

    found = []
    for s in (3, 6):
        others = [k for k in range(10) if k != s]
        targets = [rows(k, train=True, n=100) for k in others]
        tests = [rows(k, train=False, n=100) for k in others]
        found.append(with_tests(rows(s, train=True, n=300), targets, tests, seed))
    return found


def groups(folder: Path, seed: int) -> list[Problem]:
    """Return the problems from 0-4 to 5-9 and back."""
    X, y, is_train = parts_of_usps(folder)
    rng = np.random.default_rng([seed, 5])

    def rows(ks: Sequence[int], *, train: bool) -> Task:
        every = [rng.permutation(np.flatnonzero((y == k) & (is_train == train)))[:60] for k in ks]
        return Task.from_rows(f"{ks[0]}-{ks[-1]}", X[np.concatenate(every)])

    low, high = range(5), range(5, 10)
    return [
        with_tests(rows(s, train=True), [rows(t, train=True)], [rows(t, train=False)], seed)
        for s, t in ((low, high), (high, low))
    ]


def faces(folder: Path, seed: int) -> list[Problem]:
    """Return the problem from Yale to ORL."""
    rng = np.random.default_rng([seed, 6])
    yale, orl = (
        Task.from_rows(name[:3], load(folder, f"{name}_32x32", 255.0)[0])
        for name in ("yale", "orl")
    )
    train, test = halves(orl, rng)
    return [with_tests(yale, [train], [test], seed)]


def voices(folder: Path, seed: int) -> list[Problem]:
    """Return the problem from the patient with the most recordings to eight others."""
    with np.load(folder / "parkinsons.npz", allow_pickle=False) as file:
        X, patient = file["X"].astype(np.float64), file["task"]
    first = int(np.argmax(np.bincount(patient)))
    spread = X[patient == first].std(axis=0)
    X = X[:, spread > 0] / spread[spread > 0]
    rng = np.random.default_rng([seed, 8])
    others = rng.permutation([t for t in np.unique(patient) if t != first])[:8]
    pairs = [halves(Task.from_rows(str(t), X[patient == t]), rng) for t in others]
    source = Task.from_rows(str(first), X[patient == first])
    return [with_tests(source, [a for a, _ in pairs], [b for _, b in pairs], seed)]


def errors_of(given: Problem, *, n_latents: int) -> Array:
    """Return the errors (n_methods, n_targets)."""
    found = []
    for _, name, tried in METHODS:
        model = fit(
            name, choose(name, tried, given), given.source, given.train, n_latents=n_latents
        )
        found.append([distance(model, task) for task in given.test])
    return np.array(found)


def report(
    title: str, problems: Callable[[Path, int], list[Problem]], folder: Path, *, n_seeds: int,
    n_latents: int,
) -> None:  # fmt: skip
    """Print the table for a set of problems, with the standard deviation over seeds."""
    columns = []
    for n in SHOTS:
        of_seeds = []
        for seed in range(n_seeds):
            parts = []
            for one in problems(folder, seed):
                few = [task.take(np.arange(min(n, task.n_samples))) for task in one.train]
                parts.append(
                    errors_of(Problem(one.source, tuple(few), one.test), n_latents=n_latents)
                )
            of_seeds.append(np.concatenate(parts, axis=1).mean(axis=1))
        columns.append(np.array(of_seeds))
    print(f"\n{title}, {n_seeds} seeds")
    print(f"{'target rows':22}" + "".join(f"{n:>16}" for n in SHOTS))
    for m, (label, _, _) in enumerate(METHODS):
        cells = (f"{E[:, m].mean():9.3f} ± {E[:, m].std(ddof=1):.3f}" for E in columns)
        print(f"{label:22}" + " ".join(cells))
    sys.stdout.flush()


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the .npz files")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    sets = (
        ("Yale to ORL", faces, 10),
        ("Parkinsons, patient to patient", voices, 5),
        ("USPS 0-4 <-> 5-9", groups, 10),
        ("USPS 3, 6 to others", digits, 10),
    )
    for title, problems, n_latents in sets:
        report(title, problems, args.data, n_seeds=args.seeds, n_latents=n_latents)


if __name__ == "__main__":
    main()
