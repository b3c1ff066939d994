"""Scores of learning together and alone, by the number of training rows per task."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from algorithms.evaluation.choice.curve_verdict import describe_curve
from algorithms.evaluation.scores.metrics import score_name
from sibling.plots.source import Content, Plot, Row, Source
from sibling.plots.style import COLOURS, NEUTRAL, SHAPES

#: Labels of the sides, by their names in a report.
#: Number of points of a fitted curve.
_N_POINTS: Final = 60


def describe(source: Source) -> Content | None:
    """Return the learning curve of an automatic choice."""
    choice = source.part("choice")
    curve = None if choice is None else choice.get("curve")
    if choice is None or curve is None or not curve["points"]:
        return None
    sides = {"together": "together", "apart": f"each {source.group} alone"}
    points: list[Row] = [
        {"rows": point["rows"], "side": title, "value": point[side]}
        for point in curve["points"]
        for side, title in sides.items()
    ]
    ends = curve["points"][0]["rows"], 2 * curve["points"][-1]["rows"]
    lines: list[Row] = [
        {"rows": n, "side": title, "value": _at(curve[side], n)}
        for side, title in sides.items()
        for n in np.geomspace(*ends, _N_POINTS).tolist()
    ]
    stops_at = curve["stops_at"]
    is_inside = stops_at is not None and ends[0] <= stops_at <= ends[1]
    stop: list[Row] = [{"rows": stops_at}] if is_inside else []
    first, *others = describe_curve(curve, n_tasks=len(choice["tasks"]))
    better = "larger" if choice["larger_is_better"] else "smaller"
    note = "Points are means over splits; lines are fitted curves c + b n^(-a)."
    tables = {"points": points, "lines": lines, "stop": stop}
    return Content(
        tables,
        first,
        (*others, note),
        {
            "sides": list(sides.values()),
            "title": [f"{score_name(choice)} on held-out rows", f"({better} is better)"],
        },
    )


def draw(content: Content) -> Any:
    """Return points and a line for both sides, and a rule where sharing no longer helps."""
    import altair as alt

    sides = content.options["sides"]
    scale = alt.Scale(domain=sides, range=[COLOURS[0], COLOURS[3]])
    shapes = alt.Scale(domain=sides, range=list(SHAPES[:2]))
    rows = alt.X("rows:Q", title="Training rows per task", scale=alt.Scale(type="log"))
    value = alt.Y("value:Q", title=content.options["title"], scale=alt.Scale(zero=False))
    side = alt.Color("side:N", scale=scale, title="Learned")
    lines = alt.Chart(alt.NamedData("lines")).mark_line().encode(x=rows, y=value, color=side)
    points = (
        alt.Chart(alt.NamedData("points"))
        .mark_point(filled=True, size=70, opacity=1)
        .encode(
            x=rows,
            y=value,
            color=side,
            shape=alt.Shape("side:N", scale=shapes, title="Learned"),
            tooltip=["side:N", *(alt.Tooltip(f"{n}:Q", format=".4g") for n in ("rows", "value"))],
        )
    )
    stop = (
        alt.Chart(alt.NamedData("stop")).mark_rule(color=NEUTRAL, strokeDash=[4, 4]).encode(x=rows)
    )
    return alt.layer(stop, lines, points).properties(width=480)


def _at(curve: Mapping[str, float], n: float) -> float:
    return float(curve["limit"] + curve["factor"] * n ** -curve["exponent"])


PLOT: Final = Plot("learning-curve", "Scores by training rows per task", describe, draw)
