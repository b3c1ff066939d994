"""Error responses of routes in the OpenAPI document."""

from typing import Any

from service.errors import ANYWHERE, ERRORS, PROBLEM_TYPE
from service.http.bodies import JSON


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI responses of a route for these codes and those of every route."""
    by_status: dict[int | str, list[str]] = {}
    for code in (*codes, *(code for code in ANYWHERE if code not in codes)):
        by_status.setdefault(ERRORS[code].status, []).append(code)
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {
            "description": "; ".join(f"`{code}`: {ERRORS[code].title}" for code in codes_),
            "content": {PROBLEM_TYPE: {"schema": schema}},
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
            "content": {JSON: {"schema": {"$ref": "#/components/schemas/V2Error"}}},
        }
        for status, codes_ in by_status.items()
    }
