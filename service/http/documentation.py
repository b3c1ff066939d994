"""Error responses of routes in the OpenAPI document."""

from typing import Any, Final

from service.errors import ANYWHERE, ERRORS, PROBLEM_TYPE
from service.http.bodies import JSON

_PROBLEM: Final = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses of a route for these codes and those of every route."""
    by_status: dict[int | str, list[str]] = {}
    for code in (*codes, *(code for code in ANYWHERE if code not in codes)):
        by_status.setdefault(ERRORS[code].status, []).append(code)
    return {
        status: {
            "description": "; ".join(f"`{code}`: {ERRORS[code].title}" for code in codes_),
            "content": _PROBLEM,
        }
        for status, codes_ in by_status.items()
    }


def v2_problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses of a route of the Open Inference Protocol."""
    by_status: dict[int | str, list[str]] = {}
    for code in dict.fromkeys((*codes, *ANYWHERE)):
        status = ERRORS[code].status
        by_status.setdefault(400 if status == 422 else status, []).append(code)
    return {
        status: {
            "description": "; ".join(f"`{code}`: {ERRORS[code].title}" for code in codes_),
            "content": _PROBLEM
            if status == ERRORS["headers-too-large"].status  # sent before the path is known
            else {JSON: {"schema": {"$ref": "#/components/schemas/V2Error"}}},
        }
        for status, codes_ in by_status.items()
    }
