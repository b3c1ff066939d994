"""Requirements of an algorithm on its tasks: targets, columns, labels, and sparse rows.

Linear methods replace sparse rows by their coordinates in the span of all rows. Coordinates are
dense, but no more numerous than the rows.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from algorithms.interface.errors import InvalidData, UnusedWeights
from algorithms.interface.lists import list_names
from algorithms.interface.tasks import TargetKind, Task, TaskSummary, tasks_have
from algorithms.interface.work import VALUE_BYTES, describe_size

#: Maximum number of coordinates of the sparse rows of all tasks, which take 200 MB. Beyond it, the
#: decomposition of the Gram matrix takes minutes, and its copies take gigabytes.
MAX_COORDINATES: Final = 25_000_000
#: Required kind of targets; ``"any"``: numbers or classes, the same kind in all tasks.
TargetNeed = Literal["none", "numbers", "classes", "any"]


@dataclass(frozen=True, slots=True)
class Needs:
    """Requirements of an algorithm on its tasks, as data from which error messages are made.

    Parameters
    ----------
    same_features
        Every task must have the same columns.
    target
        ``"none"``: no targets; ``"any"``: numbers or classes, the same kind in all tasks.
    optional_target
        Kind of targets that are used where tasks have them, although none are needed.
    covariances
        Covariance matrices are accepted in place of rows.
    min_samples
        Minimum number of rows per task (a task of covariance matrices needs one matrix).
    min_tasks
        Minimum number of tasks.
    shared_rows
        Every task must have the same rows in the same order, with different targets.
    sparse
        Sparse rows are accepted.
    weights
        Weights of rows are used. Others refuse tasks that have some.
    """

    same_features: bool
    target: TargetNeed = "none"
    optional_target: TargetNeed = "none"
    covariances: bool = False
    min_samples: int = 1
    min_tasks: int = 1
    shared_rows: bool = False
    sparse: bool = False
    weights: bool = False

    def ignores_targets(self, kinds: Collection[TargetKind]) -> bool:
        """Return whether a fit is the same without targets, so that rows without one can be used.

        Parameters
        ----------
        kinds
            Kinds of the targets of the tasks.
        """
        if self.target != "none" or self.optional_target == "any":
            return False
        return self.optional_target == "none" or self.optional_target not in kinds

    def check(self, summaries: Sequence[TaskSummary], *, algorithm: str) -> None:
        """Raise InvalidData with the name of the first task that does not meet the needs."""
        if len(summaries) < self.min_tasks:
            raise InvalidData(
                f"{algorithm} needs at least {self.min_tasks} tasks, got {len(summaries)}"
            )
        first = summaries[0]
        if self.sparse:
            check_sparse(summaries, algorithm=algorithm)
        else:
            refuse_sparse(summaries, what=algorithm)
        for task in summaries:
            self.check_task(task, algorithm=algorithm)
            if self.same_features and task.n_features != first.n_features:
                raise InvalidData(
                    f"task '{first.name}' has {first.n_features} features, "
                    f"task '{task.name}' {task.n_features}; "
                    f"{algorithm} needs {_SAME_COLUMNS}",
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
            if self.shared_rows and _have_different_rows(first, task):
                raise InvalidData(
                    f"task '{task.name}' has different rows than task '{first.name}', or the same "
                    f"in another order; {algorithm} needs the same rows in every task, in the same "
                    "order",
                    task=task.name,
                )
            if self.target == "any" and task.target != first.target:
                raise InvalidData(
                    f"task '{first.name}' has {_TARGET_WORDS[first.target]}, task '{task.name}' "
                    f"{_TARGET_WORDS[task.target]}; {algorithm} needs the same kind in every task",
                    task=task.name,
                )

    def check_task(self, task: TaskSummary, *, algorithm: str) -> None:
        """Raise InvalidData if a task, seen alone, does not meet the needs."""
        if task.input == "covariances":
            if not self.covariances:
                raise InvalidData(
                    f"task '{task.name}' has covariance matrices; {algorithm} needs rows",
                    task=task.name,
                )
        elif task.n_samples < self.min_samples:
            rows = "1 row" if task.n_samples == 1 else f"{task.n_samples} rows"
            raise InvalidData(
                f"task '{task.name}' has {rows}; "
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
        self.check_weights(task, algorithm=algorithm)

    def check_weights(self, task: TaskSummary, *, algorithm: str) -> None:
        """Raise UnusedWeights if a task has weights, but the algorithm does not use them."""
        if task.has_weights and not self.weights:
            raise UnusedWeights(
                f"rows of task '{task.name}' or their classes have weights, which {algorithm} does "
                "not use",
                task=task.name,
            )


def _check_names(first: TaskSummary, task: TaskSummary, algorithm: str) -> None:
    """Raise InvalidData if two tasks have different column names."""
    expected, names = first.feature_names, task.feature_names
    if expected is None or names is None or names == expected:
        return
    missing = next((name for name in expected if name not in set(names)), None)
    if missing is not None:
        raise InvalidData(
            f"task '{first.name}' has a column '{missing}', but task '{task.name}' does not; "
            f"{algorithm} needs {_SAME_COLUMNS}",
            task=task.name,
            column=missing,
        )
    raise InvalidData(
        f"task '{task.name}' has the columns of task '{first.name}' in another order; "
        f"{algorithm} needs the same columns in the same order in every task",
        task=task.name,
    )


def _have_different_rows(a: TaskSummary, b: TaskSummary) -> bool:
    return a.rows_hash is not None and b.rows_hash is not None and a.rows_hash != b.rows_hash


_SAME_COLUMNS = (
    "the same columns in every task; the preparation different_columns='apart' fits the tasks of "
    "each set of columns apart"
)
_TARGET_WORDS: dict[TargetNeed, str] = {
    "none": "no targets",
    "numbers": "numeric targets",
    "classes": "class labels",
    "any": "numeric targets or class labels",
}


def check_classes(summaries: Sequence[TaskSummary], *, algorithm: str) -> None:
    """Raise InvalidData with all tasks that have a single class which no other task has."""
    single = [task.name for task in summaries if task.n_classes < 2]
    if not single:
        return
    subject = f"task {list_names(single)} has"
    if len(single) > 1:
        subject = tasks_have(single, len(summaries))
    raise InvalidData(
        f"{subject} rows of one class only, and no other task shows which classes it can have; "
        f"{algorithm} needs two: add rows of another class, leave these tasks out, or use a method "
        "that always predicts their class (constant, or a kernel machine such as kernel-tasks)",
        task=single[0],
    )


def check_sparse(summaries: Sequence[TaskSummary], *, algorithm: str) -> None:
    """Raise InvalidData if only some tasks are sparse, or they are too large together."""
    sparse = next((task for task in summaries if task.is_sparse), None)
    dense = next((task for task in summaries if not task.is_sparse), None)
    if sparse is None:
        return
    if dense is not None:
        raise InvalidData(
            f"task '{sparse.name}' is sparse, task '{dense.name}' is dense; {algorithm} needs the "
            "same form in every task: upload all tasks as sparse matrices, or all as arrays",
            task=dense.name,
        )
    n, d = sum(task.n_samples for task in summaries), sparse.n_features
    if n * min(n, d) > MAX_COORDINATES:
        raise InvalidData(
            f"the tasks are sparse and have {n} rows of {d} columns in total; {algorithm} needs "
            f"rows times the smaller of rows and columns to be at most {MAX_COORDINATES} (a dense "
            f"copy takes {_dense_size(summaries)}): train with fewer rows or columns"
        )


def refuse_sparse(
    summaries: Sequence[TaskSummary],
    *,
    what: str,
    remedy: str = "use an algorithm that takes sparse rows, or upload arrays",
) -> None:
    """Raise InvalidData with the size of a dense copy if a task is sparse.

    Parameters
    ----------
    what
        Subject that takes no sparse rows: an algorithm, perhaps with the value of a parameter.
    """
    sparse = next((task for task in summaries if task.is_sparse), None)
    if sparse is None or sparse.n_stored is None:
        return
    n, d = sparse.n_samples, sparse.n_features
    raise InvalidData(
        f"task '{sparse.name}' is sparse ({n} rows, {d} columns, "
        f"{sparse.n_stored / (n * d):.2%} of the values stored); {what} needs a dense copy, which "
        f"takes {_dense_size(summaries)} for all tasks: {remedy}",
        task=sparse.name,
    )


def refuse_sparse_adaptation(summaries: Sequence[TaskSummary], *, algorithm: str) -> None:
    """Raise InvalidData if a task that is to be added to a model is sparse."""
    refuse_sparse(
        summaries,
        what=f"the adaptation of a model of {algorithm}",
        remedy="upload arrays, or train a new model with all tasks",
    )


def _dense_size(summaries: Sequence[TaskSummary]) -> str:
    """Return the size of a dense copy of the tasks, such as "2.4 GB"."""
    n_values = sum(task.n_samples * task.n_features for task in summaries)
    return describe_size(VALUE_BYTES * n_values)


def check_same_classes(names: Sequence[str], classes: Sequence[tuple[Any, ...] | None]) -> None:
    """Raise InvalidData if tasks to be pooled have different labels."""
    for name, labels in zip(names, classes, strict=True):
        if labels != classes[0]:
            raise InvalidData(
                f"task '{names[0]}' has the classes {classes[0]}, task '{name}' {labels}; "
                "form 'pooled' needs the same classes in all tasks: use form 'task'",
                task=name,
            )


def check_same_kind(task: Task, classes: Sequence[Any] | None) -> None:
    """Raise InvalidData if a task to add to a model has targets of another kind.

    Parameters
    ----------
    classes
        Labels of the tasks of the model; none if their targets are numbers.
    """
    if (task.target == "numbers") != (not classes):
        kind = "class labels" if classes else "numeric targets"
        raise InvalidData(
            f"task '{task.name}' needs {kind}, like the tasks of the model", task=task.name
        )


def check_known_labels(summaries: Sequence[TaskSummary]) -> None:
    """Raise InvalidData if tasks to be pooled are known to have different labels."""
    classes = [task.classes for task in summaries if task.classes is not None]
    if len(classes) == len(summaries):
        check_same_classes([task.name for task in summaries], classes)
