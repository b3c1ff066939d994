"""Gain of learning together over the best single-task baseline, for each task."""

from collections.abc import Mapping
from typing import Any, Final

from algorithms.evaluation.comparison.no_verdict import NO_VERDICT
from algorithms.evaluation.scores.metrics import task_score_name
from sibling.plots.source import (
    MAX_NAMES,
    Content,
    Plot,
    Row,
    Source,
    counted,
    finite,
    kept,
    spread,
)
from sibling.plots.style import COLOURS, NEUTRAL


def describe(source: Source) -> Content | None:
    """Return the gain of the candidate of a comparison for each task, with its interval."""
    comparison = source.part("comparison")
    best = None if comparison is None else _best_baseline(comparison)
    if comparison is None or best is None or _has_no_verdict(comparison):
        return None
    all_rows: list[Row] = []
    for task, gains in comparison["by_task"].items():
        gain = next((entry for entry in gains if _label(entry) == _label(best)), None)
        if gain is not None and finite(gain["gain"]) is not None:
            ends = {end: finite(gain[end]) for end in ("low", "high")}
            all_rows.append(
                {"task": task, "gain": gain["gain"], **ends, "side": _side(gain["gain"])}
            )
    if not all_rows:
        return None
    all_rows.sort(key=lambda row: -row["gain"])
    rows = [all_rows[i] for i in spread(len(all_rows), MAX_NAMES)]
    name = comparison["methods"][0]["algorithm"]
    counts = sum(row["gain"] > 0 for row in all_rows), len(all_rows)
    sentence = (
        f"{name} is better than {_name(best)} on {counts[0]} of {counted(counts[1], 'task')}. "
        "Lines are 95 % confidence intervals; one that crosses 0 may be chance."
    )
    title = f"{task_score_name(comparison)}: gain over {_name(best)} (better to the right)"
    notes = kept(len(rows), len(all_rows), "tasks", "evenly spaced by their gain")
    return Content({"gains": rows}, sentence, notes, {"title": title})


def draw(content: Content) -> Any:
    """Return a point and an interval for each task, the largest gain first."""
    import altair as alt

    tasks = [row["task"] for row in content.tables["gains"]]
    base = alt.Chart(alt.NamedData("gains")).encode(
        y=alt.Y("task:N", sort=tasks, title=None),
        tooltip=["task:N", *(alt.Tooltip(f"{n}:Q", format=".4g") for n in ("gain", "low", "high"))],
    )
    intervals = base.mark_rule(color=NEUTRAL).encode(
        x=alt.X("low:Q", title=content.options["title"]), x2="high:Q"
    )
    sides = ["better", "worse", "equal"]
    colours = [COLOURS[0], COLOURS[3], NEUTRAL]
    shapes = ["triangle-right", "triangle-left", "circle"]
    points = base.mark_point(filled=True, size=90, opacity=1).encode(
        x=alt.X("gain:Q", title=content.options["title"]),
        color=alt.Color(
            "side:N", scale=alt.Scale(domain=sides, range=colours), title="With others"
        ),
        shape=alt.Shape("side:N", scale=alt.Scale(domain=sides, range=shapes), title="With others"),
    )
    zero = alt.Chart().mark_rule(color=NEUTRAL, strokeDash=[4, 4]).encode(x=alt.datum(0))
    return alt.layer(zero, intervals, points, data=alt.NamedData("gains")).properties(width=480)


def _has_no_verdict(comparison: Mapping[str, Any]) -> bool:
    candidate = comparison.get("candidate")  # not in old reports
    return candidate is not None and candidate["verdict"] == NO_VERDICT


def _best_baseline(comparison: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the single-task baseline over which the gain on all tasks is the smallest."""
    candidates = [
        gain
        for gain in comparison["overall"]
        if gain["role"] == "single_task" and finite(gain["gain"]) is not None
    ]
    return min(candidates, key=lambda gain: float(gain["gain"]), default=None)


def _label(gain: Mapping[str, Any]) -> tuple[str, str, str]:
    return gain["baseline"], gain["role"], gain["variant"]


def _name(gain: Mapping[str, Any]) -> str:
    variant = f", {gain['variant']}" if gain["variant"] else ""
    return f"{gain['baseline']} (each task alone{variant})"


def _side(gain: float) -> str:
    return "better" if gain > 0 else "worse" if gain < 0 else "equal"


PLOT: Final = Plot("gains", "Gain of learning together", describe, draw)
