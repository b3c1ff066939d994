"""The model class of all Gaussian-process latent variable algorithms."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self, final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from algorithms.families.latent.gp import BLOCK, project
from algorithms.families.latent.parts import Classes, LatentPart, read_part, write_part
from algorithms.interface.errors import InvalidData
from algorithms.interface.header import dump_header, load_header
from algorithms.interface.model import Embedding, Model
from algorithms.interface.tasks import TargetKind, Task
from algorithms.interface.trace import PROJECTION, Trace
from algorithms.numerics.arrays import Array

#: Largest ratio of the scales of source and target without a warning.
MAX_SCALE_RATIO = 1e3


@final
@dataclass(frozen=True, slots=True, eq=False)
class LatentModel(Model):
    """A Gaussian process from a latent space to the rows of each task.

    Latents are determined up to rotation and reflection only: compare distances between latents of
    two models, not their coordinates.

    Parameters
    ----------
    algorithm
        Name of the algorithm that trained the model.
    tasks
        Names of the tasks, in the order of ``parts``.
    source_rows : (r, D)
        Standardised active rows of the source, for adaptation; r = 0 for other algorithms.
    fit_info
        Results of the fit besides arrays, as JSON: parameters, source, θ, ...
    """

    takes_missing: ClassVar[frozenset[str]] = frozenset(
        {"transform", "reconstruct", "variance", "predict"}
    )

    # without field(), dataclass would use the abstract properties of Model as defaults
    algorithm: str = field()
    tasks: tuple[str, ...] = field()
    parts: tuple[LatentPart, ...]
    source_rows: Array
    fit_info: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Explained variance and RMSE of the reconstructed training rows."""
        named = list(zip(self.tasks, self.parts, strict=True))
        return {
            "r2": {name: part.r2 for name, part in named},
            "rmse": {name: part.rmse for name, part in named},
        }

    @classmethod
    def methods_for(cls, target: TargetKind) -> tuple[str, ...]:
        """Return the methods for a task; ``predict`` if it has class labels."""
        return tuple(m for m in cls.methods() if target == "classes" or m != "predict")

    def available_methods(self) -> tuple[str, ...]:
        """Return the names of the methods; ``predict`` if at least one task has labels."""
        has_labels = any(len(part.references.X) for part in self.parts)
        return tuple(m for m in self.methods() if has_labels or m != "predict")

    def part_of(self, task: str) -> LatentPart:
        """Return the part of a task."""
        return self.parts[self.task_index(task)]

    def width(self, method: str, *, task: str) -> int:
        """Return L for ``inverse_transform``, the number of features otherwise."""
        part = self.part_of(task)
        return part.process.active.shape[1] if method == "inverse_transform" else len(part.mean)

    def classes(self, task: str) -> Classes:
        """Return the labels that ``predict`` can return for a task, sorted."""
        return self.part_of(task).references.classes

    def transform(self, X: object, *, task: str) -> Array:
        """Return the most likely latents of rows, eq. 25, (n_samples, L).

        They depend on the observed features only.
        """
        return self._latents(X, "transform", task)

    def inverse_transform(self, Z: object, *, task: str) -> Array:
        """Return the expected rows (n_samples, n_features) at latents Z (n_samples, L), eq. 27."""
        rows = self.check_rows(Z, method="inverse_transform", task=task)
        part = self.part_of(task)
        return part.restored(part.process.mean(rows))

    def reconstruct(self, X: object, *, task: str) -> Array:
        """Return the rows expected at the latents of the given rows, (n_samples, n_features).

        Missing values are filled in.
        """
        part = self.part_of(task)
        return part.restored(part.process.mean(self._latents(X, "reconstruct", task)))

    def variance(self, X: object, *, task: str) -> Array:
        """Return the variance of a feature at the latent of each row, eq. 26, (n_samples,).

        It includes the noise, is in squared units of the data, and is the same for every feature.
        It is large if the latent is far from the latents of the active rows. It ignores the
        uncertainty of the latent, so errors are larger if most values of a row are missing.
        """
        part = self.part_of(task)
        return part.process.variance(self._latents(X, "variance", task)) * part.scale**2

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return the label of the training row with the nearest latent, (n_samples,).

        The training rows belong to the task if it has labels, to the source otherwise. Of
        equally near rows, the first counts.

        Raises
        ------
        InvalidData
            Neither the task nor its source has class labels.
        """
        references = self.part_of(task).references
        if not len(references.X):
            raise InvalidData(
                f"predict needs class labels, but neither task '{task}' nor a source that it was "
                "trained with has any",
                task=task,
            )
        Z = self._latents(X, "predict", task)
        nearest = [
            np.argmin(cdist(Z[i : i + BLOCK], references.X), axis=1)
            for i in range(0, max(len(Z), 1), BLOCK)
        ]
        labels = references.labels[np.concatenate(nearest)]
        return np.asarray(np.array(references.classes)[labels])

    def embedding(self, task: str) -> Embedding:
        """Return the latents of the rows that give labels to a task, or of its active rows.

        The former are rows of the source if the task has no labels of its own.
        """
        part = self.part_of(task)
        if not len(part.references.X):
            return Embedding(part.process.active, (), "active rows")
        classes = np.array(part.references.classes)[part.references.labels]
        return Embedding(part.references.X, tuple(classes.tolist()), "labelled rows")

    def _latents(self, X: object, method: str, task: str) -> Array:
        rows = self.check_rows(X, method=method, task=task)
        empty = np.flatnonzero(np.isnan(rows).all(axis=1))
        if empty.size:
            raise InvalidData(
                f"task '{task}', row {empty[0]} has only missing values; remove it",
                task=task,
                row=int(empty[0]),
            )
        part = self.part_of(task)
        is_robust = self.fit_info["params"]["projection"] == "robust"
        return project(part.process, part.standardised(rows), is_robust=is_robust)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name; names of arrays of task i end in ``.i``."""
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
        """Return the model from the results of :meth:`to_arrays` and :meth:`header`.

        Raises
        ------
        ValueError
            The arrays are inconsistent.
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


def rank_warnings(L: int, rank: int, *, task: str) -> tuple[str, ...]:
    """Return a warning if L was lowered to the rank of a task's rows."""
    if rank >= L:
        return ()
    return (f"L was lowered from {L} to {rank}, the rank of the rows of '{task}'",)


def scale_warnings(scale: float, task: Task) -> tuple[str, ...]:
    """Return a warning if the rows of a target vary much more or less than rows of the source.

    Parameters
    ----------
    scale
        Root mean square of the centred rows of the source.
    """
    spread = float(np.abs(task.X - task.X.mean(axis=0)).max())
    ratio = spread / scale
    if spread == 0 or 1 / MAX_SCALE_RATIO <= ratio <= MAX_SCALE_RATIO:
        return ()
    warning = (
        f"the rows of '{task.name}' differ from their mean by up to {ratio:.1g} times the standard "
        "deviation of the source, whose scale is used for both: rescale them"
    )
    return (warning,)


def convergence_warnings(trace: Trace, *, max_iter: int, task: str = "") -> tuple[str, ...]:
    """Return a warning if optimisations stopped at ``max_iter``.

    Parameters
    ----------
    task
        Only optimisations for this task count; all if empty.
    """
    loops = [name for name, reason in trace.stop_reasons.items() if reason == "max_iter"]
    loops = [name for name in loops if not name.startswith(PROJECTION)]
    loops = [name for name in loops if not task or f"'{task}'" in name]
    if not loops:
        return ()
    subject = f"{len(loops)} optimisation" + ("s" if len(loops) > 1 else "")
    warning = (
        f"{subject} (the first: {loops[0]}) did not converge in {max_iter} iterations; "
        "increase max_iter"
    )
    return (warning,)
