"""The model class of all discriminant algorithms: a projection and a classifier for each task."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from algorithms.families.projections.parts import TaskProjection, nearest_class, per_class
from algorithms.interface.errors import InvalidData
from algorithms.interface.model import Embedding, Model, check_array
from algorithms.interface.tasks import tasks_have
from algorithms.numerics.arrays import Array

#: Maximum size of a block of distances.
MAX_BLOCK_SIZE = 4_000_000


@final
@dataclass(frozen=True, slots=True, eq=False)
class ProjectionClassifier(Model):
    """A projection for each task, with a nearest-neighbour or nearest-centroid classifier.

    Distances that differ by less than 1e-12, relative to the size of the rows, count as equal.
    Among equally near references, the nearest in the full (standardised) space counts; if these
    distances are equal, too, the label that sorts first. Ties are common if the trace ratio is 1,
    because every class is then a single point.

    Parameters
    ----------
    algorithm
        Name of the algorithm that trained the model.
    tasks
        Names of the tasks, in the order of ``parts``.
    P : (d', k) or None
        Common part of U_i = W_i P, for algorithms with such parts.
    fit_info
        Results of the fit besides arrays, as JSON: parameters, α, selection errors, ...
    """

    # without field(), dataclass would use the abstract properties of Model as defaults
    algorithm: str = field()
    tasks: tuple[str, ...] = field()
    parts: tuple[TaskProjection, ...]
    P: Array | None
    fit_info: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def metrics(self) -> dict[str, dict[str, float]]:
        """Ratio of between-class to total variance of the projected training rows."""
        ratios = {name: part.trace_ratio for name, part in zip(self.tasks, self.parts, strict=True)}
        return {"trace_ratio": ratios}

    def part_of(self, task: str) -> TaskProjection:
        """Return the part of a task."""
        return self.parts[self.task_index(task)]

    def width(self, method: str, *, task: str) -> int:
        """Return the number of features of the task."""
        del method
        return int(self.part_of(task).U.shape[0])

    def classes(self, task: str) -> tuple[str, ...] | tuple[int, ...]:
        """Return the sorted labels of a task; ``distances`` has its columns in this order."""
        return self.part_of(task).classes

    def transform(self, X: object, *, task: str) -> Array:
        """Return the coordinates ((X - mean) / scale) U of rows, (n_samples, k_i)."""
        part = self.part_of(task)
        return part.standardised(self.check_rows(X, method="transform", task=task)) @ part.U

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return the label of the nearest training row or class mean, (n_samples,)."""
        part = self.part_of(task)
        blocks = self._distance_blocks(X, method="predict", task=task)
        chosen = [nearest_class(part, rows, distances) for rows, distances in blocks]
        return np.array(part.classes)[np.concatenate(chosen)]

    def distances(self, X: object, *, task: str) -> Array:
        """Return the distance to the nearest training row, or to the mean, of each class.

        It is in the projected space, (n_samples, n_classes), with columns in the order of
        :meth:`classes`.
        """
        part = self.part_of(task)
        blocks = self._distance_blocks(X, method="distances", task=task)
        return np.concatenate([per_class(distances, part) for _, distances in blocks])

    def _distance_blocks(
        self, X: object, *, method: str, task: str
    ) -> Iterator[tuple[Array, Array]]:
        """Yield blocks of standardised rows (n, d_i) and their distances to prototypes (n, m_i).

        The size of the blocks is bounded; there is at least one block.
        """
        rows = self.check_rows(X, method=method, task=task)
        part = self.part_of(task)
        n_rows = max(MAX_BLOCK_SIZE // max(len(part.references), 1), 1)
        for start in range(0, max(len(rows), 1), n_rows):
            with np.errstate(over="ignore", invalid="ignore"):
                block = part.standardised(rows[start : start + n_rows])
                distances = cdist(block @ part.U, part.prototypes)
                is_finite = np.isfinite(distances).all(axis=1)
                is_finite &= np.isfinite((block**2).sum(axis=1))
            if not is_finite.all():
                row = start + int(is_finite.argmin())
                raise InvalidData(
                    f"task '{task}', row {row} has values so large that its distances overflow; "
                    "use the units of the training rows",
                    task=task,
                    row=row,
                )
            yield block, distances

    def embedding(self, task: str) -> Embedding:
        """Return the projected training rows, or class means, with which rows are compared."""
        part = self.part_of(task)
        classes = tuple(np.array(part.classes)[part.labels].tolist())
        is_means = len(part.labels) == len(set(part.labels.tolist()))
        return Embedding(part.prototypes, classes, "class means" if is_means else "training rows")

    def learned(self) -> dict[str, Any]:
        """Return the directions of each task as rows, by task if there are several.

        They are directions of standardised columns.
        """
        directions = {name: part.U.T for name, part in zip(self.tasks, self.parts, strict=True)}
        sole = next(iter(directions.values()))
        return {"components": directions if len(directions) > 1 else sole}

    def check_stored(self) -> None:
        """Raise ValueError if the arrays and the header of a file do not fit together."""
        if len(self.tasks) != len(self.parts):
            raise ValueError(f"{len(self.parts)} parts for {len(self.tasks)} tasks")
        for name, part in zip(self.tasks, self.parts, strict=True):
            d, k = part.U.shape
            m = len(part.labels)
            expected = {"mean": (d,), "scale": (d,), "references": (m, d), "prototypes": (m, k)}
            for array, shape in expected.items():
                check_array(getattr(part, array), shape, name=f"{array} of '{name}'")
            if not set(part.labels.tolist()) <= set(range(len(part.classes))):
                raise ValueError(f"labels of '{name}' do not match its {len(part.classes)} classes")


def adapt_model(
    model: ProjectionClassifier,
    name: str,
    part: TaskProjection,
    *,
    fit_info: Mapping[str, Any],
    warnings: Sequence[str] = (),
) -> ProjectionClassifier:
    """Return the model with a new task.

    Parameters
    ----------
    fit_info
        Results for this task, which are added to ``fit_info["by_task"]``.
    """
    by_task = {**model.fit_info["by_task"], name: dict(fit_info)}
    return replace(
        model,
        tasks=(*model.tasks, name),
        parts=(*model.parts, part),
        fit_info={**model.fit_info, "by_task": by_task},
        warnings=(*model.warnings, *warnings),
    )


def dimension_warnings(dimensions: Mapping[str, tuple[int, int]]) -> tuple[str, ...]:
    """Return a warning if d was lowered for some tasks.

    Parameters
    ----------
    dimensions
        Requested and actual dimension of each task.
    """
    low = {name: pair for name, pair in dimensions.items() if pair[1] < pair[0]}
    if not low:
        return ()
    name, (d, k) = next(iter(low.items()))
    warning = (
        f"d was lowered for {len(low)} of {len(dimensions)} tasks with fewer dimensions "
        f"(the first is '{name}': {k} instead of {d}); decrease d or add rows"
    )
    return (warning,)


def no_variance_warnings(flat: Sequence[str], n_tasks: int) -> tuple[str, ...]:
    """Return a warning about tasks without variance, given by name."""
    return (f"{tasks_have(flat, n_tasks)} no variance",) if flat else ()
