"""Retained variance of RMT-PCA with different choices of the coupling, for 2 to 50 tasks.

    python -m benchmarks.rmtpca_choice [--quick]

Problems: the paper's synthetic tasks (six features, ten rows, tilt 0.3), and unrelated tasks.
Choices: the coupling with the best mean in cross-validation ("best mean"), the one of
``selection="cv"`` ("selected"), and the default. For each, the script prints the mean gain in
retained variance ratio (under the true covariances) over common PCA, times 1e4, and the paired t
against common PCA and against PCA per task.
"""

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from algorithms.baselines.pca import CommonPCA, TaskPCA
from algorithms.families.subspaces.algorithm import SubspaceAlgorithm
from algorithms.families.subspaces.model import SubspaceModel
from algorithms.interface.trace import Trace
from algorithms.rmtpca import RMTPCA
from benchmarks.harness.problems import GaussianProblem, tilted_gaussians, unrelated_gaussians

Array = NDArray[np.float64]


def true_ratio(model: SubspaceModel, problem: GaussianProblem) -> float:
    """Return the mean retained variance ratio under the true covariances."""
    ratios = [
        np.trace(model.basis_of(name).T @ C @ model.basis_of(name)) / np.trace(C)
        for name, C in zip(model.tasks, problem.covariances, strict=True)
    ]
    return float(np.mean(ratios))


def trial(problem: GaussianProblem, *, k: int, seed: int) -> list[float]:
    """Return the ratios of best mean, selected coupling, default, common PCA and PCA per task."""

    def fit(algorithm: SubspaceAlgorithm, **values: object) -> SubspaceModel:
        params = algorithm.Params(k=k, **values)
        rng = np.random.default_rng(seed)
        return algorithm.fit(problem.tasks, params, trace=Trace(), rng=rng)

    selected = fit(RMTPCA(), selection="cv")
    best = selected.fit_info["cv_best"]
    models = (
        fit(CommonPCA()) if best is None else fit(RMTPCA(), lam=best),
        selected,
        fit(RMTPCA()),
        fit(CommonPCA()),
        fit(TaskPCA()),
    )
    return [true_ratio(model, problem) for model in models]


def paired_t(differences: Array) -> float:
    return float(differences.mean() / (differences.std(ddof=1) / np.sqrt(differences.size)))


def report(name: str, make: Callable[..., GaussianProblem], *, n_trials: int) -> None:
    """Print the table for one kind of problems."""
    print(f"\n{name}, {n_trials} trials\n{'T':>3}{'k':>3}" + "".join(
        f"{head:>24}" for head in ("best mean", "selected", "default")
    ))  # fmt: skip
    for T in (2, 3, 5, 10, 20, 50):
        for k in (1, 2, 3):
            found = np.array(
                [
                    trial(make(np.random.default_rng([11, T, k, s]), n_tasks=T), k=k, seed=s)
                    for s in range(n_trials)
                ]
            )
            cells = []
            for column in found.T[:3]:
                gain = column - found[:, 3]
                own = paired_t(column - found[:, 4])
                cells.append(f"{1e4 * gain.mean():>10.0f}{paired_t(gain):>7.1f}{own:>7.1f}")
            print(f"{T:>3}{k:>3}" + "".join(cells), flush=True)


@threadpool_limits.wrap(limits=1)
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="20 trials, not 100")
    args = parser.parse_args()
    n_trials = 20 if args.quick else 100
    report("related tasks", tilted_gaussians, n_trials=n_trials)
    report("unrelated tasks", unrelated_gaussians, n_trials=n_trials)


if __name__ == "__main__":
    main()
