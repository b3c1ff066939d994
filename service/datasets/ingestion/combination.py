"""Combination of tasks from stored datasets into a new dataset."""

from collections.abc import Container, Mapping, Sequence

from algorithms.interface.tasks import Task
from algorithms.wrappers.preparation.columns import Column, NumberWriting
from service.datasets.formats.options import Limits
from service.datasets.formats.parsed import Parsed
from service.datasets.formats.validation import USE_WITHOUT_TARGET, aligned, check_counts
from service.datasets.ingestion.joining import check_groups, join_columns, merge, with_levels
from service.datasets.ingestion.selected import (
    ArrayCache,
    SelectedDataset,
    select,
    select_unlabelled,
)
from service.datasets.issues import ValidationIssues, reject
from service.datasets.number_writings import NumberWritings

_VALUE_BYTES = 8
_INDEX_BYTES = 4


def combine(sources: Sequence[SelectedDataset], limits: Limits) -> Parsed:
    """Return the selected tasks; rows of tasks with the same name are concatenated.

    Raises
    ------
    Rejected
        A task, column or row does not exist, tasks with the same name differ in their columns,
        targets or groups, or the result exceeds a limit.
    """
    cache = ArrayCache()
    kinds = join_columns(sources)
    selected = [select(source, cache) for source in sources]
    numbers, unit_notes = _join_numbers(sources, selected)
    members = _members(sources, selected, kinds, cache)
    unlabelled = _members(
        sources, [select_unlabelled(source, cache) for source in sources], kinds, cache
    )
    check_counts(len(members), max(parts[0].n_features for parts in members.values()), limits)
    all_tasks = [task for parts in (*members.values(), *unlabelled.values()) for task in parts]
    check_groups(sources, all_tasks)
    issues = ValidationIssues()
    merged, others = [], []
    left_out = frozenset(name for source in sources for name in source.ignored)
    for name, parts in members.items():
        with issues.collect():
            merged.append(merge(parts, cache, left_out))
            if name in unlabelled:
                others.append(merge(unlabelled[name], cache, left_out))
    issues.check()
    all_tasks = aligned([*merged, *others])
    tasks, others = all_tasks[: len(merged)], all_tasks[len(merged) :]
    n_bytes = sum({id(task.X): _size_bytes(task) for task in all_tasks}.values())
    if n_bytes > limits.decompressed_bytes:
        detail = f"the tasks have {n_bytes} bytes, more than the limit of"
        reject("decompression-limit", f"{detail} {limits.decompressed_bytes}")
    used_names = {name for task in tasks for name in task.feature_names or ()}
    source_names = {
        name for source in sources for task in source.tasks for name in task.feature_names or ()
    }
    ignored = source_names.union(*(source.ignored for source in sources)) - used_names
    return Parsed.of(
        tasks,
        [kinds[name] for name in kinds if name in used_names],
        notes=(*dict.fromkeys(note for source in sources for note in _notes(source)), *unit_notes),
        ignored=tuple(sorted(ignored)),
        unlabelled=others,
        task_column=_task_column(sources, used_names),
        numbers=numbers,
    )


def _task_column(sources: Sequence[SelectedDataset], used: Container[str]) -> str | None:
    """Return the column of tasks that the sources with one have in common; None if they differ."""
    names = {source.task_column for source in sources} - {None}
    name = names.pop() if len(names) == 1 else None
    return None if name in used else name


def _join_numbers(
    sources: Sequence[SelectedDataset], selected: Sequence[Sequence[Task]]
) -> tuple[NumberWritings, list[str]]:
    """Return how the numbers of all sources were written, and notes about units that some lack.

    If the writings differ, only units are kept.

    Raises
    ------
    Rejected
        A column has different units.
    """
    used = [{n for task in tasks for n in task.feature_names or ()} for tasks in selected]
    issues, notes, joined = ValidationIssues(), [], {}
    for name in sorted({name for source in sources for name in source.numbers.columns}):
        writings = [
            s.numbers.of(name) for s, names in zip(sources, used, strict=True) if name in names
        ]
        units = {writing.unit for writing in writings}
        unit, *others = sorted(units - {""}) or [""]
        if others:
            detail = f"column '{name}' has the unit {unit!r} in one dataset and {others[0]!r} in"
            detail += " another; convert the numbers of one of them, and upload it again"
            issues.add("different-columns", detail, column=name)
        if unit:
            joined[name] = NumberWriting(unit=unit)
        if unit and "" in units:
            note = f"column '{name}' has the unit {unit!r} in some datasets only:"
            notes.append(f"{note} its numbers without a unit are read as {unit!r}")
    issues.check()
    first = sources[0].numbers
    is_same = all(source.numbers == first for source in sources)
    return first if is_same else NumberWritings(columns=joined), notes


def _notes(source: SelectedDataset) -> tuple[str, ...]:
    """Return the notes about a dataset, adapted to its selected rows."""
    if not source.selects_rows:
        return source.notes
    left_out = "left out of the selected rows"
    return tuple(note.replace(USE_WITHOUT_TARGET, left_out) for note in source.notes)


def _members(
    sources: Sequence[SelectedDataset],
    selected: Sequence[Sequence[Task]],
    kinds: Mapping[str, Column],
    cache: ArrayCache,
) -> dict[str, list[Task]]:
    """Return the selected tasks of all datasets by name, with the categories of all."""
    members: dict[str, list[Task]] = {}
    for source, tasks in zip(sources, selected, strict=True):
        for task in tasks:
            recoded = with_levels(task, source, kinds, cache) if kinds else task
            members.setdefault(task.name, []).append(recoded)
    return members


def _size_bytes(task: Task) -> int:
    """Return the size of the rows of a task as they are stored."""
    if task.n_stored is None:
        return int(task.X.size) * _VALUE_BYTES
    return task.n_stored * (_VALUE_BYTES + _INDEX_BYTES) + task.n_samples * _VALUE_BYTES
