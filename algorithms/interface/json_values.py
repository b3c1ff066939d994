"""Conversion of values to JSON, which has no NaN or infinity."""

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any


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
