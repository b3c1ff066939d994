"""What an algorithm needs of its tasks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from algorithms.interface.errors import InvalidData
from algorithms.interface.tasks import TaskSummary

#: What an algorithm needs of the targets; ``"any"``: numbers or classes, alike in all tasks.
TargetNeed = Literal["none", "numbers", "classes", "any"]


@dataclass(frozen=True, slots=True)
class Needs:
    """What an algorithm needs of its tasks, said as data so that a misfit becomes a sentence.

    Parameters
    ----------
    same_features
        Every task has the same columns.
    target
        ``"none"``: targets are not needed; ``"any"``: numbers or classes, alike in all tasks.
    covariances
        Covariance matrices may stand in place of rows.
    min_samples
        Fewest rows per task (a task of covariance matrices needs one matrix).
    shared_rows
        Every task has the very same rows, with targets of its own.
    """

    same_features: bool
    target: TargetNeed = "none"
    covariances: bool = False
    min_samples: int = 1
    min_tasks: int = 1
    shared_rows: bool = False

    def check(self, summaries: Sequence[TaskSummary], *, algorithm: str) -> None:
        """Raise InvalidData, naming the first task that does not fit."""
        if len(summaries) < self.min_tasks:
            raise InvalidData(
                f"{algorithm} needs at least {self.min_tasks} tasks, got {len(summaries)}"
            )
        first = summaries[0]
        for task in summaries:
            self.check_task(task, algorithm=algorithm)
            if self.same_features and task.n_features != first.n_features:
                raise InvalidData(
                    f"task '{first.name}' has {first.n_features} features, "
                    f"task '{task.name}' {task.n_features}; "
                    f"{algorithm} needs the same columns in every task",
                    task=task.name,
                )
            if self.same_features:
                _check_names(first, task, algorithm)
            if self.shared_rows and task.n_samples != first.n_samples:
                raise InvalidData(
                    f"task '{first.name}' has {first.n_samples} rows, task '{task.name}' "
                    f"{task.n_samples}; {algorithm} needs the same rows in every task",
                    task=task.name,
                )
            if self.shared_rows and _are_known_to_differ(first, task):
                raise InvalidData(
                    f"task '{task.name}' has other rows than task '{first.name}', or the same in "
                    f"another order; {algorithm} needs the very same rows in every task",
                    task=task.name,
                )
            if self.target == "any" and task.target != first.target:
                raise InvalidData(
                    f"task '{first.name}' has {_TARGET_WORDS[first.target]}, task '{task.name}' "
                    f"{_TARGET_WORDS[task.target]}; {algorithm} needs one kind in every task",
                    task=task.name,
                )

    def check_task(self, task: TaskSummary, *, algorithm: str) -> None:
        """Raise InvalidData where a task by itself does not fit."""
        if task.input == "covariances":
            if not self.covariances:
                raise InvalidData(
                    f"task '{task.name}' holds covariance matrices; {algorithm} needs rows",
                    task=task.name,
                )
        elif task.n_samples < self.min_samples:
            raise InvalidData(
                f"task '{task.name}' has {task.n_samples} row(s); "
                f"{algorithm} needs at least {self.min_samples} in every task",
                task=task.name,
            )
        is_met = task.target != "none" if self.target == "any" else task.target == self.target
        if self.target != "none" and not is_met:
            raise InvalidData(
                f"task '{task.name}' has {_TARGET_WORDS[task.target]}; "
                f"{algorithm} needs {_TARGET_WORDS[self.target]}",
                task=task.name,
            )


def _check_names(first: TaskSummary, task: TaskSummary, algorithm: str) -> None:
    """Raise InvalidData where two tasks name their columns otherwise."""
    expected, names = first.feature_names, task.feature_names
    if expected is None or names is None or names == expected:
        return
    missing = next((name for name in expected if name not in set(names)), None)
    if missing is not None:
        raise InvalidData(
            f"task '{first.name}' has a column '{missing}', task '{task.name}' has none of this "
            f"name; {algorithm} needs the same columns in every task",
            task=task.name,
            column=missing,
        )
    raise InvalidData(
        f"task '{task.name}' has the columns of task '{first.name}' in another order; "
        f"{algorithm} needs the same columns in every task",
        task=task.name,
    )


def _are_known_to_differ(a: TaskSummary, b: TaskSummary) -> bool:
    return a.rows_hash is not None and b.rows_hash is not None and a.rows_hash != b.rows_hash


_TARGET_WORDS: dict[TargetNeed, str] = {
    "none": "no targets",
    "numbers": "numeric targets",
    "classes": "class labels",
    "any": "numeric targets or class labels",
}


def check_classes(summaries: Sequence[TaskSummary], *, algorithm: str) -> None:
    """Raise InvalidData where a task has one class only."""
    for task in summaries:
        if task.n_classes < 2:
            raise InvalidData(
                f"task '{task.name}' has rows of one class only; {algorithm} needs at least two "
                "classes in every task, so add rows of another or leave the task out",
                task=task.name,
            )
