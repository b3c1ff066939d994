"""The part of a discriminant model for one task, and its classifier."""

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from algorithms.families.projections.scatters import Scatters
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import times_roots

Classifier = Literal["nearest-neighbour", "nearest-centroid"]

#: Distances that differ by less than this, relative to the size of the rows, count as equal. If
#: classes collapse to points, rounding errors must not decide between them.
TIE_RTOL = 1e-12


@final
@dataclass(frozen=True, slots=True, eq=False)
class TaskProjection:
    """The projection and the references of one task.

    Parameters
    ----------
    U : (d_i, k_i)
        Projection; columns are orthonormal or not, depending on the algorithm.
    mean, scale : (d_i,)
        Rows are projected as ((x - mean) / scale) U.
    references : (m_i, d_i)
        Standardised training rows, or class means, with which rows are compared.
    prototypes : (m_i, k_i)
        Projected references.
    labels : (m_i,)
        Position of the class of each reference in ``classes``.
    classes
        Labels, sorted. In a task of a single class, the others have no reference.
    trace_ratio
        tr(UᵀS_bU) / tr(UᵀS_tU) on the training rows.
    W : (d_i, d') or None
        The task's own part of U = W P, for algorithms with such parts.
    """

    U: Array
    mean: Array
    scale: Array
    references: Array
    prototypes: Array
    labels: NDArray[np.int64]
    classes: tuple[str, ...] | tuple[int, ...]
    trace_ratio: float
    W: Array | None = None

    def standardised(self, rows: Array) -> Array:
        """Return standardised rows."""
        return (rows - self.mean) / self.scale


def build_part(
    scatters: Scatters, U: Array, *, classifier: Classifier, W: Array | None = None
) -> TaskProjection:
    """Return the part of a task with the projection U (d_i, k_i).

    Parameters
    ----------
    W : (d_i, d') or None
        The task's own part of U = W P, for algorithms with such parts.
    """
    if classifier == "nearest-neighbour":
        references, labels = scatters.rows, scatters.labels
    else:
        references, labels = scatters.class_means(), np.arange(scatters.n_classes)
    positions = np.searchsorted(scatters.task_classes, scatters.classes)
    return TaskProjection(
        U=U,
        mean=scatters.mean,
        scale=scatters.scale,
        references=references,
        prototypes=references @ U,
        labels=positions[labels].astype(np.int64),
        classes=tuple(scatters.task_classes.tolist()),
        trace_ratio=_trace_ratio(scatters, U),
        W=W,
    )


def _trace_ratio(scatters: Scatters, U: Array) -> float:
    """Return tr(UᵀS_bU) / tr(UᵀS_tU); 0 if there is no variance."""
    Z = scatters.rows @ U
    counts = scatters.counts[:, np.newaxis]
    means = (scatters.membership @ Z) / counts
    between = float(np.sum(counts * means**2))
    total = float(np.sum(times_roots(Z, scatters.weights) ** 2))
    return min(between / total, 1.0) if total > 0 else 0.0


def nearest_class(part: TaskProjection, rows: Array, distances: Array) -> NDArray[np.intp]:
    """Return the position of the nearest class of each row, (n,).

    Ties are broken as described in
    :class:`algorithms.families.projections.model.ProjectionClassifier`.

    Parameters
    ----------
    rows : (n, d_i)
        Standardised.
    distances : (n, m_i)
        Distances of the rows to the prototypes.
    """
    size = np.linalg.norm(rows, axis=1) + np.linalg.norm(part.references, axis=1).max()
    stretch = np.linalg.norm(part.U)  # Frobenius norm, a cheap bound on the spectral norm
    is_tied = _ties(distances, TIE_RTOL * stretch * size)
    chosen = part.labels[is_tied.argmax(axis=1)].astype(np.intp)
    is_other = is_tied & (part.labels != chosen[:, np.newaxis])
    unclear = np.flatnonzero(is_other.any(axis=1))
    if unclear.size:
        full = np.where(is_tied[unclear], cdist(rows[unclear], part.references), np.inf)
        by_class = per_class(full, part)
        chosen[unclear] = _ties(by_class, TIE_RTOL * size[unclear]).argmax(axis=1)
    return np.asarray(chosen)


def per_class(distances: Array, part: TaskProjection) -> Array:
    """Return the smallest distance to the references of each class, (n, n_classes).

    In a task of a single class, nothing is known about the distances to the others: they are
    farther by 1, so that the margin is the same for all rows.
    """
    farther = distances.min(axis=1) + 1.0
    is_of = [part.labels == k for k in range(len(part.classes))]
    return np.stack([distances[:, i].min(axis=1) if i.any() else farther for i in is_of], axis=1)


def _ties(distances: Array, tolerance: Array) -> NDArray[np.bool_]:
    """Return whether each distance equals the smallest of its row, (n, m)."""
    return np.asarray(distances <= (distances.min(axis=1) + tolerance)[:, np.newaxis])
