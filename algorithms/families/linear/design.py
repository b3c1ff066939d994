"""Preparation of tasks for linear methods: standardised rows or kernel coordinates, and targets.

Tasks are in the order of their names, so that results do not depend on the order of the dataset.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from algorithms.families.linear.bases import Basis, Kernel, Standardise, fit_standardisation
from algorithms.families.linear.targets import (
    Targets,
    encode_targets,
    power_of_two,
    prior_of_targets,
    unit_of,
)
from algorithms.interface.errors import InvalidData
from algorithms.interface.needs import check_classes
from algorithms.interface.target_scales import ScaleTargets, deviation, target_scale
from algorithms.interface.tasks import TaskSet, TaskSummary, check_magnitudes
from algorithms.interface.weights import joint_weights
from algorithms.interface.work import VALUE_BYTES, MemoryEstimate, estimate_rows
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import column_means
from algorithms.numerics.least_squares import LeastSquares, weighted
from algorithms.numerics.moderated_scales import ScalePrior
from algorithms.numerics.sparse_rows import (
    Span,
    StandardisedRows,
    concatenate_rows,
    is_sparse,
)
from algorithms.numerics.stacks import Block

#: Maximum number of rows of all tasks with a kernel, whose matrix is decomposed in O(n³).
MAX_KERNEL_ROWS = 5_000
#: Copies of the rows, and matrices as large as the Gram matrix, at the peak of a fit.
DESIGN_COPIES = 6
GRAM_COPIES = 4
#: Eigenvalues below this, relative to the largest, count as 0.
RANK_RTOL = 1e-12


@dataclass(frozen=True, slots=True)
class Form:
    """Parameters of the basis functions."""

    standardise: Standardise
    kernel: Kernel = "linear"
    width: float = 1.0
    degree: int = 2


@dataclass(frozen=True, eq=False)
class Design:
    """Rows and targets of all tasks, in the order of their names.

    Parameters
    ----------
    rows
        Coordinates of each task's rows, (n_t, q).
    targets
        Encoded targets of each task.
    basis
        Basis functions.
    back : (p, q) or None
        Coordinates are basis values times ``back``, or the basis values themselves if it is None.
        It is a :class:`Span` for sparse rows.
    prior
        Prior of the scale of a new task's targets.
    row_unit
        Divisor of the coordinates; 1 with standardised columns or a kernel.
    """

    names: tuple[str, ...]
    rows: tuple[Array, ...]
    targets: tuple[Targets, ...]
    basis: Basis
    back: Array | Span | None
    prior: ScalePrior
    row_unit: float = 1.0

    @property
    def target_unit(self) -> float:
        """Common divisor of numeric targets; 1 if each task has its own scale."""
        return unit_of(self.prior)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of target columns of each task."""
        return tuple(target.Y.shape[1] for target in self.targets)

    @property
    def columns(self) -> list[slice]:
        """Positions of each task's target columns among those of all tasks."""
        ends = np.cumsum(self.sizes).tolist()
        return [slice(end - size, end) for size, end in zip(self.sizes, ends, strict=True)]

    @property
    def weights_of_rows(self) -> Array | None:
        """Weights of the rows of all tasks, (n,); None without."""
        if all(target.weights is None for target in self.targets):
            return None
        return np.concatenate(
            [
                np.ones(len(target.Y)) if target.weights is None else target.weights
                for target in self.targets
            ]
        )

    def take(self, tasks: NDArray[np.intp]) -> "Design":
        """Return the design of the tasks at some positions, in the same coordinates."""
        names, rows, targets = (
            tuple(values[t] for t in tasks) for values in (self.names, self.rows, self.targets)
        )
        return replace(self, names=names, rows=rows, targets=targets)

    def with_opposite_rows(self) -> "Design":
        """Return the design with half a row of the opposite labels in tasks of a single class.

        Without it, a loss of margins has no optimum there: the intercept is infinite. With it, the
        coefficients of the task are 0, and the intercept is finite: for n rows and the logistic
        loss the log-odds of n to ½, the estimate of Haldane and Anscombe. The row is the mean
        of the task's rows, so that it changes nothing else.
        """
        parts = [with_opposite_row(*part) for part in zip(self.rows, self.targets, strict=True)]
        rows, targets = zip(*parts, strict=True)
        return replace(self, rows=rows, targets=targets)

    def blocks(self, *, centre: bool) -> list[Block]:
        """Return the rows and targets of each task, centred and times the roots of the weights."""
        return [weighted(block, centre=centre) for block in self.weighted_blocks()]

    def least_squares(self, *, centre: bool) -> LeastSquares:
        """Return the compressed least-squares problems of the tasks, centred as :meth:`blocks`."""
        if centre not in self._least_squares:
            self._least_squares[centre] = LeastSquares.of(self.weighted_blocks(), centre=centre)
        return self._least_squares[centre]

    @cached_property
    def _least_squares(self) -> dict[bool, LeastSquares]:
        return {}

    def weighted_blocks(self) -> list[Block]:
        """Return the rows, targets and weights of each task as they are."""
        return [
            Block(rows, target.Y, np.arange(part.start, part.stop), target.weights)
            for part, rows, target in zip(self.columns, self.rows, self.targets, strict=True)
        ]

    def intercepts(self, W: Array) -> Array:
        """Return the b (T,) for which the (weighted) mean residual is 0, given W (T, q)."""
        return np.concatenate(
            [
                column_means(target.Y, target.weights) - W[part] @ column_means(X, target.weights)
                for part, X, target in zip(self.columns, self.rows, self.targets, strict=True)
            ]
        )

    def fitted(self, W: Array, b: Array) -> list[Array]:
        """Return the values (n_t, m_t) of the functions W (T, q) and b (T,) at each task's rows."""
        return [X @ W[part].T + b[part] for part, X in zip(self.columns, self.rows, strict=True)]

    def lift(self, W: Array) -> Array:
        """Return W (T, q) in terms of the basis values, (p, T)."""
        return W.T if self.back is None else self.back @ W.T

    def weights(self, W: Array) -> Array:
        """Return the coefficients of the basis values, (p, T), for W (T, q)."""
        return self.lift(W) / self.row_unit


def with_opposite_row(X: Array, targets: Targets) -> tuple[Array, Targets]:
    """Return rows and targets with half a row of the opposite labels if all labels are equal."""
    Y, weights = targets.Y, targets.weights
    if targets.classes is None or not (Y[0] == Y).all():
        return X, targets
    own_weights = np.ones(len(Y)) if weights is None else weights
    return np.concatenate([X, column_means(X, weights)[np.newaxis]]), replace(
        targets, Y=np.concatenate([Y, -Y[:1]]), weights=np.append(own_weights, 0.5)
    )


def check_targets(summaries: Sequence[TaskSummary], *, algorithm: str) -> None:
    """Raise InvalidData if a task has only one class."""
    if summaries[0].target == "classes":
        check_classes(summaries, algorithm=algorithm)


def check_size(summaries: Sequence[TaskSummary], *, algorithm: str, kernel: Kernel) -> None:
    """Raise InvalidData if there are too many rows for a kernel."""
    n = sum(task.n_samples for task in summaries)
    if kernel != "linear" and n > MAX_KERNEL_ROWS:
        raise InvalidData(
            f"{algorithm} with kernel '{kernel}' supports up to {MAX_KERNEL_ROWS} rows in total, "
            f"got {n}; use kernel 'linear' or fewer rows"
        )


def estimate_design(summaries: Sequence[TaskSummary], *, kernel: Kernel) -> MemoryEstimate:
    """Return the expected memory of the design and of a fit of it."""
    n = sum(task.n_samples for task in summaries)
    rows = estimate_rows(summaries, copies=DESIGN_COPIES)
    if kernel == "linear" and n >= summaries[0].n_features:
        return rows
    # coordinates by the decomposition of a Gram matrix
    gram = GRAM_COPIES * VALUE_BYTES * n**2
    largest = f"the Gram matrix of {n:,} rows, and their coordinates"
    return MemoryEstimate(rows.n_bytes + gram, largest, "use fewer rows or kernel 'linear'")


def prepare(
    tasks: TaskSet,
    form: Form,
    *,
    scale_targets: ScaleTargets,
    has_intercept: bool,
    coordinates: Literal["kernel", "rotated", "own"] = "rotated",
) -> Design:
    """Return the design of the tasks, in units in which squares neither overflow nor underflow.

    Parameters
    ----------
    has_intercept
        Deviations of targets are from the mean of their task if true, from 0 otherwise.
    coordinates
        ``"own"``: the basis values. ``"rotated"``: orthogonal coordinates of the span of the rows,
        if they are fewer or a kernel is used; for penalties that are invariant under rotations.
        ``"kernel"``: rows of the Gram matrix.

    Raises
    ------
    InvalidData
        Values are too large or too small; the message names task and column.
    """
    check_magnitudes(tasks)
    ordered = tasks.by_name()
    union = concatenate_rows([task.X for task in ordered])
    if is_sparse(union) and union.shape[0] >= union.shape[1]:
        union = union.toarray()  # there are as many coordinates
    weights = joint_weights(ordered)
    X, basis, back, row_unit = _coordinates(union, form, coordinates, weights)
    ends = np.cumsum([task.n_samples for task in ordered])[:-1]
    prior = prior_of_targets(ordered.tasks, scale_targets, has_intercept=has_intercept)
    scales = [target_scale(task, prior, is_centered=has_intercept) for task in ordered]
    return Design(
        names=tuple(task.name for task in ordered),
        rows=tuple(np.split(X, ends)),
        targets=tuple(map(encode_targets, ordered, scales)),
        basis=basis,
        back=back,
        prior=prior,
        row_unit=row_unit,
    )


def _coordinates(
    union: Array,
    form: Form,
    coordinates: Literal["kernel", "rotated", "own"],
    weights: Array | None,
) -> tuple[Array, Basis, Array | Span | None, float]:
    """Return coordinates, basis, ``back`` and unit of the rows of all tasks."""
    mean, scale = fit_standardisation(union, form.standardise, weights)
    basis = Basis(mean, scale)
    if is_sparse(union):
        row_unit = unit_of_rows(union, form)
        rows = StandardisedRows.of(union, mean, scale * row_unit)
        span = Span.of(rows, rows.gram(), rtol=RANK_RTOL)
        return span.coordinates, basis, span, row_unit
    X: Array = union - mean
    X /= scale
    if form.kernel != "linear":
        basis = Basis(mean, scale, X, form.kernel, form.width, form.degree)
        K, back = _finite_gram(basis), None
        if coordinates == "rotated":
            K, back = _gram_coordinates(K)
        return K, basis, back, 1.0
    row_unit = unit_of_rows(X, form)
    X /= row_unit
    if coordinates == "rotated" and X.shape[0] < X.shape[1]:
        back = _span(X)
        return X @ back, basis, back, row_unit
    return X, basis, None, row_unit


def unit_of_rows(rows: Array, form: Form) -> float:
    """Return the common divisor of raw rows; 1 if columns are standardised or a kernel is used."""
    if form.standardise != "none" or form.kernel != "linear":
        return 1.0
    if is_sparse(rows):
        stored = np.asarray(rows.data)
        of_stored = deviation([stored], is_centered=False) if len(stored) else 0.0
        return power_of_two(of_stored * math.sqrt(len(stored) / math.prod(rows.shape)))
    return power_of_two(deviation([rows], is_centered=False))


def _finite_gram(basis: Basis) -> Array:
    """Return the kernel matrix of the training rows, (n, n); raise InvalidData on overflow."""
    with np.errstate(over="ignore"):
        K = basis.gram()
    if not np.isfinite(K).all():
        raise InvalidData(
            f"values of the kernel '{basis.kernel}' overflow for these rows; rescale the rows, or "
            "use standardise 'features'"
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
