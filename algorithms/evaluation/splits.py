"""Ways to divide the rows of tasks into those that train and those that test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from algorithms.evaluation.folds import Rows, draw_part, spread_folds
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet, TaskSummary
from algorithms.interface.units import Units, cells_of, tie_of, units_of

Indices = NDArray[np.intp]
#: Which rows of each task are held out.
HeldOut = Mapping[str, NDArray[np.bool_]]
V = TypeVar("V", bound=np.generic)


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Two sets of rows of the same tasks."""

    train: TaskSet
    test: TaskSet


class Splits(BaseModel):
    """How rows are held out, and how often."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    scheme: Literal["kfold", "holdout", "given"] = Field(
        "kfold",
        description="'kfold': every row is held out once in each repeat. 'holdout': a random part "
        "of each task, again and again. 'given': the rows named in 'given'.",
    )
    n_folds: int = Field(5, ge=2, le=100, description="Folds of 'kfold'.")
    repeats: int = Field(2, ge=1, le=100, description="Repeats of 'kfold'.")
    n_splits: int = Field(10, ge=1, le=1000, description="Splits of 'holdout'.")
    test_size: float = Field(
        0.3, gt=0.0, lt=1.0, description="Part of each task (and class) that 'holdout' holds out."
    )
    given: list[dict[str, list[Annotated[int, Field(ge=0)]]]] | None = Field(
        None,
        min_length=1,
        max_length=1000,
        description="For each split the zero-based rows to test on: `{task: [row, ...]}`.",
    )

    @model_validator(mode="before")
    @classmethod
    def _named_rows_are_given(cls, data: Any) -> Any:
        """Read rows that are named without a scheme as the scheme 'given'."""
        if isinstance(data, dict) and data.get("given") is not None:
            return {"scheme": "given", **data}
        return data

    def check(self, summaries: Sequence[TaskSummary]) -> None:
        """Raise InvalidData where the named rows do not fit these tasks, or none are named."""
        if self.scheme != "given":
            if self.given is not None:
                raise InvalidData(
                    f"rows are named in 'given', but the scheme is '{self.scheme}'; leave one out"
                )
            return
        if self.given is None:
            raise InvalidData("the scheme 'given' needs the rows to hold out, in 'given'")
        for rows in self.given:
            _check_rows(rows, {task.name: task.n_samples for task in summaries})
        if not any(rows for split in self.given for rows in split.values()):
            raise InvalidData("no split in 'given' names a row to hold out; name some")

    def to_json(self) -> dict[str, Any]:
        """Return the scheme and its settings as JSON; named rows are left out."""
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

    def ratio(self, tasks: TaskSet) -> float:
        """Return the number of held-out rows per training row, n_test/n_train."""
        if self.scheme == "kfold":
            return 1.0 / (self.n_folds - 1)
        if self.scheme == "holdout":
            return self.test_size / (1.0 - self.test_size)
        n_rows = sum(task.n_samples for task in tasks)
        n_test = [sum(len(set(rows)) for rows in split.values()) for split in self.given or ()]
        return float(np.mean([n / (n_rows - n) for n in n_test]))

    def split(self, tasks: TaskSet, index: int, *, seed: int, min_rows: int = 1) -> Split | None:
        """Return a split; None where it would hold out no row of any task.

        Raises
        ------
        InvalidData
            Rows are named that are not there, or all rows of a task.
        """
        (held,) = self.held_out(tasks, [index], seed=seed, min_rows=min_rows)
        return divide(tasks, held)

    def held_out(
        self, tasks: TaskSet, indices: Sequence[int], *, seed: int, min_rows: int = 1
    ) -> list[HeldOut]:
        """Return the rows that some of the splits hold out.

        Rows of one unit (:mod:`algorithms.interface.units`) are on the same side of every split,
        those that are named aside.

        Parameters
        ----------
        min_rows
            Rows of every task that every training part keeps, where rows are not named.

        Raises
        ------
        InvalidData
            As in :meth:`split`.
        """
        if self.scheme == "given":
            return [_named(tasks, (self.given or [])[index]) for index in indices]
        units = units_of(tasks)
        if self.scheme == "holdout":
            return [
                by_task(tasks, draw_part(rows, size=self.test_size, min_rows=min_rows))
                for rows in (rows_of(tasks, units, seed=[seed, index]) for index in indices)
            ]
        repeats = {index // self.n_folds for index in indices}
        folds = {
            repeat: folds_of(
                tasks, n_folds=self.n_folds, seed=seed + repeat, units=units, min_rows=min_rows
            )
            for repeat in sorted(repeats)
        }
        places = [divmod(index, self.n_folds) for index in indices]
        return [
            {name: own == fold for name, own in folds[repeat].items()} for repeat, fold in places
        ]


def stratified_split(tasks: TaskSet, *, n_train: int, rng: np.random.Generator) -> Split:
    """Return the tasks with ``n_train`` random rows of each class, and with the other rows.

    A row that belongs together with one that trains (:mod:`algorithms.interface.units`) is in
    neither part.

    Raises
    ------
    InvalidData
        A class has not more than ``n_train`` rows, or no others than those of training units.
    """
    units = units_of(tasks)
    trains = {task.name: _training_rows(task, n_train, rng) for task in tasks}
    known = np.unique(np.concatenate([units.of(name)[rows] for name, rows in trains.items()]))
    train, test = [], []
    for task in tasks:
        left = np.flatnonzero(~np.isin(units.of(task.name), known))
        if not left.size:
            raise InvalidData(
                f"every row of task '{task.name}' belongs together with one that trains: the same "
                "values, or the same group; none is left to test on",
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
                f"task '{task.name}', class '{label}' has {members.size} rows; {n_train} to "
                "train and at least one to test are needed",
                task=task.name,
            )
        is_train[members[:n_train]] = True
    return is_train


def folds_of(
    tasks: TaskSet, *, n_folds: int, seed: int, units: Units | None = None, min_rows: int = 1
) -> dict[str, Indices]:
    """Return the fold of each row of each task; -1 is never held out.

    Classes are spread evenly over the folds, and units are not divided. The folds depend on the
    seed, the labels and the units, not on the order of the tasks; those of a task whose rows are
    all units of their own do not depend on other tasks. A task of covariance matrices is divided
    by its matrices.

    Parameters
    ----------
    min_rows
        Rows of every task that every training part keeps.
    """
    rows = rows_of(tasks, units_of(tasks) if units is None else units, seed=[seed])
    return by_task(tasks, spread_folds(rows, n_folds=n_folds, min_rows=min_rows))


def rows_of(tasks: TaskSet, units: Units, *, seed: Sequence[int]) -> Rows:
    """Return the rows of all tasks as they are dealt out, the tasks in the order of their names."""
    ordered = tasks.by_name()
    ranks = []
    for task in ordered:
        rank = np.empty(task.n_samples, dtype=np.intp)
        order = np.random.default_rng([*seed, task.n_samples]).permutation(task.n_samples)
        rank[order] = np.arange(task.n_samples)
        ranks.append(rank)
    position = np.repeat(np.arange(len(ordered)), [task.n_samples for task in ordered])
    return Rows(position, cells_of(ordered), units.unit, np.concatenate(ranks))


def fold_split(tasks: TaskSet, *, fold: int, n_folds: int, seed: int) -> Split | None:
    """Return the tasks without a fold, and the fold; ``None`` where it holds no row of any task.

    The folds are those of :func:`folds_of`. A task with no row in the fold is in the training part
    only.
    """
    folds = folds_of(tasks, n_folds=n_folds, seed=seed)
    return divide(tasks, {name: own == fold for name, own in folds.items()})


def fold_splits(tasks: TaskSet, *, n_folds: int, seed: int) -> list[Split]:
    """Return the split of every fold that holds rows.

    Raises
    ------
    InvalidData
        No task has two rows (of a class) that can be divided, so that nothing can be held out.
    """
    folds = folds_of(tasks, n_folds=n_folds, seed=seed)
    parts = [
        divide(tasks, {name: own == fold for name, own in folds.items()}) for fold in range(n_folds)
    ]
    splits = [part for part in parts if part is not None]
    if not splits:
        raise nothing_to_hold_out(tasks)
    return splits


def nothing_to_hold_out(tasks: TaskSet) -> InvalidData:
    """Return the error for tasks of which no row can be held out to choose parameters by."""
    return InvalidData(
        f"{explain_nothing_held_out(tasks)}; give the parameters instead of choosing them",
        task=tasks.names[0],
    )


def explain_nothing_held_out(tasks: TaskSet) -> str:
    """Return why no row can be held out, as a clause: too few rows, or which of them are tied."""
    units = units_of(tasks)
    ties = [tie for task in tasks if (tie := tie_of(task, units.of(task.name))) is not None]
    if ties:
        return f"{ties[0]}, and such rows are never divided, which leaves none to hold out"
    first = tasks.names[0]
    who = f"task '{first}' has" if len(tasks) == 1 else f"task '{first}' and all others have"
    return f"{who} one row of each class, or one at all, which leaves none to hold out"


def labels_of(task: Task) -> NDArray[Any]:
    """Return the labels; a task without is refused."""
    if task.y is None or task.target != "classes":
        raise InvalidData(f"task '{task.name}' has no class labels to compare with", task=task.name)
    return task.y


def divide(tasks: TaskSet, held: HeldOut) -> Split | None:
    """Return the tasks without the rows that are held out, and those; None where there are none."""
    train, test = [], []
    for task in tasks:
        is_held = held[task.name]
        train.append(task.take(np.flatnonzero(~is_held)))
        if is_held.any():
            test.append(task.take(np.flatnonzero(is_held)))
    return Split(TaskSet(tuple(train)), TaskSet(tuple(test))) if test else None


def by_task(tasks: TaskSet, values: NDArray[V]) -> dict[str, NDArray[V]]:
    """Return the values of each task, of those of all tasks in the order of their names."""
    ordered = tasks.by_name()
    ends = np.cumsum([task.n_samples for task in ordered])
    return dict(zip(ordered.names, np.split(values, ends[:-1]), strict=True))


def _named(tasks: TaskSet, rows: Mapping[str, Sequence[int]]) -> HeldOut:
    _check_rows(rows, {task.name: task.n_samples for task in tasks})
    held = {}
    for task in tasks:
        held[task.name] = np.zeros(task.n_samples, dtype=bool)
        held[task.name][np.asarray(rows.get(task.name, ()), dtype=np.intp)] = True
    return held


def _check_rows(rows: Mapping[str, Sequence[int]], n_samples: Mapping[str, int]) -> None:
    for name, chosen in rows.items():
        if name not in n_samples:
            raise InvalidData(f"a split names the task '{name}', which is not in the dataset")
        if chosen and max(chosen) >= n_samples[name]:
            raise InvalidData(
                f"a split holds out row {max(chosen)} of task '{name}', which has "
                f"{n_samples[name]} rows, counted from 0",
                task=name,
                row=max(chosen),
            )
        if len(set(chosen)) < len(chosen):
            raise InvalidData(
                f"a split names a row of task '{name}' more than once: {sorted(chosen)[:20]}; "
                "name each row once",
                task=name,
            )
        if len(chosen) == n_samples[name]:
            raise InvalidData(
                f"a split holds out every row of task '{name}'; some must train", task=name
            )
