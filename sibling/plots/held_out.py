"""Held-out predictions of a report as rows of plots."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from sibling.plots.source import HeldOut

_WHAT: Final = "held-out row"


def held_out_rows(report: Mapping[str, Any] | None) -> HeldOut | None:
    """Return the predictions for held-out rows that a report has; None if it has none.

    Scores of a task are given if all of its rows have one.
    """
    stored = (report or {}).get("predictions")
    if stored is None or not stored["tasks"]:
        return None
    tasks = _of_one_kind(stored["tasks"])
    sizes = [len(entry["rows"]) for entry in tasks.values()]
    true = [value for entry in tasks.values() for value in entry["true"]]
    predicted = [value for entry in tasks.values() for value in entry["predicted"]]
    kind = np.float64 if isinstance(true[0], float) else np.str_
    scores = {}
    for name, entry in tasks.items():
        labels = sorted(set(entry["true"]))
        if None not in entry["scores"] and len(labels) == 2:
            scores[name] = (np.array(entry["scores"], dtype=np.float64), labels)
    return HeldOut(
        task=np.repeat(list(tasks), sizes),
        true=np.array(true, dtype=kind),
        predicted=np.array(predicted, dtype=kind),
        scores=scores,
        n_rows=stored["n_rows"],
        what=_WHAT,
    )


def _of_one_kind(tasks: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tasks whose targets are of the kind of the first: numbers, or labels."""
    is_numeric = {name: isinstance(entry["true"][0], float) for name, entry in tasks.items()}
    first = next(iter(is_numeric.values()))
    return {name: entry for name, entry in tasks.items() if is_numeric[name] == first}
