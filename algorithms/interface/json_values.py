"""Conversion of values to JSON, which has no NaN or infinity."""

import math
from collections.abc import Mapping
from typing import Any


def json_ready(value: Any) -> Any:
    """Return the value with None for each number that is not finite, at any depth."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: json_ready(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [json_ready(item) for item in value]
    return value
