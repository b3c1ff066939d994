"""Fields of a form, made of JSON Schemas."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from service.jobs.spec_schemas import JobSpec
from service.ui.views.algorithms import allowed
from service.ui.views.words import PLAIN

#: JSON Schema of the specification of a job.
SPECIFICATION: Final = JobSpec.model_json_schema()
#: Units at the ends of names.
_UNITS: Final = {"_s": ", in seconds", "_mb": ", in MiB"}


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a form.

    Parameters
    ----------
    path
        JSON pointer of the value in the request.
    kind
        number, integer, boolean, choice, text or json.
    value, default
        The value and the default as text; empty for none.
    can_search
        Whether a search can try several values.
    search
        The values that a search tries.
    """

    path: str
    name: str
    title: str
    description: str
    allowed: str
    kind: str
    value: str
    default: str
    options: Sequence[str]
    low: float | None
    high: float | None
    is_required: bool
    can_search: bool
    search: str


def fields_of(
    schema: Mapping[str, Any],
    prefix: str,
    values: Mapping[str, Any],
    *,
    searched: Mapping[str, Any] | None = None,
) -> list[Field]:
    """Return the fields of the properties of a schema, and of the objects in it.

    Parameters
    ----------
    values
        Given values; others have their defaults.
    searched
        Values that a search tries, by property.
    """
    definitions = {**SPECIFICATION["$defs"], **schema.get("$defs", {})}
    return [
        _searched(field, searched[field.name]) if searched and field.name in searched else field
        for field in _fields(schema, prefix, values, definitions)
    ]


def _fields(
    schema: Mapping[str, Any],
    prefix: str,
    values: Mapping[str, Any],
    definitions: Mapping[str, Any],
) -> Iterator[Field]:
    required = schema.get("required", ())
    for name, declared in schema["properties"].items():
        path = f"{prefix}/{name}"
        inner = definitions.get(declared.get("$ref", "").rpartition("/")[2], {})
        if "properties" in inner:
            yield from _fields(inner, path, values.get(name) or {}, definitions)
        else:
            yield _field(path, name, declared, values, is_required=name in required)


def _field(
    path: str,
    name: str,
    declared: Mapping[str, Any],
    values: Mapping[str, Any],
    *,
    is_required: bool,
) -> Field:
    parts = [part for part in declared.get("anyOf", ()) if part.get("type") != "null"]
    kind_of = parts[0] if len(parts) == 1 else declared
    kind = _kind(kind_of, is_union=len(parts) > 1)
    options = [_text(value, "text") for value in kind_of.get("enum", ())]
    if kind == "choice" and parts:
        options.insert(0, "")
    default = declared.get("default")
    return Field(
        path=path,
        name=name,
        title=PLAIN.said(_title(name, declared)),
        description=PLAIN.said(declared.get("description", "")),
        allowed=allowed(declared),
        kind=kind,
        value=_text(values.get(name, default), kind),
        default=_text(default, kind),
        options=options,
        low=kind_of.get("minimum"),
        high=kind_of.get("maximum"),
        is_required=is_required,
        can_search=kind in {"number", "integer", "boolean", "choice"},
        search="",
    )


def _searched(field: Field, space: Any) -> Field:
    """Return a field with the values that a search tries: a list, or an object with a range."""
    is_list = isinstance(space, list)
    text = ", ".join(_text(v, field.kind) for v in space) if is_list else json.dumps(space)
    return replace(field, search=text)


def _title(name: str, declared: Mapping[str, Any]) -> str:
    """Return the title of a property; if pydantic made it of the name, return plain words."""
    title = str(declared.get("title", name))
    if title.lower() != name.replace("_", " ").lower():
        return title
    name = re.sub("^n_", "number_of_", name)
    unit = next((end for end in _UNITS if name.endswith(end)), "")
    return name.removesuffix(unit).replace("_", " ").capitalize() + _UNITS.get(unit, "")


def _kind(schema: Mapping[str, Any], *, is_union: bool) -> str:
    if is_union:
        return "json"
    if "enum" in schema:
        return "choice"
    kinds = {"number": "number", "integer": "integer", "boolean": "boolean", "string": "text"}
    return kinds.get(str(schema.get("type")), "json")


def _text(value: Any, kind: str) -> str:
    if value is None:
        return ""
    if kind in {"choice", "text"} and isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
