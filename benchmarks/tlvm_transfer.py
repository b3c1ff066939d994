"""Reconstruction and 1-NN errors of TLVM and its baselines on unseen rows of the target.

    python -m benchmarks.tlvm_transfer --data FOLDER [--quick]

FOLDER contains ``usps.npz``, ``yale_32x32.npz`` and ``orl_32x32.npz``; pixels are from 0 to 1.
There are three sets of problems: from digit 3 or 6 to each other digit; from digits 0-4 to 5-9 and
back; from Yale to ORL and back. A random half of the target's rows is for training, the other for
testing. Models have L = 10 latent dimensions if not stated otherwise, and 40 active rows per task.

- "error": mean of ‖y - ŷ‖ over unseen rows, as in the paper.
- "1-NN": share of wrong labels of unseen rows, by the nearest training row of the target.
- "chosen": λ and the projection, or the weight, are selected on a held-out third of the target's
  training rows; then the model is fitted to all of them.

The script also prints errors for different L, and in how many problems the joint model is better
than the source's model with the target's mean.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from threadpoolctl import threadpool_limits

from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS

Array = NDArray[np.float64]

L = 10
DIMENSIONS = (2, 5, 10, 15, 20)
#: Row of the table, algorithm, and the sets of parameters from which one is selected.
METHODS: tuple[tuple[str, str, tuple[dict[str, Any], ...]], ...] = (
    ("LVM", "gp-lvm", ({"rows": "source", "mean": "source"},)),
    ("LVM, target mean", "gp-lvm", ({"rows": "source"},)),
    ("GP-LVM pooled, r=80", "gp-lvm", ({"rows": "pooled", "r": 80},)),
    ("GP-LVM target", "gp-lvm", ({},)),
    ("GP-LVM target, r=80", "gp-lvm", ({"r": 80},)),
    ("TLVM joint", "tlvm", ({},)),
    ("TLVM joint, nll", "tlvm", ({"projection": "nll"},)),
    ("TLVM joint, lam=0.1", "tlvm", ({"lam": 0.1},)),
    ("TLVM joint, lam=1", "tlvm", ({"lam": 1.0},)),
    ("TLVM joint, order", "tlvm", ({"pairing": "order", "lam": 0.1},)),
    ("TLVM joint, spectral", "tlvm", ({"pairing": "spectral", "lam": 0.1},)),
    (
        "TLVM joint, chosen",
        "tlvm",
        tuple({"lam": x, "projection": p} for x in (0.0, 0.1, 1.0) for p in ("robust", "nll")),
    ),
    ("TLVM conditional", "tlvm", ({"objective": "conditional"},)),
    ("TLVM marginal", "tlvm", ({"objective": "marginal"},)),
    ("TLVM printed, lam=1", "tlvm", ({"objective": "printed", "lam": 1.0},)),
    ("PCA source", "transfer-pca", ({"weight": 0.0},)),
    ("PCA pooled", "transfer-pca", ({"weight": 1.0},)),
    ("PCA, weight chosen", "transfer-pca", tuple({"weight": w} for w in (0.0, 1.0, 10.0, 100.0))),
    ("PCA target", "pca", ({},)),
    ("PPCA target", "ppca", ({},)),
)
#: Methods for different numbers of dimensions.
FEW = ("LVM, target mean", "GP-LVM target", "TLVM joint", "PCA source", "PCA pooled", "PCA target")


@dataclass(frozen=True)
class Problem:
    """A source, and the training and test rows of its targets."""

    source: Task
    train: tuple[Task, ...]
    test: tuple[Task, ...]


def halves(
    task: Task, rng: np.random.Generator, *, n_train: int | None = None
) -> tuple[Task, Task]:
    order = rng.permutation(task.n_samples)
    n = task.n_samples // 2 if n_train is None else n_train
    return task.take(order[:n]), task.take(order[n:])


def problem(source: Task, targets: Sequence[Task], rng: np.random.Generator) -> Problem:
    pairs = [halves(task, rng) for task in targets]
    return Problem(source, tuple(a for a, _ in pairs), tuple(b for _, b in pairs))


def load(folder: Path, name: str, largest: float) -> tuple[Array, NDArray[np.int64]]:
    with np.load(folder / f"{name}.npz", allow_pickle=False) as file:
        return file["X"] / largest, file["y"].astype(np.int64)


def digits(folder: Path, seed: int) -> list[Problem]:
    """Return the problems from 3 and 6 to each other digit, with 300 rows of each."""
    X, y = load(folder, "usps", 2000.0)
    rng = np.random.default_rng([seed, 1])
    rows = {k: X[rng.permutation(np.flatnonzero(y == k))[:300]] for k in range(10)}
    tasks = {k: Task.from_rows(str(k), rows[k], y=np.full(300, k)) for k in rows}
    return [problem(tasks[s], [tasks[k] for k in tasks if k != s], rng) for s in (3, 6)]


def groups(folder: Path, seed: int) -> list[Problem]:
    """Return the problems from 0-4 to 5-9 and back, with 60 rows of each digit."""
    X, y = load(folder, "usps", 2000.0)
    rng = np.random.default_rng([seed, 2])
    chosen = [rng.permutation(np.flatnonzero(y == k))[:60] for k in range(10)]
    low, high = np.concatenate(chosen[:5]), np.concatenate(chosen[5:])
    a, b = Task.from_rows("0-4", X[low], y=y[low]), Task.from_rows("5-9", X[high], y=y[high])
    return [problem(a, [b], rng), problem(b, [a], rng)]


def faces(folder: Path, seed: int) -> list[Problem]:
    """Return the problems from Yale to ORL and back."""
    rng = np.random.default_rng([seed, 3])
    tasks = []
    for name in ("yale_32x32", "orl_32x32"):
        X, y = load(folder, name, 255.0)
        tasks.append(Task.from_rows(name.partition("_")[0], X, y=y))
    return [problem(tasks[0], tasks[1:], rng), problem(tasks[1], tasks[:1], rng)]


def fit(
    name: str, values: dict[str, Any], source: Task, targets: Sequence[Task], *, n_latents: int = L
) -> Any:
    algorithm = ALGORITHMS[name]
    fields = algorithm.Params.model_fields
    fixed = {"L": n_latents, "k": n_latents, "source": source.name}
    params = algorithm.Params(**{k: v for k, v in fixed.items() if k in fields}, **values)
    tasks = TaskSet((source, *targets))
    return algorithm.fit(tasks, params, trace=Trace(), rng=np.random.default_rng(0))


def reconstruct(model: Any, task: Task) -> Array:
    if hasattr(model, "reconstruct"):
        return model.reconstruct(task.X, task=task.name)
    return model.inverse_transform(model.transform(task.X, task=task.name), task=task.name)


def distance(model: Any, task: Task) -> float:
    return float(np.linalg.norm(reconstruct(model, task) - task.X, axis=1).mean())


def choose(name: str, tried: Sequence[dict[str, Any]], given: Problem) -> dict[str, Any]:
    """Return the parameters with the smallest error on a third of the target's training rows."""
    if len(tried) == 1:
        return tried[0]
    rng = np.random.default_rng(0)
    parts = [halves(task, rng, n_train=2 * task.n_samples // 3) for task in given.train]
    losses = []
    for values in tried:
        model = fit(name, values, given.source, [train for train, _ in parts])
        losses.append(np.mean([distance(model, held_out) for _, held_out in parts]))
    return tried[int(np.argmin(losses))]


def error_of_1nn(model: Any, train: Task, test: Task) -> float:
    """Return the share of wrong labels of the nearest training row in the latent space."""
    Z, Zt = (model.transform(task.X, task=task.name) for task in (train, test))
    return float(np.mean(train.y[np.argmin(cdist(Zt, Z), axis=1)] != test.y))


def score(given: Problem) -> tuple[Array, Array]:
    """Return the errors and the shares of wrong labels, (n_methods, n_targets)."""
    errors, shares = [], []
    for _, name, tried in METHODS:
        model = fit(name, choose(name, tried, given), given.source, given.train)
        errors.append([distance(model, task) for task in given.test])
        pairs = zip(given.train, given.test, strict=True)
        shares.append([error_of_1nn(model, train, test) for train, test in pairs])
    return np.array(errors), np.array(shares)


def pixels(problems: Sequence[Problem]) -> float:
    """Return the share of wrong labels of the nearest training row by pixels."""
    found = []
    for given in problems:
        for train, test in zip(given.train, given.test, strict=True):
            nearest = np.argmin(cdist(test.X, train.X), axis=1)
            found.append(np.mean(train.y[nearest] != test.y))
    return float(np.mean(found))


def report(title: str, problems: Sequence[Sequence[Problem]]) -> None:
    """Print the table for a set of problems, with one sequence per seed."""
    started = time.monotonic()
    errors, shares = [], []
    for of_seed in problems:
        scores = [score(given) for given in of_seed]
        errors.append(np.concatenate([e for e, _ in scores], axis=1))
        shares.append(np.concatenate([s for _, s in scores], axis=1))
    E, S = np.array(errors), np.array(shares)  # (n_seeds, n_methods, n_targets)
    has_labels = S.any()
    print(f"\n{title}: {E.shape[2]} pairs, {len(E)} seeds, {time.monotonic() - started:.0f} s")
    print(f"{'':22}{'error':>16}" + (f"{'1-NN':>18}" if has_labels else ""))
    for m, (label, _, _) in enumerate(METHODS):
        e, s = E[:, m].mean(axis=1), S[:, m].mean(axis=1)
        row = f"{label:22}{e.mean():8.3f} ± {e.std(ddof=1):.3f}"
        print(row + (f"{s.mean():10.3f} ± {s.std(ddof=1):.3f}" if has_labels else ""))
    if has_labels:
        print(f"{'1-NN of pixels':38}{np.mean([pixels(p) for p in problems]):10.3f}")
    labels = [label for label, _, _ in METHODS]
    joint, lvm = labels.index("TLVM joint"), labels.index("LVM, target mean")
    gain = 1 - E[:, joint] / E[:, lvm]
    print(
        f"joint better than 'LVM, target mean' in {np.count_nonzero(gain > 0)} of {gain.size}, "
        f"by {100 * gain.min():.1f} to {100 * gain.max():.1f} %"
    )
    sys.stdout.flush()


def by_dimension(title: str, problems: Sequence[Sequence[Problem]]) -> None:
    """Print the mean errors for different numbers of latent dimensions."""
    print(f"\n{title}: error by number of latent dimensions")
    print(f"{'':22}" + "".join(f"{n:8}" for n in DIMENSIONS))
    given = [one for of_seed in problems for one in of_seed]
    for label, name, (values, *_) in METHODS:
        if label not in FEW:
            continue
        cells = []
        for n in DIMENSIONS:
            errors = [
                distance(fit(name, values, one.source, one.train, n_latents=n), task)
                for one in given
                for task in one.test
            ]
            cells.append(f"{np.mean(errors):8.3f}")
        print(f"{label:22}" + "".join(cells))
        sys.stdout.flush()


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the .npz files")
    parser.add_argument("--quick", action="store_true", help="two seeds, not five")
    args = parser.parse_args()
    names = ("usps", "yale_32x32", "orl_32x32")
    missing = [f"{name}.npz" for name in names if not (args.data / f"{name}.npz").exists()]
    if missing:
        sys.exit(f"{args.data} does not contain {', '.join(missing)}")
    seeds = range(2 if args.quick else 5)
    report("Yale <-> ORL", [faces(args.data, seed) for seed in seeds])
    report("USPS 0-4 <-> 5-9", [groups(args.data, seed) for seed in seeds])
    report("USPS 3, 6 to others", [digits(args.data, seed) for seed in seeds])
    by_dimension("USPS 3, 6 to others", [digits(args.data, seed) for seed in seeds[:2]])


if __name__ == "__main__":
    main()
