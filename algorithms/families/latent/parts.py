"""The part of a latent variable model for one task, and its storage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from algorithms.families.latent.gp import project_rows_traced
from algorithms.interface.model import check_array
from algorithms.interface.tasks import Task
from algorithms.interface.trace import PROJECTION, Trace
from algorithms.numerics.arrays import Array
from algorithms.numerics.centering import centre_columns
from algorithms.numerics.gp_covariances import COVARIANCES
from algorithms.numerics.latent_projection import Predictor

Classes = tuple[str, ...] | tuple[int, ...]

_PROCESS = ("theta", "active", "P", "A", "C")


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRows:
    """Labelled training rows for the nearest-neighbour classifier in the latent space.

    Parameters
    ----------
    X : (m, L)
        Latents of the rows; m = 0 without labels.
    labels : (m,)
        Position of the class of each row in ``classes``, which is sorted.
    """

    X: Array
    labels: NDArray[np.int64]
    classes: Classes


@final
@dataclass(frozen=True, slots=True, eq=False)
class LatentPart:
    """The model of one task.

    Parameters
    ----------
    process
        Gaussian process from latents to standardised rows.
    mean : (D,)
    scale
        Standardised rows are (y - mean) / scale.
    rmse, r2
        Root mean squared error of the reconstructed training rows in the units of the data, and
        their explained share of the variance.
    """

    process: Predictor
    mean: Array
    scale: float
    references: LabelledRows
    rmse: float
    r2: float

    def standardised(self, rows: Array) -> Array:
        """Return standardised rows."""
        return (rows - self.mean) / self.scale

    def restored(self, rows: Array) -> Array:
        """Return standardised rows in the units of the data."""
        return rows * self.scale + self.mean


def build_part(
    process: Predictor,
    task: Task,
    *,
    mean: Array,
    scale: float,
    labelled: Task | None,
    is_robust: bool,
    trace: Trace,
) -> LatentPart:
    """Return the part of a task; it runs :func:`n_projections` loops.

    Parameters
    ----------
    labelled
        The task whose labelled rows classify rows of this task; None without labels.
    """

    def latents(rows: Array, loop: str) -> Array:
        return project_rows_traced(process, rows, is_robust=is_robust, trace=trace, loop=loop)

    Y = (task.X - mean) / scale
    labelled_X = None
    if labelled is not None and labelled.name != task.name:
        rows = (labelled.X - labelled.X.mean(axis=0)) / scale
        labelled_X = latents(rows, f"{PROJECTION} labelled rows for '{task.name}'")
    X = latents(Y, f"{PROJECTION} rows of '{task.name}'")
    residual = float(np.mean((process.mean(X) - Y) ** 2))
    total = float(np.mean((centre_columns(task.X) / scale) ** 2))
    return LatentPart(
        process=process,
        mean=mean,
        scale=scale,
        references=_references(labelled, X if labelled_X is None else labelled_X),
        rmse=scale * float(np.sqrt(residual)),
        r2=1.0 - residual / total if total > 0 else 0.0,
    )


def n_projections(task: Task, labelled: Task | None) -> int:
    """Return the number of loops of :func:`build_part`."""
    return 1 if labelled is None or labelled.name == task.name else 2


def labelled_task(task: Task, source: Task) -> Task | None:
    """Return the task whose labels are used for a task: itself, or the source, or None."""
    return next((candidate for candidate in (task, source) if candidate.target == "classes"), None)


def write_part(part: LatentPart, i: int) -> dict[str, NDArray[Any]]:
    """Return the arrays of part ``i`` by name; the names end in ``.i``."""
    arrays: dict[str, NDArray[Any]] = {
        f"{name}.{i}": getattr(part.process, name) for name in _PROCESS
    }
    numbers = np.array([part.process.noise, part.scale, part.rmse, part.r2])
    return arrays | {
        f"mean.{i}": part.mean,
        f"references.{i}": part.references.X,
        f"labels.{i}": part.references.labels,
        f"numbers.{i}": numbers,
    }


def read_part(
    arrays: Mapping[str, NDArray[Any]], i: int, *, kernel: Any, classes: Sequence[Any]
) -> LatentPart:
    """Return the part of a task from the arrays of :func:`write_part`.

    Parameters
    ----------
    i
        Position of the task in the model.
    classes
        Labels of the task, sorted.

    Raises
    ------
    ValueError
        The arrays are inconsistent.
    """
    theta, active, P, A, C = (arrays[f"{name}.{i}"] for name in _PROCESS)
    mean, X, labels = (arrays[f"{name}.{i}"] for name in ("mean", "references", "labels"))
    noise, scale, rmse, r2 = (float(number) for number in arrays[f"numbers.{i}"])
    r, L = active.shape
    expected = {
        "theta": (theta, (3,)),
        "P": (P, (r, r)),
        "A": (A, (r, len(mean))),
        "C": (C, (r, r)),
        "references": (X, (len(labels), L)),
    }
    for name, (array, shape) in expected.items():
        check_array(array, shape, name=f"{name}.{i}")
    if not set(labels.tolist()) <= set(range(len(classes))):
        raise ValueError(f"labels.{i} are not positions of {len(classes)} classes")
    at_active = COVARIANCES[kernel].matrix(active, active, theta)
    process = Predictor(kernel, theta, noise, active, P, A, C, at_active)
    return LatentPart(process, mean, scale, LabelledRows(X, labels, tuple(classes)), rmse, r2)


def _references(labelled: Task | None, X: Array) -> LabelledRows:
    if labelled is None or labelled.y is None:
        return LabelledRows(np.zeros((0, X.shape[1])), np.zeros(0, dtype=np.int64), ())
    classes = labelled.class_labels()
    labels = np.searchsorted(classes, labelled.y).astype(np.int64)
    return LabelledRows(X, labels, tuple(classes.tolist()))
