"""HTTP routes of the plots of a version."""

import json
from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

import sibling
from service.errors import Problem
from service.http.documentation import problems
from service.http.negotiation import preferred_type
from service.http.preconditions import etag, is_not_modified
from service.http.responses import json_response
from service.http.routing import Owner, secured
from service.models.context import Context, Services
from service.models.routes import Name, Version, find_version
from service.models.schemas import History, PlotInfo, Plots, Report
from service.models.store import NamedVersion, find_importance
from sibling.plots import (
    PLOTS,
    NoPlot,
    Source,
    Theme,
    UnknownPlot,
    available,
    held_out_rows,
    specification,
)

router = APIRouter(prefix="/v1/models", tags=["models"], route_class=secured("models:{}"))

_JSON: Final = "application/json"
_SVG: Final = "image/svg+xml"
_OFFERED: Final = (_JSON, _SVG, "image/png")

PlotName = Annotated[str, Path(max_length=60, description="Name of a plot in the list of plots.")]


class PlotQuery(BaseModel):
    """How to draw a plot."""

    model_config = ConfigDict(extra="forbid")

    theme: Theme = Field("light", description="Colours for a light or a dark page.")


Options = Annotated[PlotQuery, Query()]

_LIST: Final[dict[str, Any]] = {
    "response_model": Plots,
    "responses": {
        304: {"description": "Not modified."},
        **problems("not-found", "invalid-request"),
    },
}
_DRAW: Final[dict[str, Any]] = {
    "response_class": Response,
    "responses": {
        200: {
            "description": "A Vega-Lite specification with its data, or an image of it.",
            "content": {_JSON: {"schema": {"type": "object"}}, _SVG: {}, "image/png": {}},
        },
        304: {"description": "Not modified."},
        **problems("not-found", "no-plot", "not-acceptable", "invalid-request", "unavailable"),
    },
}


@router.get("/{name}/plots", summary="List the plots of a model, latest version", **_LIST)
def list_plots_of_latest(name: Name, request: Request, services: Context, owner: Owner) -> Response:
    """List the plots that there are of a model, and what each shows in a sentence."""
    return _list(request, services, owner, find_version(services, owner, name, None))


@router.get(
    "/{name}/versions/{version}/plots", summary="List the plots of a model, given version", **_LIST
)
def list_plots_of_version(
    name: Name, version: Version, request: Request, services: Context, owner: Owner
) -> Response:
    """List the plots that there are of a model, and what each shows in a sentence."""
    return _list(request, services, owner, find_version(services, owner, name, version))


@router.get("/{name}/plots/{plot}", summary="Plot of a model, latest version", **_DRAW)
def draw_plot_of_latest(
    name: Name,
    plot: PlotName,
    *,
    request: Request,
    services: Context,
    owner: Owner,
    query: Options,
) -> Response:
    """Draw a plot as `Accept` asks: a Vega-Lite specification (JSON), SVG or PNG."""
    found = find_version(services, owner, name, None)
    return _draw(request, services, owner, found, plot=plot, theme=query.theme)


@router.get(
    "/{name}/versions/{version}/plots/{plot}", summary="Plot of a model, given version", **_DRAW
)
def draw_plot_of_version(
    name: Name,
    version: Version,
    plot: PlotName,
    *,
    request: Request,
    services: Context,
    owner: Owner,
    query: Options,
) -> Response:
    """Draw a plot as `Accept` asks: a Vega-Lite specification (JSON), SVG or PNG."""
    found = find_version(services, owner, name, version)
    return _draw(request, services, owner, found, plot=plot, theme=query.theme)


def _list(request: Request, services: Services, owner: str, version: NamedVersion) -> Response:
    tag = _tag(version)
    if is_not_modified(request, tag):
        return Response(status_code=304, headers={"ETag": tag})
    found = available(_source(services, owner, version))
    plots = [
        PlotInfo(name=name, title=PLOTS[name].title, sentence=content.sentence)
        for name, content in found.items()
    ]
    return json_response(Plots(plots=plots), ETag=tag)


def _draw(
    request: Request,
    services: Services,
    owner: str,
    version: NamedVersion,
    *,
    plot: str,
    theme: Theme,
) -> Response:
    media_type = preferred_type(request.headers.get("accept", ""), _OFFERED)
    tag = _tag(version, plot, theme, media_type)
    headers = {"ETag": tag, "Vary": "Accept", "Content-Security-Policy": "default-src 'none'"}
    if plot in PLOTS and is_not_modified(request, tag):
        return Response(status_code=304, headers=headers)
    try:
        drawn = specification(plot, _source(services, owner, version), theme=theme)
    except (UnknownPlot, NoPlot) as error:
        raise Problem("no-plot", str(error)) from None
    if media_type == _JSON:
        content = json.dumps(drawn, allow_nan=False).encode()
    else:
        content = services.images.convert(drawn, media_type)
    return Response(content, media_type=media_type, headers=headers)


def _source(services: Services, owner: str, version: NamedVersion) -> Source:
    """Return what is stored of a version."""
    row = version.row
    served = services.resolver.find(owner, version.name, row.version)
    report = None if row.report is None else Report.model_validate(row.report).model_dump()
    steps = History.model_validate(row.history).steps.model_dump()
    with services.database.read() as session:
        importance = find_importance(session, row.id)
    return Source(services.models.get(served), steps, report, held_out_rows(report), importance)


def _tag(version: NamedVersion, *parts: str) -> str:
    """Return the ETag of what this release of the software shows of a version."""
    return etag(".".join((version.row.id, sibling.__version__, *parts)))
