"""Scatter matrices of labelled tasks, in an orthonormal basis of the span of their rows.

The centred rows of a task span r <= min(d, n - 1) dimensions. In the basis V of a thin singular
value decomposition, S_t is diagonal and S_b has a factor with one row per class; outside the span
both are 0. This is exact and costs O(n²d) instead of O(d³).
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import times_roots
from algorithms.numerics.eigen import complete, fix_signs, svd_of_centred
from algorithms.numerics.trace_ratio import Pencil

Standardise = Literal["center", "scale", "features"]

#: Singular values below this, relative to the largest, count as 0, because their squares are below
#: the rounding errors of the scatter matrices.
RANK_RTOL = 1e-9
#: Rounding error of a mean, relative to the largest entry of its column.
MEAN_RTOL = 16 * float(np.finfo(np.float64).eps)
#: Range of absolute entries; squares outside may overflow or underflow.
SIZE_RANGE = (1e-100, 1e100)


@dataclass(frozen=True, slots=True, eq=False)
class Scatters:
    """The scatter matrices of a standardised task in a basis of the span of its rows.

    Parameters
    ----------
    mean, scale : (d,)
        Standardised rows are (x - mean) / scale.
    rows : (n, d)
        Standardised rows.
    V : (d, r)
        Orthonormal basis of their span, in order of decreasing variance.
    total : (r,)
        S_t = V diag(total) Vᵀ.
    between : (n_classes, r)
        B with S_b = V BᵀB Vᵀ: √(n_k/n)·(mean of class k) V.
    classes : (n_classes,)
        Labels, sorted.
    labels : (n,)
        Position of the label of each row in ``classes``.
    task_classes
        Labels that the task can have, sorted: more than ``classes`` if its rows have only one.
    n_features
        Number of columns of the task, which is more than d if the rows are coordinates of a span.
    weights : (n,) or None
        Weights of the rows in all means and scatter matrices; equal by default. Counts are then
        sums of weights.
    """

    name: str
    mean: Array
    scale: Array
    rows: Array
    V: Array
    total: Array
    between: Array
    classes: NDArray[Any]
    labels: NDArray[np.intp]
    task_classes: NDArray[Any]
    n_features: int
    weights: Array | None = None

    @property
    def membership(self) -> Array:
        """Weight of each row in each class, (n_classes, n); 0 for rows of other classes."""
        return _membership(self.labels, self.n_classes, self.weights)

    @property
    def counts(self) -> Array:
        """Number of rows of each class, (n_classes,), or the sums of their weights."""
        return np.asarray(np.bincount(self.labels, weights=self.weights), dtype=np.float64)

    @property
    def rank(self) -> int:
        """Dimension r of the span."""
        return int(self.V.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.classes.size)

    @property
    def is_regular(self) -> bool:
        """Whether the rows have full rank in the columns that are not constant."""
        return self.rank == int(np.sum(np.any(self.rows != 0.0, axis=0)))

    def ridge(self, gamma: float) -> float:
        """Return ρ = γ tr(S_t)/d, which is added to the diagonal of S_t."""
        return gamma * float(self.total.sum()) / self.n_features

    def within(self) -> Array:
        """Return H (n, r) with S_w = HᵀH: the deviations from class means divided by √n."""
        counts = self.counts
        n = counts.sum()
        means = self.between / np.sqrt(counts / n)[:, np.newaxis]
        deviations = self.rows @ self.V - means[self.labels]
        return np.asarray(times_roots(deviations, self.weights) / np.sqrt(n))

    def class_means(self) -> Array:
        """Return the mean of the rows of each class, (n_classes, d)."""
        return np.asarray(self.membership @ self.rows / self.counts[:, np.newaxis])

    def pencil(self, *, d: int, gamma: float, null: Literal["keep", "exclude"]) -> Pencil:
        """Return S_b and S_t for a trace ratio over at most d directions.

        Parameters
        ----------
        null
            Whether directions outside the span are allowed.
        """
        available = self.dimensions(null)
        n_fillers = available - self.rank
        return Pencil(self.between, self.total, self.ridge(gamma), min(d, available), n_fillers)

    def dimensions(self, null: Literal["keep", "exclude"]) -> int:
        """Return the maximum number of directions of U."""
        return self.n_features if null == "keep" else self.rank

    def in_span(self) -> "Scatters":
        """Return the same scatter matrices with coordinates V of the span as columns.

        A task without variance has one column of zeros.
        """
        r = max(self.rank, 1)
        rows = self.rows @ self.V if self.rank else np.zeros((len(self.rows), 1))
        return replace(self, mean=np.zeros(r), scale=np.ones(r), rows=rows, V=np.eye(r, self.rank))

    def coordinates(self, X: Array) -> Array:
        """Return rows (m, d) as rows of :meth:`in_span`, (m, r), without their parts outside."""
        rows = (X - self.mean) / self.scale
        return rows @ self.V if self.rank else np.zeros((len(X), 1))

    def lift(self, Y: Array, *, k: int) -> Array:
        """Return U (d, k): the columns V Y, and further orthonormal columns outside their span.

        Parameters
        ----------
        Y : (r, m)
            Columns must be orthonormal if m < k.
        """
        U = fix_signs(Y.T @ self.V.T)
        n_missing = k - Y.shape[1]
        if n_missing == 0:
            return np.ascontiguousarray(U.T)
        filled = complete(self.V.T, self.rank + n_missing)[self.rank :]
        return np.ascontiguousarray(np.concatenate([U, filled]).T)


def estimate_scatters(task: Task, *, standardise: Standardise = "center") -> Scatters:
    """Return the scatter matrices of a task with class labels.

    Parameters
    ----------
    standardise
        ``"center"``: subtract the mean only. ``"scale"``: also divide the task by one number, so
        that tr S_t = 1. ``"features"``: divide each column by its standard deviation.

    Raises
    ------
    InvalidData
        Values are too large or too small.
    """
    assert task.y is not None
    largest = np.abs(task.X).max(axis=0)
    _check_range(task.name, float(largest.max()))
    w = task.weights
    mean = task.X.mean(axis=0) if w is None else w @ task.X / w.sum()
    centred = task.X - mean
    # constant columns are exactly 0 after centring, without rounding errors
    noise = MEAN_RTOL * largest
    centred[:, np.abs(centred).max(axis=0) <= noise] = 0.0
    scale = _scale_of(centred, standardise, w)
    rows = centred / scale
    n = float(len(rows) if w is None else w.sum())
    left, s, Vt = svd_of_centred(times_roots(rows, w))
    s = s / np.sqrt(n)
    floor = max(RANK_RTOL * float(s[0]), float(np.linalg.norm(noise / scale)))
    rank = int((s > floor).sum())
    Vt = Vt[:rank]
    axes = fix_signs(Vt)
    signs = np.einsum("rd,rd->r", axes, Vt)
    classes, labels = np.unique(task.y, return_inverse=True)
    counts = np.bincount(labels, weights=w)
    roots = None if w is None else np.sqrt(w)
    members = _membership(labels, classes.size, roots)
    sums = (members @ left[:, :rank]) * (s[:rank] * signs * np.sqrt(n))
    between = sums / np.sqrt(counts * n)[:, np.newaxis]
    return Scatters(
        name=task.name,
        mean=mean,
        scale=scale,
        rows=rows,
        V=np.ascontiguousarray(axes.T),
        total=s[:rank] ** 2,
        between=between,
        classes=classes,
        labels=labels.astype(np.intp),
        task_classes=task.class_labels(),
        n_features=task.n_features,
        weights=w,
    )


def _membership(labels: NDArray[np.intp], n_classes: int, weights: Array | None) -> Array:
    """Return the weight of each row in each class, (n_classes, n); 0 for rows of other classes."""
    is_member = labels == np.arange(n_classes)[:, np.newaxis]
    return np.asarray(is_member * (1.0 if weights is None else weights))


def _scale_of(centred: Array, standardise: Standardise, weights: Array | None) -> Array:
    """Return the divisor of each column, (d,); 1 if there is no variance."""
    squares = centred**2
    variances = squares.mean(axis=0) if weights is None else weights @ squares / weights.sum()
    if standardise == "center":
        return np.ones_like(variances)
    if standardise == "scale":
        variances = np.full_like(variances, variances.sum())
    return np.sqrt(np.where(variances > 0, variances, 1.0))


def _check_range(name: str, largest: float) -> None:
    low, high = SIZE_RANGE
    if not (low <= largest <= high or largest == 0):
        raise InvalidData(
            f"task '{name}' has entries up to {largest:.3g}; expected zero or {low:g} to "
            f"{high:g}: rescale the data",
            task=name,
        )
