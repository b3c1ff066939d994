"""A trained model with calibrated outputs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from algorithms.interface.methods import DEFAULT_LEVEL
from algorithms.interface.model import Model, apply
from algorithms.interface.new_tasks import no_common_part
from algorithms.numerics.arrays import Array
from algorithms.numerics.row_hashes import hash_rows
from algorithms.wrappers.calibration.conformal import (
    OWN_ROWS,
    ConformalScores,
    adaptive_scores,
    enough_rows_for,
    intervals,
    largest_level,
    prediction_sets,
    rows_for,
)
from algorithms.wrappers.calibration.left_out_tasks import (
    LeftOutTasks,
    TaskScores,
    load_left_out,
    mean_errors,
)
from algorithms.wrappers.calibration.probabilities import ProbabilityMap
from algorithms.wrappers.calibration.scores import SCORE_METHODS, class_scores
from algorithms.wrappers.stored import Load, below, inside, numbered
from algorithms.wrappers.wrapped_model import WrappedModel

#: Methods of calibrated models by kind of targets.
METHODS_FOR: Final = {
    "classes": ("predict_proba", "predict_set"),
    "numbers": ("predict_interval",),
}
#: Methods that only models with a calibration have.
CALIBRATED_METHODS: Final = frozenset(
    method for methods in METHODS_FOR.values() for method in methods
)

CALIBRATION: Final = "calibration"
_LEFT_OUT: Final = "left_out"
#: Largest number that the hash of a row can be, plus 1.
_HASHES: Final = 2.0**64


@dataclass(frozen=True, eq=False)
class CalibratedModel(WrappedModel):
    """A model with probabilities of its classes and sets of them, or with intervals of its numbers.

    Attributes
    ----------
    folds
        The model without each fold of the training rows.
    maps
        Map from scores to probabilities of each task, in the order of the tasks; none for numbers.
    conformal
        Scores of the held-out rows.
    quality
        Quality of the probabilities on held-out training rows; empty for numbers.
    costs
        Factor of the probability of each class of each task, in the order of the tasks, by which
        predictions are chosen; empty if the model itself chooses them.
    left_out
        Calibration for tasks that were not trained; None without.
    """

    folds: Sequence[Model]
    maps: Sequence[ProbabilityMap]
    conformal: ConformalScores | TaskScores
    quality: dict[str, Any]
    costs: Sequence[Sequence[float]] = ()
    left_out: LeftOutTasks | None = None

    @property
    def takes_missing(self) -> frozenset[str]:  # type: ignore[override]
        """Methods that accept NaN for missing values."""
        own_methods = self._own_methods() if self._source() in self.inner.takes_missing else ()
        return self.inner.takes_missing | set(own_methods)

    def width(self, method: str, *, task: str) -> int:
        """Return the number of input columns of a method for a task."""
        source = self._source() if method in CALIBRATED_METHODS else method
        return self.inner.width(source, task=task)

    def for_new_tasks(self, names: tuple[str, ...]) -> Model:
        """Return the model of tasks without rows, calibrated if tasks were left out for that.

        Raises
        ------
        UnknownTask
            There is no common part, or a threshold but no probabilities for these tasks.
        """
        inner = self.inner.for_new_tasks(names)
        left_out = self.left_out
        if left_out is None:
            if self.costs:
                why = "its threshold needs a calibration with 'leave_tasks_out'"
                raise no_common_part(self.algorithm, names, why)
            return inner
        folds = [model.for_new_tasks(names) for model in left_out.folds]
        maps = tuple(left_out.maps) * len(names)
        return CalibratedModel(inner, folds, maps, left_out.conformal, {}, self._costs_in(inner))

    def _costs_in(self, model: Model) -> list[list[float]]:
        """Return the costs of the classes of a model's tasks, as those of the same labels here."""
        if not self.costs:
            return []
        costs = {
            label: cost
            for task, of_task in zip(self.tasks, self.costs, strict=True)
            for label, cost in zip(self.classes(task), of_task, strict=True)
        }
        return [[costs[label] for label in model.classes(task)] for task in model.tasks]

    def learned(self) -> dict[str, Any]:
        """Return the learned quantities by their scikit-learn names."""
        return self.inner.learned() | {"calibration": self.report()}

    def available_methods(self) -> tuple[str, ...]:
        """Return the names of the methods that this model supports, given its data."""
        return tuple(dict.fromkeys((*self.inner.available_methods(), *self._own_methods())))

    def report(self) -> dict[str, Any]:
        """Return the quality of probabilities, and for which levels the tasks have rows, as JSON.

        ``own_rows_to`` is the level up to which a task uses its own held-out rows, and ``largest``
        the largest level of bounded intervals, and of sets that need not have all classes.
        """
        counts = np.bincount(self.conformal.owner, minlength=len(self.tasks)).tolist()
        levels = {
            task: {
                "n_held_out": n,
                "own_rows_to": max(0.0, 1.0 - OWN_ROWS / n) if n else 0.0,
                "largest": largest_level(self.conformal, t),
            }
            for t, (task, n) in enumerate(zip(self.tasks, counts, strict=True))
        }
        return {
            **self.quality,
            "levels": levels,
            "new_tasks": None if self.left_out is None else self._compare_with_new_tasks(),
        }

    def _compare_with_new_tasks(self) -> dict[str, Any]:
        """Return the errors on rows of trained tasks, and of tasks that were left out."""
        assert self.left_out is not None  # checked by the caller
        n_tasks = len(np.unique(self.left_out.conformal.owner))
        after = self.quality.get("after", {})
        conformal = self.conformal
        rows = {name: after[name] for name in ("brier", "log_loss") if name in after}
        return {
            "n_tasks": n_tasks,
            "largest": n_tasks / (n_tasks + 1),
            "left_out_rows": rows or mean_errors(conformal.scores, conformal.owner),
            "left_out_tasks": self.left_out.errors,
        }

    def predict(self, X: Any, *, task: str) -> NDArray[Any]:
        """Return predicted numbers or labels of rows; labels by the costs of missing a class."""
        if not self.costs:
            return super().predict(X, task=task)
        # checked, because the largest of several NaN would be the first class
        p = apply(self, "predict_proba", X, task=task)
        weighed = p * self.costs[self.task_index(task)]
        labels: NDArray[Any] = np.asarray(self.classes(task))[weighed.argmax(axis=1)]
        return labels

    def predict_proba(self, X: object, *, task: str) -> Array:
        """Return the probabilities of the classes of rows, (n_samples, n_classes)."""
        return self._probabilities(self.inner, X, task)

    def predict_interval(self, X: object, *, task: str, level: float = DEFAULT_LEVEL) -> Array:
        """Return the ends (n_samples, 2) of intervals with the targets of rows.

        Parameters
        ----------
        level
            Share of new rows whose target is in the interval
            (:mod:`algorithms.wrappers.calibration.conformal`).

        Raises
        ------
        InvalidData
            The task has too few rows for the level, and there are too few tasks to borrow from.
        """
        held_out = enough_rows_for(self.conformal, self.task_index(task), level, task=task)
        models: Sequence[Any] = self.folds
        predictions = [model.predict(X, task=task) for model in models]
        return intervals(np.stack(predictions, axis=1), held_out, level)

    def predict_set(self, X: Any, *, task: str, level: float = DEFAULT_LEVEL) -> Array:
        """Return 1 for the classes in the set of each row, else 0, (n_samples, n_classes).

        Parameters
        ----------
        level
            Share of new rows whose class is in the set
            (:mod:`algorithms.wrappers.calibration.conformal`).
        """
        held_out = rows_for(self.conformal, self.task_index(task), level)
        checked: Any = self.inner.check_rows(X, method=self._source(), task=task)
        # random for the guarantee, but always the same for a row
        u = hash_rows(checked) / _HASHES
        scores = [adaptive_scores(self._probabilities(m, X, task), u) for m in self.folds]
        return prediction_sets(scores, held_out, level).astype(np.float64)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name."""
        arrays = inside("conformal", self.conformal.to_arrays())
        for t, task_map in enumerate(self.maps):
            arrays |= inside(f"maps/{t}", task_map.to_arrays())
        for i, model in enumerate(self.folds):
            arrays |= inside(f"folds/{i}", model.to_arrays())
        if self.left_out is not None:
            arrays |= inside(_LEFT_OUT, self.left_out.to_arrays())
        return self.inner.to_arrays() | inside(CALIBRATION, arrays)

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON."""
        folds = [model.header() for model in self.folds]
        calibration: dict[str, Any] = {"quality": self.quality, "folds": folds}
        if self.costs:
            calibration["costs"] = [list(costs) for costs in self.costs]
        if self.left_out is not None:
            calibration[_LEFT_OUT] = self.left_out.header()
        return self.inner.header() | {CALIBRATION: calibration}

    def _own_methods(self) -> tuple[str, ...]:
        return METHODS_FOR["classes" if self.maps else "numbers"]

    def _source(self) -> str:
        """Return the method of the model that the calibrated methods use."""
        methods = self.inner.available_methods() if self.maps else ("predict",)
        return next(name for name in SCORE_METHODS if name in methods)

    def _probabilities(self, model: Model, X: object, task: str) -> Array:
        task_map = self.maps[self.task_index(task)]
        return task_map.apply(class_scores(model, X, task=task))


def load_calibration(
    inner: Model, arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any], *, load: Load
) -> CalibratedModel:
    """Return the model with the calibration in a model file.

    Parameters
    ----------
    load
        Makes the model without a fold.
    """
    stored = below(arrays, CALIBRATION)
    maps = numbered(below(stored, "maps"))
    folds = numbered(below(stored, "folds"))
    conformal = ConformalScores.from_arrays(
        below(stored, "conformal"), n_tasks=len(inner.tasks), has_scale=not maps
    )
    models = [load(folds[i], fold_header) for i, fold_header in enumerate(header["folds"])]
    return CalibratedModel(
        inner,
        models,
        [ProbabilityMap.from_arrays(maps[t]) for t in range(len(maps))],
        conformal,
        dict(header["quality"]),
        header.get("costs", ()),
        load_left_out(below(stored, _LEFT_OUT), header[_LEFT_OUT], load=load)
        if _LEFT_OUT in header
        else None,
    )
