"""The rows of a task of a dataset, page by page."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from service.ui import formats, tables
from service.ui.api import Api, segment
from service.ui.tables import Cell, Table, TableRow
from service.ui.views.words import GroupWords

#: Rows of a page.
N_ROWS: Final = 50
_MIDNIGHT: Final = "T00:00:00"


@dataclass(frozen=True, slots=True)
class RowsView:
    """Some rows of a task.

    Parameters
    ----------
    first_row
        Number of the first row that is shown, from 0.
    more_columns
        A sentence if there are more columns than are shown.
    previous_href, next_href
        Addresses of the pages before and after; None without such a page.
    """

    dataset: Mapping[str, Any]
    words: GroupWords
    task: str
    tasks: list[str]
    first_row: int
    sentence: str
    more_columns: str
    table: Table
    download: str
    previous_href: str | None
    next_href: str | None


async def rows_view(api: Api, dataset_id: str, name: str, start: int) -> RowsView:
    """Return the view of some rows of a task, which is the first one if it has no name."""
    path = f"/v1/datasets/{segment(dataset_id)}"
    dataset = await api.get(path)
    tasks = [task["name"] for task in (await api.get(f"{path}/manifest"))["tasks"]]
    name = name or tasks[0]
    preview = await api.get(f"{path}/preview", task=name, rows=N_ROWS, first_row=start)
    (task,) = preview["tasks"]
    n_rows = task["n_samples"]
    end = min(n_rows, start + N_ROWS)
    shown = f"Rows {formats.number(start + 1)} to {formats.number(end)} of {formats.number(n_rows)}"
    n_columns = len(task["columns"])
    has_more = task["n_features"] > n_columns > 0
    return RowsView(
        dataset=dataset,
        words=GroupWords.of(dataset["options"].get("task_column")),
        task=name,
        tasks=tasks,
        first_row=start,
        sentence=f"{shown}." if start < n_rows else "There are no rows here.",
        more_columns=f"The first {n_columns} of {formats.number(task['n_features'])} columns."
        if has_more
        else "",
        table=rows_table(task, target_title(dataset), f"Rows of {name}", first_row=start),
        download=download_href(dataset_id, name),
        previous_href=_href(name, max(0, start - N_ROWS)) if start else None,
        next_href=_href(name, end) if end < n_rows else None,
    )


def rows_table(
    task: Mapping[str, Any],
    target: str,
    title: str,
    *,
    first_row: int,
    max_columns: int | None = None,
) -> Table:
    """Return rows with their targets, which come first: wide tables are scrolled.

    Parameters
    ----------
    target
        Title of the column of targets.
    first_row
        Number of the first row, from 0.
    """
    names = [column["name"] for column in task["columns"]][:max_columns]
    numbers = {column["name"] for column in task["columns"] if column["kind"] == "number"}
    targets = task["targets"]
    rows = []
    for i, row in enumerate(task["rows"]):
        leading = [tables.number(first_row + i + 1)]
        leading += [] if targets is None else [value_cell(targets[i])]
        cells = [value_cell(row[name], is_number=name in numbers) for name in names]
        rows.append(TableRow(f"{task['name']}-row-{i}", leading + cells))
    columns = ["Row", *names] if targets is None else ["Row", target, *names]
    return Table(title, columns, rows, "No rows to show.")


def value_cell(value: Any, *, is_number: bool = False) -> Cell:
    """Return the cell of a value of a row."""
    if value is None and is_number:
        return tables.quantity(formats.NONE)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return tables.number(value)
    return tables.text(value.removesuffix(_MIDNIGHT) if isinstance(value, str) else value)


def target_title(dataset: Mapping[str, Any]) -> str:
    """Return the title of the column with the targets."""
    names = dataset["options"].get("target_column") or []
    return f"{names[0]} (to predict)" if len(names) == 1 and names != ["target"] else "Target"


def rows_href(dataset_id: str, task: str) -> str:
    """Return the address of the page with the rows of a task."""
    return f"/datasets/{segment(dataset_id)}/rows{_href(task)}"


def download_href(dataset_id: str, task: str) -> str:
    """Return the address of the rows of a task as CSV."""
    return f"/v1/datasets/{segment(dataset_id)}/table?{urlencode({'task': task})}"


def _href(task: str, first_row: int = 0) -> str:
    start = {"first_row": first_row} if first_row else {}
    return f"?{urlencode({'task': task, **start})}"
