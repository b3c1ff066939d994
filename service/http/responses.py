"""JSON responses."""

from pydantic import BaseModel
from starlette.responses import Response


def json_response(value: BaseModel, *, status: int = 200, **headers: str) -> Response:
    """Return a JSON response with headers, whose names are written with underscores."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    return Response(
        value.model_dump_json(), status_code=status, headers=named, media_type="application/json"
    )
