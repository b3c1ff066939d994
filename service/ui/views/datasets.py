"""One dataset: its columns, targets and rows, and the algorithms that suit it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.storage.dataset_states import DatasetState
from service.ui import formats, tables
from service.ui.api import Api, segment
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.dataset_rows import (
    download_href,
    rows_href,
    rows_table,
    target_title,
    value_cell,
)
from service.ui.views.jobs import COLUMNS, job_rows
from service.ui.views.lists import FORBIDDEN, dataset_cell
from service.ui.views.words import GroupWords, capital

_TASKS: Final = 6
_ROWS: Final = 10
_MAX_COLUMNS: Final = 30
_MAX_SHOWN: Final = 12
#: Bars of a picture.
_MAX_BARS: Final = 150
#: What a note says on data that are not used.
_LEFT_OUT: Final = "left out"
#: Options whose names have words of the API, or of two meanings.
_OPTIONS: Final = {
    "task_column": "Column of the groups",
    "group_column": "Column of rows that stay together",
}
_COLUMN_TITLES: Final = (
    "Column",
    "Kind",
    "Missing",
    "Distinct",
    "Distribution",
    "Smallest",
    "Largest",
)


@dataclass(frozen=True, slots=True)
class TaskSection:
    """A task of a dataset.

    Parameters
    ----------
    rows_href, download
        Addresses of the page with all rows, and of the rows as CSV.
    """

    name: str
    sentence: str
    columns: Table
    target: Table | None
    rows: Table
    rows_href: str
    download: str


@dataclass(frozen=True, slots=True)
class DatasetView:
    """A dataset.

    Parameters
    ----------
    words
        The words for tasks.
    warnings, left_out
        Notes on how it was read; those on what was left out are apart.
    columns
        Target and columns over all tasks; None if tasks have different columns.
    spread
        Picture of the numbers of rows of the tasks, with its sentence; None for one task.
    tasks, more_tasks
        The first tasks in detail, and a sentence if there are more.
    suitable
        Algorithms that can be trained on it.
    has_targets
        Whether the first tasks have targets, so that an algorithm can be chosen by its scores.
    unsuitable
        The other algorithms, with the reason against each.
    jobs
        The newest jobs on it; None if the caller may not read jobs.
    """

    dataset: Mapping[str, Any]
    words: GroupWords
    sentence: str
    facts: Sequence[tuple[str, Cell]]
    issues: Sequence[str]
    warnings: Sequence[str]
    left_out: Sequence[str]
    columns: Table | None
    spread: Cell | None
    sizes: Table | None
    tasks: Sequence[TaskSection]
    more_tasks: str
    suitable: Sequence[tuple[str, str]]
    has_targets: bool
    unsuitable: Table | None
    jobs: Table | None


async def dataset_view(api: Api, dataset_id: str) -> DatasetView:
    """Return the view of a dataset."""
    path = f"/v1/datasets/{segment(dataset_id)}"
    dataset = await api.get(path)
    jobs = await api.find("/v1/jobs", refused=FORBIDDEN, dataset_id=dataset_id, page_size=20)
    preview: dict[str, Any] = {"tasks": [], "algorithms": [], "columns": [], "target": None}
    manifest: dict[str, Any] = {"tasks": []}
    if dataset["state"] == DatasetState.READY:
        preview = await api.get(f"{path}/preview", tasks=_TASKS, rows=_ROWS)
        manifest = await api.get(f"{path}/manifest")
    algorithms = (await api.get("/v1/algorithms", page_size=200))["items"]
    titles = {a["name"]: a["title"] for a in algorithms}
    fits = [a for a in preview["algorithms"] if a["can_train"]]
    others = [a for a in preview["algorithms"] if not a["can_train"]]
    words = _words_of(dataset)
    lacking = one_sided(manifest["tasks"], words)
    notes = [words.said(text) for text in dataset["warnings"]]
    return DatasetView(
        dataset=dataset,
        words=words,
        sentence=" ".join(filter(None, [size_sentence(dataset, preview), lacking, _gaps(preview)])),
        facts=[*_facts(dataset), *await _origins(api, dataset)],
        issues=[words.said(issue["detail"]) for issue in dataset["issues"]],
        warnings=[text for text in notes if _LEFT_OUT not in text],
        left_out=[text for text in notes if _LEFT_OUT in text],
        columns=columns_table(preview, manifest),
        spread=_spread(manifest["tasks"], words),
        sizes=_sizes(manifest["tasks"], words),
        tasks=[_task(dataset_id, task, target_title(dataset)) for task in preview["tasks"]],
        more_tasks=_more_tasks(len(preview["tasks"]), dataset["n_tasks"] or 0, words),
        suitable=[(a["algorithm"], titles.get(a["algorithm"], a["algorithm"])) for a in fits],
        has_targets=any(task["target"] is not None for task in preview["tasks"]),
        unsuitable=_unsuitable(others, words),
        jobs=None if jobs is None else _jobs(jobs["items"]),
    )


def _jobs(items: Sequence[Mapping[str, Any]]) -> Table:
    return Table("Jobs on this dataset", COLUMNS, job_rows(items), "No job has used it yet.")


def size_sentence(dataset: Mapping[str, Any], preview: Mapping[str, Any]) -> str:
    """Return a sentence on the size of a dataset, or on why it has none.

    The column of the groups and the target are not counted.
    """
    if dataset["state"] == DatasetState.REJECTED:
        return "It was rejected: nothing can be trained on it."
    if dataset["state"] != DatasetState.READY:
        return "It is being read."
    widths = dataset["n_features"]
    columns = (
        formats.count(widths[0], "column")
        if len(widths) == 1
        else f"{formats.number(widths[0])} to {formats.number(widths[-1])} columns"
    )
    columns += _use(preview["tasks"])
    rows = formats.count(dataset["n_samples"], "row")
    return f"{_words_of(dataset).counted(dataset['n_tasks'])} with {rows} and {columns}."


def _use(tasks: Sequence[Mapping[str, Any]]) -> str:
    """Return what the counted columns of tasks are for."""
    return " to predict from" if any(task["target"] is not None for task in tasks) else ""


def _words_of(dataset: Mapping[str, Any]) -> GroupWords:
    return GroupWords.of(dataset["options"].get("task_column"))


def _more_tasks(n_shown: int, n_tasks: int, words: GroupWords) -> str:
    return "" if n_shown >= n_tasks else f"The first {n_shown} of {words.counted(n_tasks)}."


def one_sided(tasks: Sequence[Mapping[str, Any]], words: GroupWords) -> str:
    """Return a sentence on tasks in which the rarer of two classes does not occur."""
    counts = [(task["target_summary"] or {}).get("counts") or {} for task in tasks]
    totals: Counter[str] = Counter()
    for of_task in counts:
        totals.update(of_task)
    if len(totals) != 2 or not all(counts):
        return ""
    rare = min(totals, key=totals.__getitem__)
    n = sum(rare not in of_task for of_task in counts)
    verb = "has" if n == 1 else "have"
    return f"{n} of {words.counted(len(tasks))} {verb} no row with “{rare}”." if n else ""


def _gaps(preview: Mapping[str, Any]) -> str:
    """Return a sentence on columns with missing values, of the first tasks if tasks differ."""
    columns = preview["columns"] or [c for task in preview["tasks"] for c in task["columns"]]
    gaps = {c["name"]: None for c in columns if c["missing"]}
    if not gaps:
        return ""
    names = list(gaps)
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"Values are missing in {formats.count(len(names), 'column')}: {shown}."


def _facts(dataset: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    facts = [
        ("Uploaded", tables.time(dataset["created_at"])),
        ("Format", tables.text(dataset["media_type"])),
        ("Size", tables.text(formats.size(dataset["size_bytes"]))),
        ("SHA-256", tables.code(dataset["upload_sha256"])),
    ]
    options = {n: v for n, v in dataset["options"].items() if v not in (None, [], "auto")}
    facts += [
        (_OPTIONS.get(name, capital(name.replace("_", " "))), tables.text(value))
        for name, value in options.items()
    ]
    return facts


async def _origins(api: Api, dataset: Mapping[str, Any]) -> list[tuple[str, Cell]]:
    """Return what a dataset was computed by or made of, with links to what still exists."""
    cells = []
    if dataset["origin"] is not None:
        job_id = dataset["origin"]["job_id"]
        job = await api.find(f"/v1/jobs/{job_id}", refused=FORBIDDEN)
        cells.append(("Computed by", tables.code(job_id, f"/jobs/{job_id}" if job else None)))
    for ident in (source["dataset_id"] for source in dataset["derived_from"] or ()):
        source = await api.find(f"/v1/datasets/{ident}", refused=FORBIDDEN)
        cells.append(("Made of", dataset_cell(ident, source)))
    return cells


def columns_table(preview: Mapping[str, Any], manifest: Mapping[str, Any]) -> Table | None:
    """Return the column of the groups, the target and the first columns over all tasks."""
    target, columns = preview["target"], preview["columns"][:_MAX_COLUMNS]
    rows = [TableRow(f"column-{c['name']}", _column_cells(c)) for c in columns]
    if target is not None and columns:
        rows.insert(0, TableRow("target", _column_cells(target, note="to predict")))
    if manifest.get("task_column") and columns:
        rows.insert(0, TableRow("group", _group_cells(manifest)))
    return Table("Columns over all rows", _COLUMN_TITLES, rows) if columns else None


def _spread(tasks: Sequence[Mapping[str, Any]], words: GroupWords) -> Cell | None:
    """Return the numbers of rows of the tasks as bars, the largest first."""
    if len(tasks) < 2:
        return None
    sizes = sorted((task["n_samples"] for task in tasks), reverse=True)
    low, high = formats.number(sizes[-1]), formats.count(sizes[0], "row")
    size = high if sizes[0] == sizes[-1] else f"{low} to {high}"
    label = f"{words.counted(len(sizes))} with {size} each"
    return tables.bars(sizes[:_MAX_BARS], label)


def _sizes(tasks: Sequence[Mapping[str, Any]], words: GroupWords) -> Table | None:
    """Return the rows of each task, and their classes."""
    if not tasks:
        return None
    largest = max(task["n_samples"] for task in tasks)
    rows = [
        TableRow(
            f"size-{task['name']}",
            [
                tables.text(task["name"]),
                tables.meter(task["n_samples"] / largest, formats.count(task["n_samples"], "row")),
                tables.number(task["n_features"]),
                tables.text(_balance(task)),
            ],
        )
        for task in tasks[:100]
    ]
    title = f"Rows per {words.one}"
    title += "" if len(tasks) <= 100 else f", the first 100 {words.many}"
    return Table(title, (capital(words.one), "Rows", "Columns", "Target"), rows)


def _balance(task: Mapping[str, Any]) -> str:
    """Return the target of a task in words: the shares of its classes, or its range."""
    summary = task["target_summary"]
    if summary is None:
        return "none" if task["target"] == "none" else task["target"]
    if summary["kind"] == "numbers":
        low, high = formats.number(summary["min"]), formats.number(summary["max"])
        return f"numbers from {low} to {high}"
    total = task["n_samples"]  # only the most frequent classes are counted
    shown = list(summary["counts"].items())[:6]
    more = ", ..." if len(summary["counts"]) > len(shown) else ""
    return ", ".join(f"{name}: {formats.share(n / total)}" for name, n in shown) + more


def _task(dataset_id: str, task: Mapping[str, Any], target: str) -> TaskSection:
    unlabelled = task["n_unlabelled"]
    sentence = formats.count(task["n_samples"], "row")
    if unlabelled:
        sentence += f" and {formats.count(unlabelled, 'row')} without a target"
    counts = (task["target"] or {}).get("counts")
    use = _use([task])
    columns = task["columns"][:_MAX_COLUMNS]
    title = f"Columns of {task['name']}"
    if task["n_features"] > len(columns) > 0:
        title += f", the first {len(columns)} of {formats.number(task['n_features'])}"
    return TaskSection(
        name=task["name"],
        sentence=f"{sentence}, {formats.count(task['n_features'], 'column')}{use}",
        columns=Table(
            title,
            _COLUMN_TITLES,
            [TableRow(f"{task['name']}-{c['name']}", _column_cells(c)) for c in columns],
            "Covariance matrices have no columns to show.",
        ),
        target=None if counts is None else _classes(task, counts),
        rows=rows_table(
            task, target, f"First rows of {task['name']}", first_row=0, max_columns=_MAX_SHOWN
        ),
        rows_href=rows_href(dataset_id, task["name"]),
        download=download_href(dataset_id, task["name"]),
    )


def _classes(task: Mapping[str, Any], counts: Mapping[str, int]) -> Table:
    total = task["n_samples"]
    rows = [
        TableRow(
            f"{task['name']}-class-{name}",
            [
                tables.text(name),
                tables.meter(n / total, formats.share(n / total)),
                tables.number(n),
            ],
        )
        for name, n in counts.items()
    ]
    return Table(f"Classes of {task['name']}", ("Class", "Share", "Rows"), rows)


def _column_cells(column: Mapping[str, Any], *, note: str = "") -> list[Cell]:
    return [
        tables.text(column["name"], note=note),
        tables.text(column["kind"]),
        tables.quantity(formats.share(column["missing"])),
        tables.number(column["n_distinct"]),
        tables.bars(column["counts"][:30], _distribution(column)),
        tables.quantity(value_cell(column["min"]).text),
        tables.quantity(value_cell(column["max"]).text),
    ]


def _group_cells(manifest: Mapping[str, Any]) -> list[Cell]:
    tasks = manifest["tasks"]
    found = {"name": manifest["task_column"], "kind": "category", "missing": 0.0}
    found |= {"n_distinct": len(tasks), "min": None, "max": None}
    found |= {"counts": [t["n_samples"] for t in tasks], "values": [t["name"] for t in tasks]}
    return _column_cells(found, note="which rows belong together")


def _distribution(column: Mapping[str, Any]) -> str:
    """Return the distribution of a column in words."""
    counts, values = column["counts"], column["values"]
    total = sum(counts)
    if not total:
        return "no values"
    if values:
        most = max(range(len(counts)), key=counts.__getitem__)
        return f"most often {values[most]} ({formats.share(counts[most] / total)})"
    return "rows in equal intervals: " + ", ".join(str(n) for n in counts)


def _unsuitable(others: Sequence[Mapping[str, Any]], words: GroupWords) -> Table | None:
    if not others:
        return None
    rows = [
        TableRow(
            f"obstacle-{a['algorithm']}",
            [
                tables.text(a["algorithm"], f"/algorithms/{segment(a['algorithm'])}"),
                tables.text(words.said(a["reason"])),
            ],
        )
        for a in others
    ]
    return Table("Algorithms that do not fit, and why", ("Algorithm", "Reason"), rows)
