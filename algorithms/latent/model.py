"""The model that every Gaussian-process latent variable algorithm trains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from algorithms.interface.errors import InvalidData
from algorithms.interface.header import dump_header, load_header
from algorithms.interface.model import Model
from algorithms.interface.tasks import TargetKind, Task
from algorithms.interface.trace import Trace
from algorithms.latent.gp import BLOCK, PROJECTION, project
from algorithms.latent.parts import Classes, LatentPart, read_part, write_part

Array = NDArray[np.float64]

#: Ratio of the scales of source and target from which on a warning is due.
FAR_SCALE = 1e3


@final
@dataclass(frozen=True, slots=True, eq=False)
class LatentModel(Model):
    """A Gaussian process from a latent space to the rows of each task.

    Latents are determined up to rotation and reflection only: compare distances, never entries,
    of two models.

    Parameters
    ----------
    algorithm
        Name of the algorithm that trained it.
    tasks
        Names, in the order of ``parts``.
    source_rows : (r, D)
        Active rows of the source, standardised, for a task that joins later; none elsewhere.
    fit_info
        What the fit decided, as JSON: parameters, source, θ, ...
    """

    takes_missing: ClassVar[frozenset[str]] = frozenset(
        {"transform", "reconstruct", "variance", "predict"}
    )

    # field() keeps the abstract properties of Model from being taken for defaults
    algorithm: str = field()
    tasks: tuple[str, ...] = field()
    parts: tuple[LatentPart, ...]
    source_rows: Array
    fit_info: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Reconstruction of the training rows: share of variance explained, and error."""
        named = list(zip(self.tasks, self.parts, strict=True))
        return {
            "r2": {name: part.r2 for name, part in named},
            "rmse": {name: part.rmse for name, part in named},
        }

    @classmethod
    def methods_for(cls, target: TargetKind) -> tuple[str, ...]:
        """Return the methods that serve a task; ``predict`` where it has labels of its own."""
        return tuple(m for m in cls.methods() if target == "classes" or m != "predict")

    def available_methods(self) -> tuple[str, ...]:
        """Names of its methods; ``predict`` only where some task has labels."""
        has_labels = any(len(part.references.X) for part in self.parts)
        return tuple(m for m in self.methods() if has_labels or m != "predict")

    def part_of(self, task: str) -> LatentPart:
        """Return what is learned for a task."""
        return self.parts[self.task_index(task)]

    def width(self, method: str, *, task: str) -> int:
        """Return L for ``inverse_transform``, the number of features otherwise."""
        part = self.part_of(task)
        return part.process.active.shape[1] if method == "inverse_transform" else len(part.mean)

    def classes(self, task: str) -> Classes:
        """Return the labels that ``predict`` may answer for a task, sorted."""
        return self.part_of(task).references.classes

    def transform(self, X: object, *, task: str) -> Array:
        """Return the most likely latents of rows, eq. 25.

        Parameters
        ----------
        X : (n_samples, n_features)
            NaN where a value is missing: exact, by the features that are seen.

        Returns
        -------
        (n_samples, L)
        """
        return self._latents(X, "transform", task)

    def inverse_transform(self, Z: object, *, task: str) -> Array:
        """Return the rows expected at latents, eq. 27.

        Parameters
        ----------
        Z : (n_samples, L)

        Returns
        -------
        (n_samples, n_features)
        """
        rows = self.check_rows(Z, method="inverse_transform", task=task)
        part = self.part_of(task)
        return part.restored(part.process.mean(rows))

    def reconstruct(self, X: object, *, task: str) -> Array:
        """Return the rows expected at the latents of rows; missing values are filled in.

        Parameters
        ----------
        X : (n_samples, n_features)
            NaN where a value is missing.

        Returns
        -------
        (n_samples, n_features)
        """
        part = self.part_of(task)
        return part.restored(part.process.mean(self._latents(X, "reconstruct", task)))

    def variance(self, X: object, *, task: str) -> Array:
        """Return the variance, noise included, of a value of a row at its latent, eq. 26.

        In the squared units of the data, the same for every feature. Large where the latent lies
        far from those of the active rows. The latent is taken for known: where most values of a
        row are missing, it is not, and errors are larger than this tells.

        Parameters
        ----------
        X : (n_samples, n_features)
            NaN where a value is missing.

        Returns
        -------
        (n_samples,)
        """
        part = self.part_of(task)
        return part.process.variance(self._latents(X, "variance", task)) * part.scale**2

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return the label of the training row whose latent is nearest.

        Training rows of the task itself where it has labels, of the source otherwise. Of equally
        near ones, the first.

        Parameters
        ----------
        X : (n_samples, n_features)
            NaN where a value is missing.

        Returns
        -------
        (n_samples,)
            Strings or integers, as the labels were.

        Raises
        ------
        InvalidData
            The task has no class labels, nor has a source in the same job.
        """
        references = self.part_of(task).references
        if not len(references.X):
            raise InvalidData(
                f"task '{task}' has no class labels of its own, and none of a source that it was "
                "trained together with; predict needs either",
                task=task,
            )
        Z = self._latents(X, "predict", task)
        nearest = [
            np.argmin(cdist(Z[i : i + BLOCK], references.X), axis=1)
            for i in range(0, max(len(Z), 1), BLOCK)
        ]
        labels = references.labels[np.concatenate(nearest)]
        return np.asarray(np.array(references.classes)[labels])

    def _latents(self, X: object, method: str, task: str) -> Array:
        rows = self.check_rows(X, method=method, task=task)
        empty = np.flatnonzero(np.isnan(rows).all(axis=1))
        if empty.size:
            raise InvalidData(
                f"task '{task}', row {empty[0]} has no value at all; leave it out",
                task=task,
                row=int(empty[0]),
            )
        part = self.part_of(task)
        is_robust = self.fit_info["params"]["projection"] == "robust"
        return project(part.process, part.standardised(rows), is_robust=is_robust)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name, those of task i ending in ``.i``."""
        arrays: dict[str, NDArray[Any]] = {"source_rows": self.source_rows}
        for i, part in enumerate(self.parts):
            arrays |= write_part(part, i)
        return arrays

    def header(self) -> dict[str, Any]:
        """Return names, labels, fit results and warnings."""
        classes = [list(part.references.classes) for part in self.parts]
        return {**dump_header(self), "classes": classes}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]) -> Self:
        """Return the model that ``to_arrays`` and ``header`` described.

        Raises
        ------
        ValueError
            The arrays do not fit each other.
        """
        kernel = load_header(header)["fit_info"]["params"]["kernel"]
        parts = tuple(
            read_part(arrays, i, kernel=kernel, classes=tuple(classes))
            for i, classes in enumerate(header["classes"])
        )
        if len(parts) != len(header["tasks"]):
            raise ValueError(f"{len(parts)} parts for {len(header['tasks'])} tasks")
        return cls(
            **load_header(header),
            parts=parts,
            source_rows=arrays["source_rows"],
        )


def rank_warnings(wanted: int, got: int, *, task: str) -> tuple[str, ...]:
    """Return a warning where L was lowered."""
    if got >= wanted:
        return ()
    return (f"L was lowered from {wanted} to {got}, the rank of the rows of '{task}'",)


def scale_warnings(scale: float, task: Task) -> tuple[str, ...]:
    """Return a warning where a target varies far more, or less, than the source, which scales it.

    Parameters
    ----------
    scale
        Root of the mean variance of the source's columns.
    """
    spread = float(np.abs(task.X - task.X.mean(axis=0)).max())
    ratio = spread / scale
    if spread == 0 or 1 / FAR_SCALE <= ratio <= FAR_SCALE:
        return ()
    warning = (
        f"the rows of '{task.name}' differ from their mean by up to {ratio:.1g} times the spread "
        "of the source, whose scale is used for both: bring them to one scale"
    )
    return (warning,)


def late_warnings(trace: Trace, *, max_iter: int, task: str = "") -> tuple[str, ...]:
    """Return a warning where descents were cut short.

    Parameters
    ----------
    task
        Only descents of this task count; all if empty.
    """
    late = [name for name, reason in trace.stop_reasons.items() if reason == "max_iter"]
    late = [name for name in late if not name.startswith(PROJECTION)]
    late = [name for name in late if not task or f"'{task}'" in name]
    if not late:
        return ()
    warning = (
        f"{len(late)} descents (the first is '{late[0]}') stopped after {max_iter} iterations, "
        "before the gradient was small; raise max_iter"
    )
    return (warning,)
