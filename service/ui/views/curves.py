"""Curves of a running job, as lines of the page."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.ui import formats


@dataclass(frozen=True, slots=True)
class Curve:
    """A quantity at each report of progress.

    Parameters
    ----------
    points
        Points of a line in a box of 600 by 120; empty without two values.
    label
        Description of the curve in a sentence.
    """

    key: str
    points: str
    label: str


def curves_of(events: Sequence[Mapping[str, Any]]) -> list[Curve]:
    """Return the curves of the objective and of the distance from its optimum.

    They show the last loop only: each loop has an objective of its own.
    """
    steps = [event["data"] for event in events if event["kind"] == "progress"]
    loop = steps[-1].get("loop") if steps else None
    loop_steps = [step for step in steps if step.get("loop") == loop]
    of_loop = f" ({loop})" if loop else ""
    objectives = [value for step in loop_steps if (value := step.get("objective")) is not None]
    residuals = [
        value for step in loop_steps if (value := step.get("residual")) is not None and value > 0
    ]
    return [
        _curve("curve", f"The objective{of_loop}", objectives, objectives),
        _curve(
            "residual",
            "The distance from the optimum (duality gap, or relative gradient; log scale)",
            residuals,
            [math.log10(value) for value in residuals],
        ),
    ]


def _curve(key: str, quantity: str, values: Sequence[float], heights: Sequence[float]) -> Curve:
    """Return a curve through the heights, described by the values."""
    if len(values) < 2:
        return Curve(key, "", "")
    low, span = min(heights), (max(heights) - min(heights)) or 1.0
    step = 600 / (len(heights) - 1)
    points = (
        f"{i * step:.1f},{115 - 110 * (height - low) / span:.1f}"
        for i, height in enumerate(heights)
    )
    label = (
        f"{quantity} went from {formats.number(values[0], 5)} to {formats.number(values[-1], 5)} "
        f"in {formats.count(len(values), 'report')} of progress."
    )
    return Curve(key, " ".join(points), label)
