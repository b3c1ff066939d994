"""Routes of a version, which have two paths each.

``/models/{name}/...`` is for the latest version or an alias, and
``/models/{name}/versions/{version}/...`` for a version number.
"""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fastapi import APIRouter

from service.models.routes import Version


def paths_of(path: str) -> tuple[str, str]:
    """Return the path of the latest version, and that of a version number."""
    return path, path.replace("{name}", "{name}/versions/{version}")


def add_version_routes(
    router: APIRouter,
    method: str,
    path: str,
    endpoint: Callable[..., Any],
    *,
    names: Sequence[str],
    summaries: Sequence[str],
    descriptions: Sequence[str] | None = None,
    **documented: Any,
) -> None:
    """Add an endpoint on both paths.

    Parameters
    ----------
    path
        Path of the latest version.
    endpoint
        A function with a parameter ``version``, None for the latest version.
    names, summaries, descriptions
        Of both routes. Default of descriptions: the docstring of the endpoint.
    """
    texts = descriptions or [inspect.getdoc(endpoint) or ""] * 2
    signature = inspect.signature(endpoint)
    of_number = {
        name: p.replace(annotation=Version) if name == "version" else p
        for name, p in signature.parameters.items()
    }
    of_latest = {name: p for name, p in of_number.items() if name != "version"}
    calls: list[Any] = [partial(endpoint, version=None), partial(endpoint)]
    for i, parameters in enumerate((of_latest, of_number)):
        calls[i].__signature__ = signature.replace(parameters=list(parameters.values()))
        router.add_api_route(
            paths_of(path)[i],
            calls[i],
            methods=[method],
            name=names[i],
            summary=summaries[i],
            description=texts[i],
            **documented,
        )
