"""Lists with filters and pages."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from service.access.keys import ALL_OWNERS
from service.storage.dataset_states import DatasetState
from service.ui import formats, tables
from service.ui.api import Api, in_utc, segment
from service.ui.tables import Cell, Sort, Table, TableRow
from sibling.plots import metric_words

PAGE_SIZE: Final = 50
FORBIDDEN: Final = 403
_COMMON: Final = ("text", "since", "until", "order_by", "page_token")
#: Datasets that a filter offers.
_N_DATASETS: Final = 200
#: Owners that a filter offers.
_N_OWNERS: Final = 200


@dataclass(frozen=True, slots=True)
class ListFilter:
    """A filter with values and their titles to choose from; without a list, any text is a value.

    Parameters
    ----------
    kind
        Type of the field of a filter without a list.
    any_title
        What is shown if nothing is chosen.
    """

    name: str
    label: str
    values: Sequence[tuple[str, str]]
    chosen: str
    kind: str = "text"
    any_title: str = "any"


@dataclass(frozen=True, slots=True)
class ListView:
    """A page of a list.

    Parameters
    ----------
    query
        Filters of the list that have a value.
    text
        Search text, if ``has_text``.
    previous_href, next_href
        Addresses of the pages beside this one; None on the first and on the last.
    total
        How many there are on all pages, in words; empty if that is unknown.
    scope
        Scope with which several can be selected and deleted; empty if they cannot be.
    can_cancel
        Whether those that are selected can be cancelled.
    deletion
        The question before those that are selected are deleted.
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
    previous_href: str | None
    next_href: str | None
    total: str
    first_href: str
    order_by: str
    scope: str
    can_cancel: bool
    deletion: str
    has_text: bool
    is_empty: bool


def list_view(
    path: str,
    title: str,
    intro: str,
    table: Table,
    *,
    query: Mapping[str, str],
    page: Mapping[str, Any],
    noun: str,
    choices: Sequence[ListFilter],
    orders: Sequence[str] = (),
    scope: str = "",
    can_cancel: bool = False,
    deletion: str = "Delete what is selected?",
    has_text: bool = True,
) -> ListView:
    """Return the view of a page of a list.

    Parameters
    ----------
    query
        Filters, order, and the token of this page.
    page
        The page as the API returned it.
    noun
        What one item is called.
    orders
        Names of the orders of the columns; empty for a column by which it cannot be sorted. The
        first one is the default.
    has_text
        Whether the list can be searched for a text.
    """
    kept = {k: v for k, v in query.items() if k != "page_token" and v}
    filters = {k: v for k, v in kept.items() if k != "order_by"}

    def href(token: str | None) -> str | None:
        return None if token is None else f"{path}?{urlencode({**kept, 'page_token': token})}"

    return ListView(
        title=title,
        intro=intro,
        table=replace(table, sorts=[_sort(path, kept, order) for order in orders]),
        choices=choices,
        query=filters,
        text=query.get("text", ""),
        is_filtered=bool(filters),
        is_first=not query.get("page_token"),
        first_href=f"{path}?{urlencode(kept)}" if kept else path,
        order_by=kept.get("order_by", ""),
        scope=scope,
        can_cancel=can_cancel,
        deletion=deletion,
        previous_href=href(page.get("previous_page_token")),
        next_href=href(page["next_page_token"]),
        total="" if page.get("total") is None else formats.count(page["total"], noun),
        has_text=has_text,
        # others may have some where an owner can be chosen
        is_empty=not (table.rows or query or any(one.name == "owner" for one in choices)),
    )


def _sort(path: str, kept: Mapping[str, str], order: str) -> Sort | None:
    """Return the link that sorts by an order, or that turns it round."""
    if not order:
        return None
    name = order.removeprefix("-")
    present = kept.get("order_by") or ""
    direction = {name: "ascending", f"-{name}": "descending"}.get(present, "")
    other = {"ascending": f"-{name}", "descending": name}.get(direction, order)
    return Sort(f"{path}?{urlencode({**kept, 'order_by': other})}", direction)


def titled(values: Iterable[str]) -> list[tuple[str, str]]:
    """Return values with their titles, of a filter."""
    return [(value, value.replace("_", " ")) for value in values]


def dates(query: Mapping[str, str]) -> list[ListFilter]:
    """Return the filters by date."""
    labels = {"since": "First day", "until": "Last day"}
    return [
        ListFilter(name, label, (), query.get(name, ""), "date") for name, label in labels.items()
    ]


def dataset_rows(items: Sequence[Mapping[str, Any]]) -> list[TableRow]:
    """Return the rows of a table of datasets."""
    return [TableRow(d["id"], _dataset_cells(d), f"/v1/datasets/{d['id']}") for d in items]


DATASET_COLUMNS: Final = ("Dataset", "State", "Groups", "Rows", "Size", "Uploaded")
MODEL_COLUMNS: Final = (
    "Model",
    "Version",
    "Algorithm",
    "Groups",
    "Mean score",
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
    return [
        TableRow(
            m["name" if by_name else "id"],
            _model_cells(m),
            f"/v1/models/{segment(m['name'])}/versions/{m['version']}",
        )
        for m in items
    ]


def _score_cell(model: Mapping[str, Any]) -> Cell:
    """Return the training score; of an automatic choice without one, the expected score."""
    text, expected = score(model["metrics"]), model["expected_score"]
    if text != formats.NONE or expected is None:
        return tables.text(text, note="" if text == formats.NONE else "on training rows")
    shown = f"{metric_words(expected['metric'])} {formats.number(expected['value'])}"
    return tables.text(shown, note="expected on new rows")


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
        _score_cell(model),
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


async def dataset_filter(api: Api, query: Mapping[str, str]) -> list[ListFilter]:
    """Return the filter by dataset; none if the caller may not read datasets, or has none."""
    page = await api.find("/v1/datasets", refused=FORBIDDEN, page_size=_N_DATASETS)
    values = [(d["id"], d["name"]) for d in (page or {"items": []})["items"]]
    chosen = query.get("dataset_id", "")
    if chosen and chosen not in dict(values):
        values.append((chosen, chosen))
    return [ListFilter("dataset_id", "Dataset", values, chosen)] if values else []


async def owner_filter(
    api: Api, query: Mapping[str, str], scopes: Sequence[str]
) -> list[ListFilter]:
    """Return the filter by owner for those who may see others, with the scope operator."""
    if "operator" not in scopes:
        return []
    quotas = await api.get("/v1/quotas", owner=ALL_OWNERS, page_size=_N_OWNERS)
    values = [(ALL_OWNERS, "everybody"), *((one["owner"],) * 2 for one in quotas["items"])]
    chosen = query.get("owner", "")
    if chosen and chosen not in dict(values):
        values.append((chosen, chosen))
    return [ListFilter("owner", "Owner", values, chosen, any_title="me")]


def dataset_cell(dataset_id: str, dataset: Mapping[str, Any] | None) -> Cell:
    """Return a cell with the name and id of a dataset; only the id if it has no page to see."""
    if dataset is None:
        return tables.code(dataset_id)
    return tables.text(dataset["name"], f"/datasets/{dataset_id}", note=dataset_id)


def only(query: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return the query parameters of a page that the API accepts too, without the others."""
    return {name: query[name] for name in (*names, *_COMMON) if query.get(name)}


async def datasets_view(api: Api, query: Mapping[str, str]) -> ListView:
    """Return a page of datasets."""
    filters = only(query, "state")
    page = await api.get("/v1/datasets", page_size=PAGE_SIZE, total="true", **in_utc(filters))
    rows = dataset_rows(page["items"])
    empty = "No dataset matches." if filters else "Nothing has been uploaded yet."
    return list_view(
        "/datasets",
        "Datasets",
        "Data of related groups, to train models on.",
        Table("Datasets", DATASET_COLUMNS, rows, empty),
        query=filters,
        page=page,
        noun="dataset",
        choices=[
            ListFilter("state", "State", titled(DatasetState), filters.get("state", "")),
            *dates(filters),
        ],
        orders=("name", "state", "", "", "-size_bytes", "-created_at"),
        scope="datasets:write",
    )


async def models_view(api: Api, query: Mapping[str, str]) -> ListView:
    """Return a page of models."""
    filters = only(query, "algorithm", "dataset_id")
    page = await api.get("/v1/models", page_size=PAGE_SIZE, total="true", **in_utc(filters))
    names = await algorithm_names(api)
    empty = "No model matches." if filters else "No model has been trained yet."
    return list_view(
        "/models",
        "Models",
        "The latest version of each model.",
        Table("Models", MODEL_COLUMNS, model_rows(page["items"], by_name=True), empty),
        query=filters,
        page=page,
        noun="model",
        choices=[
            ListFilter("algorithm", "Algorithm", titled(names), filters.get("algorithm", "")),
            *await dataset_filter(api, filters),
            *dates(filters),
        ],
        orders=("name", "", "algorithm", "", "", "-created_at"),
        scope="models:write",
        deletion="Delete the selected versions? Earlier versions of these models stay.",
    )
