"""Ways to divide the rows of tasks into those that train and those that test."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator

from algorithms.evaluation.folds import even_folds, joint_folds, joint_part, stratified_folds
from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import Task, TaskSet, TaskSummary


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

    def told(self) -> dict[str, Any]:
        """Give the scheme and what it uses, as JSON; of rows that are named, only their scheme."""
        used = {
            "kfold": {"n_folds", "repeats"},
            "holdout": {"n_splits", "test_size"},
            "given": set[str](),
        }
        return self.model_dump(mode="json", include={"scheme", *used[self.scheme]})

    def count(self) -> int:
        """Give the number of splits."""
        if self.scheme == "kfold":
            return self.n_folds * self.repeats
        return self.n_splits if self.scheme == "holdout" else len(self.given or ())

    def ratio(self, tasks: TaskSet) -> float:
        """Give the number of held-out rows per training row, n_test/n_train."""
        if self.scheme == "kfold":
            return 1.0 / (self.n_folds - 1)
        if self.scheme == "holdout":
            return self.test_size / (1.0 - self.test_size)
        n_rows = sum(task.n_samples for task in tasks)
        n_test = [sum(len(set(rows)) for rows in split.values()) for split in self.given or ()]
        return float(np.mean([n / (n_rows - n) for n in n_test]))

    def split(self, tasks: TaskSet, index: int, *, seed: int) -> Split | None:
        """Give a split; None where it would hold out no row of any task.

        Raises
        ------
        InvalidData
            Rows are named that are not there, or all rows of a task.
        """
        if self.scheme == "kfold":
            repeat, fold = divmod(index, self.n_folds)
            return fold_split(tasks, fold=fold, n_folds=self.n_folds, seed=seed + repeat)
        if self.scheme == "given":
            return _given_split(tasks, (self.given or [])[index])
        joint = _joint_labels(tasks)
        if joint is not None:
            rng = np.random.default_rng([seed, index, joint.shape[1]])
            is_held = joint_part(joint, self.test_size, rng)
            return _divide(tasks, lambda _: is_held)
        return _divide(tasks, lambda task: _random_part(task, self.test_size, [seed, index]))


def stratified_split(tasks: TaskSet, *, n_train: int, rng: np.random.Generator) -> Split:
    """Give the tasks with ``n_train`` random rows of each class, and with the other rows.

    Raises
    ------
    InvalidData
        A class has not more than ``n_train`` rows.
    """
    train, test = [], []
    for task in tasks:
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
        train.append(task.take(np.flatnonzero(is_train)))
        test.append(task.take(np.flatnonzero(~is_train)))
    return Split(TaskSet(tuple(train)), TaskSet(tuple(test)))


def _joint_labels(tasks: TaskSet) -> NDArray[np.intp] | None:
    """Give the labels (n_tasks, n_samples) of tasks of the very same rows; None of others."""
    if tasks.tasks[0].target != "classes" or not have_same_rows(tasks):
        return None
    return np.stack([np.unique(labels_of(task), return_inverse=True)[1] for task in tasks])


def have_same_rows(tasks: TaskSet) -> bool:
    """Tell whether there are several tasks, and all have the very same rows."""
    first, *others = tasks
    return bool(others) and all(
        task.X is first.X or np.array_equal(task.X, first.X) for task in others
    )


def fold_split(tasks: TaskSet, *, fold: int, n_folds: int, seed: int) -> Split | None:
    """Give the tasks without a fold, and the fold; ``None`` where it holds no row of any task.

    Classes are spread evenly over the folds. The folds of a task depend on the seed and its
    labels, not on the order of the tasks. A task with no row in the fold is in the training part
    only; one of covariance matrices is divided by its matrices. Tasks of the very same rows are
    divided alike: a row that is held out in one is not trained on in another.
    """
    joint = _joint_labels(tasks)
    if joint is not None:
        rng = np.random.default_rng([seed, joint.shape[1]])
        folds = joint_folds(joint, n_folds=n_folds, rng=rng)
        return _divide(tasks, lambda _: np.equal(folds, fold))

    def is_held(task: Task) -> NDArray[np.bool_]:
        rng = np.random.default_rng([seed, task.n_samples])
        if task.target == "classes":
            folds = stratified_folds(labels_of(task), n_folds=n_folds, rng=rng)
        else:
            folds = even_folds(task.n_samples, n_folds=n_folds, rng=rng)
        return np.equal(folds, fold)

    return _divide(tasks, is_held)


def fold_splits(tasks: TaskSet, *, n_folds: int, seed: int) -> list[Split]:
    """Give the split of every fold that holds rows.

    Raises
    ------
    InvalidData
        No task has two rows (of a class), so that nothing can be held out.
    """
    parts = [fold_split(tasks, fold=fold, n_folds=n_folds, seed=seed) for fold in range(n_folds)]
    splits = [part for part in parts if part is not None]
    if not splits:
        raise nothing_to_hold_out(tasks)
    return splits


def nothing_to_hold_out(tasks: TaskSet) -> InvalidData:
    """Give the error for tasks with too few rows to choose parameters by."""
    first = tasks.names[0]
    who = f"task '{first}' has" if len(tasks) == 1 else f"task '{first}' and all others have"
    return InvalidData(
        f"{who} one row of each class, or one at all, which leaves none to hold out; give the "
        "parameters instead of choosing them",
        task=first,
    )


def labels_of(task: Task) -> NDArray[Any]:
    """Give the labels; a task without is refused."""
    if task.y is None or task.target != "classes":
        raise InvalidData(f"task '{task.name}' has no class labels to compare with", task=task.name)
    return task.y


def _divide(tasks: TaskSet, is_held: Callable[[Task], NDArray[np.bool_]]) -> Split | None:
    train, test = [], []
    for task in tasks:
        held = is_held(task)
        train.append(task.take(np.flatnonzero(~held)))
        if held.any():
            test.append(task.take(np.flatnonzero(held)))
    return Split(TaskSet(tuple(train)), TaskSet(tuple(test))) if test else None


def _random_part(task: Task, size: float, seed: Sequence[int]) -> NDArray[np.bool_]:
    """Tell which rows to hold out: a part of each class, and never the last row of one."""
    rng = np.random.default_rng([*seed, task.n_samples])
    order = rng.permutation(task.n_samples)
    groups = labels_of(task) if task.target == "classes" else np.zeros(task.n_samples)
    held = np.zeros(task.n_samples, dtype=bool)
    for group in np.unique(groups):
        members = order[groups[order] == group]
        held[members[: min(round(size * members.size), members.size - 1)]] = True
    return held


def _given_split(tasks: TaskSet, rows: Mapping[str, Sequence[int]]) -> Split | None:
    _check_rows(rows, {task.name: task.n_samples for task in tasks})

    def is_held(task: Task) -> NDArray[np.bool_]:
        held = np.zeros(task.n_samples, dtype=bool)
        held[np.asarray(rows.get(task.name, ()), dtype=np.intp)] = True
        return held

    return _divide(tasks, is_held)


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
