"""The weighted ensemble: models of several methods, and their weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, final

import numpy as np
from numpy.typing import NDArray

from algorithms.ensemble.contenders import ALGORITHMS, Algo
from algorithms.ensemble.held_out import Labels, outputs_of, places_of
from algorithms.ensemble.stack import log_probabilities
from algorithms.ensemble.weights import mix
from algorithms.interface.errors import UnknownTask
from algorithms.interface.header import dump_header, load_header
from algorithms.interface.methods import DEFAULT_LEVEL
from algorithms.interface.model import Model, apply, check_array
from algorithms.interface.new_tasks import no_common_part
from algorithms.interface.relations import Relations
from algorithms.interface.tasks import TargetKind, Task
from algorithms.numerics.arrays import Array
from algorithms.wrappers.by_parts.model import load_parts
from algorithms.wrappers.calibration.conformal import (
    ConformalScores,
    adaptive_scores,
    enough_rows_for,
    intervals,
    prediction_sets,
    rows_for,
)
from algorithms.wrappers.stored import below, inside, numbered


@final
@dataclass(frozen=True, slots=True, eq=False)
class EnsembleModel(Model):
    """Models of all rows, mixed by weights that were learned from held-out rows.

    Parameters
    ----------
    labels
        Labels of each task, sorted; none for numbers.
    members
        The models, by decreasing weight. One of weight 0 answers for tasks that were not trained
        where no other can. Members that could not learn a task that was added do not have it.
    weights : (M,)
        Of sum 1.
    maps : (M, C, 2)
        Slope and intercept of the sigmoid from the score of each label of all tasks, sorted, to its
        probability; (M, 0, 2) for numbers.
    conformal
        Residuals of numbers, or adaptive scores of classes, for held-out rows; None for tasks that
        were not trained.
    seconds
        Processor time of each contender, by its label; not stored, since it differs between equal
        fits.
    """

    # without field(), dataclass would use the abstract properties of Model as defaults
    algorithm: str = field()
    tasks: tuple[str, ...] = field()
    labels: tuple[Labels, ...]
    members: tuple[Model, ...]
    weights: Array
    maps: Array
    conformal: ConformalScores | None
    fit_info: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def takes_sparse(self) -> bool:
        """Whether the methods accept sparse rows."""
        return all(member.takes_sparse for member in self.members)

    @classmethod
    def methods_for(cls, target: TargetKind) -> tuple[str, ...]:
        """Return the names of the methods for a task with the given kind of targets."""
        numbers = ("predict", "predict_interval")
        return (
            numbers if target == "numbers" else tuple(m for m in cls.methods() if m != numbers[1])
        )

    def available_methods(self) -> tuple[str, ...]:
        """Return the names of the methods that work for the targets of the tasks."""
        found = self.methods_for("classes" if self.labels else "numbers")
        if self.conformal is not None:
            return found
        return tuple(name for name in found if name not in ("predict_interval", "predict_set"))

    def width(self, method: str, *, task: str) -> int:
        """Return the number of features."""
        del method
        self.task_index(task)
        used, _ = self._of(task)
        first: Model = self.members[used[0]]
        return first.width("predict", task=task)

    def classes(self, task: str) -> Labels:
        """Return the labels of a task, sorted; empty for numbers."""
        t = self.task_index(task)
        return self.labels[t] if self.labels else ()

    def relations(self) -> Relations | None:
        """Return the relations of the tasks in the heaviest member that has some."""
        found = (one.relations() for one in self.members if len(one.tasks) == len(self.tasks))
        return next((one for one in found if one is not None), None)

    def coefficients(self, task: str) -> Array | None:
        """Return the weighted mean of the coefficients; None if a member is not linear."""
        self.task_index(task)
        used, weights = self._of(task)
        parts = [self.members[i].coefficients(task) for i in used]
        if self.labels or any(part is None for part in parts):
            return None
        found = zip(weights, parts, strict=True)
        return np.asarray(sum(w * part for w, part in found if part is not None))

    def learned(self) -> dict[str, Any]:
        """Return the expected score, and the contenders of the race."""
        return self.race()

    def race(self) -> dict[str, Any]:
        """Return the expected score, and for each contender its score, weight, and seconds."""
        contenders = [
            {**one, "seconds": self.seconds.get(one["label"])}
            for one in self.fit_info["contenders"]
        ]
        return {"expected": self.fit_info["expected"], "contenders": contenders}

    def predict(self, X: object, *, task: str) -> NDArray[Any]:
        """Return the weighted mean of the numbers, or the most probable label, (n_samples,)."""
        rows = self.check_rows(X, method="predict", task=task)
        if not self.labels:
            return self._numbers(rows, task)
        return np.asarray(np.array(self.classes(task))[self._mixed(rows, task).argmax(axis=1)])

    def decision_function(self, X: object, *, task: str) -> Array:
        """Return logarithms of the probabilities of the classes, (n_samples, n_classes).

        For two classes, the logarithm of the odds of the second, (n_samples,).
        """
        p = self._mixed(self.check_rows(X, method="decision_function", task=task), task)
        logarithms = np.log(np.maximum(p, np.finfo(np.float64).tiny))
        return logarithms[:, 1] - logarithms[:, 0] if p.shape[1] == 2 else logarithms

    def predict_proba(self, X: object, *, task: str) -> Array:
        """Return the probability of each class, (n_samples, n_classes)."""
        return self._mixed(self.check_rows(X, method="predict_proba", task=task), task)

    def predict_interval(self, X: object, *, task: str, level: float = DEFAULT_LEVEL) -> Array:
        """Return the ends (n_samples, 2) of intervals with the targets of rows.

        Their widths are those of residuals of held-out rows
        (:mod:`algorithms.wrappers.calibration.conformal`).
        """
        rows = self.check_rows(X, method="predict_interval", task=task)
        t = self.task_index(task)
        held_out = enough_rows_for(self._held_out(task), t, level, task=task)
        return intervals(self._numbers(rows, task)[:, np.newaxis], held_out, level)

    def predict_set(self, X: object, *, task: str, level: float = DEFAULT_LEVEL) -> Array:
        """Return 1 for the classes in the set of each row, else 0, (n_samples, n_classes).

        The most probable class is always in it: nothing is random, so that units change nothing.
        """
        rows = self.check_rows(X, method="predict_set", task=task)
        held_out = rows_for(self._held_out(task), self.task_index(task), level)
        scores = adaptive_scores(self._mixed(rows, task), np.zeros(rows.shape[0]))
        return prediction_sets([scores], held_out, level).astype(np.float64)

    def for_new_tasks(self, names: tuple[str, ...]) -> "EnsembleModel":
        """Return a model of tasks without rows, of the members that have a common part."""
        if len(set(self.labels)) > 1:
            raise no_common_part(self.algorithm, names, "its tasks have different classes")
        found = {}
        for i, member in enumerate(self.members):
            try:
                found[i] = member.for_new_tasks(names)
            except UnknownTask:
                continue
        if not found:
            raise no_common_part(self.algorithm, names)
        chosen = list(found)
        weights = self.weights[chosen]
        equal = np.full(len(chosen), 1.0 / len(chosen))
        return replace(
            self,
            tasks=names,
            labels=self.labels[:1] * len(names),
            members=tuple(found.values()),
            weights=weights / weights.sum() if weights.any() else equal,
            maps=self.maps[chosen],
            conformal=None,
        )

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return every learned array by name; those of members are in folders."""
        arrays: dict[str, NDArray[Any]] = {"weights": self.weights, "maps": self.maps}
        if self.conformal is not None:
            arrays |= inside("conformal", self.conformal.to_arrays())
        for i, member in enumerate(self.members):
            arrays |= inside(f"members/{i}", member.to_arrays())
        return arrays

    def header(self) -> dict[str, Any]:
        """Return everything but the arrays, as JSON."""
        members = [{"algorithm": one.algorithm, "model": one.header()} for one in self.members]
        labels = [list(some) for some in self.labels]
        return {**dump_header(self), "labels": labels, "members": members}

    @classmethod
    def from_arrays(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        header: Mapping[str, Any],
        *,
        find: Callable[[str], Algo] = ALGORITHMS.__getitem__,
    ) -> Self:
        """Return the model from the results of :meth:`to_arrays` and :meth:`header`.

        Parameters
        ----------
        find
            Returns an algorithm by its name; those of the race are known without it.
        """
        common = load_header(header)
        folders = numbered(below(arrays, "members"))
        members = [
            load_parts(
                folders[i],
                stored["model"],
                load=find(str(stored["algorithm"])).Model.from_arrays,
            )
            for i, stored in enumerate(header["members"])
        ]
        labels = tuple(tuple(some) for some in header["labels"])
        stored_scores, n_tasks = below(arrays, "conformal"), len(common["tasks"])
        conformal = None
        if stored_scores:  # not of a model in a calibration
            conformal = ConformalScores.from_arrays(
                stored_scores, n_tasks=n_tasks, has_scale=not labels
            )
        model = cls(
            **common,
            labels=labels,
            members=tuple(members),
            weights=arrays["weights"],
            maps=arrays["maps"],
            conformal=conformal,
        )
        model.check_stored()
        return model

    def check_stored(self) -> None:
        """Raise ValueError if the parts of a file do not fit together."""
        M, T = len(self.members), len(self.tasks)
        check_array(self.weights, (M,), name="weights")
        check_array(self.maps, (M, len(self.every_label), 2), name="maps")
        known = [set(member.tasks) for member in self.members]
        if set().union(*known) != set(self.tasks):
            raise ValueError("the members have other tasks")
        if len(self.labels) not in {0, T} or not M:
            raise ValueError(f"{len(self.labels)} sets of labels for {T} tasks")

    @cached_property
    def every_label(self) -> Labels:
        """Labels of all tasks, sorted; empty for numbers."""
        if not self.labels:
            return ()
        every: Labels = tuple(
            np.unique(np.concatenate([np.array(some) for some in self.labels])).tolist()
        )
        return every

    def _numbers(self, rows: Array, task: str) -> Array:
        parts = [
            w * apply(self.members[i], "predict", rows, task=task)
            for i, w in zip(*self._of(task), strict=True)
        ]
        return np.asarray(np.sum(parts, axis=0))

    def _of(self, task: str) -> tuple[NDArray[np.intp], Array]:
        """Return the positions and weights of the members that have a task.

        If none of these has a weight, theirs are equal.
        """
        known = np.array([member.has_task(task) for member in self.members])
        weights = self.weights
        if not known.all():
            weights = np.where(known, weights, 0.0)
            weights = weights if weights.any() else known.astype(np.float64)
            weights = weights / weights.sum()
        used = np.flatnonzero(weights)
        return used, weights[used]

    def _mixed(self, rows: Array, task: str) -> Array:
        """Return the probabilities of the classes of a task, (n_samples, n_classes)."""
        every = self.every_label
        own = places_of(self.classes(task), every)
        is_possible = np.zeros((rows.shape[0], len(every)), dtype=bool)
        is_possible[:, own] = True
        used, weights = self._of(task)
        data = Task(task, rows)
        log_p = [
            log_probabilities(outputs_of(self.members[i], data, every), self.maps[i], is_possible)
            for i in used
        ]
        return mix(np.stack(log_p), weights)[0][:, own]

    def _held_out(self, task: str) -> ConformalScores:
        if self.conformal is None:
            why = "its intervals and sets are of rows of trained tasks"
            raise no_common_part(self.algorithm, (task,), why)
        return self.conformal
