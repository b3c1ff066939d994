"""Linear baselines of TLVM: PCA and probabilistic PCA of a source with an up-weighted target.

With the scatter matrices S_s and S_t of source and target, each about its own mean, the subspace of
task t is spanned by the k leading eigenvectors of

    (S_s + w S_t) / (n_s - 1 + w (n_t - 1))

w = 0 is the PCA of the source, w = 1 the PCA of both pooled, w → ∞ the PCA of the target.
Probabilistic PCA has W = U (Λ - σ²I)^½ with the leading eigenvalues Λ and eigenvectors U; σ² is the
mean of the other eigenvalues. Its expected latents are shrunk according to the noise. Cost: a thin
singular value decomposition, O(n²D), per task.

Reference: Tipping, Bishop, *Probabilistic principal component analysis*, JRSS B 1999,
doi:10.1111/1467-9868.00196
"""

from collections.abc import Sequence
from typing import ClassVar, TypeVar

import numpy as np

from algorithms.baselines.transfer_pca.model import PPCAModel, reconstruction
from algorithms.baselines.transfer_pca.params import PPCAParams, TransferPCAParams
from algorithms.families.latent.source import check_own_rows, choose_source
from algorithms.families.subspaces.model import SubspaceModel, build_model
from algorithms.families.subspaces.moments import check_dimension, estimate_moments, retained_ratio
from algorithms.interface.algorithm import Algorithm
from algorithms.interface.model import Model
from algorithms.interface.needs import Needs
from algorithms.interface.tasks import Task, TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.trace import Trace
from algorithms.interface.work import EIGEN_FLOPS, FIT_STEPS, WorkEstimate
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import centre_columns
from algorithms.numerics.eigen import fix_signs, leading_of_factor

P = TypeVar("P", bound=TransferPCAParams)
M = TypeVar("M", bound=Model)


class _SourceAndTarget(Algorithm[P, M]):
    """Base class: a decomposition of the weighted covariance of the source and each task."""

    reference = "Tipping and Bishop (1999), doi:10.1111/1467-9868.00196"
    needs = Needs(same_features=True)
    monotone = "up"
    #: Passes over the rows of source and target, and calls for each task, in a fit.
    n_passes: ClassVar[float]
    n_steps: ClassVar[int]

    def work(self, summaries: Sequence[TaskSummary], params: P) -> WorkEstimate:
        """Return the work of a decomposition of the source and each task."""
        name = choose_source(summaries, params.source, algorithm=self.name)
        n_source = next(summary.n_samples for summary in summaries if summary.name == name)
        d = summaries[0].n_features
        sizes = [n_source + summary.n_samples for summary in summaries]
        return WorkEstimate(
            f"{len(sizes):,} decompositions of up to {max(sizes):,} rows and {d:,} columns",
            "use fewer rows, columns or tasks",
            flops=sum(2.0 * n * d * min(n, d) + EIGEN_FLOPS * min(n, d) ** 3 for n in sizes),
            values=self.n_passes * sum(sizes) * d,
            steps=FIT_STEPS + self.n_steps * len(sizes),
        )

    def final_objective(self, params: P, trace: Trace) -> float | None:
        """Return None: each task has an objective of its own."""
        del params, trace
        return None

    def check(self, summaries: Sequence[TaskSummary], params: P) -> None:
        """Raise InvalidData or InvalidParams if the tasks do not meet the requirements."""
        super().check(summaries, params)
        check_dimension(summaries, k=params.k)
        choose_source(summaries, params.source, algorithm=self.name)


class TransferPCA(_SourceAndTarget[TransferPCAParams, SubspaceModel]):
    """PCA of a source with an up-weighted target."""

    name = "transfer-pca"
    title = "PCA of source and target"
    summary = (
        "Principal components of the rows of a source task and the weighted rows of the target. "
        "With a weight of 10 to 100 it reconstructs targets with few rows as well as tlvm, or "
        "better."
    )
    Params = TransferPCAParams
    Model = SubspaceModel
    n_passes = 3.0
    n_steps = 40

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
        "PCA as a Gaussian model, which fills in missing values. Of each task alone, or of the "
        "source with an up-weighted target."
    )
    Params = PPCAParams
    Model = PPCAModel
    n_passes = 30.0
    n_steps = 100

    def check(self, summaries: Sequence[TaskSummary], params: PPCAParams) -> None:
        """Raise InvalidData or InvalidParams if the tasks do not meet the requirements."""
        super().check(summaries, params)
        if params.rows == "own":
            check_own_rows(summaries, algorithm=self.name)

    def fit(
        self, tasks: TaskSet, params: PPCAParams, *, trace: Trace, rng: np.random.Generator
    ) -> PPCAModel:
        """Return a model with W and σ² in closed form (eqs. 7 and 8 of Tipping and Bishop)."""
        del rng
        self.check(tasks.summaries(), params)
        check_magnitudes(tasks)
        source = tasks[choose_source(tasks.summaries(), params.source, algorithm=self.name)]
        trace.expect_loops(len(tasks))
        fitted = [self._fit_task(source, task, params, trace=trace) for task in tasks]
        return PPCAModel(
            algorithm=self.name,
            tasks=tasks.names,
            W=np.stack([W for W, _, _ in fitted]),
            mean=np.stack([task.X.mean(axis=0) for task in tasks]),
            noise=np.array([noise for _, noise, _ in fitted]),
            r2=np.array([r2 for _, _, r2 in fitted]),
        )

    def _fit_task(
        self, source: Task, task: Task, params: PPCAParams, *, trace: Trace
    ) -> tuple[Array, float, float]:
        """Return W (D, k), σ² and the explained share of the task's variance."""
        pair = task if params.rows == "own" else source
        A = _weighted_factor(pair, task, params.weight)
        U = _decompose(A, params.k, trace, task.name)
        spectrum = np.sum((A @ U.T) ** 2, axis=0)
        unexplained = max(float(np.sum(A**2) - spectrum.sum()), 0.0)
        noise = unexplained / max(A.shape[1] - params.k, 1)  # it is 0 if k = D
        W = fix_signs(U).T * np.sqrt(np.maximum(spectrum - noise, 0.0))
        Y = centre_columns(task.X)
        residual = np.sum((Y - reconstruction(W, Y)) ** 2)
        total = np.sum(Y**2)
        return W, noise, float(retained_ratio(np.asarray(total - residual), np.asarray(total)))


def _decompose(A: Array, k: int, trace: Trace, name: str) -> Array:
    """Return the k leading eigenvectors of AᵀA, in one step of the trace."""

    def solve() -> tuple[Array, float]:
        U = leading_of_factor(A, k)
        return U, float(np.sum((A @ U.T) ** 2))

    return trace.run_once(f"decomposition of '{name}'", solve)


def _weighted_factor(source: Task, task: Task, weight: float) -> Array:
    """Return A such that AᵀA is the weighted covariance of source and task.

    It is the covariance of the source if both are the same task.
    """
    Y = centre_columns(source.X)
    if task.name == source.name:
        return np.asarray(Y / np.sqrt(max(len(Y) - 1, 1)))
    Yt = centre_columns(task.X)
    count = len(Y) - 1 + weight * (len(Yt) - 1)
    return np.asarray(np.concatenate([Y, np.sqrt(weight) * Yt]) / np.sqrt(count))
