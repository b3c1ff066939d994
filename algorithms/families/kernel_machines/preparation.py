"""Preparation of tasks for a solver: standardised rows, and a kernel matrix or features."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.sparse.linalg import eigsh

from algorithms.families.kernel_machines.examples import Examples, examples_of
from algorithms.families.kernel_machines.input_kernels import (
    InputKernel,
    Standardiser,
    fit_standardiser,
    nystrom_map,
    relative_gamma,
)
from algorithms.families.kernel_machines.losses import CLASS_LOSSES, NUMBER_LOSSES, Loss
from algorithms.families.kernel_machines.output_kernels import (
    OutputKernel,
    learned_kernel,
    relative_lam,
)
from algorithms.families.kernel_machines.params import KernelParams, MachineParams, PenaltyParams
from algorithms.interface.errors import InvalidData, InvalidParams, TargetsTooLarge
from algorithms.interface.needs import refuse_sparse
from algorithms.interface.target_scales import numeric_targets, scale_prior
from algorithms.interface.tasks import TaskSet, TaskSummary, check_magnitudes
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import weighted_mean
from algorithms.numerics.sparse_rows import Span, StandardisedRows, is_sparse

#: Relative asymmetry, and relative size of negative eigenvalues, accepted as rounding errors.
SYMMETRY_RTOL = 1e-8
SEMIDEFINITE_RTOL = 1e-8
#: Largest root mean square of scaled targets; above it, a useless duality gap is due to their size.
MAX_TARGET_SIZE = 100.0
#: A relative gap above this, the largest tolerance, certifies nothing.
MAX_RELATIVE_GAP = 0.5
#: Eigenvalues of the Gram matrix of sparse rows below this, relative to the largest, count as 0.
SPAN_RTOL = 1e-12
#: Smallest number of rows for which Lanczos' method computes the smallest eigenvalue.
MIN_LANCZOS_ROWS = 500


@dataclass(frozen=True, eq=False)
class Prepared:
    """Examples with their kernel matrix or features.

    Parameters
    ----------
    examples
        ``examples.X`` are features if there is no kernel matrix, standardised rows otherwise.
    K : (N, N) or None
        Kernel matrix.
    kernel, standardiser
        The kernel is a function of standardised rows.
    features : (N, q) or None
        Features of a linear kernel, or of landmarks.
    landmarks, expand : (m, d), (m, q) or None
        Features are k(x, landmarks) expand.
    span
        The features are coordinates of sparse rows in this span, and the bias.
    """

    examples: Examples
    K: Array | None
    kernel: InputKernel
    standardiser: Standardiser
    features: Array | None = None
    landmarks: Array | None = None
    expand: Array | None = None
    span: Span | None = None

    def lift(self, W: Array) -> Array:
        """Return weights W (q, k) of the features as weights of the columns, and of the bias."""
        if self.span is None:
            return W
        r = len(self.span.s)
        return np.concatenate([self.span @ W[:r], W[r:]])

    @cached_property
    def eigen(self) -> tuple[Array, Array]:
        """Eigenvalues and eigenvectors of K, or of ZᵀZ for features Z; the same for every C."""
        matrix = self.examples.X.T @ self.examples.X if self.K is None else self.K
        values, vectors = np.linalg.eigh(matrix)
        return values, vectors


def check_machine(
    summaries: Sequence[TaskSummary], params: MachineParams, *, algorithm: str
) -> None:
    """Raise InvalidData or InvalidParams if loss, kernel or memory are unsuitable for the tasks."""
    kind = summaries[0].target
    allowed = NUMBER_LOSSES if kind == "numbers" else CLASS_LOSSES
    if params.loss not in ("auto", *allowed):
        raise InvalidParams(
            f"the loss '{params.loss}' cannot be used with targets that are {kind}; use one of "
            f"{', '.join(repr(name) for name in allowed)} with {algorithm}",
            field="loss",
        )
    if params.kernel != "linear":
        refuse_sparse(
            summaries,
            what=f"{algorithm} with kernel '{params.kernel}'",
            remedy="use kernel 'linear', or upload arrays",
        )
    if params.kernel == "precomputed":
        _check_precomputed(summaries, params)
    elif params.kernel != "linear":
        check_memory(_min_distinct_rows(summaries), params)


def check_memory(n_rows: int, params: KernelParams) -> None:
    """Raise InvalidParams if the kernel matrix would be larger than ``memory_gb``."""
    n_columns = min(params.nystrom, n_rows) if params.nystrom else n_rows
    needed = 16e-9 * n_rows * n_columns  # the matrix, and a temporary copy
    if needed > params.memory_gb:
        raise InvalidParams(
            f"a kernel matrix of {n_rows} rows and {n_columns} columns needs {needed:.3g} GB, more "
            f"than 'memory_gb' = {params.memory_gb:g}; use kernel 'linear', fewer landmarks "
            "('nystrom'), fewer rows, or a larger 'memory_gb'",
            field="memory_gb",
        )


def prepare(tasks: TaskSet, params: MachineParams, *, rng: np.random.Generator) -> Prepared:
    """Return examples, kernel and standardisation of the tasks."""
    check_magnitudes(tasks)
    is_relative = params.scale == "relative"
    prior = scale_prior(
        tasks.by_name().tasks, params.target_scaling, is_centered=params.center_targets == "task"
    )
    examples = examples_of(
        tasks, center=params.center_targets, weights=params.class_weight, prior=prior
    )
    is_classes = examples.targets[0].classes is not None
    if params.kernel == "precomputed":
        return _prepare_precomputed(examples, params)
    if is_sparse(examples.X):
        if examples.n_rows < examples.X.shape[1]:
            return _prepare_sparse(examples, params)
        dense = examples.X.toarray()  # as large as the coordinates
        examples = examples.with_rows(dense)
    weights = examples.row_weights
    standardiser = fit_standardiser(examples.X, params.standardise, weights)
    rows = standardiser.apply(examples.X)
    gamma = params.gamma * (relative_gamma(params.kernel, rows, weights) if is_relative else 1.0)
    kernel = InputKernel(params.kernel, gamma, params.degree, params.coef0)
    kernel = replace(
        kernel,
        divisor=(kernel.mean_diagonal(rows, weights) or 1.0) if is_relative else 1.0,
        bias=params.intercept if is_classes or params.center_targets == "none" else 0.0,
    )
    if kernel.is_linear:
        Z = kernel.features(rows)
        K = Z @ Z.T if Z.shape[1] > len(Z) else None  # a kernel matrix only if it is smaller
        return Prepared(examples.with_rows(Z), K, kernel, standardiser, features=Z)
    check_memory(len(rows), params)
    if 0 < params.nystrom < len(rows):
        chosen = np.sort(rng.choice(len(rows), params.nystrom, replace=False))
        landmarks = np.ascontiguousarray(rows[chosen])
        expand = nystrom_map(kernel, landmarks)
        Z = np.ascontiguousarray(kernel.matrix(rows, landmarks) @ expand)
        return Prepared(examples.with_rows(Z), None, kernel, standardiser, Z, landmarks, expand)
    return Prepared(examples.with_rows(rows), kernel.gram(rows), kernel, standardiser)


def _prepare_sparse(examples: Examples, params: MachineParams) -> Prepared:
    """Return the linear kernel of sparse rows, with coordinates in their span as features."""
    X = examples.X
    standardiser = fit_standardiser(X, params.standardise, examples.row_weights)
    rows = StandardisedRows.of(X, standardiser.mean, standardiser.deviation)
    K = rows.gram()
    is_relative, is_classes = params.scale == "relative", examples.targets[0].classes is not None
    size = weighted_mean(np.diag(K), examples.row_weights)
    divisor = (size or 1.0) if is_relative else 1.0
    bias = params.intercept if is_classes or params.center_targets == "none" else 0.0
    kernel = InputKernel("linear", divisor=divisor, bias=bias)
    span = Span.of(rows, K, rtol=SPAN_RTOL)
    Z = kernel.features(span.coordinates)
    K = K / divisor + bias**2
    return Prepared(examples.with_rows(Z), K, kernel, standardiser, features=Z, span=span)


def check_target_sizes(prepared: Prepared, tasks: TaskSet, *, relative_gap: float) -> None:
    """Raise TargetsTooLarge if unscaled targets are too large for the solver."""
    y = prepared.examples.y
    size = float(np.abs(y).max())
    if relative_gap <= MAX_RELATIVE_GAP or size <= MAX_TARGET_SIZE:
        return
    if size * float(np.sqrt(np.mean((y / size) ** 2))) > MAX_TARGET_SIZE:
        sizes = {task.name: float(np.abs(numeric_targets(task)).max()) for task in tasks}
        task = max(sizes, key=lambda name: sizes[name])
        raise TargetsTooLarge(
            f"task '{task}' has targets up to {sizes[task]:.3g} in size, which is too large for "
            f"this solver without scaling (its relative duality gap is {relative_gap:.1e}): "
            "rescale them, or use scale 'relative' with 'scale_targets' other than 'none'",
            task=task,
        )


def loss_of(params: MachineParams, examples: Examples) -> Loss:
    """Return the loss for the targets of these examples."""
    is_classes = examples.targets[0].classes is not None
    if params.loss == "auto":
        return Loss("hinge" if is_classes else "squared")
    epsilon = params.epsilon if params.loss == "epsilon-insensitive" else 0.0
    return Loss(params.loss, epsilon, params.delta)


def penalty_of(params: PenaltyParams, n_rows: float) -> OutputKernel:
    """Return the penalty of the output kernel, given the mean number of rows per output."""
    if params.scale == "absolute":
        return learned_kernel(
            params.penalty, k=params.k, C=params.C, lam=params.lam, v_scale=params.v_scale
        )
    lam = relative_lam(params.penalty, k=params.k, C=params.C, n_rows=n_rows)
    return learned_kernel(params.penalty, k=params.k, C=params.C, lam=lam)


def mean_rows(examples: Examples) -> float:
    """Return the mean over outputs of the number of rows, or of the sum of their weights."""
    sizes = np.diff(examples.offsets).astype(np.float64)
    for target, weights in zip(examples.targets, examples.weights, strict=True):
        if weights is not None:
            sizes[target.outputs] = weights.sum()
    return float(sizes.mean())


def _min_distinct_rows(summaries: Sequence[TaskSummary]) -> int:
    """Return a lower bound on the number of distinct rows.

    Tasks of equal size may all have the same rows.
    """
    sizes = [task.n_samples for task in summaries]
    return sizes[0] if len(set(sizes)) == 1 else sum(sizes)


def _check_precomputed(summaries: Sequence[TaskSummary], params: MachineParams) -> None:
    total, width = sum(task.n_samples for task in summaries), summaries[0].n_features
    is_shared = all(task.n_samples == width for task in summaries)
    if width != total and not is_shared:
        raise InvalidData(
            f"kernel 'precomputed' needs one column for each of the {total} training rows, but "
            f"task '{summaries[0].name}' has {width}; order the columns by the tasks' names",
            task=summaries[0].name,
        )
    if params.selection == "cv":
        raise InvalidParams(
            "C cannot be selected by cross-validation with kernel 'precomputed', whose columns "
            "are the training rows; set C and use selection 'given'",
            field="selection",
        )


def _prepare_precomputed(examples: Examples, params: MachineParams) -> Prepared:
    """Return a precomputed kernel after checks, divided by its mean diagonal."""
    raw = examples.X
    size = float(np.abs(raw).max())
    if raw.shape[0] != raw.shape[1] or np.abs(raw - raw.T).max() > SYMMETRY_RTOL * size:
        raise InvalidData(
            f"the precomputed kernel has shape {raw.shape} and an asymmetry of "
            f"{_asymmetry(raw):.3g}; it must be symmetric, with rows and columns in the order of "
            "the tasks' names"
        )
    K = (raw + raw.T) / 2
    lowest = _smallest_eigenvalue(K)
    shift = 0.0
    if lowest < -SEMIDEFINITE_RTOL * max(size, 1e-300):
        if params.indefinite == "refuse":
            raise InvalidData(
                f"the precomputed kernel has the negative eigenvalue {lowest:.3g}; add "
                f"{-lowest:.3g} to its diagonal, or set 'indefinite' to 'shift'"
            )
        shift = -lowest
    K[np.diag_indices_from(K)] += shift
    typical = weighted_mean(np.diag(K), examples.row_weights)
    divisor = typical if params.scale == "relative" else 1.0
    divisor = divisor if divisor > 0 else 1.0
    K /= divisor
    kernel = InputKernel("precomputed", divisor=divisor)
    standardiser = fit_standardiser(raw, "none")
    return Prepared(examples.with_rows(raw), np.ascontiguousarray(K), kernel, standardiser)


def _asymmetry(K: Array) -> float:
    return float(np.abs(K - K.T).max()) if K.shape[0] == K.shape[1] else float("nan")


def _smallest_eigenvalue(K: Array) -> float:
    if len(K) < MIN_LANCZOS_ROWS:
        return float(np.linalg.eigvalsh(K)[0])
    start = np.random.default_rng(0).standard_normal(len(K))
    return float(
        eigsh(K, k=1, which="SA", v0=start, tol=1e-6, return_eigenvectors=False, maxiter=20_000)[0]
    )
