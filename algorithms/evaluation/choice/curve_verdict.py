"""Sentences that explain the learning curve of an automatic choice."""

import math
from collections.abc import Mapping
from typing import Any

_UNKNOWN = "The number of rows per task from which learning together no longer helps is unclear"


def describe_curve(
    curve: Mapping[str, Any] | None, *, n_tasks: int, may_help: bool = True
) -> list[str]:
    """Return the sentences on a report of :mod:`algorithms.evaluation.choice.learning_curve`.

    Parameters
    ----------
    may_help
        Whether the verdict allows to say that learning together helps.
    """
    if curve is None:
        return []
    if curve["reason"] is not None:
        return [f"There is no learning curve: {curve['reason']}."]
    says_helps = curve["low"] is None or curve["low"] > 0
    end = f"{_UNKNOWN}." if says_helps and not may_help else _describe_end(curve)
    return [end, *_describe_needed(curve, n_tasks)]


def _describe_end(curve: Mapping[str, Any]) -> str:
    """Return from how many rows per task sharing no longer helps; 0: any, None: not in range."""
    first, last = (_rows(curve["points"][i]["rows"]) for i in (0, -1))
    furthest = _rows(curve["max_rows"])
    stops_at, low, high = curve["stops_at"], curve["low"], curve["high"]
    if low is None:
        return (
            f"Learning together helps with up to at least {furthest} rows per task, ten times as "
            "many as there are (learning curve, 95 % confidence)."
        )
    if high == 0:
        return f"Learning together does not help with {first} rows per task or more."
    bounds = (
        f"{f'fewer than {first}' if low == 0 else _rows(low)} to "
        f"{f'more than {furthest}' if high is None else _rows(high)}"
    )
    if low > 0 and high is not None:
        return (
            f"From about {_rows(stops_at)} rows per task on, learning together no longer helps "
            f"(95 % confidence interval {bounds}; there are {last})."
        )
    if low > 0:
        return (
            f"Learning together helps with up to about {_rows(low)} rows per task (there are "
            f"{last}). The number from which it no longer helps is unclear."
        )
    return f"{_UNKNOWN} (95 % confidence interval {bounds}; there are {last})."


def _describe_needed(curve: Mapping[str, Any], n_tasks: int) -> list[str]:
    """Return how many rows or tasks would show the gain, if it is not shown yet."""
    if curve["tasks_factor"] is None:
        return []
    n_needed = math.ceil(n_tasks * curve["tasks_factor"])
    tasks = f"{n_needed:,} tasks of this kind instead of {n_tasks}"
    helps = "To show that learning together helps"
    if curve["rows_needed"] is None:
        sentence = (
            f"{helps} with as many rows per task as there are, about {tasks} would be needed; more "
            "rows per task would not show it, since the gain falls faster than its uncertainty."
        )
    else:
        rows = f"{_rows(curve['rows_needed'])} rows per task"
        sentence = f"{helps}, about {rows} would be needed, or {tasks}."
    return [sentence]


def _rows(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2g}"
