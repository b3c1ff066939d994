"""The base class of what users write as JSON: strict types, and integers as in JSON Schema."""

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, model_validator


class StrictModel(BaseModel):
    """A schema with strict types and no unknown fields.

    ``true`` is not a number and ``"3"`` is not 3. An integer may be written as ``3.0``: JSON has
    one type of numbers, and to JSON Schema both are the same.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _convert_whole_numbers(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        fields = cls.model_fields
        return {
            name: _convert(value, fields[name].annotation) if name in fields else value
            for name, value in data.items()
        }


def _convert(value: Any, annotation: Any) -> Any:
    """Return a value with integers in place of whole floats where the annotation has integers."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _convert(value, arguments[0])
    if origin in (Union, UnionType):
        for argument in () if float in arguments else arguments:
            value = _convert(value, argument)
        return value
    if annotation is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if origin is dict and isinstance(value, dict):
        return {key: _convert(member, arguments[1]) for key, member in value.items()}
    if origin in (list, tuple) and isinstance(value, list | tuple):
        types = set(map(type, value))
        if types & {float, list, tuple, dict}:  # lists of integers can be long
            return [_convert(member, arguments[0]) for member in value]
    return value
