"""The tasks as linear problems see them: standardised rows or kernel coordinates, and targets.

Tasks stand in the order of their names, so that every sum rounds alike in whatever order they came.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.errors import InvalidData
from algorithms.interface.needs import check_classes
from algorithms.interface.target_scales import ScaleTargets, deviation, target_scale
from algorithms.interface.tasks import TaskSet, TaskSummary, check_magnitudes
from algorithms.linear.bases import Basis, Kernel, Standardise, standardising
from algorithms.linear.targets import (
    Targets,
    code_targets,
    power_of_two,
    prior_of_targets,
    unit_of,
)
from algorithms.numerics.centering import column_means
from algorithms.numerics.moderated_scales import ScalePrior
from algorithms.numerics.stacks import Block

Array = NDArray[np.float64]

#: Most rows of all tasks together in a kernel form, which decomposes their Gram matrix in O(n³).
MOST_KERNEL_ROWS = 5_000
#: Part of the largest eigenvalue below which a direction of the rows is rounding.
RANK_RTOL = 1e-12


@dataclass(frozen=True, slots=True)
class Form:
    """What a row becomes."""

    standardise: Standardise
    kernel: Kernel = "linear"
    width: float = 1.0
    degree: int = 2


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """The tasks in the order of their names.

    Parameters
    ----------
    rows
        Coordinates of each task's rows, (n_t, q).
    back : (p, q) or None
        Coordinates are (what the basis gives) ``back``; ``None`` where they are that itself.
    prior
        What a new task's targets are scaled by, before its own rows tell.
    row_unit
        What coordinates are divided by; 1 where columns are standardised or a kernel is used.
    """

    names: tuple[str, ...]
    rows: tuple[Array, ...]
    targets: tuple[Targets, ...]
    basis: Basis
    back: Array | None
    prior: ScalePrior
    row_unit: float = 1.0

    @property
    def target_unit(self) -> float:
        """What numbers are divided by in every task; 1 where tasks have scales of their own."""
        return unit_of(self.prior)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Columns of targets of each task."""
        return tuple(one.Y.shape[1] for one in self.targets)

    def blocks(self, *, centre: bool) -> list[Block]:
        """Return the rows and targets of each task, about their means if asked for."""
        starts = np.cumsum([0, *self.sizes])
        found = []
        for start, rows, one in zip(starts, self.rows, self.targets, strict=False):
            X, Y = (_centred(rows), _centred(one.Y)) if centre else (rows, one.Y)
            found.append(Block(X, Y, start + np.arange(Y.shape[1])))
        return found

    def intercepts(self, W: Array) -> Array:
        """Return b (T,) that makes the mean residual zero for W (T, q)."""
        starts = np.cumsum([0, *self.sizes])
        return np.concatenate(
            [
                column_means(one.Y) - W[start : start + size] @ column_means(X)
                for start, size, X, one in zip(
                    starts, self.sizes, self.rows, self.targets, strict=False
                )
            ]
        )

    def fitted(self, W: Array, b: Array) -> list[Array]:
        """Return the values (n_t, m_t) of the functions W (T, q) and b (T,) at each task's rows."""
        starts = np.cumsum([0, *self.sizes])
        return [
            X @ W[start : start + size].T + b[start : start + size]
            for start, size, X in zip(starts, self.sizes, self.rows, strict=False)
        ]

    def lift(self, W: Array) -> Array:
        """Return directions W (T, q) on the numbers of the basis, (p, T)."""
        return W.T if self.back is None else self.back @ W.T

    def weights(self, W: Array) -> Array:
        """Return (p, T), what the numbers of the basis are multiplied with, for W (T, q)."""
        return self.lift(W) / self.row_unit


def check_targets(summaries: Sequence[TaskSummary], *, algorithm: str) -> None:
    """Raise InvalidData for a task of one class."""
    if summaries[0].target == "classes":
        check_classes(summaries, algorithm=algorithm)


def check_size(summaries: Sequence[TaskSummary], *, algorithm: str, kernel: Kernel) -> None:
    """Raise InvalidData for more rows than a kernel can take."""
    n = sum(task.n_samples for task in summaries)
    if kernel != "linear" and n > MOST_KERNEL_ROWS:
        raise InvalidData(
            f"{algorithm} with kernel '{kernel}' takes up to {MOST_KERNEL_ROWS} rows in all, got "
            f"{n}; use kernel 'linear' or fewer rows"
        )


def prepare(
    tasks: TaskSet,
    form: Form,
    *,
    scale_targets: ScaleTargets,
    has_intercept: bool,
    coordinates: Literal["kernel", "rotated", "own"] = "rotated",
) -> Design:
    """Return the tasks as linear problems, in units whose squares neither overflow nor vanish.

    Parameters
    ----------
    has_intercept
        Deviations of targets are about the mean of their task; else about 0.
    coordinates
        ``"own"``: what the basis gives. ``"rotated"``: orthogonal coordinates of the span of the
        rows where that is smaller or a kernel is used; for penalties that do not change under a
        rotation. ``"kernel"``: rows of the Gram matrix.

    Raises
    ------
    InvalidData
        Values are so large or so small that no unit helps; names task and column.
    """
    check_magnitudes(tasks)
    ordered = tasks.by_name()
    union = np.concatenate([task.X for task in ordered])
    mean, scale = standardising(union, form.standardise)
    basis = Basis(mean, scale)
    X, back = (union - mean) / scale, None
    row_unit = unit_of_rows(X, form)
    if form.kernel != "linear":
        basis = Basis(mean, scale, X, form.kernel, form.width, form.degree)
        X = _finite_gram(basis)
        if coordinates == "rotated":
            X, back = _gram_coordinates(X)
    else:
        X = X / row_unit
    if form.kernel == "linear" and coordinates == "rotated" and X.shape[0] < X.shape[1]:
        back = _span(X)
        X = X @ back
    ends = np.cumsum([task.n_samples for task in ordered])[:-1]
    prior = prior_of_targets(ordered.tasks, scale_targets, has_intercept=has_intercept)
    scales = [target_scale(task, prior, is_centered=has_intercept) for task in ordered]
    return Design(
        names=tuple(task.name for task in ordered),
        rows=tuple(np.split(X, ends)),
        targets=tuple(map(code_targets, ordered, scales)),
        basis=basis,
        back=back,
        prior=prior,
        row_unit=row_unit,
    )


def unit_of_rows(rows: Array, form: Form) -> float:
    """Return what raw columns are divided by; 1 where they are standardised or a kernel is used."""
    is_raw = form.standardise == "none" and form.kernel == "linear"
    return power_of_two(deviation([rows], is_centered=False)) if is_raw else 1.0


def _centred(rows: Array) -> Array:
    return np.asarray(rows - column_means(rows))


def _finite_gram(basis: Basis) -> Array:
    """Return the kernel between the training rows, (n, n)."""
    with np.errstate(over="ignore"):
        K = basis.gram()
    if not np.isfinite(K).all():
        raise InvalidData(
            f"values of the kernel '{basis.kernel}' overflow at the scale of these rows; rescale "
            "them, or use standardise 'features'"
        )
    return K


def _gram_coordinates(K: Array) -> tuple[Array, Array]:
    """Return L with LLᵀ = K, and ``back`` with L = K back."""
    values, V = np.linalg.eigh(K)
    is_kept = values > RANK_RTOL * max(values[-1], 0.0)
    root = np.sqrt(values[is_kept])
    return V[:, is_kept] * root, V[:, is_kept] / root


def _span(X: Array) -> Array:
    """Return an orthonormal basis (d, r) of the span of the rows."""
    _, s, right = np.linalg.svd(X, full_matrices=False)
    n_kept = max(int(np.sum(s**2 > RANK_RTOL * s[0] ** 2)), 1)
    return np.asarray(right[:n_kept].T)
