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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, final

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from algorithms.interface.algorithm import Algorithm
from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Model
from algorithms.interface.needs import Needs
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.trace import Trace
from algorithms.latent.source import SourceParams, choose_source
from algorithms.numerics.eigen import fix_signs, leading_of_factor
from algorithms.subspaces.model import SubspaceModel, build_model
from algorithms.subspaces.moments import check_dimension, estimate_moments, retained_ratio
from algorithms.subspaces.params import SubspaceParams

Array = NDArray[np.float64]


class TransferPCAParams(SubspaceParams, SourceParams):
    """Parameters of PCA of a source with an up-weighted target."""

    weight: float = Field(
        1.0,
        ge=0.0,
        le=1e9,
        title="Weight of the target",
        description="What a row of the target counts, where one of the source counts 1. 0: the "
        "source alone. 1: both pooled.",
    )


class PPCAParams(TransferPCAParams):
    """Parameters of probabilistic PCA."""

    rows: Literal["own", "weighted"] = Field(
        "own",
        title="Learned from",
        description="'own': the rows of the task alone. 'weighted': those of the source and, "
        "with their weight, its own.",
    )


class TransferPCA(Algorithm[TransferPCAParams, SubspaceModel]):
    """PCA of a source with an up-weighted target."""

    name = "transfer-pca"
    title = "PCA of source and target"
    summary = (
        "Principal components of a source task and, with a weight, of the target: of the source "
        "alone, of both pooled, or mostly of the target. The linear baseline of tlvm."
    )
    reference = "Tipping and Bishop (1999), doi:10.1111/1467-9868.00196"
    needs = Needs(same_features=True)
    monotone = "up"
    Params = TransferPCAParams
    Model = SubspaceModel

    def check(self, summaries: Sequence[TaskSummary], params: TransferPCAParams) -> None:
        """Raise InvalidData or InvalidParams where these tasks do not fit."""
        super().check(summaries, params)
        check_dimension(summaries, k=params.k)
        choose_source(summaries, params.source, algorithm=self.name)

    def fit(
        self, tasks: TaskSet, params: TransferPCAParams, *, trace: Trace, rng: np.random.Generator
    ) -> SubspaceModel:
        """Give the k leading eigenvectors of each weighted covariance."""
        del rng
        self.check(tasks.summaries(), params)
        source = tasks[choose_source(tasks.summaries(), params.source, algorithm=self.name)]
        moments = estimate_moments(tasks.by_name().tasks, k=params.k)
        trace.expect(len(moments.names))
        U = [
            _decompose(_weighted_factor(source, tasks[name], params.weight), params.k, trace, name)
            for name in moments.names
        ]
        return build_model(
            moments,
            np.stack(U),
            algorithm=self.name,
            names=tasks.names,
            facts={"source": source.name, "weight": params.weight},
        )


@final
@dataclass(frozen=True, slots=True, eq=False)
class PPCAModel(Model):
    """Probabilistic PCA for each task: y ~ N(Wz + mean, σ² E), z ~ N(0, E).

    Parameters
    ----------
    W : (n_tasks, n_features, k)
        Columns of falling length; the entry of largest size in each is positive.
    mean : (n_tasks, n_features)
    noise : (n_tasks,)
        σ².
    r2 : (n_tasks,)
        Share of the variance of the training rows that reconstruction explains.
    """

    takes_missing: ClassVar[frozenset[str]] = frozenset({"transform", "reconstruct"})

    algorithm: str = field()
    tasks: tuple[str, ...] = field()
    W: Array
    mean: Array
    noise: Array
    r2: Array

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Share of the variance of the training rows that reconstruction explains."""
        return {"r2": {name: float(x) for name, x in zip(self.tasks, self.r2, strict=True)}}

    def width(self, method: str, *, task: str) -> int:
        """Give k for ``inverse_transform``, the number of features otherwise."""
        self.task_index(task)
        return int(self.W.shape[2 if method == "inverse_transform" else 1])

    def transform(self, X: object, *, task: str) -> Array:
        """Give the expected latents (WᵀW + σ² E)⁻¹ Wᵀ (x - mean), by the features that are seen.

        Parameters
        ----------
        X : (n_samples, n_features)
            NaN where a value is missing.

        Returns
        -------
        (n_samples, k)
        """
        return self._latents(X, "transform", task)

    def inverse_transform(self, Z: object, *, task: str) -> Array:
        """Give the rows Wz + mean.

        Parameters
        ----------
        Z : (n_samples, k)

        Returns
        -------
        (n_samples, n_features)
        """
        rows = self.check_rows(Z, method="inverse_transform", task=task)
        t = self.task_index(task)
        return np.asarray(rows @ self.W[t].T + self.mean[t])

    def reconstruct(self, X: object, *, task: str) -> Array:
        """Give the projections of rows onto the subspace, or what is expected of missing values.

        That is Wz' + mean, z' without the shrinkage of the expected latent (Tipping and Bishop,
        section 3.3): the least squared error.

        Parameters
        ----------
        X : (n_samples, n_features)
            NaN where a value is missing.

        Returns
        -------
        (n_samples, n_features)
        """
        t = self.task_index(task)
        rows = self.check_rows(X, method="reconstruct", task=task)
        return np.asarray(reconstruction(self.W[t], rows - self.mean[t]) + self.mean[t])

    def _latents(self, X: object, method: str, task: str) -> Array:
        rows = self.check_rows(X, method=method, task=task)
        t = self.task_index(task)
        return expected_latents(self.W[t], rows - self.mean[t], noise=float(self.noise[t]))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Give every learned array by name."""
        return {"W": self.W, "mean": self.mean, "noise": self.noise, "r2": self.r2}

    def header(self) -> dict[str, Any]:
        """Give the names."""
        return {"algorithm": self.algorithm, "tasks": list(self.tasks)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> Self:
        """Give the model that ``to_arrays`` and ``header`` described.

        Raises
        ------
        ValueError
            The arrays do not fit each other.
        """
        names = tuple(str(name) for name in header["tasks"])
        W, T = arrays["W"], len(names)
        expected = {"W": (T, *W.shape[1:]), "mean": (T, W.shape[1]), "noise": (T,), "r2": (T,)}
        for name, shape in expected.items():
            if arrays[name].shape != shape:
                raise ValueError(f"{name} is {arrays[name].shape}, expected {shape}")
        return cls(
            str(header["algorithm"]), names, W, arrays["mean"], arrays["noise"], arrays["r2"]
        )


class PPCA(Algorithm[PPCAParams, PPCAModel]):
    """Probabilistic PCA."""

    name = "ppca"
    title = "Probabilistic PCA"
    summary = (
        "PCA as a Gaussian model: fills in missing values, and shrinks what noise explains. Of "
        "each task alone, or of the source with an up-weighted target."
    )
    reference = "Tipping and Bishop (1999), doi:10.1111/1467-9868.00196"
    needs = Needs(same_features=True)
    monotone = "up"
    Params = PPCAParams
    Model = PPCAModel

    def check(self, summaries: Sequence[TaskSummary], params: PPCAParams) -> None:
        """Raise InvalidData or InvalidParams where these tasks do not fit."""
        super().check(summaries, params)
        check_dimension(summaries, k=params.k)
        choose_source(summaries, params.source, algorithm=self.name)
        for task in summaries:
            if params.rows == "own" and task.n_samples < 2:
                raise InvalidData(
                    f"task '{task.name}' has 1 row; {self.name} of own rows needs at least 2 in "
                    "every task",
                    task=task.name,
                )

    def fit(
        self, tasks: TaskSet, params: PPCAParams, *, trace: Trace, rng: np.random.Generator
    ) -> PPCAModel:
        """Give W and σ² of each task in closed form (eqs. 7 and 8 of Tipping and Bishop)."""
        del rng
        self.check(tasks.summaries(), params)
        source = tasks[choose_source(tasks.summaries(), params.source, algorithm=self.name)]
        trace.expect(len(tasks))
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
        """Give W (D, k), σ² and the share of the task's variance that is explained."""
        pair = task if params.rows == "own" else source
        A = _weighted_factor(pair, task, params.weight)
        U = _decompose(A, params.k, trace, task.name)
        spectrum = np.sum((A @ U.T) ** 2, axis=0)
        rest = max(float(np.sum(A**2) - spectrum.sum()), 0.0)
        noise = rest / (A.shape[1] - params.k)
        W = fix_signs(U).T * np.sqrt(np.maximum(spectrum - noise, 0.0))
        Y = task.X - task.X.mean(axis=0)
        left = np.sum((Y - reconstruction(W, Y)) ** 2)
        total = np.sum(Y**2)
        return W, noise, float(retained_ratio(np.asarray(total - left), np.asarray(total)))


def expected_latents(W: Array, Y: Array, *, noise: float) -> Array:
    """Give the expected latents (n, k) of centred rows Y (n, D), NaN where a value is missing.

    The least of ‖y - Wz‖² + σ²‖z‖² over the features that are seen; solved as least squares, so
    that σ² may be 0.
    """
    Z = np.empty((len(Y), W.shape[1]))
    is_seen = ~np.isnan(Y)
    patterns, which = np.unique(is_seen, axis=0, return_inverse=True)
    ridge = np.sqrt(noise) * np.eye(W.shape[1])
    for i, pattern in enumerate(patterns):
        rows = np.flatnonzero(which.ravel() == i)
        A = np.concatenate([W[pattern], ridge])
        Z[rows] = Y[np.ix_(rows, pattern)] @ np.linalg.pinv(A)[:, : pattern.sum()].T
    return Z


def reconstruction(W: Array, Y: Array) -> Array:
    """Give the nearest points (n, D) to centred rows in the span of W, by the features seen."""
    return np.asarray(expected_latents(W, Y, noise=0.0) @ W.T)


def _decompose(A: Array, k: int, trace: Trace, name: str) -> Array:
    """Give the k leading eigenvectors of AᵀA by one step under the trace."""

    def solve() -> tuple[Array, float]:
        U = leading_of_factor(A, k)
        return U, float(np.sum((A @ U.T) ** 2))

    return trace.once(f"decomposition of '{name}'", solve)


def _weighted_factor(source: Task, task: Task, weight: float) -> Array:
    """Give A with AᵀA the weighted covariance of source and task; of the source where both are."""
    Y = source.X - source.X.mean(axis=0)
    if task.name == source.name:
        return np.asarray(Y / np.sqrt(max(len(Y) - 1, 1)))
    Yt = task.X - task.X.mean(axis=0)
    count = len(Y) - 1 + weight * (len(Yt) - 1)
    return np.asarray(np.concatenate([Y, np.sqrt(weight) * Yt]) / np.sqrt(count))
