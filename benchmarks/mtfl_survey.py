"""MTFL on the computer survey: 190 persons rate 20 computers; one feature dominates.

    python -m benchmarks.mtfl_survey --data FOLDER [--quick]

FOLDER contains ``computer_survey.npz`` (Lenk, DeSarbo, Green, Young 1996). "official": training
with the survey's 16 calibration profiles and testing with its 4 validation profiles. "12", "16": as
many random profiles for training and the others for testing, the same for all persons; these do not
have the balance of the survey's design. Regularisation is selected inside the training ratings.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from algorithms.baselines.linear import MeanRegularised, Ridge
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.mtfl import MTFL
from benchmarks.mtfl_data import paired_t, survey

Array = NDArray[np.float64]

PLAIN = {"standardise": "none", "fit_intercept": False}
FINE = {"grid": tuple(np.geomspace(1e-4, 10, 16))}
METHODS: dict[str, tuple[Algorithm[Any, Any], dict[str, Any]]] = {
    "MTFL": (MTFL(), {**PLAIN, **FINE}),
    "MTFL, cv": (MTFL(), {**PLAIN, **FINE, "selection": "cv", "n_folds": 5}),
    "MTFL, selected": (MTFL(), {**PLAIN, **FINE, "features": "selected"}),
    "ridge per task": (Ridge(), PLAIN),
    "ridge pooled": (Ridge(), {**PLAIN, "form": "pooled"}),
    "mean-regularised": (MeanRegularised(), PLAIN),
}


def tasks_of(X: Array, Y: Array, rows: NDArray[np.intp]) -> TaskSet:
    return TaskSet(
        tuple(Task.from_rows(f"person-{p:03d}", X[rows], y=y[rows]) for p, y in enumerate(Y))
    )


def squared_errors(model: Any, X: Array, Y: Array, rows: NDArray[np.intp]) -> Array:
    """Return the mean squared error of each person, (190,)."""
    predicted = np.stack([model.predict(X[rows], task=name) for name in model.tasks])
    return np.asarray(np.mean((predicted - Y[:, rows]) ** 2, axis=1))


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with computer_survey.npz")
    parser.add_argument("--quick", action="store_true", help="three random splits, not ten")
    args = parser.parse_args()
    X, Y = survey(args.data)
    rng = np.random.default_rng(0)
    official = np.arange(16)
    splits = {"official": [official]}
    for n in (12, 16):
        splits[str(n)] = [rng.permutation(20)[:n] for _ in range(3 if args.quick else 10)]
    print(f"{'RMSE':<18}" + "".join(f"{label:>8} rows" for label in splits), flush=True)
    errors: dict[str, dict[str, Array]] = {}
    spectrum = np.zeros(0)
    for name, (algorithm, values) in METHODS.items():
        errors[name] = {}
        for label, chosen in splits.items():
            found = []
            for rows in chosen:
                params = algorithm.Params(**values)
                train = tasks_of(X, Y, rows)
                model = algorithm.fit(train, params, trace=Trace(), rng=np.random.default_rng(0))
                found.append(squared_errors(model, X, Y, np.setdiff1d(np.arange(20), rows)))
                if name == "MTFL" and label == "official":
                    spectrum = model.spectrum
            errors[name][label] = np.array(found)
        roots = {label: np.sqrt(errors[name][label].mean(axis=1)) for label in splits}
        cells = "".join(f"{roots[label].mean():>13.3f}" for label in splits)
        print(f"{name:<18}{cells}", flush=True)
    for label in splits:
        gain = errors["ridge per task"][label] - errors["MTFL"][label]
        over, what = (gain[0], "persons") if label == "official" else (gain.mean(axis=1), "splits")
        print(f"MTFL against ridge per task, {label}: paired t over {what} {paired_t(over):.1f}")
    print("leading eigenvalues of D, 16 calibration profiles:", np.round(spectrum[:4], 3))


if __name__ == "__main__":
    main()
