"""Descriptions of candidates whose fit failed, and of methods that are left out."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from algorithms.interface.errors import Diverged
from algorithms.interface.lists import list_names

#: Maximum number of methods that a message names for one reason.
_MAX_NAMES: Final = 3


def describe_left_out(left_out: Sequence[Mapping[str, str]], *, max_names: int = _MAX_NAMES) -> str:
    """Return why methods are left out: each reason once, the most frequent first.

    Reasons are equal if they differ only in the name of the method.

    Parameters
    ----------
    left_out
        ``algorithm`` and ``reason`` of each method.
    max_names
        Maximum number of methods that are named for one reason.
    """
    names_of: dict[str, dict[str, None]] = {}
    for method in left_out:
        own_name = rf"(?<![\w-]){re.escape(method['algorithm'])}(?![\w-])"
        reason = re.sub(own_name, "the method", method["reason"])
        names_of.setdefault(reason, {})[method["algorithm"]] = None
    largest_first = sorted(names_of.items(), key=lambda item: -len(item[1]))
    return "; ".join(
        f"{_shortened(list(names), max_names)}: {reason}" for reason, names in largest_first
    )


def describe_values(values: Mapping[str, Any]) -> str:
    """Return parameter values as text."""
    return ", ".join(
        f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}"
        for name, value in values.items()
    )


def failure_warnings(failed: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a warning if candidates failed.

    Parameters
    ----------
    failed
        Searched values (``params``) and ``reason`` of each failed candidate.
    """
    if not failed:
        return ()
    subject = "1 candidate was" if len(failed) == 1 else f"{len(failed)} candidates were"
    return (f"{subject} left out of the selection because the fit failed ({_first(failed)})",)


def all_failed(failed: Sequence[Mapping[str, Any]], first: Diverged | None = None) -> Diverged:
    """Return the error to raise if every candidate failed.

    Parameters
    ----------
    first
        Error of the first candidate, whose class and location the new error gets.
    """
    message = f"all {len(failed)} candidates failed ({_first(failed)})"
    if first is None:
        return Diverged(message)
    return type(first)(
        message, task=first.task, row=first.row, column=first.column, field=first.field
    )


def _shortened(names: Sequence[str], max_names: int) -> str:
    """Return the first names and the number of further names."""
    if len(names) <= max_names:
        return ", ".join(names)
    return list_names(names, max_names - 1, has_quotes=False)


def _first(failed: Sequence[Mapping[str, Any]]) -> str:
    values = describe_values(failed[0]["params"])
    return f"the first, {values}: {failed[0]['reason']}" if values else str(failed[0]["reason"])
