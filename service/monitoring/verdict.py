"""The verdict of a report in words: quiet, one task or all."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from algorithms.evaluation.monitoring.pooling import PooledChange
from service.monitoring.report_schemas import ColumnState, TaskState

Kind = Literal["nothing", "quiet", "no-targets", "columns", "tasks", "all"]
_MAX_NAMED = 5


class Verdict(NamedTuple):
    """The kind of a verdict, its sentences, and the tasks with trouble of their own."""

    kind: Kind
    sentences: list[str]
    tasks: list[str]


def describe(
    overall: TaskState,
    states: Sequence[TaskState],
    columns: Sequence[ColumnState],
    pooled: tuple[list[str], PooledChange] | None,
    *,
    n_rows: int,
) -> Verdict:
    """Return the verdict.

    Alarms decide whether there is trouble; partial pooling, whose it is.
    """
    if not n_rows:
        return Verdict("nothing", ["No row has been kept yet."], [])
    kind, sentences, tasks = _of_errors(overall, states, pooled)
    moved = [state for state in columns if state.alarm_since is not None]
    for task in dict.fromkeys(state.task for state in moved):
        names = _named([state.column for state in moved if state.task == task])
        where = "over all tasks" if task is None else f"in task '{task}'"
        sentences.append(f"Values are no longer as in the training rows {where}: {names}.")
    if moved and kind in ("quiet", "no-targets"):
        kind = "columns"
        tasks = list(dict.fromkeys(state.task for state in moved if state.task is not None))
    new = [state.task for state in states if state.is_new and state.task is not None]
    if new:
        sentences.append(f"The model was not trained on: {_named(new)}.")
    return Verdict(kind, sentences, tasks)


def _of_errors(
    overall: TaskState,
    states: Sequence[TaskState],
    pooled: tuple[list[str], PooledChange] | None,
) -> tuple[Kind, list[str], list[str]]:
    if overall.error is None or pooled is None:
        text = "No target of a predicted row is known yet, so errors are not known."
        if overall.error is not None:
            text = "The model has no evaluation, so there is no promised error to compare with."
        return "no-targets", [text], []
    alarmed = [s.task for s in states if s.task and s.error and s.error.alarm_since is not None]
    is_overall = overall.error.alarm_since is not None
    if not alarmed and not is_overall:
        return "quiet", [_without_alarm(overall, states)], []
    names, change = pooled
    own = [names[t] for t in change.with_own_increase()]
    factor = f"{np.exp(change.mean / 2 if overall.error.metric == 'rmse' else change.mean):.2g}"
    if change.is_common() and (is_overall or len(alarmed) > 1):
        sentences = [f"Errors are larger than promised in all tasks, by a factor of {factor}."]
        if own:
            sentences.append(f"Beyond that, they are larger in: {_named(own)}.")
        return "all", sentences, own
    tasks = list(dict.fromkeys([*alarmed, *(name for name in own if is_overall)]))
    if not tasks:  # over all, but so small in each that none stands out
        return "all", ["Errors are larger than promised over all tasks together."], []
    n_known = sum(state.error is not None for state in states)
    others = "; the other tasks are as promised" if len(tasks) < n_known else ""
    return "tasks", [f"Errors are larger than promised in: {_named(tasks)}{others}."], tasks


def _without_alarm(overall: TaskState, states: Sequence[TaskState]) -> str:
    far = [s.task for s in states if s.task and s.error and s.error.is_far_above]
    if not far and not (overall.error and overall.error.is_far_above):
        return "Errors are not clearly larger than training promised."
    where = f"much larger than promised in: {_named(far)}"
    if not far:
        where = "larger than promised over all tasks together"
    why = "which takes rows of several days, since those of one day may share a cause"
    return f"Errors look {where}; there is no alarm yet, {why}."


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:_MAX_NAMED])
    left = len(names) - _MAX_NAMED
    return f"{shown} and {left} more" if left > 0 else shown
