"""The model class of all kinds of PCA: a subspace and a mean for each task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np

from algorithms.families.subspaces.moments import Moments, retained_ratio
from algorithms.interface.model import Model, check_array
from algorithms.interface.relations import Relations, relations_of
from algorithms.interface.tasks import Task, tasks_have
from algorithms.numerics.arrays import Array
from algorithms.numerics.covariances import Covariances
from algorithms.numerics.eigen import principal_axes


@final
@dataclass(frozen=True, slots=True, eq=False)
class SubspaceModel(Model):
    """A subspace of k dimensions for each task.

    Parameters
    ----------
    algorithm
        Name of the algorithm that trained the model.
    tasks
        Names of the tasks, in the order of the arrays.
    U : (n_tasks or 1, n_features, k)
        Orthonormal columns in order of decreasing variance (of the sum of the tasks if U is
        shared); the largest entry of a column by absolute value is positive.
    mean : (n_tasks or 1, n_features)
    spectrum : (n_tasks, k)
        Variance of the training rows of the task along each column of U.
    total_variance : (n_tasks,)
        Trace of the covariance of the task.
    fit_info
        Results of the fit besides arrays, as JSON: the chosen λ, cross-validation scores, ...
    warnings
        Warnings about this fit.
    """

    # without field(), dataclass would use the abstract properties of Model as defaults
    algorithm: str = field()
    tasks: tuple[str, ...] = field()
    U: Array
    mean: Array
    spectrum: Array
    total_variance: Array
    fit_info: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Retained variance ratio (RVR, eq. 6 of the paper) on the training rows."""
        ratios = retained_ratio(self.spectrum.sum(axis=1), self.total_variance)
        return {"rvr": {name: float(r) for name, r in zip(self.tasks, ratios, strict=True)}}

    @property
    def k(self) -> int:
        """Dimension of the subspaces."""
        return int(self.U.shape[2])

    def width(self, method: str, *, task: str) -> int:
        """Return k for ``inverse_transform``, the number of features otherwise."""
        self.task_index(task)
        return self.k if method == "inverse_transform" else int(self.U.shape[1])

    def transform(self, X: object, *, task: str) -> Array:
        """Return the coordinates (X - mean) U in the subspace of a task, (n_samples, k)."""
        rows = self.check_rows(X, method="transform", task=task)
        # np.dot is twice as fast as @ for a single row
        coordinates: Array = np.dot(rows - self.mean_of(task), self.basis_of(task))
        return coordinates

    def inverse_transform(self, Z: object, *, task: str) -> Array:
        """Return the rows Z Uᵀ + mean (n_samples, n_features) for coordinates Z (n_samples, k)."""
        rows = self.check_rows(Z, method="inverse_transform", task=task)
        return rows @ self.basis_of(task).T + self.mean_of(task)

    def basis_of(self, task: str) -> Array:
        """Return U of a task, (n_features, k)."""
        return _own_or_shared(self.U, self.task_index(task))

    def mean_of(self, task: str) -> Array:
        """Return the mean of a task, (n_features,)."""
        return _own_or_shared(self.mean, self.task_index(task))

    def relations(self) -> Relations | None:
        """Return the overlap of the subspaces: ‖U_rᵀU_s‖²/k, the mean squared cosine of angles."""
        T, D, k = self.U.shape
        if len(self.tasks) > T:
            return None  # one subspace for all tasks
        rows = self.U.transpose(0, 2, 1).reshape(T * k, D)
        cosines = (rows @ rows.T).reshape(T, k, T, k)
        return relations_of(np.einsum("risj,risj->rs", cosines, cosines) / k, self.tasks)

    def learned(self) -> dict[str, Any]:
        """Return the components as rows, the means, and the variances along the components."""
        total = self.total_variance[:, np.newaxis]
        ratio = np.divide(self.spectrum, total, out=np.zeros_like(self.spectrum), where=total > 0)
        stacks = {
            "components": np.swapaxes(self.U, 1, 2),
            "mean": self.mean,
            "explained_variance": self.spectrum,
            "explained_variance_ratio": ratio,
        }
        return {name: _sole(stack) for name, stack in stacks.items()}

    def check_stored(self) -> None:
        """Raise ValueError if the arrays and the header of a file do not fit together."""
        n_tasks = len(self.tasks)
        n_bases, d, k = self.U.shape
        expected = {
            "U": (n_bases, d, k),
            "mean": (self.mean.shape[0], d),
            "spectrum": (n_tasks, k),
            "total_variance": (n_tasks,),
        }
        for name, shape in expected.items():
            check_array(getattr(self, name), shape, name=name)
        if not {n_bases, self.mean.shape[0]} <= {1, n_tasks}:
            raise ValueError(f"{n_bases} bases and {self.mean.shape[0]} means for {n_tasks} tasks")


def build_model(
    moments: Moments,
    U: Array,
    *,
    algorithm: str,
    names: Sequence[str],
    fit_info: Mapping[str, Any],
    warnings: Sequence[str] = (),
    shared_mean: Array | None = None,
) -> SubspaceModel:
    """Return the model of given subspaces, with their principal axes as bases.

    Parameters
    ----------
    U : (n_tasks or 1, k, n_features)
        Orthonormal rows.
    names
        Names of the tasks in the order of the model.
    shared_mean : (n_features,) or None
        A common mean that replaces the means of the tasks.
    """
    C = moments.C
    position = {name: t for t, name in enumerate(moments.names)}
    order = [position[name] for name in names]
    axes, spectrum = _principal_axes(C, U)
    means = moments.means[order]
    return SubspaceModel(
        algorithm=algorithm,
        tasks=tuple(names),
        U=np.ascontiguousarray(np.swapaxes(axes if len(axes) == 1 else axes[order], 1, 2)),
        mean=means if shared_mean is None else shared_mean[np.newaxis],
        spectrum=spectrum[order],
        total_variance=C.traces[order],
        fit_info=dict(fit_info),
        warnings=(*warnings, *_variance_warnings(moments)),
    )


def adapt_model(
    model: SubspaceModel,
    moments: Moments,
    U: Array | None,
    *,
    fit_info: Mapping[str, Any] | None = None,
    warnings: Sequence[str] = (),
) -> SubspaceModel:
    """Return the model with a new task.

    Parameters
    ----------
    U : (1, k, d) or None
        Subspace of the new task as orthonormal rows; None for the shared subspace of the model.
    fit_info
        Additions to the ``fit_info`` of the model.
    """
    C, (name,) = moments.C, moments.names
    if U is None:
        basis, bases = np.swapaxes(model.U, 1, 2), model.U
        spectrum = np.maximum(np.einsum("tki,tki->tk", C.times_lifted(basis), basis), 0.0)
    else:
        axes, spectrum = _principal_axes(C, U)
        bases = np.concatenate([model.U, np.swapaxes(axes, 1, 2)])
    is_shared_mean = model.mean.shape[0] == 1 < len(model.tasks)
    mean = model.mean if is_shared_mean else np.vstack([model.mean, moments.means])
    return replace(
        model,
        tasks=(*model.tasks, name),
        U=bases,
        mean=mean,
        spectrum=np.vstack([model.spectrum, spectrum]),
        total_variance=np.append(model.total_variance, C.traces),
        fit_info={**model.fit_info, **(fit_info or {})},
        warnings=(*model.warnings, *warnings, *_variance_warnings(moments)),
    )


def few_rows_warnings(tasks: Sequence[Task], *, k: int) -> tuple[str, ...]:
    """Return a warning if tasks have too few rows to determine k dimensions."""
    scarce = [task.name for task in tasks if task.input == "rows" and task.n_samples <= k]
    if not scarce:
        return ()
    warning = (
        f"{tasks_have(scarce, len(tasks))} at most k = {k} "
        "rows, which do not determine the whole subspace; decrease k or add rows"
    )
    return (warning,)


def _principal_axes(C: Covariances, U: Array) -> tuple[Array, Array]:
    """Return principal axes (n_tasks or 1, k, n_features) and their variances (n_tasks, k)."""
    stacked = np.broadcast_to(U, (C.n_tasks, *U.shape[1:]))
    CU = C.times_lifted(stacked)
    if U.shape[0] == C.n_tasks:
        return principal_axes(U, CU)
    axes, _ = principal_axes(U, CU.sum(axis=0, keepdims=True))
    stacked = np.broadcast_to(axes, stacked.shape)
    return axes, np.maximum(np.einsum("tki,tki->tk", C.times_lifted(stacked), stacked), 0.0)


def _variance_warnings(moments: Moments) -> tuple[str, ...]:
    flat = [name for name, v in zip(moments.names, moments.C.traces, strict=True) if v == 0]
    if not flat:
        return ()
    return (f"{tasks_have(flat, len(moments.names))} no variance",)


def _sole(stack: Array) -> Array:
    """Return the only entry of a stack; the stack itself if it has several."""
    return np.asarray(stack[0]) if len(stack) == 1 else stack


def _own_or_shared(stack: Array, index: int) -> Array:
    return np.asarray(stack[0] if stack.shape[0] == 1 else stack[index])
