"""Held-out explained variance of the regression methods, for each value of ``scale_targets``.

    python -m benchmarks.target_scales --data FOLDER --scales none task moderated

The whole run takes 20 minutes; ``--methods`` and ``--problems`` select a part. FOLDER contains
``school.npz``, ``computer_survey.npz`` and ``parkinsons.npz``. Training rows: the ten official
splits of School; 12 of the 20 profiles of the survey; 20 or 5 recordings of each patient of
Parkinsons. The synthetic problems have 20 tasks with 8 columns and 8 to 12 or 3 to 5 rows, whose
targets depend on two common directions and have equal standard deviations or standard deviations
from 1 to 20. Regularisation is selected inside the training rows. The tables show, in percent, the
mean over splits of 1 - SSE/SST per task, weighted by the task's rows, and the standard error of the
difference to the first scale.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.registry import ALGORITHMS
from benchmarks.mtfl_data import load, school, survey

Array = NDArray[np.float64]
Parts = tuple[TaskSet, TaskSet]

LINEAR: dict[str, dict[str, Any]] = {
    "mtfl": {},
    "ridge": {},
    "mean-regularised": {},
}
ALL = {
    **LINEAR,
    "shared-lasso": {"tolerance": 1e-3, "max_iter": 300},
    "fmtl": {"selection": "cv"},
    "kernel-mean": {"selection": "cv"},
    "kernel-tasks": {"selection": "cv"},
}
#: Without FMTL, which takes 20 s for each of these fits.
LARGE = {name: params for name, params in ALL.items() if name != "fmtl"}
SCALES = ("none", "all", "task", "moderated")


def split_rows(X: dict[str, Array], y: dict[str, Array], is_in: dict[str, Array]) -> Parts:
    """Return the training rows and the other rows as tasks."""
    return (
        TaskSet(tuple(Task.from_rows(t, X[t][is_in[t]], y=y[t][is_in[t]]) for t in X)),
        TaskSet(tuple(Task.from_rows(t, X[t][~is_in[t]], y=y[t][~is_in[t]]) for t in X)),
    )


def random_mask(rng: np.random.Generator, n: int, size: int) -> Array:
    """Return a mask of n rows that selects ``size`` of them at random."""
    is_in = np.zeros(n, dtype=bool)
    is_in[rng.permutation(n)[:size]] = True
    return is_in


def survey_parts(folder: Path, seed: int) -> Parts:
    profiles, ratings = survey(folder)
    is_in = random_mask(np.random.default_rng(seed), 20, 12)
    y = {f"p{i:03d}": one for i, one in enumerate(ratings) if np.ptp(one[~is_in]) > 0}
    return split_rows(dict.fromkeys(y, profiles), y, dict.fromkeys(y, is_in))


def parkinsons_parts(folder: Path, seed: int, size: int) -> Parts:
    data, rng = load(folder, "parkinsons.npz"), np.random.default_rng(seed)
    X, y, task = data["X"].astype(float), data["y"][:, 0].astype(float), data["task"]
    names = {f"patient-{t:02d}": task == t for t in np.unique(task)}
    return split_rows(
        {name: X[rows] for name, rows in names.items()},
        {name: y[rows] for name, rows in names.items()},
        {name: random_mask(rng, int(rows.sum()), size) for name, rows in names.items()},
    )


def synthetic_parts(seed: int, sizes: tuple[int, int], ratio: float) -> Parts:
    rng, X, y, is_in = np.random.default_rng(seed), {}, {}, {}
    B, common = np.linalg.qr(rng.standard_normal((8, 2)))[0], rng.standard_normal(2)
    for t, spread in enumerate(rng.permutation(np.geomspace(1, ratio, 20))):
        w = B @ (common + rng.standard_normal(2))
        n, name = int(rng.integers(sizes[0], sizes[1] + 1)), f"t{t:02d}"
        X[name] = rng.standard_normal((n + 200, 8))
        noise = 0.7 * rng.standard_normal(n + 200) + 3 * rng.standard_normal()
        y[name] = spread * (X[name] @ w / np.linalg.norm(w) + noise)
        is_in[name] = np.arange(n + 200) < n
    return split_rows(X, y, is_in)


def explained(model: Any, test: TaskSet) -> float:
    """Return the mean over tasks of 1 - SSE/SST, weighted by their number of rows."""
    parts = []
    for task in test:
        y = np.asarray(task.y, dtype=float)
        error = np.sum((y - model.predict(task.X, task=task.name)) ** 2)
        parts.append((len(y), 1 - error / np.sum((y - y.mean()) ** 2)))
    n, values = np.array(parts).T
    return float(np.average(values, weights=n))


def problems(folder: Path, n: int) -> Iterator[tuple[str, list[Parts], dict[str, dict[str, Any]]]]:
    yield "School", school(folder)[:n], LINEAR
    yield "survey, 12 profiles", [survey_parts(folder, s) for s in range(n)], LINEAR
    for size, methods in ((20, LARGE), (5, ALL)):
        parts = [parkinsons_parts(folder, s, size) for s in range(n)]
        yield f"Parkinsons, {size} rows", parts, methods
    for ratio in (1, 20):
        for sizes in ((8, 12), (3, 5)):
            synthetic = [synthetic_parts(s, sizes, ratio) for s in range(n)]
            yield f"synthetic, {sizes[0]} to {sizes[1]} rows, spreads 1:{ratio}", synthetic, ALL


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the data")
    parser.add_argument("--splits", type=int, default=10, help="splits of each problem, 10")
    parser.add_argument("--scales", nargs="*", choices=SCALES, default=SCALES, help="all of them")
    parser.add_argument("--methods", nargs="*", choices=ALL, default=ALL, help="all of them")
    parser.add_argument("--problems", default="", help="prefix of the problems' names")
    args = parser.parse_args()
    print(f"{'explained variance, %':<36}" + "".join(f"{how:>16}" for how in args.scales))
    for title, splits, methods in problems(args.data, args.splits):
        if not title.startswith(args.problems):
            continue
        print(title, flush=True)
        for name in [name for name in methods if name in args.methods]:
            algorithm, found = ALGORITHMS[name], np.zeros((len(args.scales), len(splits)))
            for i, how in enumerate(args.scales):
                for j, (train, test) in enumerate(splits):
                    params = algorithm.Params(**methods[name], scale_targets=how)
                    rng = np.random.default_rng(0)
                    found[i, j] = explained(
                        algorithm.fit(train, params, trace=Trace(), rng=rng), test
                    )
            errors = (found - found[0]).std(axis=1, ddof=1) / np.sqrt(len(splits))
            cells = [
                f"{100 * m:>9.1f} ± {100 * e:<4.1f}"
                for m, e in zip(found.mean(axis=1), errors, strict=True)
            ]
            print(f"  {name:<34}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
