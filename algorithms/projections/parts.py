"""What a discriminant model keeps of each task, and the class that a row is nearest to."""

from dataclasses import dataclass
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from algorithms.projections.scatters import Scatters

Array = NDArray[np.float64]
Classifier = Literal["nearest-neighbour", "nearest-centroid"]

#: Distances closer than this part of the size of the rows are equal: rounding of a projection is
#: below it, and where classes collapse to a point rounding must not choose between them.
TIE_RTOL = 1e-12


@final
@dataclass(frozen=True, slots=True, eq=False)
class TaskProjection:
    """What is learned of one task.

    Parameters
    ----------
    U : (d_i, k_i)
        Columns; orthonormal or not, as the algorithm says.
    mean, scale : (d_i,)
        Rows are projected as ((x - mean) / scale) U.
    references : (m_i, d_i)
        What a row is compared with, standardised: the training rows, or the class means.
    prototypes : (m_i, k_i)
        The references projected: references U.
    labels : (m_i,)
        Position of the class of each reference in ``classes``.
    classes
        Labels, sorted.
    trace_ratio
        tr(UᵀS_bU) / tr(UᵀS_tU) on the training rows.
    W : (d_i, d') or None
        The task's own part of U = W P, where the algorithm has such parts.
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
        """Return the rows as they are projected."""
        return (rows - self.mean) / self.scale


def build_part(
    scatters: Scatters, U: Array, *, classifier: Classifier, W: Array | None = None
) -> TaskProjection:
    """Return what the model keeps of a task that is projected by U (d_i, k_i)."""
    if classifier == "nearest-neighbour":
        references, labels = scatters.rows, scatters.labels
    else:
        references, labels = scatters.class_means(), np.arange(scatters.n_classes)
    return TaskProjection(
        U=U,
        mean=scatters.mean,
        scale=scatters.scale,
        references=references,
        prototypes=references @ U,
        labels=labels.astype(np.int64),
        classes=tuple(scatters.classes.tolist()),
        trace_ratio=_trace_ratio(scatters, U),
        W=W,
    )


def _trace_ratio(scatters: Scatters, U: Array) -> float:
    """Return tr(UᵀS_bU) / tr(UᵀS_tU), 0 where there is no variance."""
    Z = scatters.rows @ U
    counts = np.bincount(scatters.labels)
    means = np.stack([Z[scatters.labels == k].mean(axis=0) for k in range(len(counts))])
    between, total = float(np.sum(counts[:, np.newaxis] * means**2)), float(np.sum(Z**2))
    return min(between / total, 1.0) if total > 0 else 0.0


def nearest_class(part: TaskProjection, rows: Array, near: Array) -> NDArray[np.intp]:
    """Return the position of the class of each row, ties broken as the model says, (n,).

    Parameters
    ----------
    rows : (n, d_i)
        Standardised.
    near : (n, m_i)
        Their distances to the prototypes.
    """
    size = np.linalg.norm(rows, axis=1) + np.linalg.norm(part.references, axis=1).max()
    stretch = np.linalg.norm(part.U)  # of Frobenius: no less than the largest stretch, and cheap
    is_tied = _ties(near, TIE_RTOL * stretch * size)
    chosen = part.labels[is_tied.argmax(axis=1)].astype(np.intp)
    n_tied_classes = per_class(np.where(is_tied, 0.0, np.inf), part) == 0.0
    unclear = np.flatnonzero(n_tied_classes.sum(axis=1) > 1)
    if unclear.size:
        full = np.where(is_tied[unclear], cdist(rows[unclear], part.references), np.inf)
        by_class = per_class(full, part)
        chosen[unclear] = _ties(by_class, TIE_RTOL * size[unclear]).argmax(axis=1)
    return np.asarray(chosen)


def per_class(distances: Array, part: TaskProjection) -> Array:
    """Return the least of the distances to references of each class, (n, n_classes)."""
    columns = [distances[:, part.labels == k].min(axis=1) for k in range(len(part.classes))]
    return np.stack(columns, axis=1)


def _ties(distances: Array, tolerance: Array) -> NDArray[np.bool_]:
    """Return which columns are as near as the nearest, (n, m)."""
    return np.asarray(distances <= (distances.min(axis=1) + tolerance)[:, np.newaxis])
