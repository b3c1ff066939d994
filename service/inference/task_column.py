"""The task of each row: in a column of the rows, or given for all of them."""

import unicodedata
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from algorithms.interface.header import DEFAULT_TASK_COLUMN
from algorithms.wrappers.preparation.column_matching import check_unique, clean_name
from service.datasets.formats.options import ReadOptions
from service.errors.problems import Problem
from service.inference.call import raise_invalid_data

TASK: Final = DEFAULT_TASK_COLUMN
#: Maximum number of characters of a task: monitors store no longer ones.
MAX_NAME: Final = 1000
#: Task of all rows, or of each row.
Tasks: TypeAlias = str | list[str]


class TaskSource(NamedTuple):
    """Source of the tasks of rows: the query, or columns of the rows.

    Attributes
    ----------
    column
        Column of the training table that had the task of each row. Rows may have it under this
        name, or under ``task``.
    is_other
        Returns whether the training table had a column of a name besides the task column; None if
        that is unknown, since the columns of some tasks have no names.
    options
        Returns the options of the upload that the model was trained on.
    known
        Returns the tasks of the training data. A single one is that of rows without a task.
    """

    query: str | None
    column: str
    is_other: Callable[[str], bool | None]
    options: Callable[[], ReadOptions] = ReadOptions
    known: Callable[[], Collection[str]] = tuple

    def names(self, taken: Container[str] = ()) -> list[str]:
        """Return the names under which rows may have their task, without a column that is taken."""
        return [TASK] if self.column == TASK or self.column in taken else [self.column, TASK]

    def may_find(self, names: Iterable[str]) -> bool:
        """Return whether rows may have their task in a column; False most often, at little cost."""
        text = "\0".join(names)
        return not text.isascii() or self.column in text or TASK in text

    def find(
        self, names: Collection[str], has_numbers: Callable[[str], bool], *, is_given: bool
    ) -> list[str]:
        """Return the names of the columns of rows that have the task of each row.

        A column ``task`` is left out if the training table had it in another role; or, where the
        role is unknown, if it has numbers and the task is given.

        Parameters
        ----------
        is_given
            Whether the query or the body has the task of all rows.

        Raises
        ------
        InvalidData
            Two columns have the same name.
        """
        if not self.may_find(names):
            return []
        by_clean_name = {clean_name(name): name for name in names}
        task_columns = [by_clean_name[name] for name in self.names() if name in by_clean_name]
        if not task_columns:
            return []
        if len(by_clean_name) < len(names):
            check_unique(names)
        if self.column != TASK:
            return [n for n in task_columns if clean_name(n) != TASK or not self.is_other(TASK)]
        is_number = is_given and has_numbers(task_columns[0]) and self.is_other(TASK) is not False
        return [] if is_number else task_columns

    def choose(
        self,
        columns: Mapping[str, Sequence[Any]],
        in_body: "GivenTasks | None" = None,
    ) -> Tasks | None:
        """Return the tasks in columns of the rows, else in the body, else in the query.

        Without any, the single task of the model; None if it has several.

        Raises
        ------
        Problem
            A row has no task, or the tasks of a row contradict each other.
        """
        if not columns and (in_body is None or self.query is None):
            return self._given_or_single() if in_body is None else in_body.tasks
        chosen = GivenTasks(self.query, {"parameter": "query:task"}, "the query parameter 'task'")
        if in_body is not None:
            chosen.check(in_body)
            chosen = in_body
        for name, values in columns.items():
            column = GivenTasks(task_names(values, name), {"column": name}, f"column '{name}'")
            chosen.check(column)
            chosen = column
        return chosen.tasks

    def _given_or_single(self) -> str | None:
        known = () if self.query is not None else self.known()
        return next(iter(known)) if len(known) == 1 else self.query


class GivenTasks(NamedTuple):
    """Tasks that were given, with their place for an error and for its message."""

    tasks: Tasks | None
    place: Mapping[str, str]
    what: str

    def check(self, other: "GivenTasks") -> None:
        """Raise a problem at the first row for which both have a task, and not the same."""
        if self.tasks is None or other.tasks is None:
            return
        mine, theirs = _each(self.tasks, other.tasks), _each(other.tasks, self.tasks)
        if len(mine) != len(theirs):
            detail = f"{self.what} has {len(mine)} tasks, but {other.what} {len(theirs)}"
            _raise_contradiction(f"{detail}; expected one for each row", self.place)
        for row, (ours, task) in enumerate(zip(mine, theirs, strict=True)):
            if ours != task:
                detail = f"row {row} has the task '{task}' in {other.what}, but {self.what} is"
                place = {**other.place, **self.place, "row": row}
                _raise_contradiction(f"{detail} '{ours}'; correct it, or send one of them", place)


def _each(tasks: Tasks, others: Tasks) -> list[str]:
    """Return one task for each row; a task of all rows is repeated for each of the others."""
    if isinstance(tasks, list):
        return tasks
    return [tasks] * (len(others) if isinstance(others, list) else 1)


def _raise_contradiction(detail: str, place: Mapping[str, Any]) -> NoReturn:
    entry = {**place, "code": "invalid", "detail": detail}
    raise Problem("invalid-request", detail, errors=[entry])


def task_names(values: Iterable[Any], column: str, what: str = "task") -> list[str]:
    """Return the name of each row's task, as uploads read it from text or integers.

    Parameters
    ----------
    what
        What has the names, in messages.

    Raises
    ------
    Problem
        A row has no task, or a value that is not the name of a task.
    """
    names = []
    for row, value in enumerate(values):
        name = _name(value)
        if not name:
            is_missing = value is None or value != value or isinstance(value, str)  # noqa: PLR0124
            actual = f"no {what}" if is_missing else f"the {what} {value!r:.40}"
            detail = f"row {row} has {actual}; expected text or an integer in every row of column"
            raise_invalid_data(f"{detail} '{column}'", row=row, column=column)
        if len(name) > MAX_NAME:
            detail = f"row {row}: the {what} has more than {MAX_NAME} characters"
            raise_invalid_data(detail, row=row, column=column)
        names.append(name)
    return names


def composed(task: str) -> str:
    """Return the name of a task that was given in Unicode normal form C, as models have it."""
    return unicodedata.normalize("NFC", task)


def _name(value: Any) -> str | None:
    """Return the name of a task; None for a value that is neither text nor an integer."""
    if isinstance(value, str):
        return clean_name(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value) if isinstance(value, int) else None
