"""Loading and unloading of models (model repository extension of the protocol).

Models are loaded on the first call and cached. Loading a model beforehand makes the first call
faster; unloading it frees memory. Both affect only the process that handles the request. An
unloaded model is loaded again on its next call.
"""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Path, Request, Response
from fastapi.concurrency import run_in_threadpool

from service.http.documentation import v2_problems
from service.http.routing import Owner, secured
from service.inference.call import raise_invalid_request
from service.inference.context import Context, InferenceServices
from service.inference.v2.names import find_named
from service.models import store

router = APIRouter(
    prefix="/v2/repository/models",
    tags=["open inference protocol"],
    route_class=secured("admin"),
)

Name = Annotated[
    str, Path(max_length=220, description="NAME, NAME@ALIAS or NAME.method of a model.")
]
_DONE: Final[dict[str, Any]] = {
    "response_class": Response,
    "responses": {
        200: {"description": "Success; the body is empty."},
        **v2_problems("malformed-json", "not-found", "body-too-large", "invalid-request"),
    },
}


@router.post("/{name}/load", name="v2_load", summary="Load a model", **_DONE)
async def load(name: Name, request: Request, services: Context, owner: Owner) -> Response:
    """Load the latest version of a model, or the version of an alias, into memory."""
    await _check_parameters(request, allowed=())
    await run_in_threadpool(_load, services, owner, name)
    return Response()


@router.post("/{name}/unload", name="v2_unload", summary="Unload a model", **_DONE)
async def unload(name: Name, request: Request, services: Context, owner: Owner) -> Response:
    """Unload all versions of a model, or the version of an alias, from memory."""
    await _check_parameters(request, allowed=("unload_dependents",))
    await run_in_threadpool(_unload, services, owner, name)
    return Response()


async def _check_parameters(request: Request, *, allowed: tuple[str, ...]) -> None:
    """Reject parameters without effect, such as overrides of the configuration."""
    document = await request.json() if (await request.body()).strip() else {}
    parameters = document.get("parameters", {}) if isinstance(document, dict) else None
    if not isinstance(parameters, dict):
        raise_invalid_request(
            "", "expected an empty body, or an object whose member 'parameters' is an object"
        )
    unknown = sorted(parameters.keys() - set(allowed))
    if unknown:
        supported = ", ".join(allowed) or "none"
        detail = f"parameter '{unknown[0]}' is not supported; supported parameters: {supported}"
        raise_invalid_request(f"/parameters/{unknown[0]}", detail)


def _load(services: InferenceServices, owner: str, name: str) -> None:
    served, _ = find_named(services, owner, name, None)
    services.models.get(served)


def _unload(services: InferenceServices, owner: str, name: str) -> None:
    served, _ = find_named(services, owner, name, None)
    versions = [served.version]
    if store.ALIAS_SEPARATOR not in name:
        with services.database.read() as session:
            versions = list(store.version_numbers(session, owner, served.name))
    for version in versions:
        servable = services.resolver.find_any(owner, served.name, version)
        if servable is not None:  # None if it has been deleted in the meantime
            services.models.drop(servable)
