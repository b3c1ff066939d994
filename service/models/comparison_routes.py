"""HTTP routes of the plots of several versions on common axes."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from service.errors.patterns import VERSION_REFERENCE
from service.errors.problems import Problem
from service.http.documentation import problems
from service.http.paging import Page, PageQuery, page_of_all
from service.http.responses import json_response
from service.http.routing import Owner, secured
from service.models.context import Context, ModelServices
from service.models.plot_routes import (
    DRAWN,
    PlotName,
    PlotQuery,
    described,
    drawing,
    media_type_of,
    source_of,
)
from service.models.routes import find_version
from service.models.schemas import PlotInfo
from sibling.plots import NoPlot, Source, UnknownPlot, compared, compared_specification
from sibling.plots.compared import COMPARED

router = APIRouter(prefix="/v1", tags=["models"], route_class=secured("models:{}"))

MAX_MODELS: Final = 10
_Model = Annotated[str, Field(max_length=220, pattern=VERSION_REFERENCE)]
Models = Annotated[
    list[_Model],
    Field(min_length=1, max_length=MAX_MODELS, description="NAME, NAME/VERSION or NAME@ALIAS."),
]


class ModelsQuery(PageQuery):
    """Several models, and a page of their plots."""

    model: Models


class ModelsPlotQuery(PlotQuery):
    """Several models, and how to draw a plot of them."""

    model: Models


@router.get(
    "/models:plots",
    summary="List the plots of several models on common axes",
    response_model=Page[PlotInfo],
    responses=problems("invalid-page-token", "not-found", "invalid-request"),
)
def list_plots_of_models(
    query: Annotated[ModelsQuery, Query()], services: Context, owner: Owner
) -> Response:
    """List the plots that at least two of the models have, each with its finding in a sentence."""
    contents = compared(_sources(services, owner, query.model))
    return json_response(page_of_all(described(COMPARED, contents), query))


@router.get("/models:plots/{plot}", summary="Plot of several models on common axes", **DRAWN)
def draw_plot_of_models(
    plot: PlotName,
    query: Annotated[ModelsPlotQuery, Query()],
    *,
    request: Request,
    services: Context,
    owner: Owner,
) -> Response:
    """Draw a plot of several models as `Accept` asks: Vega-Lite (JSON), SVG or PNG."""
    sources = _sources(services, owner, query.model)
    try:
        drawn = compared_specification(plot, sources, **query.drawing())
    except (UnknownPlot, NoPlot) as error:
        raise Problem("no-plot", str(error)) from None
    return drawing(request, services, owner, drawn, media_type=media_type_of(request))


def _sources(services: ModelServices, owner: str, models: list[str]) -> dict[str, Source]:
    """Return the sources of the versions by ``NAME/VERSION``."""
    versions = []
    for reference in models:
        name, _, number = reference.partition("/")
        versions.append(find_version(services, owner, name, int(number) if number else None))
    return {
        f"{version.name}/{version.row.version}": source_of(services, owner, version)
        for version in versions
    }
