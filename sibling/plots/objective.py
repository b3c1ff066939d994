"""How the objective fell, and how far each step was from the end."""

import math
import re
from collections.abc import Sequence
from typing import Any, Final

from algorithms.interface.trace import PROJECTION
from sibling.plots.source import (
    MAX_STEPS,
    Content,
    Plot,
    Row,
    Source,
    counted,
    finite,
    kept,
    spread,
)
from sibling.plots.style import COLOURS

#: Maximum number of loops: one colour for each.
_MAX_LOOPS: Final = len(COLOURS)
#: Maximum number of loops that the sentence names.
_MAX_DESCRIBED: Final = 4
#: Approximate maximum number of lines at powers of ten.
_MAX_POWERS: Final = 8
#: Numbers in the name of a loop; a quoted name of a task is kept.
_NUMBERS: Final = re.compile(r"('[^']*')|\d[\d.e+-]*")


def describe(source: Source) -> Content | None:
    """Return the steps of the last loops of a fit.

    The projection of rows by a fitted latent variable model is no part of its training.
    """
    steps = source.steps
    if steps is None or not steps["loop"]:
        return None
    by_loop: dict[str, list[int]] = {}
    for position, loop in enumerate(steps["loop"]):
        by_loop.setdefault(loop, []).append(position)
    trained = [loop for loop in by_loop if not loop.startswith(PROJECTION)] or list(by_loop)
    loops = trained[-_MAX_LOOPS:]
    panels = list(dict.fromkeys(map(_panel, loops)))
    rows: list[Row] = []
    for loop in loops:
        positions = by_loop[loop]
        rows += [
            {
                "loop": loop,
                "panel": panels.index(_panel(loop)),
                "iteration": int(steps["iteration"][i]),
                "objective": finite(steps["objective"][i]),
                "residual": _positive(steps["residual"][i]),
            }
            for i in (positions[k] for k in spread(len(positions), MAX_STEPS))
        ]
    described = {_panel(loop): loop for loop in loops}  # the last loop of each panel
    courses = [
        course
        for loop in described.values()
        if (course := _course(rows, loop, is_named=len(panels) > 1)) is not None
    ]
    if not courses:
        return None
    has_gap = "duality_gap" in source.learned()
    total = sum(len(by_loop[loop]) for loop in loops)
    return Content(
        {"steps": rows},
        f"The objective went {_enumerate(courses)}.",
        kept(len(loops), len(trained), "loops of the fit", "the last")
        + kept(len(rows), total, "steps"),
        {"residual": "Relative duality gap" if has_gap else "Residual (0 at the optimum)"},
    )


def last_loop(source: Source) -> list[Row]:
    """Return iterations and objectives of the last loop of a fit; none without objectives."""
    content = describe(source)
    steps = [] if content is None else content.tables["steps"]
    return [
        {"iteration": step["iteration"], "objective": step["objective"]}
        for step in steps
        if step["loop"] == steps[-1]["loop"] and step["objective"] is not None
    ]


def draw(content: Content) -> Any:
    """Return panels over the iterations: objectives, and gap or residual."""
    import altair as alt

    steps = content.tables["steps"]
    loops = list(dict.fromkeys(row["loop"] for row in steps))
    legend = alt.Legend(title="Loop") if len(loops) > 1 else None
    color = alt.Color("loop:N", sort=loops, legend=legend)
    base = alt.Chart(alt.NamedData("steps")).mark_line(point={"size": 18}).encode(color=color)
    x = alt.X("iteration:Q", title="Iteration", axis=alt.Axis(tickMinStep=1))
    tooltip = ["loop:N", "iteration:Q", "objective:Q", "residual:Q"]
    objective = base.encode(
        x=x, y=alt.Y("objective:Q", title="Objective", scale=alt.Scale(zero=False)), tooltip=tooltip
    )
    title = [content.options["residual"], "log scale"]
    axis = alt.Axis(format="~e", values=_powers(steps))
    y = alt.Y("residual:Q", title=title, scale=alt.Scale(type="log"), axis=axis)
    residual = base.transform_filter("isValid(datum.residual)").encode(x=x, y=y, tooltip=tooltip)
    numbers = sorted({row["panel"] for row in steps})
    panels = [objective.properties(width=480, height=200)]
    if len(numbers) > 1:
        panels = [
            objective.transform_filter(f"datum.panel === {number}").properties(
                width=480, height=120, title=_title(steps, number)
            )
            for number in numbers
        ]
    if any(row["residual"] is not None for row in steps):
        panels.append(residual.properties(width=480, height=160))
    return alt.vconcat(*panels)


def _powers(steps: Sequence[Row]) -> list[float]:
    """Return powers of ten for the lines of the residuals, at most about eight."""
    residuals = [row["residual"] for row in steps if row["residual"] is not None] or [1.0]
    low, high = (math.floor(math.log10(end(residuals))) for end in (min, max))
    return [10.0**power for power in range(low, high + 2, 1 + (high + 1 - low) // _MAX_POWERS)]


def _panel(loop: str) -> str:
    """Return the common name of loops with comparable objectives, without running numbers."""
    return _NUMBERS.sub(lambda match: match[1] or "", loop)


def _title(steps: Sequence[Row], number: int) -> str:
    """Return the loop of a panel, or the first and the last loop."""
    loops = list(dict.fromkeys(row["loop"] for row in steps if row["panel"] == number))
    return loops[0] if len(loops) == 1 else f"{loops[0]} to {loops[-1]}"


def _course(rows: Sequence[Row], loop: str, *, is_named: bool) -> str | None:
    """Return in words how the objective of a loop went; None if it has none."""
    steps = [row for row in rows if row["loop"] == loop]
    objectives = [row["objective"] for row in steps if row["objective"] is not None]
    if not objectives:
        return None
    count = steps[-1]["iteration"]
    name = f" ({loop})" if is_named else ""
    return (
        f"from {objectives[0]:.4g} to {objectives[-1]:.4g} in {counted(count, 'iteration')}{name}"
    )


def _enumerate(parts: Sequence[str]) -> str:
    """Return parts of a sentence with commas and 'and'; of many, the first parts and a number."""
    if len(parts) > _MAX_DESCRIBED:
        n_more = len(parts) - _MAX_DESCRIBED + 1
        parts = [*parts[: _MAX_DESCRIBED - 1], f"further in {n_more} other loops"]
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def _positive(value: Any) -> float | None:
    """Return a number that a log scale can show."""
    number = finite(value)
    return number if number is not None and number > 0 else None


PLOT: Final = Plot("objective", "Objective and convergence", describe, draw)
