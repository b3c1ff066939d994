"""The reference of the API, from the OpenAPI document."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from service.errors.codes import ERRORS
from service.ui import formats, tables
from service.ui.tables import Table, TableRow

_V1: Final = "/v1"
#: Subjects in the order of a day's work; others follow.
_ORDER: Final = ("datasets", "jobs", "models", "inference")
_SCHEMA: Final = "#/components/schemas/"
_CODE: Final = re.compile(r"`([a-z-]+)`")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response: its status, meaning, error codes and schema; the last three may be empty."""

    status: str
    text: str
    codes: Sequence[str]
    schema: str


@dataclass(frozen=True, slots=True)
class Operation:
    """A request that the API takes.

    Parameters
    ----------
    bodies
        Media types of its body, with the name of their schema, which may be empty.
    """

    id: str
    method: str
    path: str
    summary: str
    description: str
    params: Table | None
    bodies: Sequence[tuple[str, str]]
    answers: Sequence[Answer]


@dataclass(frozen=True, slots=True)
class Schema:
    """A JSON object, with its members, and the names of other schemas that these have."""

    name: str
    description: str
    members: Table | None
    others: Sequence[str]


@dataclass(frozen=True, slots=True)
class Reference:
    """The reference: requests by subject, those of ``/v1`` first, and schemas."""

    version: str
    groups: Sequence[tuple[str, Sequence[Operation]]]
    schemas: Sequence[Schema]


def reference_view(document: Mapping[str, Any]) -> Reference:
    """Return the reference of an OpenAPI document."""
    groups: dict[str, list[Operation]] = {}
    paths = sorted(document["paths"].items(), key=lambda pair: not pair[0].startswith(_V1))
    for path, operations in paths:
        for method, operation in operations.items():
            found = _operation(method, path, operation)
            groups.setdefault(operation["tags"][0], []).append(found)
    schemas = sorted(document["components"]["schemas"].items())
    return Reference(
        document["info"]["version"],
        [(tag, groups.pop(tag)) for tag in _ORDER] + list(groups.items()),
        [_schema(name, schema) for name, schema in schemas],
    )


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Operation:
    params = [
        TableRow(
            p["name"],
            [
                tables.text(p["name"], note=p["in"]),
                tables.text(_type(p["schema"])),
                tables.text("yes" if p.get("required") else "no"),
                tables.text(p.get("description")),
            ],
        )
        for p in operation.get("parameters", ())
    ]
    body = operation.get("requestBody", {"content": {}})["content"]
    columns = ("Parameter", "Type", "Required", "Meaning")
    return Operation(
        operation["operationId"],
        method.upper(),
        path,
        operation["summary"],
        operation.get("description", ""),
        Table("Parameters", columns, params) if params else None,
        [(media_type, _name(content.get("schema", {}))) for media_type, content in body.items()],
        [_answer(status, answer) for status, answer in sorted(operation["responses"].items())],
    )


def _answer(status: str, answer: Mapping[str, Any]) -> Answer:
    text = answer["description"]
    codes = [code for code in _CODE.findall(text) if code in ERRORS]
    contents = answer.get("content", {}).values()
    names = [] if codes else [_name(content.get("schema", {})) for content in contents]
    return Answer(status, "" if codes else text, codes, next(filter(None, names), ""))


def _schema(name: str, schema: Mapping[str, Any]) -> Schema:
    required = schema.get("required", ())
    rows = [
        TableRow(
            member,
            [
                tables.text(member),
                tables.text(_type(field)),
                tables.text("yes" if member in required else "no"),
                tables.text(field.get("description")),
            ],
        )
        for member, field in schema.get("properties", {}).items()
    ]
    table = Table(f"Members of {name}", ("Member", "Type", "Required", "Meaning"), rows)
    others = sorted(set(_references(schema)) - {name})
    return Schema(name, schema.get("description", ""), table if rows else None, others)


def _references(part: Any) -> Iterator[str]:
    """Yield the names of the schemas that a part of a document refers to."""
    if isinstance(part, dict):
        if "$ref" in part:
            yield part["$ref"].removeprefix(_SCHEMA)
        for value in part.values():
            yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)


def _name(schema: Mapping[str, Any]) -> str:
    return str(schema.get("$ref", "")).removeprefix(_SCHEMA)


def _type(schema: Mapping[str, Any]) -> str:
    """Return the type of a JSON Schema in words."""
    if "$ref" in schema:
        return _name(schema)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " or ".join(dict.fromkeys(_type(part) for part in schema[key]))
    if "enum" in schema:
        return ", ".join(formats.plain(value) for value in schema["enum"])
    if "const" in schema:
        return formats.plain(schema["const"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return str(schema.get("format") or schema.get("type") or "any")
