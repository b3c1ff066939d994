"""Linear baselines of TLVM: PCA and probabilistic PCA of a source with an up-weighted target.

With S_s and S_t the scatter matrices of source and target, each about its own mean, task t has the
k leading eigenvectors of

    (S_s + w S_t) / (n_s - 1 + w (n_t - 1))

w = 0 is the PCA of the source, w = 1 that of both pooled, w → ∞ that of the target. Probabilistic
PCA keeps W = U (Λ - σ² E)^½ and the mean σ² of the other eigenvalues, and puts a row where its
latent is most likely: W shrinks it by what noise explains. Cost: a thin singular value
decomposition, O(n² D), per task.

Reference: Tipping, Bishop, *Probabilistic principal component analysis*, JRSS B 1999,
doi:10.1111/1467-9868.00196
"""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.model import Model
from algorithms.interface.needs import Needs
from algorithms.interface.tasks import Task, TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.trace import Trace
from algorithms.latent.source import check_own_rows, choose_source
from algorithms.numerics.centering import centre_columns
from algorithms.numerics.eigen import fix_signs, leading_of_factor
from algorithms.subspaces.model import SubspaceModel, build_model
from algorithms.subspaces.moments import check_dimension, estimate_moments, retained_ratio
from algorithms.transfer_pca.model import PPCAModel, reconstruction
from algorithms.transfer_pca.params import PPCAParams, TransferPCAParams

Array = NDArray[np.float64]
P = TypeVar("P", bound=TransferPCAParams)
M = TypeVar("M", bound=Model)


class _SourceAndTarget(Algorithm[P, M]):
    """A decomposition of the weighted covariance of each task with the source."""

    reference = "Tipping and Bishop (1999), doi:10.1111/1467-9868.00196"
    needs = Needs(same_features=True)
    monotone = "up"

    def check(self, summaries: Sequence[TaskSummary], params: P) -> None:
        """Raise InvalidData or InvalidParams where these tasks do not fit."""
        super().check(summaries, params)
        check_dimension(summaries, k=params.k)
        choose_source(summaries, params.source, algorithm=self.name)


class TransferPCA(_SourceAndTarget[TransferPCAParams, SubspaceModel]):
    """PCA of a source with an up-weighted target."""

    name = "transfer-pca"
    title = "PCA of source and target"
    summary = (
        "Principal components of a source task and, with a weight, of the target: of the source "
        "alone, of both pooled, or mostly of the target. With a weight of 10 to 100 it "
        "reconstructs rows of targets that have few as well as tlvm, or better."
    )
    Params = TransferPCAParams
    Model = SubspaceModel

    def fit(
        self, tasks: TaskSet, params: TransferPCAParams, *, trace: Trace, rng: np.random.Generator
    ) -> SubspaceModel:
        """Return the k leading eigenvectors of each weighted covariance."""
        del rng
        self.check(tasks.summaries(), params)
        source = tasks[choose_source(tasks.summaries(), params.source, algorithm=self.name)]
        moments = estimate_moments(tasks.by_name().tasks, k=params.k)
        trace.expect_loops(len(moments.names))
        U = [
            _decompose(_weighted_factor(source, tasks[name], params.weight), params.k, trace, name)
            for name in moments.names
        ]
        return build_model(
            moments,
            np.stack(U),
            algorithm=self.name,
            names=tasks.names,
            fit_info={"source": source.name, "weight": params.weight},
        )


class PPCA(_SourceAndTarget[PPCAParams, PPCAModel]):
    """Probabilistic PCA."""

    name = "ppca"
    title = "Probabilistic PCA"
    summary = (
        "PCA as a Gaussian model: fills in missing values, and shrinks what noise explains. Of "
        "each task alone, or of the source with an up-weighted target."
    )
    Params = PPCAParams
    Model = PPCAModel

    def check(self, summaries: Sequence[TaskSummary], params: PPCAParams) -> None:
        """Raise InvalidData or InvalidParams where these tasks do not fit."""
        super().check(summaries, params)
        if params.rows == "own":
            check_own_rows(summaries, algorithm=self.name)

    def fit(
        self, tasks: TaskSet, params: PPCAParams, *, trace: Trace, rng: np.random.Generator
    ) -> PPCAModel:
        """Return W and σ² of each task in closed form (eqs. 7 and 8 of Tipping and Bishop)."""
        del rng
        self.check(tasks.summaries(), params)
        check_magnitudes(tasks)
        source = tasks[choose_source(tasks.summaries(), params.source, algorithm=self.name)]
        trace.expect_loops(len(tasks))
        learned = [self._learn(source, task, params, trace=trace) for task in tasks]
        return PPCAModel(
            algorithm=self.name,
            tasks=tasks.names,
            W=np.stack([W for W, _, _ in learned]),
            mean=np.stack([task.X.mean(axis=0) for task in tasks]),
            noise=np.array([noise for _, noise, _ in learned]),
            r2=np.array([r2 for _, _, r2 in learned]),
        )

    def _learn(
        self, source: Task, task: Task, params: PPCAParams, *, trace: Trace
    ) -> tuple[Array, float, float]:
        """Return W (D, k), σ² and the share of the task's variance that is explained."""
        pair = task if params.rows == "own" else source
        A = _weighted_factor(pair, task, params.weight)
        U = _decompose(A, params.k, trace, task.name)
        spectrum = np.sum((A @ U.T) ** 2, axis=0)
        rest = max(float(np.sum(A**2) - spectrum.sum()), 0.0)
        noise = rest / max(A.shape[1] - params.k, 1)  # of k = d dimensions nothing is left
        W = fix_signs(U).T * np.sqrt(np.maximum(spectrum - noise, 0.0))
        Y = centre_columns(task.X)
        left = np.sum((Y - reconstruction(W, Y)) ** 2)
        total = np.sum(Y**2)
        return W, noise, float(retained_ratio(np.asarray(total - left), np.asarray(total)))


def _decompose(A: Array, k: int, trace: Trace, name: str) -> Array:
    """Return the k leading eigenvectors of AᵀA by one step under the trace."""

    def solve() -> tuple[Array, float]:
        U = leading_of_factor(A, k)
        return U, float(np.sum((A @ U.T) ** 2))

    return trace.run_once(f"decomposition of '{name}'", solve)


def _weighted_factor(source: Task, task: Task, weight: float) -> Array:
    """Return A, AᵀA the weighted covariance of source and task (of the source if both are one)."""
    Y = centre_columns(source.X)
    if task.name == source.name:
        return np.asarray(Y / np.sqrt(max(len(Y) - 1, 1)))
    Yt = centre_columns(task.X)
    count = len(Y) - 1 + weight * (len(Yt) - 1)
    return np.asarray(np.concatenate([Y, np.sqrt(weight) * Yt]) / np.sqrt(count))
