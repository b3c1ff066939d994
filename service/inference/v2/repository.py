"""Loading and unloading models by the protocol's model repository extension.

Every model is loaded when it is first called and kept while there is room; these take the first
call's wait away, or make room, in the process that answers. A model that is unloaded can be called
as before, and is then loaded again.
"""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request, Response
from fastapi.concurrency import run_in_threadpool

from service.context import Context, Services
from service.http import Owner, parse_json, secured, v2_problems
from service.inference.call import raise_invalid_request
from service.inference.v2.names import find_named
from service.models import store

router = APIRouter(
    prefix="/v2/repository/models",
    tags=["open inference protocol"],
    route_class=secured("admin"),
)

Name = Annotated[str, Path(max_length=220, description="A model, NAME@ALIAS, or NAME.method.")]
_DONE: Final[dict[str, Any]] = {
    "response_class": Response,
    "responses": {
        200: {"description": "It is done; the body is empty."},
        **v2_problems("malformed-json", "not-found", "body-too-large", "invalid-request"),
    },
}


@router.post("/{name}/load", name="v2_load", **_DONE)
async def load(name: Name, request: Request, services: Context, owner: Owner) -> Response:
    """Load the latest version of a model, or that of an alias, before its first call."""
    _check_parameters(await request.body(), known=())
    await run_in_threadpool(_load, services, owner, name)
    return Response()


@router.post("/{name}/unload", name="v2_unload", **_DONE)
async def unload(name: Name, request: Request, services: Context, owner: Owner) -> Response:
    """Drop every version of a model from memory, or that of an alias."""
    _check_parameters(await request.body(), known=("unload_dependents",))
    await run_in_threadpool(_unload, services, owner, name)
    return Response()


def _check_parameters(body: bytes, *, known: tuple[str, ...]) -> None:
    """Refuse what would not be heeded: how a model is served follows from how it was trained."""
    document = parse_json(body) if body.strip() else {}
    given = document.get("parameters", {}) if isinstance(document, dict) else None
    if not isinstance(given, dict):
        raise_invalid_request(
            "", "expected an empty body, or an object with an object 'parameters'"
        )
    unknown = sorted(given.keys() - set(known))
    if unknown:
        detail = f"the parameter '{unknown[0]}' is not taken; there is {', '.join(known) or 'none'}"
        raise_invalid_request(f"/parameters/{unknown[0]}", detail)


def _load(services: Services, owner: str, name: str) -> None:
    served, _ = find_named(services, owner, name, None)
    services.models.get(served)


def _unload(services: Services, owner: str, name: str) -> None:
    served, _ = find_named(services, owner, name, None)
    versions = [served.version]
    if store.ALIAS_SEPARATOR not in name:
        with services.database.read() as session:
            versions = list(store.version_numbers(session, owner, served.name))
    for version in versions:
        found = services.resolver.find_any(owner, served.name, version)
        if found is not None:  # else it was deleted meanwhile
            services.models.drop(found)
