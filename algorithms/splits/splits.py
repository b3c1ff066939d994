"""Splits of the rows of tasks into training and test parts."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, model_validator

from algorithms.interface.errors import InvalidData
from algorithms.interface.params import StrictModel
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.units import Units, cells_of, divisible_rows, hashes_of, tie_of, units_of
from algorithms.interface.weights import positive_rows
from algorithms.numerics.arrays import Indices
from algorithms.splits.folds import SplitRows, draw_part, spread_folds

#: For each task, whether each row is held out.
HeldOut = Mapping[str, NDArray[np.bool_]]
V = TypeVar("V", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Training and test rows of the same tasks."""

    train: TaskSet
    test: TaskSet


class Splits(StrictModel):
    """How rows are divided into training and test parts, and how often."""

    model_config = ConfigDict(frozen=True)

    scheme: Literal["kfold", "holdout", "given"] = Field(
        "kfold",
        description="'kfold': every row is held out once per repeat. 'holdout': a random part of "
        "each task is held out, n_splits times. 'given': the rows listed in 'given' are held out.",
    )
    n_folds: int = Field(5, ge=2, le=100, description="Number of folds of 'kfold'.")
    repeats: int = Field(2, ge=1, le=100, description="Number of repeats of 'kfold'.")
    n_splits: int = Field(10, ge=1, le=1000, description="Number of splits of 'holdout'.")
    test_size: float = Field(
        0.3, gt=0.0, lt=1.0, description="Share of each task that 'holdout' holds out."
    )
    given: list[dict[str, list[Annotated[int, Field(ge=0)]]]] | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="For each split, the zero-based rows to test on: `{task: [row, ...]}`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _named_rows_are_given(cls, data: Any) -> Any:
        """Default to the scheme 'given' if rows are listed."""
        if isinstance(data, dict) and data.get("given") is not None:
            return {"scheme": "given", **data}
        return data

    def check(self, summaries: Sequence[TaskSummary]) -> None:
        """Raise InvalidData if the tasks do not have the listed rows, or none are listed."""
        if self.scheme != "given":
            if self.given is not None:
                raise InvalidData(
                    f"rows are listed in 'given', but the scheme is '{self.scheme}'; remove one"
                )
            return
        if self.given is None:
            raise InvalidData(
                "the scheme is 'given', but 'given' is missing; list in it the rows to hold out"
            )
        for rows in self.given:
            _check_rows(rows, {task.name: task.n_samples for task in summaries})
        if not any(rows for split in self.given for rows in split.values()):
            raise InvalidData("no split in 'given' lists a row to hold out; list at least one")

    def to_json(self) -> dict[str, Any]:
        """Return the scheme and its settings as JSON, without the listed rows."""
        used = {
            "kfold": {"n_folds", "repeats"},
            "holdout": {"n_splits", "test_size"},
            "given": set[str](),
        }
        return self.model_dump(mode="json", include={"scheme", *used[self.scheme]})

    def count(self) -> int:
        """Return the number of splits."""
        if self.scheme == "kfold":
            return self.n_folds * self.repeats
        return self.n_splits if self.scheme == "holdout" else len(self.given or ())

    def ratio(self, tasks: Iterable[Task | TaskSummary]) -> float:
        """Return the number of held-out rows per training row, n_test/n_train."""
        if self.scheme == "kfold":
            return 1.0 / (self.n_folds - 1)
        if self.scheme == "holdout":
            return self.test_size / (1.0 - self.test_size)
        n_rows = sum(task.n_samples for task in tasks)
        n_test = [sum(len(set(rows)) for rows in split.values()) for split in self.given or ()]
        return float(np.mean([n / (n_rows - n) for n in n_test]))

    def split(self, tasks: TaskSet, index: int, *, seed: int, min_rows: int = 1) -> Split | None:
        """Return a split; None if it would hold out no row of any task.

        Parameters
        ----------
        index
            Position of the split, below :meth:`count`.
        min_rows
            Minimum number of training rows per task, except under the scheme 'given'.

        Raises
        ------
        InvalidData
            A listed row does not exist, or all rows of a task are listed.
        """
        (held_out,) = self.held_out(tasks, [index], seed=seed, min_rows=min_rows)
        return divide(tasks, held_out)

    def held_out(
        self, tasks: TaskSet, indices: Sequence[int], *, seed: int, min_rows: int = 1
    ) -> list[HeldOut]:
        """Return the held-out rows of the splits with the given indices.

        Rows of one unit (:mod:`algorithms.interface.units`) are on the same side of every split,
        and rows of weight 0, which change nothing, are never held out, except under the scheme
        'given'.

        Parameters
        ----------
        min_rows
            Minimum number of training rows per task and split, except under the scheme 'given'.

        Raises
        ------
        InvalidData
            As in :meth:`split`.
        """
        if self.scheme == "given":
            return [_listed(tasks, (self.given or [])[index]) for index in indices]
        kept = _positive(tasks)
        units = units_of(kept)
        if self.scheme == "holdout":
            parts = [
                draw_part(
                    rows_of(kept, units, seed=[seed, index]), size=self.test_size, min_rows=min_rows
                )
                for index in indices
            ]
            return [_widen(tasks, kept, part, fill=False) for part in parts]
        repeats = {index // self.n_folds for index in indices}
        folds = {
            repeat: folds_of(
                tasks, n_folds=self.n_folds, seed=seed + repeat, units=units, min_rows=min_rows
            )
            for repeat in sorted(repeats)
        }
        places = [divmod(index, self.n_folds) for index in indices]
        return [
            {name: task_folds == fold for name, task_folds in folds[repeat].items()}
            for repeat, fold in places
        ]


def stratified_split(tasks: TaskSet, *, n_train: int, rng: np.random.Generator) -> Split:
    """Return a split with ``n_train`` random training rows of each class.

    The other rows are the test part. Rows of the same unit (:mod:`algorithms.interface.units`) as
    a training row are in neither part.

    Raises
    ------
    InvalidData
        A class has ``n_train`` rows or fewer, or no row outside the units of the training rows.
    """
    units = units_of(tasks)
    trains = {task.name: _training_rows(task, n_train, rng) for task in tasks}
    training_units = np.unique(
        np.concatenate([units.of(name)[rows] for name, rows in trains.items()])
    )
    train, test = [], []
    for task in tasks:
        left = np.flatnonzero(~np.isin(units.of(task.name), training_units))
        if not left.size:
            raise InvalidData(
                f"every row of task '{task.name}' has the same values or the same group as a "
                "training row, so no row is left to test on; use fewer training rows",
                task=task.name,
            )
        train.append(task.take(np.flatnonzero(trains[task.name])))
        test.append(task.take(left))
    return Split(TaskSet(tuple(train)), TaskSet(tuple(test)))


def _training_rows(task: Task, n_train: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    order = rng.permutation(task.n_samples)
    y = labels_of(task)
    is_train = np.zeros(task.n_samples, dtype=bool)
    for label in np.unique(y):
        members = order[y[order] == label]
        if members.size <= n_train:
            raise InvalidData(
                f"task '{task.name}', class '{label}' has {members.size} rows, expected at least "
                f"{n_train + 1}: {n_train} to train and one to test",
                task=task.name,
            )
        is_train[members[:n_train]] = True
    return is_train


def folds_of(
    tasks: TaskSet,
    *,
    n_folds: int,
    seed: int,
    units: Units | None = None,
    min_rows: int = 1,
    joins_single: bool = False,
) -> dict[str, Indices]:
    """Return the fold of each row of each task; rows of fold -1 always train.

    Rows are distributed evenly over the folds, and units are not divided. The folds depend on the
    seed, the units, and the names and classes of tasks with classes, but not on the order of the
    tasks; tasks on the same rows hold out the same ones. If each row of a task is a unit by itself,
    the folds of the task do not depend on other tasks. A covariance matrix counts as a row. Rows of
    weight 0 always train.

    Parameters
    ----------
    units
        Units of the rows of positive weight.
    min_rows
        Rows of every task that every training part keeps.
    joins_single
        Whether classes of which a task has a single row count together over all tasks, so that such
        rows are held out, too: else scored rows would lack rare classes.
    """
    kept = _positive(tasks)
    rows = rows_of(kept, units_of(kept) if units is None else units, seed=[seed])
    if joins_single and kept.tasks[0].target == "classes":
        labels = np.concatenate([np.asarray(task.y) for task in kept.by_name()])
        single = np.bincount(rows.cell)[rows.cell] == 1
        codes = np.unique(labels, return_inverse=True)[1]
        cell = np.unique(np.where(single, -1 - codes, rows.cell), return_inverse=True)[1]
        rows = replace(rows, cell=cell.astype(np.intp))
    return _widen(tasks, kept, spread_folds(rows, n_folds=n_folds, min_rows=min_rows), fill=-1)


def rows_of(tasks: TaskSet, units: Units, *, seed: Sequence[int]) -> SplitRows:
    """Return the rows of all tasks, in the order of the tasks' names, with random ranks."""
    ordered = tasks.by_name()
    has_classes = any(task.target == "classes" for task in ordered)
    hashes, first_of = hashes_of(ordered) if has_classes else {}, dict[int, str]()
    ranks = []
    for task in ordered:
        rank = np.empty(task.n_samples, dtype=np.intp)
        key = [*seed, task.n_samples]
        if task.target == "classes":  # rows may be sorted by class, in the same way in every task
            same_rows = int(hashes[task.name].sum())
            key += first_of.setdefault(same_rows, task.name).encode()
        order = np.random.default_rng(key).permutation(task.n_samples)
        rank[order] = np.arange(task.n_samples)
        ranks.append(rank)
    position = np.repeat(np.arange(len(ordered)), [task.n_samples for task in ordered])
    return SplitRows(position, cells_of(ordered), units.unit, np.concatenate(ranks))


def fold_split(tasks: TaskSet, *, fold: int, n_folds: int, seed: int) -> Split | None:
    """Return the split that holds out a fold; None if the fold is empty.

    The folds come from :func:`folds_of`. A task without rows in the fold is in the training
    part only.
    """
    folds = folds_of(tasks, n_folds=n_folds, seed=seed)
    return divide(tasks, {name: task_folds == fold for name, task_folds in folds.items()})


def fold_splits(tasks: TaskSet, *, n_folds: int, seed: int) -> list[Split]:
    """Return the split of every fold that is not empty.

    Raises
    ------
    InvalidData
        No task has two rows (of a class) that can be separated, so all folds are empty.
    """
    folds = folds_of(tasks, n_folds=n_folds, seed=seed)
    parts = [
        divide(tasks, {name: task_folds == fold for name, task_folds in folds.items()})
        for fold in range(n_folds)
    ]
    splits = [part for part in parts if part is not None]
    if not splits:
        raise nothing_to_hold_out(tasks)
    return splits


def nothing_to_hold_out(tasks: TaskSet) -> InvalidData:
    """Return the error that parameters cannot be selected, because no row can be held out."""
    return InvalidData(
        f"{explain_nothing_held_out(tasks)}; set the parameters instead of selecting them",
        task=tasks.names[0],
    )


def explain_nothing_held_out(tasks: TaskSet) -> str:
    """Return why no row can be held out, as a clause: too few rows, or rows that stay together."""
    units = units_of(tasks)
    ties = [tie for task in tasks if (tie := tie_of(task, units.of(task.name))) is not None]
    if ties:
        return f"{ties[0]}; such rows stay together, so no row can be held out"
    first = tasks.names[0]
    if any(divisible_rows(tasks, units).values()):
        n = max(task.n_samples for task in tasks)
        return (
            f"the largest task has {n} rows, all of which are needed to train, so no row can be "
            "held out"
        )
    subject = f"task '{first}' has" if len(tasks) == 1 else f"task '{first}' and all others have"
    return f"{subject} only one row, or one row per class, so no row can be held out"


def labels_of(task: Task) -> NDArray[Any]:
    """Return the labels of a task; raise InvalidData if it has none."""
    if task.y is None or task.target != "classes":
        raise InvalidData(f"task '{task.name}' has no class labels to compare with", task=task.name)
    return task.y


def divide(tasks: TaskSet, held_out: HeldOut) -> Split | None:
    """Return the split with the given test rows; None if there are no test rows."""
    train, test = [], []
    for task in tasks:
        is_test = held_out[task.name]
        train.append(task.take(np.flatnonzero(~is_test)))
        if is_test.any():
            test.append(task.take(np.flatnonzero(is_test)))
    return Split(TaskSet(tuple(train)), TaskSet(tuple(test))) if test else None


def by_task(tasks: TaskSet, values: NDArray[V]) -> dict[str, NDArray[V]]:
    """Return the values of each task, from one array for the rows of all tasks, sorted by task."""
    ordered = tasks.by_name()
    ends = np.cumsum([task.n_samples for task in ordered])
    return dict(zip(ordered.names, np.split(values, ends[:-1]), strict=True))


def _positive(tasks: TaskSet) -> TaskSet:
    """Return the tasks without rows of weight 0."""
    return TaskSet(tuple(positive_rows(task) for task in tasks))


def _widen(
    tasks: TaskSet, kept: TaskSet, values: NDArray[V], *, fill: bool | int
) -> dict[str, NDArray[V]]:
    """Return the values of each task from the values of its rows with positive weight.

    Parameters
    ----------
    fill
        Value of rows of weight 0.
    """
    by_name = by_task(kept, values)
    for task in tasks:
        if task.weights is not None and not task.weights.all():
            wide = np.full(task.n_samples, fill, dtype=values.dtype)
            wide[task.weights > 0] = by_name[task.name]
            by_name[task.name] = wide
    return by_name


def _listed(tasks: TaskSet, rows: Mapping[str, Sequence[int]]) -> HeldOut:
    _check_rows(rows, {task.name: task.n_samples for task in tasks})
    held_out = {}
    for task in tasks:
        held_out[task.name] = np.zeros(task.n_samples, dtype=bool)
        held_out[task.name][np.asarray(rows.get(task.name, ()), dtype=np.intp)] = True
    return held_out


def _check_rows(rows: Mapping[str, Sequence[int]], n_samples: Mapping[str, int]) -> None:
    for name, chosen in rows.items():
        if name not in n_samples:
            raise InvalidData(
                f"a split lists rows of task '{name}', but the dataset has no such task; it has "
                f"{', '.join(n_samples)}"
            )
        if chosen and max(chosen) >= n_samples[name]:
            raise InvalidData(
                f"a split holds out row {max(chosen)} of task '{name}', which has "
                f"{n_samples[name]} rows, counted from 0",
                task=name,
                row=max(chosen),
            )
        if len(set(chosen)) < len(chosen):
            raise InvalidData(
                f"a split lists a row of task '{name}' more than once: {sorted(chosen)[:20]}; "
                "list each row once",
                task=name,
            )
        if len(chosen) == n_samples[name]:
            raise InvalidData(
                f"a split holds out every row of task '{name}'; leave at least one to train on",
                task=name,
            )
