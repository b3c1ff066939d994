"""Error responses of routes in the OpenAPI document."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from service.errors.codes import ANYWHERE, ERRORS
from service.errors.problems import PROBLEM_TYPE
from service.http.bodies import JSON, OCTETS

_PROBLEM: Final = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_V2_ERROR: Final = {JSON: {"schema": {"$ref": "#/components/schemas/V2Error"}}}


#: Schema of the bytes of a file.
BYTES: Final = {"type": "string", "format": "binary"}
#: Codes of the problems of a body of JSON.
JSON_BODY: Final = ("malformed-json", "body-too-large", "unsupported-media-type", "invalid-request")


def file_body(
    description: str, media_types: Iterable[str] = (), *, json_schema: str | None = None
) -> dict[str, Any]:
    """Return the part of a route's documentation that describes a file as its body.

    Parameters
    ----------
    media_types
        Types that the header Content-Type may have in place of plain bytes. They are named in the
        text only: of several types, generated clients send the first, or refuse the operation.
    json_schema
        Name of the schema of a body of JSON, if that is another one.
    """
    kinds = ", ".join(f"`{name}`" for name in media_types)
    text = f"{description} Content-Type, or `content_type` in the query, is {kinds}."
    content: dict[str, Any] = {OCTETS: {"schema": BYTES}}
    if json_schema is not None:
        content = {JSON: {"schema": {"$ref": f"#/components/schemas/{json_schema}"}}, **content}
    described = {"description": text if kinds else description, "content": content}
    return {"requestBody": {"required": True, **described}}


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses of a route for these codes and the codes of every route."""
    return {
        status: {"description": description, "content": _PROBLEM}
        for status, description in _descriptions(codes, {}).items()
    }


def v2_problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses of a route of the Open Inference Protocol."""
    early = ERRORS["headers-too-large"].status  # sent before the path is known
    return {
        status: {"description": description, "content": _PROBLEM if status == early else _V2_ERROR}
        for status, description in _descriptions(codes, {422: 400}).items()
    }


def _descriptions(codes: Sequence[str], statuses: Mapping[int, int]) -> dict[int, str]:
    """Return the titles of these codes and of the codes of every route, by status.

    Parameters
    ----------
    statuses
        Statuses that are sent instead of others.
    """
    titles: dict[int, list[str]] = {}
    for code in dict.fromkeys((*codes, *ANYWHERE)):
        status = ERRORS[code].status
        title = f"`{code}`: {ERRORS[code].title}"
        titles.setdefault(statuses.get(status, status), []).append(title)
    return {status: "; ".join(of_status) for status, of_status in titles.items()}
