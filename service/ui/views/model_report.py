"""The report of a version of a model: what its page shows, and how it was made, for one file."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version as version_of
from typing import Any, Final

from service.http.requests import base_of
from service.ui import formats
from service.ui.api import Api, segment
from service.ui.tables import Cell, Table
from service.ui.views.datasets import columns_table, size_sentence
from service.ui.views.lists import FORBIDDEN, model_href
from service.ui.views.versions import VersionView, version_view

_SVG: Final = "image/svg+xml"


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot with its pictures, as addresses that have their data; the narrow one is for phones."""

    title: str
    sentence: str
    image: str
    narrow: str


@dataclass(frozen=True, slots=True)
class ModelReport:
    """The report of a version.

    Parameters
    ----------
    made
        When the report was made, to the second.
    page, file
        Addresses of the page of the version, and of this report, which hold in a copy, too.
    version
        What the page of the version shows.
    tables
        Its tables, without those that are empty.
    lineage
        Where the model comes from, with exact times.
    method, data
        Sentences on the method, and on the data.
    columns
        Columns over all rows; None if the caller may not read the dataset, or tasks differ.
    citations
        Publications of the methods of the model, and the software.
    """

    title: str
    made: str
    page: str
    file: str
    version: VersionView
    figures: Sequence[Figure]
    tables: Sequence[Table]
    method: str
    data: str
    columns: Table | None
    lineage: Sequence[tuple[str, Cell]]
    citations: Sequence[str]


async def report_view(api: Api, name: str, version: int) -> ModelReport:
    """Return the report of a version."""
    view = await version_view(api, name, version, vega="")
    report = await api.find(f"{view.path}/report") or {}
    titles = await _algorithms(api)
    data, columns = await _data(api, view)
    plots = (*view.charts.values(), *view.plots)
    tables = (*view.leaderboards[1:], *view.tables)
    base = base_of(api.request)
    algorithm = titles[view.model["algorithm"]]
    return ModelReport(
        title=f"Report on {name}, version {version}",
        made=formats.exact(datetime.now(UTC).isoformat()),
        page=f"{base}{model_href(name, version)}",
        file=f"{base}{view.path}/report.html",
        version=view,
        figures=await asyncio.gather(*(_figure(api, plot) for plot in plots)),
        tables=[table for table in tables if table.rows and len(table.columns) > 1],
        method=view.words.said(f"{algorithm['title']}: {algorithm['summary']}"),
        data=data,
        columns=columns,
        lineage=[(title, _dated(cell)) for title, cell in view.lineage],
        citations=_citations(view.model, report, titles),
    )


def _dated(cell: Cell) -> Cell:
    return Cell(formats.exact(cell.value)) if cell.kind == "time" else cell


async def _figure(api: Api, plot: Any) -> Figure:
    wide, narrow = [
        base64.b64encode((await api.text(href, accept=_SVG)).encode()).decode()
        for href in (plot.href, f"{plot.href}&width=220")
    ]
    prefix = f"data:{_SVG};base64,"
    return Figure(plot.title, plot.sentence, prefix + wide, prefix + narrow)


async def _algorithms(api: Api) -> dict[str, dict[str, Any]]:
    items = (await api.get("/v1/algorithms", page_size=200))["items"]
    return {item["name"]: item for item in items}


async def _data(api: Api, view: VersionView) -> tuple[str, Table | None]:
    """Return a sentence on the dataset of a model, and its columns."""
    model = view.model
    path = f"/v1/datasets/{segment(model['lineage']['dataset_id'])}"
    dataset = await api.find(path, refused=FORBIDDEN)
    if dataset is None:
        return f"{view.words.counted(len(model['tasks']))}.", None
    preview = await api.get(f"{path}/preview", tasks=1, rows=0)
    manifest = await api.get(f"{path}/manifest")
    sentence = f"{dataset['name']}: {size_sentence(dataset, preview)} Rows with the same "
    return f"{sentence}{model['task_column']} belong together.", columns_table(preview, manifest)


def _citations(
    model: Mapping[str, Any],
    report: Mapping[str, Any],
    algorithms: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """Return the references of the algorithm, of the methods that it weighs, and of the service."""
    leaderboard = (report.get("choice") or {}).get("leaderboard", ())
    names = [model["algorithm"], *(row["algorithm"] for row in leaderboard if row["weight"])]
    cited = [
        f"{algorithms[name]['title']}: {algorithms[name]['reference']}"
        for name in dict.fromkeys(names)
    ]
    return [*cited, f"Sibling, version {version_of('sibling')}."]
