"""HTTP routes of the algorithms and their parameters: ``GET /v1/algorithms``."""

from typing import Annotated

from fastapi import APIRouter, Path, Response

from algorithms.interface.errors import explain_unknown
from algorithms.registry import ALGORITHMS
from service.catalogue.schemas import Algorithm
from service.errors.problems import Problem
from service.http.documentation import problems
from service.http.paging import Page, Paging, page
from service.http.responses import json_response
from service.http.routing import secured

router = APIRouter(prefix="/v1/algorithms", tags=["algorithms"], route_class=secured(None))


@router.get(
    "",
    summary="List algorithms",
    response_model=Page[Algorithm],
    responses=problems("invalid-page-token", "invalid-request"),
)
def list_algorithms(query: Paging) -> Response:
    """List the algorithms with the JSON Schema of their parameters."""
    names = [name for name in sorted(ALGORITHMS) if name > (query.after() or "")]
    shown = [Algorithm.describe(ALGORITHMS[name]) for name in names[: query.page_size + 1]]
    return json_response(page(shown, query, key=lambda algorithm: algorithm.name))


@router.get("/{name}", summary="Describe an algorithm", responses=problems("not-found"))
def get_algorithm(
    name: Annotated[str, Path(description="Algorithm name.")],
) -> Algorithm:
    """Return an algorithm with its requirements and the JSON Schema of its parameters."""
    if name not in ALGORITHMS:
        names = sorted(ALGORITHMS)
        raise Problem("not-found", explain_unknown(name, names, what="algorithm"))
    return Algorithm.describe(ALGORITHMS[name])
