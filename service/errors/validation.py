"""Errors of validation as responses show them: with places in the request and plain messages."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from algorithms.interface.errors import explain_unknown
from service.errors.patterns import EXPECTED

_LOCATIONS: Final = ("query", "path", "header", "cookie")


def errors_of_request(errors: Sequence[Mapping[str, Any]], body: Any) -> list[Mapping[str, Any]]:
    """Return the errors of a request, with errors outside the body first.

    Parameters
    ----------
    errors
        ``RequestValidationError.errors()``.
    body
        The body as it was parsed.
    """
    outside = [error for error in errors if error["loc"][0] in _LOCATIONS]
    of_body = [error for error in errors if error["loc"][0] not in _LOCATIONS]
    return [*outside, *without_branches(of_body, {"body": body})]


def entry_of(error: Mapping[str, Any]) -> dict[str, Any]:
    """Return one entry of ``errors`` in a response, without the invalid input itself."""
    location, *path = error["loc"]
    entry = {"code": error["type"], "detail": describe(error)}
    if location in _LOCATIONS:
        return {"parameter": f"{location}:{'.'.join(str(part) for part in path)}", **entry}
    return {"pointer": json_pointer(path), **entry}


def without_branches(errors: Sequence[Mapping[str, Any]], value: Any) -> list[dict[str, Any]]:
    """Return errors with their places in the sent value, without names of branches of unions.

    pydantic reports the errors of every branch of a union, such as ``Literal["none"] | dict``. Only
    the errors of the branch that fits best are returned.

    Parameters
    ----------
    errors
        ``ValidationError.errors()``.
    value
        The validated value.
    """
    placed = []
    branches: dict[tuple[Any, ...], dict[str, int]] = {}
    for error in errors:
        place, tags = _split_place(error, value)
        placed.append((place, tags, error))
        for at, tag in tags:
            fits = 2 if len(place) > len(at) else int(not error["type"].endswith("_type"))
            fit = branches.setdefault(at, {})
            fit[tag] = max(fit.get(tag, 0), fits)
    return [
        {**error, "loc": place}
        for place, tags, error in placed
        if all(branches[at][tag] == max(branches[at].values()) for at, tag in tags)
    ]


def _split_place(
    error: Mapping[str, Any], value: Any
) -> tuple[tuple[str | int, ...], list[tuple[tuple[str | int, ...], str]]]:
    """Return the place of an error in a value, and the branches of unions with their places."""
    place: list[str | int] = []
    tags = []
    for position, part in enumerate(error["loc"], start=1):
        is_absent = error["type"] == "missing" and position == len(error["loc"])
        is_item = isinstance(value, list) and isinstance(part, int)
        if is_absent or is_item or (isinstance(value, Mapping) and part in value):
            place.append(part)
            value = None if is_absent else value[part]
        else:
            tags.append((tuple(place), str(part)))
    return tuple(place), tags


def describe(error: Mapping[str, Any], known: Collection[str] = (), what: str = "field") -> str:
    """Return a message for an invalid value: pydantic's, or a plainer one for names.

    An unknown name gets a suggestion, and a malformed one the description of valid names.

    Parameters
    ----------
    error
        One of ``ValidationError.errors()``.
    known
        The valid names, if the caller knows them.
    what
        The term for a name in the message, such as "parameter".
    """
    if error["type"] == "missing" and len(error["loc"]) == 1:
        return "the body is missing; send a JSON object, or {} if it needs no field"
    if error["type"] == "string_pattern_mismatch":
        return EXPECTED.get(error["ctx"]["pattern"], str(error["msg"]))
    if error["type"] != "extra_forbidden":
        return str(error["msg"]).removeprefix("Value error, ")
    location, name = error["loc"][0], str(error["loc"][-1])
    if location in _LOCATIONS:
        what = f"{location} parameter"
    return explain_unknown(name, known, what=what)


def entry_at(pointer: str, detail: str) -> dict[str, str]:
    """Return an entry of ``errors`` for a JSON pointer into the body."""
    return {"pointer": pointer, "code": "invalid", "detail": detail}


def json_pointer(path: Sequence[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) of a path."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
