"""HTTP routes of the plots of a version."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from anyio import from_thread
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from service.errors.problems import Problem
from service.http.bodies import JSON
from service.http.documentation import problems
from service.http.negotiation import preferred_type
from service.http.paging import Page, Paging, page_of_all
from service.http.preconditions import is_not_modified
from service.http.responses import json_response
from service.http.routing import Owner, secured
from service.models.context import Context, ModelServices
from service.models.report_schemas import Report
from service.models.routes import Name, find_version, version_tag
from service.models.schemas import History, PlotInfo
from service.models.store import NamedVersion, find_importance
from service.models.version_paths import add_version_routes
from sibling.plots import (
    PLOTS,
    Content,
    NoPlot,
    Source,
    Theme,
    UnknownPlot,
    available,
    held_out_rows,
    specification,
)

router = APIRouter(prefix="/v1/models", tags=["models"], route_class=secured("models:{}"))

_SVG: Final = "image/svg+xml"
_OFFERED: Final = (JSON, _SVG, "image/png")
_HEADERS: Final = {"Vary": "Accept", "Content-Security-Policy": "default-src 'none'"}

PlotName = Annotated[str, Path(max_length=60, description="Name of a plot in the list of plots.")]


class PlotQuery(BaseModel):
    """How to draw a plot."""

    model_config = ConfigDict(extra="forbid")

    theme: Theme = Field("light", description="Colours for a light or a dark page.")
    title: bool = Field(
        default=True,
        description="Whether the title and the sentence are drawn above the plot; a page that has "
        "them as text leaves them out.",
    )
    width: int | None = Field(
        None,
        ge=100,
        le=2000,
        description="Largest width of each panel in pixels, with legends below, as on a phone.",
    )

    def drawing(self) -> dict[str, Any]:
        """Return the arguments of a specification."""
        return {"theme": self.theme, "has_title": self.title, "width": self.width}


Options = Annotated[PlotQuery, Query()]

_LIST: Final[dict[str, Any]] = {
    "response_model": Page[PlotInfo],
    "responses": {
        304: {"description": "Not modified."},
        **problems("invalid-page-token", "not-found", "invalid-request"),
    },
}
DRAWN: Final[dict[str, Any]] = {
    "response_class": Response,
    "responses": {
        200: {
            "description": "A Vega-Lite specification with its data, or an image of it.",
            "content": {JSON: {"schema": {"type": "object"}}, _SVG: {}, "image/png": {}},
        },
        **problems("not-found", "no-plot", "not-acceptable", "invalid-request", "unavailable"),
    },
}
_DRAWN_OF_VERSION: Final[dict[str, Any]] = {
    **DRAWN,
    "responses": {**DRAWN["responses"], 304: {"description": "Not modified."}},
}


def _list(
    name: Name,
    version: int | None,
    *,
    request: Request,
    services: Context,
    owner: Owner,
    query: Paging,
) -> Response:
    """List a model's plots, each with its finding in a sentence, most informative first."""
    model = find_version(services, owner, name, version)
    tag = version_tag(model.row.id, "plots", str(query.page_size), str(query.after_number()))
    if is_not_modified(request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    contents = available(source_of(services, owner, model))
    return json_response(page_of_all(described(PLOTS, contents), query), ETag=tag)


def described(plots: Mapping[str, Any], contents: Mapping[str, Content]) -> list[PlotInfo]:
    """Return the title, finding and notes of each plot that has content."""
    return [
        PlotInfo(
            name=name,
            title=plots[name].title,
            sentence=content.sentence,
            notes=list(content.notes),
        )
        for name, content in contents.items()
    ]


def _draw(
    name: Name,
    version: int | None,
    plot: PlotName,
    *,
    request: Request,
    services: Context,
    owner: Owner,
    query: Options,
) -> Response:
    """Draw a plot as `Accept` asks: a Vega-Lite specification (JSON), SVG or PNG."""
    model = find_version(services, owner, name, version)
    media_type = media_type_of(request)
    parts = (plot, query.theme, f"title={query.title}", f"width={query.width}", media_type)
    tag = version_tag(model.row.id, "plots", *parts)
    if plot in PLOTS and is_not_modified(request, tag):
        return Response(status_code=304, headers={**_HEADERS, "ETag": tag})
    try:
        drawn = specification(plot, source_of(services, owner, model), **query.drawing())
    except (UnknownPlot, NoPlot) as error:
        raise Problem("no-plot", str(error)) from None
    return drawing(request, services, owner, drawn, media_type=media_type, ETag=tag)


add_version_routes(
    router,
    "GET",
    "/{name}/plots",
    _list,
    names=("list_plots_of_latest", "list_plots_of_version"),
    summaries=(
        "List the plots of a model, latest version",
        "List the plots of a model, given version",
    ),
    **_LIST,
)
add_version_routes(
    router,
    "GET",
    "/{name}/plots/{plot}",
    _draw,
    names=("draw_plot_of_latest", "draw_plot_of_version"),
    summaries=("Plot of a model, latest version", "Plot of a model, given version"),
    **_DRAWN_OF_VERSION,
)


def media_type_of(request: Request) -> str:
    """Return the media type of a plot that a request prefers: a specification or an image."""
    return preferred_type(request.headers.get("accept", ""), _OFFERED)


def drawing(
    request: Request,
    services: ModelServices,
    owner: str,
    drawn: dict[str, Any],
    *,
    media_type: str,
    **headers: str,
) -> Response:
    """Return a response with a specification, or with an image of it; for routes in a thread.

    Parameters
    ----------
    drawn
        Vega-Lite specification.
    """
    if media_type == JSON:
        content = json.dumps(drawn, allow_nan=False).encode()
    else:
        content = services.images.convert(
            drawn,
            media_type,
            owner=owner,
            is_awaited=lambda: not from_thread.run(request.is_disconnected),
        )
    return Response(content, media_type=media_type, headers={**_HEADERS, **headers})


def source_of(services: ModelServices, owner: str, version: NamedVersion) -> Source:
    """Return the stored data of a version, from which its plots are drawn."""
    row = version.row
    served = services.resolver.find(owner, version.name, row.version)
    report = None if row.report is None else Report.model_validate(row.report).model_dump()
    steps = History.model_validate(row.history).steps.model_dump()
    with services.database.read() as session:
        importance = find_importance(session, row.id)
    return Source(services.models.get(served), steps, report, held_out_rows(report), importance)
