"""The roles of the columns of a table: task, target, group, weight, feature, ignored."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from algorithms.interface.header import DEFAULT_TASK_COLUMN
from algorithms.wrappers.preparation.column_matching import clean_name
from service.datasets.formats.options import Limits, ReadOptions
from service.datasets.formats.validation import check_counts, check_name
from service.datasets.issues import Rejected, ValidationIssues, reject

_MAX_COLUMNS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Positions of the columns in a table."""

    names: tuple[str, ...]
    task: int | None
    targets: tuple[int, ...]
    group: int | None
    weight: int | None
    features: tuple[int, ...]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the feature columns."""
        return tuple(self.names[i] for i in self.features)

    @property
    def task_name(self) -> str | None:
        """The name of the column of tasks."""
        return None if self.task is None else self.names[self.task]

    @property
    def weight_name(self) -> str | None:
        """The name of the column of weights."""
        return None if self.weight is None else self.names[self.weight]


def find_columns(
    header: Sequence[str], options: ReadOptions, limits: Limits, *, hint: str = ""
) -> TableColumns:
    """Return the roles of the columns of a table, by the options of the upload.

    Parameters
    ----------
    hint
        Text added to messages about columns that do not exist.

    Raises
    ------
    Rejected
        A name is invalid or appears twice, or the options do not match the header.
    """
    names = _column_names(header, limits)
    task = options.task_column
    if task is None and DEFAULT_TASK_COLUMN in names:
        task = DEFAULT_TASK_COLUMN
    _check_options(names, task, options, hint)
    if options.is_inspection:
        used = tuple(i for i, name in enumerate(names) if name not in options.ignore_column)
        return TableColumns(names, None, (), None, None, used)
    extras = {options.group_column, options.weight_column}
    special = {task, *extras, *options.target_column, *options.ignore_column}
    features = tuple(i for i, name in enumerate(names) if name not in special)
    if not features:
        reject(
            "no-features",
            "no feature column is left: every column is task, target, group, weight or ignored",
        )
    check_counts(1, len(features), limits)
    return TableColumns(
        names,
        None if task is None else names.index(task),
        tuple(names.index(name) for name in options.target_column),
        None if options.group_column is None else names.index(options.group_column),
        None if options.weight_column is None else names.index(options.weight_column),
        features,
    )


def _column_names(header: Sequence[str], limits: Limits) -> tuple[str, ...]:
    issues = ValidationIssues()
    names = []
    for position, text in enumerate(header):
        try:
            name = check_name(clean_name(text), limits, what="column", place=position)
        except Rejected as rejected:
            issues.extend(rejected)
        else:
            names.append(name)
    for name, count in Counter(names).items():
        if count > 1:
            detail = f"{count} columns are named '{name}'; column names must be unique"
            issues.add("duplicate-column", detail, column=name)
    issues.check()
    return tuple(names)


def _check_options(
    names: tuple[str, ...], task: str | None, options: ReadOptions, hint: str
) -> None:
    """Raise Rejected if the options do not match the header."""
    issues = ValidationIssues()
    used = [("task_column", task)] if task is not None else []
    used += [("target_column", name) for name in options.target_column]
    extras = (("group_column", options.group_column), ("weight_column", options.weight_column))
    used += [(parameter, name) for parameter, name in extras if name is not None]
    used += [("ignore_column", name) for name in options.ignore_column]
    declared = [("column_kind", name) for name in options.kinds()]
    listed = ", ".join(f"'{name}'" for name in names[:_MAX_COLUMNS_SHOWN])
    listed += ", ..." if len(names) > _MAX_COLUMNS_SHOWN else ""
    for parameter, name in used + declared:
        if name not in names:
            detail = f"there is no column '{name}'; the columns are {listed}{hint}"
            issues.add("missing-column", detail, column=name, parameter=f"query:{parameter}")
    for name, count in Counter(name for _, name in used).items():
        if count > 1:
            detail = f"column '{name}' is used {count} times in the options; use it once"
            issues.add("duplicate-column", detail, column=name)
    if task is None and not options.target_column and not options.is_inspection:
        detail = f"the table has no column 'task'; name the task column with task_column=NAME{hint}"
        issues.add("missing-option", detail, parameter="query:task_column")
    if task is not None and len(options.target_column) > 1:
        detail = "several target columns need a table without a task column; name one target column"
        issues.add("unused-option", detail, parameter="query:target_column")
    issues.check()
