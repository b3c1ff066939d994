"""Parts of the OpenAPI document that do not come from routes: errors, V2 bodies and API keys."""

from typing import Any

from pydantic import BaseModel

from service.http.documentation import BYTES
from service.http.schemas import ProblemSchema
from service.inference.schemas import InferenceRequest
from service.inference.v2.schemas import InferBody


def complete(document: dict[str, Any]) -> None:
    """Add the schemas of problems and of V2 bodies, and the security scheme, to a document."""
    components = document["components"]
    schemas = components["schemas"]
    for schema in (ProblemSchema, InferBody, InferenceRequest):
        schemas |= _schemas_of(schema)
    schemas["V2Error"] = _v2_error(schemas["Problem"])
    for path, operations in document["paths"].items():
        if path.startswith("/v2"):
            for operation in operations.values():
                operation["responses"].pop("422", None)  # added by FastAPI; under /v2 it is 400
        for operation in operations.values():
            _describe_files(operation["responses"])
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    scheme = {"type": "http", "scheme": "bearer", "description": "An API key, sib_..."}
    components["securitySchemes"] = {"key": scheme}
    document["security"] = [{"key": []}, {}]  # keys are optional on loopback
    _widen_integers(document)


def _widen_integers(part: Any) -> None:
    """Declare every integer in a part of the document as 64 bits, with limits that fit.

    Generated clients in Go, Java and C# read others as 32 bits.
    """
    if isinstance(part, list):
        for item in part:
            _widen_integers(item)
    elif isinstance(part, dict):
        for item in part.values():
            _widen_integers(item)
        if part.get("type") == "integer":
            part["format"] = "int64"
            if "exclusiveMaximum" in part:
                part["maximum"] = int(part.pop("exclusiveMaximum")) - 1


def _describe_files(responses: dict[str, Any]) -> None:
    """Add the schema of text or bytes to media types of responses that have none.

    Without one, generated clients know nothing about the other types of the response either.
    """
    for response in responses.values():
        for media_type, content in response.get("content", {}).items():
            is_text = media_type.startswith("text/")
            content.setdefault("schema", {"type": "string"} if is_text else BYTES)


def _schemas_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the schemas of a pydantic model and of its nested models, as a mapping from names."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    return {**schema.pop("$defs", {}), schema["title"]: schema}


def _v2_error(problem: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of errors under ``/v2``: a problem with a member ``error``."""
    error = {
        "type": "string",
        "description": "Same as `detail`, for clients of the Open Inference Protocol.",
    }
    return {
        **problem,
        "title": "V2Error",
        "properties": {"error": error, **problem["properties"]},
        "required": ["error", *problem["required"]],
    }
