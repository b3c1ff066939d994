"""The model of probabilistic PCA."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, final

import numpy as np

from algorithms.interface.model import Model, check_array
from algorithms.numerics.arrays import Array


@final
@dataclass(frozen=True, slots=True, eq=False)
class PPCAModel(Model):
    """Probabilistic PCA for each task: y ~ N(Wz + mean, σ²I), z ~ N(0, I).

    Parameters
    ----------
    W : (n_tasks, n_features, k)
        Columns in order of decreasing length; the largest entry of each by absolute value is
        positive.
    mean : (n_tasks, n_features)
    noise : (n_tasks,)
        σ².
    r2 : (n_tasks,)
        Explained share of the variance of the training rows.
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
        """Explained share of the variance of the training rows."""
        return {"r2": {name: float(x) for name, x in zip(self.tasks, self.r2, strict=True)}}

    def width(self, method: str, *, task: str) -> int:
        """Return k for ``inverse_transform``, the number of features otherwise."""
        self.task_index(task)
        return int(self.W.shape[2 if method == "inverse_transform" else 1])

    def transform(self, X: object, *, task: str) -> Array:
        """Return the expected latents (WᵀW + σ²I)⁻¹ Wᵀ (x - mean), (n_samples, k).

        They follow from the observed features.
        """
        return self._latents(X, "transform", task)

    def inverse_transform(self, Z: object, *, task: str) -> Array:
        """Return the rows Wz + mean (n_samples, n_features) for latents Z (n_samples, k)."""
        rows = self.check_rows(Z, method="inverse_transform", task=task)
        t = self.task_index(task)
        return np.asarray(rows @ self.W[t].T + self.mean[t])

    def reconstruct(self, X: object, *, task: str) -> Array:
        """Return the reconstructed rows, with missing values filled in, (n_samples, n_features).

        A complete row is projected onto the subspace, because this has the smallest squared error
        (Tipping and Bishop, section 3.3). A row with missing values becomes Wz + mean with the
        expected latent z, which is shrunk towards 0 if few values are known.
        """
        t = self.task_index(task)
        rows = self.check_rows(X, method="reconstruct", task=task)
        Y = rows - self.mean[t]
        is_complete = ~np.isnan(Y).any(axis=1)
        centred = expected_latents(self.W[t], Y, noise=float(self.noise[t])) @ self.W[t].T
        centred[is_complete] = reconstruction(self.W[t], Y[is_complete])
        return np.asarray(centred + self.mean[t])

    def _latents(self, X: object, method: str, task: str) -> Array:
        rows = self.check_rows(X, method=method, task=task)
        t = self.task_index(task)
        return expected_latents(self.W[t], rows - self.mean[t], noise=float(self.noise[t]))

    def learned(self) -> dict[str, Any]:
        """Return the loadings as rows, the means, and the variances of the noise."""
        arrays = {
            "components": np.swapaxes(self.W, 1, 2),
            "mean": self.mean,
            "noise_variance": self.noise,
        }
        return arrays if len(self.tasks) > 1 else {name: stack[0] for name, stack in arrays.items()}

    def check_stored(self) -> None:
        """Raise ValueError if the arrays and the header of a file do not fit together."""
        T, d, k = len(self.tasks), *self.W.shape[1:]
        expected = {"W": (T, d, k), "mean": (T, d), "noise": (T,), "r2": (T,)}
        for name, shape in expected.items():
            check_array(getattr(self, name), shape, name=name)


def expected_latents(W: Array, Y: Array, *, noise: float) -> Array:
    """Return the expected latents (n, k) of centred rows Y (n, D); NaN marks missing values.

    They minimise ‖y - Wz‖² + σ²‖z‖² over the observed features. It is solved as a least-squares
    problem, so σ² may be 0.
    """
    Z = np.empty((len(Y), W.shape[1]))
    is_observed = ~np.isnan(Y)
    patterns, which = np.unique(is_observed, axis=0, return_inverse=True)
    ridge = np.sqrt(noise) * np.eye(W.shape[1])
    for i, pattern in enumerate(patterns):
        rows = np.flatnonzero(which.ravel() == i)
        A = np.concatenate([W[pattern], ridge])
        Z[rows] = Y[np.ix_(rows, pattern)] @ np.linalg.pinv(A)[:, : pattern.sum()].T
    return Z


def reconstruction(W: Array, Y: Array) -> Array:
    """Return the points (n, D) in the span of W that are nearest to centred rows.

    Only the observed features of a row count in its distance.
    """
    return np.asarray(expected_latents(W, Y, noise=0.0) @ W.T)
