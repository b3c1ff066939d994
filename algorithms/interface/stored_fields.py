"""Arrays and a JSON header of a dataclass, from the types of its fields.

========================================  ========================================================
type of the field                         stored as
========================================  ========================================================
array                                     array of the name of the field
array or None                             the same; None is left out
dataclass with arrays                     its arrays among the others, its JSON under the name of
                                          the field
tuple of dataclasses with arrays          array ``x`` of item i as ``x.<i>``; each of their floats
                                          as an array, and each JSON field as a list in the header,
                                          with one entry per item
anything else                             JSON under the name of the field
========================================  ========================================================

A field with the metadata :data:`NOT_STORED` is left out. JSON is checked against the type of its
field when it is read.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, TypeAdapter

#: Metadata of a field that a class stores by itself, or not at all.
NOT_STORED: Final = {"is_stored": False}
#: Names of fields in files of version 0.1.
_FIRST_NAMES: Final = {"fit_info": "facts"}

T = TypeVar("T")


def json_ready(value: Any) -> Any:
    """Return the value with None for each number that is not finite, at any depth.

    A dataclass becomes an object with its fields.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    if is_dataclass(value):
        return {field.name: json_ready(getattr(value, field.name)) for field in fields(value)}
    return value


def _as_infinite(value: Any) -> Any:
    return math.inf if value is None else value


#: A number that is null in JSON if it is infinite.
MaybeInfinite = Annotated[float, BeforeValidator(_as_infinite)]


@dataclass(frozen=True, slots=True)
class _Stored:
    """How a field is stored.

    Attributes
    ----------
    type
        That of the numbers of an array, of the dataclass, of an item, or of the JSON.
    is_optional
        Whether it can be missing: an array may be None, JSON has a default.
    """

    name: str
    form: Literal["array", "record", "items", "json"]
    type: Any
    is_optional: bool


def arrays_of(record: Any) -> dict[str, NDArray[Any]]:
    """Return the arrays of a dataclass by name."""
    arrays: dict[str, NDArray[Any]] = {}
    for field in _stored_fields(record.__class__):
        value = getattr(record, field.name)
        if field.form == "array" and value is not None:
            arrays[field.name] = value
        elif field.form == "record":
            arrays |= arrays_of(value)
        elif field.form == "items":
            for i, item in enumerate(value):
                arrays |= {f"{name}.{i}": array for name, array in arrays_of(item).items()}
            for name in _json_names(field.type, is_float=True):
                arrays[name] = np.array([getattr(item, name) for item in value])
    return arrays


def header_of(record: Any) -> dict[str, Any]:
    """Return everything of a dataclass but the arrays, as JSON."""
    header: dict[str, Any] = {}
    for field in _stored_fields(record.__class__):
        value = getattr(record, field.name)
        if field.form == "json":
            header[field.name] = json_ready(value)
        elif field.form == "record":
            below = header_of(value)
            header |= {field.name: below} if below else {}
        elif field.form == "items":
            rows = [header_of(item) for item in value]
            names = _json_names(field.type, is_float=False)
            header |= {name: [row[name] for row in rows] for name in names}
    return header


def read_fields(
    cls: Callable[..., T], arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]
) -> T:
    """Return the dataclass from the results of :func:`arrays_of` and :func:`header_of`.

    Raises
    ------
    KeyError
        An array, or a member of the header, is missing.
    ValueError
        One of them has another type than its field.
    """
    values: dict[str, Any] = _read_arrays(cls, arrays)
    for field in _stored_fields(cls):
        name = field.name
        if field.form == "record":
            values[name] = read_fields(field.type, arrays, header.get(name, {}))
        elif field.form == "items":
            values[name] = _read_items(field.type, arrays, header)
        elif field.form == "json":
            known_as = name if name in header else _FIRST_NAMES.get(name, name)
            if known_as in header or not field.is_optional:
                values[name] = _adapter(field.type).validate_python(header[known_as])
    return cls(**values)


def _read_arrays(cls: Any, arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any] | None]:
    values: dict[str, NDArray[Any] | None] = {}
    for field in _stored_fields(cls):
        if field.form == "array":
            array = arrays.get(field.name) if field.is_optional else arrays[field.name]
            if array is not None and not np.issubdtype(array.dtype, field.type):
                raise ValueError(f"{field.name} is {array.dtype}, expected {field.type.__name__}")
            values[field.name] = array
    return values


def _read_items(
    cls: Callable[..., T], arrays: Mapping[str, NDArray[Any]], header: Mapping[str, Any]
) -> tuple[T, ...]:
    arrays_by_item: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        start, _, i = name.rpartition(".")
        arrays_by_item.setdefault(i, {})[start] = array
    columns = {name: header[name] for name in _json_names(cls, is_float=False)}
    columns |= {name: arrays[name].tolist() for name in _json_names(cls, is_float=True)}
    # whole columns, since there may be thousands of items
    types = {field.name: field.type for field in _stored_fields(cls)}
    values = [
        _adapter(types[name], is_list=True).validate_python(columns[name]) for name in columns
    ]
    return tuple(
        cls(
            **_read_arrays(cls, arrays_by_item.get(str(i), {})),
            **dict(zip(columns, row, strict=True)),
        )
        for i, row in enumerate(zip(*values, strict=True))
    )


def _json_names(cls: Any, *, is_float: bool) -> list[str]:
    json_fields = [field for field in _stored_fields(cls) if field.form == "json"]
    return [field.name for field in json_fields if (field.type is float) == is_float]


@cache
def _adapter(kind: Any, *, is_list: bool = False) -> TypeAdapter[Any]:
    annotation: Any = GenericAlias(list, (kind,)) if is_list else kind
    return TypeAdapter(annotation)


@cache
def _stored_fields(cls: Any) -> tuple[_Stored, ...]:
    types = get_type_hints(cls, include_extras=True)
    stored = [field for field in fields(cls) if field.metadata.get("is_stored", True)]
    return tuple(_stored(field, types[field.name]) for field in stored)


def _stored(field: Field[Any], kind: Any) -> _Stored:
    choices = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    if _is_array(choices[0]):
        (number,) = get_args(get_args(choices[0])[1])
        kind = np.generic if number is Any else number
        return _Stored(field.name, "array", kind, NoneType in choices)
    has_default = field.default is not MISSING or field.default_factory is not MISSING
    if _has_arrays(kind):
        return _Stored(field.name, "record", kind, has_default)
    if get_origin(kind) is tuple and _has_arrays(get_args(kind)[0]):
        return _Stored(field.name, "items", get_args(kind)[0], has_default)
    return _Stored(field.name, "json", kind, has_default)


def _is_array(kind: Any) -> bool:
    return get_origin(kind) is np.ndarray


def _has_arrays(kind: Any) -> bool:
    is_record: bool = is_dataclass(kind)
    return is_record and any(field.form != "json" for field in _stored_fields(kind))
