"""Orders of the columns of tasks as plans store them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def pack_orders(
    orders: Mapping[str, Sequence[int]], widths: Mapping[str, int]
) -> list[dict[str, Any]]:
    """Return the column orders of tasks as JSON, each order once.

    Tasks whose columns are all used, in the stored order, are omitted. :func:`unpack_orders` is the
    inverse.

    Parameters
    ----------
    widths
        Number of stored columns of each task.
    """
    tasks_of: dict[tuple[int, ...], list[str]] = {}
    for task, order in orders.items():
        if list(order) != list(range(widths[task])):
            tasks_of.setdefault(tuple(order), []).append(task)
    return [{"order": list(order), "tasks": tasks} for order, tasks in tasks_of.items()]


def unpack_orders(packed: Iterable[Mapping[str, Any]] | None) -> dict[str, list[int]]:
    """Return the column order of each task whose order differs from the stored one."""
    return {task: group["order"] for group in packed or () for task in group["tasks"]}
