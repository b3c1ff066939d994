"""The model that every kind of PCA trains: a subspace and a mean for each task."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.header import dump_header, load_header
from algorithms.interface.model import Model, check_array
from algorithms.interface.relations import Relations, relations_of
from algorithms.interface.tasks import Task, describe_tasks
from algorithms.numerics.covariances import Covariances
from algorithms.numerics.eigen import principal_axes
from algorithms.subspaces.moments import Moments, retained_ratio

Array = NDArray[np.float64]

_ARRAYS = ("U", "mean", "spectrum", "total_variance")


@final
@dataclass(frozen=True, slots=True, eq=False)
class SubspaceModel(Model):
    """A subspace of k dimensions for each task.

    Parameters
    ----------
    algorithm
        Name of the algorithm that trained it.
    tasks
        Names, in the order of the arrays.
    U : (n_tasks or 1, n_features, k)
        Orthonormal columns, variance falling from column to column (of the sum of the tasks
        where U is shared); the entry of largest size in a column is positive.
    mean : (n_tasks or 1, n_features)
    spectrum : (n_tasks, k)
        Variance of the training rows of the task along each column of U.
    total_variance : (n_tasks,)
        Trace of the covariance of the task.
    fit_info
        What the fit decided, as JSON: the chosen λ, scores of a cross-validation, ...
    warnings
        What the user should know of this fit.
    """

    # field() keeps the abstract properties of Model from being taken for defaults
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
        """Return the coordinates (X - mean) U of rows in the subspace of a task.

        Parameters
        ----------
        X : (n_samples, n_features)

        Returns
        -------
        (n_samples, k)
        """
        rows = self.check_rows(X, method="transform", task=task)
        # of one row, @ takes twice as long
        coordinates: Array = np.dot(rows - self.mean_of(task), self.basis_of(task))
        return coordinates

    def inverse_transform(self, Z: object, *, task: str) -> Array:
        """Return the rows Z Uᵀ + mean whose coordinates in the subspace of a task are Z.

        Parameters
        ----------
        Z : (n_samples, k)

        Returns
        -------
        (n_samples, n_features)
        """
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
            return None  # one subspace serves all
        rows = self.U.transpose(0, 2, 1).reshape(T * k, D)
        cosines = (rows @ rows.T).reshape(T, k, T, k)
        return relations_of(np.einsum("risj,risj->rs", cosines, cosines) / k, self.tasks)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name."""
        return {name: getattr(self, name) for name in _ARRAYS}

    def header(self) -> dict[str, Any]:
        """Return names, fit results and warnings."""
        return dump_header(self)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> Self:
        """Return the model that ``to_arrays`` and ``header`` described.

        Raises
        ------
        ValueError
            The arrays do not fit each other.
        """
        model = cls(
            **load_header(header),
            **{name: arrays[name] for name in _ARRAYS},
        )
        _check_shapes(model)
        return model


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
    """Return the model of the subspaces, each turned to its principal axes.

    Parameters
    ----------
    U : (n_tasks or 1, k, n_features)
        Orthonormal rows.
    names
        The tasks in the order that the model shall have.
    shared_mean : (n_features,) or None
        One mean for all tasks in place of their own.
    """
    C = moments.C
    place = {name: t for t, name in enumerate(moments.names)}
    order = [place[name] for name in names]
    axes, spectrum = _turned(C, U)
    own = moments.means[order]
    return SubspaceModel(
        algorithm=algorithm,
        tasks=tuple(names),
        U=np.ascontiguousarray(np.swapaxes(axes if len(axes) == 1 else axes[order], 1, 2)),
        mean=own if shared_mean is None else shared_mean[np.newaxis],
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
    """Return the model with one more task, whose subspace is given or the shared one.

    Parameters
    ----------
    moments
        Of the new task alone.
    U : (1, k, d) or None
        Orthonormal rows; ``None`` where the model shares one subspace.
    fit_info
        Join those of the model.
    """
    C, (name,) = moments.C, moments.names
    if U is None:
        basis, bases = np.swapaxes(model.U, 1, 2), model.U
        spectrum = np.maximum(np.einsum("tki,tki->tk", C.times_lifted(basis), basis), 0.0)
    else:
        axes, spectrum = _turned(C, U)
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
    """Return a warning where some tasks have too few rows to determine k dimensions alone."""
    scarce = [task.name for task in tasks if task.input == "rows" and task.n_samples <= k]
    if not scarce:
        return ()
    warning = (
        f"{describe_tasks(scarce, len(tasks))} have at most k = {k} "
        "rows, which leaves part of their subspace undetermined; lower k or add rows"
    )
    return (warning,)


def _turned(C: Covariances, U: Array) -> tuple[Array, Array]:
    """Return principal axes (n_tasks or 1, k, n_features) and their variances (n_tasks, k)."""
    every = np.broadcast_to(U, (C.n_tasks, *U.shape[1:]))
    CU = C.times_lifted(every)
    if U.shape[0] == C.n_tasks:
        return principal_axes(U, CU)
    axes, _ = principal_axes(U, CU.sum(axis=0, keepdims=True))
    every = np.broadcast_to(axes, every.shape)
    return axes, np.maximum(np.einsum("tki,tki->tk", C.times_lifted(every), every), 0.0)


def _variance_warnings(moments: Moments) -> tuple[str, ...]:
    flat = [name for name, v in zip(moments.names, moments.C.traces, strict=True) if v == 0]
    if not flat:
        return ()
    return (f"{describe_tasks(flat, len(moments.names))} have no variance at all",)


def _own_or_shared(stack: Array, index: int) -> Array:
    return np.asarray(stack[0] if stack.shape[0] == 1 else stack[index])


def _check_shapes(model: SubspaceModel) -> None:
    n_tasks = len(model.tasks)
    n_bases, d, k = model.U.shape
    expected = {
        "U": (n_bases, d, k),
        "mean": (model.mean.shape[0], d),
        "spectrum": (n_tasks, k),
        "total_variance": (n_tasks,),
    }
    for name, shape in expected.items():
        check_array(getattr(model, name), shape, name=name)
    if not {n_bases, model.mean.shape[0]} <= {1, n_tasks}:
        raise ValueError(f"{n_bases} bases and {model.mean.shape[0]} means for {n_tasks} tasks")
