"""Candidates whose fit diverged, which parameter selection records and leaves out."""

from collections.abc import Mapping, Sequence
from typing import Any

from algorithms.interface.errors import Diverged


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


def _first(failed: Sequence[Mapping[str, Any]]) -> str:
    values = describe_values(failed[0]["params"])
    return f"the first, {values}: {failed[0]['reason']}" if values else str(failed[0]["reason"])
