"""From tasks and parameters to rows that a solver takes: scaled, as kernel matrix or features."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.linalg import eigsh

from algorithms.interface.errors import InvalidData, InvalidParams, TargetsTooLarge
from algorithms.interface.target_scales import numeric_targets, scale_prior
from algorithms.interface.tasks import TaskSet, TaskSummary, check_magnitudes
from algorithms.kernel_machines.examples import Examples, examples_of
from algorithms.kernel_machines.input_kernels import (
    InputKernel,
    Standardiser,
    fit_standardiser,
    nystrom_map,
    relative_gamma,
)
from algorithms.kernel_machines.losses import CLASS_LOSSES, NUMBER_LOSSES, Loss
from algorithms.kernel_machines.output_kernels import (
    OutputKernel,
    learned_kernel,
    relative_lam,
)
from algorithms.kernel_machines.params import KernelParams, MachineParams, PenaltyParams

Array = NDArray[np.float64]

#: Relative asymmetry, and size of negative eigenvalues, that rounding explains.
SYMMETRY_RTOL = 1e-8
SEMIDEFINITE_RTOL = 1e-8
#: Root mean square of targets, as solvers see them, above which a useless bound is due to size.
MAX_TARGET_SIZE = 100.0
#: A relative gap above this, the largest tolerance, proves nothing about a solution.
MAX_RELATIVE_GAP = 0.5
#: From this many rows on the smallest eigenvalue is found by Lanczos' method.
LANCZOS_ROWS = 500


@dataclass(frozen=True, eq=False)
class Prepared:
    """Examples and how their rows are compared.

    Parameters
    ----------
    examples
        ``examples.X`` holds features where there is no kernel matrix, else standardised rows.
    K : (N, N) or None
    kernel, standardiser
        k of standardised rows.
    features : (N, q) or None
        Rows whose products are the kernel: linear or by landmarks.
    landmarks, expand : (m, d), (m, q) or None
        Features are k(x, landmarks) expand.
    """

    examples: Examples
    K: Array | None
    kernel: InputKernel
    standardiser: Standardiser
    features: Array | None = None
    landmarks: Array | None = None
    expand: Array | None = None

    @cached_property
    def eigen(self) -> tuple[Array, Array]:
        """Return eigenvalues and eigenvectors of K, or of ZᵀZ for features Z; once for every C."""
        matrix = self.examples.X.T @ self.examples.X if self.K is None else self.K
        values, vectors = np.linalg.eigh(matrix)
        return values, vectors


def check_machine(
    summaries: Sequence[TaskSummary], params: MachineParams, *, algorithm: str
) -> None:
    """Raise InvalidData or InvalidParams where loss, kernel or memory do not fit the tasks."""
    kind = summaries[0].target
    fitting = NUMBER_LOSSES if kind == "numbers" else CLASS_LOSSES
    if params.loss not in ("auto", *fitting):
        raise InvalidParams(
            f"the targets are {kind}, which the loss '{params.loss}' does not fit; "
            f"{algorithm} takes {', '.join(repr(name) for name in fitting)} for them",
            field="loss",
        )
    if params.kernel == "precomputed":
        _check_precomputed(summaries, params)
    elif params.kernel != "linear":
        check_memory(_min_distinct_rows(summaries), params)


def check_memory(n_rows: int, params: KernelParams) -> None:
    """Raise InvalidParams where the matrix of all rows would pass the bound."""
    n_columns = min(params.nystrom, n_rows) if params.nystrom else n_rows
    need = 16e-9 * n_rows * n_columns  # the matrix, and once more while it is made
    if need > params.memory_gb:
        raise InvalidParams(
            f"{n_rows} rows with {n_columns} columns of the kernel need {need:.3g} GB, more than "
            f"'memory_gb' = {params.memory_gb:g}; take kernel 'linear', fewer landmarks "
            "('nystrom'), fewer rows, or raise the bound",
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
    standardiser = fit_standardiser(examples.X, params.standardise)
    rows = standardiser.apply(examples.X)
    gamma = params.gamma * (relative_gamma(params.kernel, rows) if is_relative else 1.0)
    kernel = InputKernel(params.kernel, gamma, params.degree, params.coef0)
    kernel = replace(
        kernel,
        divisor=(kernel.mean_diagonal(rows) or 1.0) if is_relative else 1.0,
        bias=params.intercept if is_classes or params.center_targets == "none" else 0.0,
    )
    if kernel.is_linear:
        Z = kernel.features(rows)
        K = Z @ Z.T if Z.shape[1] > len(Z) else None  # then no larger than the rows themselves
        return Prepared(examples.with_rows(Z), K, kernel, standardiser, features=Z)
    check_memory(len(rows), params)
    if 0 < params.nystrom < len(rows):
        chosen = np.sort(rng.choice(len(rows), params.nystrom, replace=False))
        landmarks = np.ascontiguousarray(rows[chosen])
        expand = nystrom_map(kernel, landmarks)
        Z = np.ascontiguousarray(kernel.matrix(rows, landmarks) @ expand)
        return Prepared(examples.with_rows(Z), None, kernel, standardiser, Z, landmarks, expand)
    return Prepared(examples.with_rows(rows), kernel.gram(rows), kernel, standardiser)


def check_target_sizes(prepared: Prepared, tasks: TaskSet, *, relative_gap: float) -> None:
    """Raise TargetsTooLarge where unscaled targets are too large for the solver."""
    y = prepared.examples.y
    size = float(np.abs(y).max())
    if relative_gap <= MAX_RELATIVE_GAP or size <= MAX_TARGET_SIZE:
        return
    if size * float(np.sqrt(np.mean((y / size) ** 2))) > MAX_TARGET_SIZE:
        sizes = {task.name: float(np.abs(numeric_targets(task)).max()) for task in tasks}
        task = max(sizes, key=lambda name: sizes[name])
        raise TargetsTooLarge(
            f"task '{task}' has targets up to {sizes[task]:.3g} in size, which is too large for "
            f"this solver where targets are not scaled (its relative duality gap is "
            f"{relative_gap:.1e}): rescale them, or use scale 'relative' with 'scale_targets' "
            "other than 'none'",
            task=task,
        )


def loss_of(params: MachineParams, examples: Examples) -> Loss:
    """Return the loss for these targets."""
    is_classes = examples.targets[0].classes is not None
    if params.loss == "auto":
        return Loss("hinge" if is_classes else "squared")
    epsilon = params.epsilon if params.loss == "epsilon-insensitive" else 0.0
    return Loss(params.loss, epsilon, params.delta)


def penalty_of(params: PenaltyParams, n_rows: float) -> OutputKernel:
    """Return the penalty of the output kernel, for outputs of so many rows in the mean."""
    if params.scale == "absolute":
        return learned_kernel(
            params.penalty, k=params.k, C=params.C, lam=params.lam, v_scale=params.v_scale
        )
    lam = relative_lam(params.penalty, k=params.k, C=params.C, n_rows=n_rows)
    return learned_kernel(params.penalty, k=params.k, C=params.C, lam=lam)


def mean_rows(examples: Examples) -> float:
    """Return the mean number of rows of an output."""
    return float(np.diff(examples.offsets).mean())


def _min_distinct_rows(summaries: Sequence[TaskSummary]) -> int:
    """Return the number of distinct rows there are at least: tasks of one size may share them."""
    sizes = [task.n_samples for task in summaries]
    return sizes[0] if len(set(sizes)) == 1 else sum(sizes)


def _check_precomputed(summaries: Sequence[TaskSummary], params: MachineParams) -> None:
    total, width = sum(task.n_samples for task in summaries), summaries[0].n_features
    is_shared = all(task.n_samples == width for task in summaries)
    if width != total and not is_shared:
        raise InvalidData(
            f"kernel 'precomputed' needs rows with one column for each of the {total} training "
            f"rows, task '{summaries[0].name}' has {width}; stack the tasks in the order of "
            "their names",
            task=summaries[0].name,
        )
    if params.selection == "cv":
        raise InvalidParams(
            "C cannot be chosen by cross-validation with kernel 'precomputed', whose columns "
            "belong to all training rows; give C",
            field="selection",
        )


def _prepare_precomputed(examples: Examples, params: MachineParams) -> Prepared:
    """Return the preparation of a precomputed kernel, checked and divided by its mean diagonal."""
    raw = examples.X
    size = float(np.abs(raw).max())
    if raw.shape[0] != raw.shape[1] or np.abs(raw - raw.T).max() > SYMMETRY_RTOL * size:
        raise InvalidData(
            f"the precomputed kernel has shape {raw.shape} and an asymmetry of "
            f"{_asymmetry(raw):.3g}; it must be symmetric, with the tasks stacked in the order of "
            "their names"
        )
    K = (raw + raw.T) / 2
    lowest = _smallest_eigenvalue(K)
    shift = 0.0
    if lowest < -SEMIDEFINITE_RTOL * max(size, 1e-300):
        if params.indefinite == "refuse":
            raise InvalidData(
                f"the precomputed kernel has the eigenvalue {lowest:.3g}; a kernel has none below "
                f"0. Add {-lowest:.3g} to its diagonal, or set 'indefinite' to 'shift'"
            )
        shift = -lowest
    K[np.diag_indices_from(K)] += shift
    divisor = float(np.mean(np.diag(K))) if params.scale == "relative" else 1.0
    divisor = divisor if divisor > 0 else 1.0
    K /= divisor
    kernel = InputKernel("precomputed", divisor=divisor)
    standardiser = fit_standardiser(raw, "none")
    return Prepared(examples.with_rows(raw), np.ascontiguousarray(K), kernel, standardiser)


def _asymmetry(K: Array) -> float:
    return float(np.abs(K - K.T).max()) if K.shape[0] == K.shape[1] else float("nan")


def _smallest_eigenvalue(K: Array) -> float:
    if len(K) < LANCZOS_ROWS:
        return float(np.linalg.eigvalsh(K)[0])
    start = np.random.default_rng(0).standard_normal(len(K))
    return float(
        eigsh(K, k=1, which="SA", v0=start, tol=1e-6, return_eigenvectors=False, maxiter=20_000)[0]
    )
