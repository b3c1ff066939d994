"""RMT-PCA on EEG covariances: two epochs per subject, coupling by 2-fold cross-validation.

    python -m benchmarks.rmtpca_eeg --data FOLDER [--quick]

FOLDER contains ``eeg_ssvep12.npz``: 12 subjects, covariances of 24 channels in four classes
(Kalunga et al. 2016, doi:10.1016/j.neucom.2016.01.007). As in section 3.3.2 of the paper, a pair of
consecutive epochs is for training and all other epochs of the class for testing. Covariances are
divided by their trace.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from algorithms.baselines import CommonPCA, TaskPCA
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.rmtpca import RMTPCA

Array = NDArray[np.float64]

DIMENSIONS = (1, 4, 7, 10)


def load(folder: Path) -> list[list[Array]]:
    """Return, per class and subject, covariances of unit trace (n_epochs, 24, 24)."""
    path = folder / "eeg_ssvep12.npz"
    if not path.exists():
        sys.exit(f"{path} does not exist; pass the folder of eeg_ssvep12.npz with --data")
    with np.load(path, allow_pickle=False) as file:
        C, y, subject = file["cov24"].astype(np.float64), file["y"], file["task"]
    C /= np.trace(C, axis1=1, axis2=2)[:, np.newaxis, np.newaxis]
    return [
        [C[(y == label) & (subject == s)] for s in np.unique(subject)] for label in np.unique(y)
    ]


def mean_ratio(model: Any, tests: list[Array]) -> float:
    """Return the mean retained variance ratio (eq. 6) over subjects."""
    values = []
    for name, C in zip(model.tasks, tests, strict=True):
        U = model.basis_of(name)
        values.append(np.trace(U.T @ C @ U) / np.trace(C))
    return float(np.mean(values))


def trial(subjects: list[Array], *, first: int, k: int) -> tuple[float, float, float]:
    """Return the test ratios of RMT-PCA, I-PCA and C-PCA trained on one pair of epochs each."""
    pairs = [np.array([first, first + 1]) % len(C) for C in subjects]
    tasks = TaskSet(
        tuple(
            Task.from_covariances(f"subject-{s:02d}", C[pair])
            for s, (C, pair) in enumerate(zip(subjects, pairs, strict=True))
        )
    )
    tests = [
        np.delete(C, pair, axis=0).mean(axis=0) for C, pair in zip(subjects, pairs, strict=True)
    ]

    def score(algorithm: Algorithm[Any, Any], **values: Any) -> float:
        params = algorithm.Params(k=k, **values)
        rng = np.random.default_rng(first)
        return mean_ratio(algorithm.fit(tasks, params, trace=Trace(), rng=rng), tests)

    return score(RMTPCA(), selection="cv"), score(TaskPCA()), score(CommonPCA())


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with eeg_ssvep12.npz")
    parser.add_argument("--quick", action="store_true", help="three pairs of epochs, not all")
    args = parser.parse_args()
    classes = load(args.data)
    print(f"{'class':>5}{'k':>4}{'RMT-PCA':>10}{'I-PCA':>9}{'C-PCA':>9}{'vs I':>10}{'vs C':>10}")
    above = np.zeros(2, dtype=int)
    for label, subjects in enumerate(classes, start=1):
        n_pairs = min(len(C) for C in subjects) // 2
        for k in DIMENSIONS:
            firsts = range(0, 2 * (3 if args.quick else n_pairs), 2)
            ours, own, common = np.mean([trial(subjects, first=f, k=k) for f in firsts], axis=0)
            above += [ours > own, ours > common]
            print(
                f"{label:>5}{k:>4}{ours:>10.4f}{own:>9.4f}{common:>9.4f}"
                f"{ours - own:>+10.4f}{ours - common:>+10.4f}",
                flush=True,
            )
    n_cells = len(classes) * len(DIMENSIONS)
    print(f"\nabove I-PCA in {above[0]} of {n_cells} cells, above C-PCA in {above[1]}")


if __name__ == "__main__":
    main()
