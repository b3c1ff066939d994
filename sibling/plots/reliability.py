"""Reliability curve: how often rows are of a class to which a model gives a probability."""

from typing import Any, Final

from sibling.plots.source import Content, Plot, Row, Source
from sibling.plots.style import COLOURS, NEUTRAL

_KINDS: Final = {"after": "calibrated", "before": "before calibration"}


def describe(source: Source) -> Content | None:
    """Return the reliability curves of the calibration, from rows that were held out."""
    calibration = source.part("calibration")
    if calibration is None or calibration.get("after") is None:
        return None
    rows: list[Row] = []
    for part, kind in _KINDS.items():
        for point in (calibration.get(part) or {"reliability": ()})["reliability"]:
            numbers = {name: float(point[name]) for name in ("probability", "share", "low", "high")}
            rows.append({"kind": kind, "rows": int(point["n"]), **numbers})
    after, before = calibration["after"], calibration.get("before")
    sentence = (
        "Probabilities on the line hold as they are: of the rows with 70 %, 70 % are of the class. "
        f"The mean distance from it is {after['calibration_error']:.3g}"
    )
    if before is not None:
        sentence += f", and was {before['calibration_error']:.3g} before calibration"
    note = "Rows of all tasks, which were held out in turn; bars are 95 % intervals."
    diagonal: list[Row] = [{"probability": end, "share": end} for end in (0, 1)]
    return Content({"points": rows, "diagonal": diagonal}, f"{sentence}.", (note,))


def draw(content: Content) -> Any:
    """Return a curve with intervals before and after the calibration, and the diagonal."""
    import altair as alt

    kinds = [k for k in _KINDS.values() if any(r["kind"] == k for r in content.tables["points"])]
    unit = alt.Scale(domain=[0, 1])
    x = alt.X("probability:Q", title="Probability of a class", scale=unit)
    y = alt.Y("share:Q", title="Share of rows of the class", scale=unit)
    colours = alt.Scale(domain=kinds, range=[COLOURS[0], COLOURS[1]][: len(kinds)])
    color = alt.Color("kind:N", scale=colours, title="Probabilities")
    shape = alt.Shape("kind:N", scale=alt.Scale(domain=kinds), title="Probabilities")
    tooltip = ["kind:N", "rows:Q", *(f"{n}:Q" for n in ("probability", "share", "low", "high"))]
    base = alt.Chart(alt.NamedData("points")).encode(x=x, color=color)
    diagonal = alt.Chart(alt.NamedData("diagonal")).encode(x=x, y=y)
    diagonal = diagonal.mark_line(color=NEUTRAL, strokeDash=[4, 4])
    intervals = base.mark_rule(opacity=0.6).encode(y=alt.Y("low:Q", scale=unit), y2="high:Q")
    line = base.mark_line().encode(y=y)
    points = base.mark_point(filled=True, size=60, opacity=1).encode(
        y=y, shape=shape, tooltip=tooltip
    )
    return alt.layer(diagonal, intervals, line, points).properties(width=360, height=360)


PLOT: Final = Plot("reliability", "Reliability of probabilities", describe, draw)
