"""Lists with filters and pages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from service.storage.dataset_states import DatasetState
from service.ui import formats, tables
from service.ui.api import Api, segment
from service.ui.tables import Cell, Table, TableRow
from sibling.plots import metric_words

PAGE_SIZE: Final = 50
FORBIDDEN: Final = 403


@dataclass(frozen=True, slots=True)
class ListFilter:
    """A filter with values to choose from; without a list, any text is a value."""

    name: str
    label: str
    values: Sequence[str]
    chosen: str


@dataclass(frozen=True, slots=True)
class ListView:
    """A page of a list.

    Parameters
    ----------
    query
        Filters of the list that have a value.
    text
        Search text, if ``has_text``.
    next_href
        Address of the next page; None on the last.
    is_empty
        Whether there is nothing at all, so that first steps are shown.
    """

    title: str
    intro: str
    table: Table
    choices: Sequence[ListFilter]
    query: Mapping[str, str]
    text: str
    is_filtered: bool
    is_first: bool
    next_href: str | None
    has_text: bool
    is_empty: bool


def list_view(
    path: str,
    title: str,
    intro: str,
    table: Table,
    *,
    query: Mapping[str, str],
    token: str | None,
    choices: Sequence[ListFilter],
    has_text: bool = True,
) -> ListView:
    """Return the view of a page of a list.

    Parameters
    ----------
    query
        Filters, and the token of this page.
    token
        Token of the next page; None on the last page.
    has_text
        Whether the list can be searched for a text.
    """
    filters = {k: v for k, v in query.items() if k != "page_token" and v}
    following = urlencode({**filters, "page_token": token})
    return ListView(
        title=title,
        intro=intro,
        table=table,
        choices=choices,
        query=filters,
        text=query.get("text", ""),
        is_filtered=bool(filters),
        is_first=not query.get("page_token"),
        next_href=None if token is None else f"{path}?{following}",
        has_text=has_text,
        is_empty=not (table.rows or query),
    )


def dataset_rows(items: Sequence[Mapping[str, Any]]) -> list[TableRow]:
    """Return the rows of a table of datasets."""
    return [TableRow(d["id"], _dataset_cells(d)) for d in items]


DATASET_COLUMNS: Final = ("Dataset", "State", "Tasks", "Rows", "Size", "Uploaded")
MODEL_COLUMNS: Final = (
    "Model",
    "Version",
    "Algorithm",
    "Tasks",
    "Training score, mean over tasks",
    "Trained",
)


def _dataset_cells(dataset: Mapping[str, Any]) -> list[Cell]:
    note = ""
    if dataset["parsed_bytes"] is not None and dataset["size_bytes"]:
        note = f"{formats.share(dataset['parsed_bytes'] / dataset['size_bytes'])} read"
    return [
        tables.text(dataset["name"], f"/datasets/{dataset['id']}", note=dataset["id"]),
        tables.state(dataset["state"], note),
        tables.number(dataset["n_tasks"]),
        tables.number(dataset["n_samples"]),
        tables.quantity(formats.size(dataset["size_bytes"])),
        tables.time(dataset["created_at"]),
    ]


def model_rows(items: Sequence[Mapping[str, Any]], *, by_name: bool = False) -> list[TableRow]:
    """Return the rows of a table of model versions, or of the latest version of each model."""
    return [TableRow(m["name" if by_name else "id"], _model_cells(m)) for m in items]


def _model_cells(model: Mapping[str, Any]) -> list[Cell]:
    return [
        tables.text(model["name"], model_href(model["name"]), note=" ".join(model["aliases"])),
        Cell(
            formats.number(model["version"]),
            "number",
            model_href(model["name"], model["version"]),
        ),
        tables.text(model["algorithm"], f"/algorithms/{segment(model['algorithm'])}"),
        tables.number(len(model["tasks"])),
        tables.text(score(model["metrics"])),
        tables.time(model["created_at"]),
    ]


def model_href(name: str, version: int | None = None) -> str:
    """Return the address of the page of a model or of one version."""
    return f"/models/{segment(name)}" + ("" if version is None else f"/{version}")


def score(metrics: Mapping[str, Mapping[str, float | None]]) -> str:
    """Return the first metric as its mean over tasks."""
    for name, by_task in metrics.items():
        finite = [value for value in by_task.values() if value is not None]
        if finite:
            return f"{metric_words(name)} {formats.number(sum(finite) / len(finite))}"
    return formats.NONE


async def algorithm_names(api: Api) -> list[str]:
    """Return the names of all algorithms."""
    page = await api.get("/v1/algorithms", page_size=200)
    return [algorithm["name"] for algorithm in page["items"]]


def dataset_cell(dataset_id: str, dataset: Mapping[str, Any] | None) -> Cell:
    """Return a cell with the name and id of a dataset; only the id if the name is unknown."""
    href = f"/datasets/{dataset_id}"
    if dataset is None:
        return tables.code(dataset_id, href)
    return tables.text(dataset["name"], href, note=dataset_id)


def only(query: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return the query parameters of a page that the API accepts too, without the others."""
    return {name: query[name] for name in (*names, "text", "page_token") if query.get(name)}


async def datasets_view(api: Api, query: Mapping[str, str]) -> ListView:
    """Return a page of datasets."""
    filters = only(query, "state")
    page = await api.get("/v1/datasets", page_size=PAGE_SIZE, **filters)
    rows = dataset_rows(page["items"])
    empty = "No dataset matches." if filters else "Nothing has been uploaded yet."
    return list_view(
        "/datasets",
        "Datasets",
        "Data of related tasks, to train models on.",
        Table("Datasets, newest first", DATASET_COLUMNS, rows, empty),
        query=filters,
        token=page["next_page_token"],
        choices=[
            ListFilter(
                "state", "State", [str(state) for state in DatasetState], filters.get("state", "")
            )
        ],
    )


async def models_view(api: Api, query: Mapping[str, str]) -> ListView:
    """Return a page of models."""
    filters = only(query, "algorithm")
    page = await api.get("/v1/models", page_size=PAGE_SIZE, **filters)
    names = await algorithm_names(api)
    empty = "No model matches." if filters else "No model has been trained yet."
    return list_view(
        "/models",
        "Models",
        "The latest version of each model, in the order of their names.",
        Table("Models", MODEL_COLUMNS, model_rows(page["items"], by_name=True), empty),
        query=filters,
        token=page["next_page_token"],
        choices=[ListFilter("algorithm", "Algorithm", names, filters.get("algorithm", ""))],
    )
