"""RMT-PCA on EEG covariances: two epochs per subject, coupling by 2-fold cross-validation.

``eeg_ssvep12.npz`` has 12 subjects, covariances of 24 channels in four classes (Kalunga et al.
2016, doi:10.1016/j.neucom.2016.01.007). As in section 3.3.2 of the paper, a pair of consecutive
epochs is for training and all other epochs of the class for testing. Covariances are divided by
their trace. The table has mean retained variance ratios on the epochs for testing.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from algorithms.baselines.pca import CommonPCA, TaskPCA
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.tasks import Task, TaskSet
from algorithms.interface.trace import Trace
from algorithms.rmtpca import RMTPCA
from benchmarks.harness.context import Context
from benchmarks.harness.results import Block, Claim, Table

Array = NDArray[np.float64]

DIMENSIONS = (1, 4, 7, 10)


def load(folder: Path) -> list[list[Array]]:
    """Return, per class and subject, covariances of unit trace (n_epochs, 24, 24)."""
    with np.load(folder / "eeg_ssvep12.npz", allow_pickle=False) as file:
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
def run(context: Context) -> list[Block]:
    """Return the table, and how often RMT-PCA is above its baselines."""
    classes = load(context.folder("eeg_ssvep12.npz"))
    rows = []
    for label, subjects in enumerate(classes, start=1):
        n_pairs = 1 if context.is_quick else min(len(C) for C in subjects) // 2
        for k in DIMENSIONS:
            trials = [trial(subjects, first=2 * pair, k=k) for pair in range(n_pairs)]
            rows.append((str(label), str(k), *(float(mean) for mean in np.mean(trials, axis=0))))
    claims = []
    for which, baseline in ((3, "PCA of each subject"), (4, "common PCA")):
        n_above = sum(row[2] > row[which] for row in rows)
        claims.append(
            Claim(
                text=f"RMT-PCA is above {baseline} in most cells: in {n_above} of {len(rows)}.",
                is_confirmed=2 * n_above > len(rows),
            )
        )
    columns = ("class", "k", "RMT-PCA", "PCA of each subject", "common PCA")
    return [Table(columns=columns, rows=tuple(rows), higher_is_better=("RMT-PCA",)), *claims]
