"""Gain of learning together over learning alone, for each task."""

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
    """Return the gain of each task by a comparison or an automatic choice, with its interval."""
    choice = source.part("choice")
    return _of_comparison(source.part("comparison")) if choice is None else _of_choice(choice)


def _of_choice(choice: Mapping[str, Any]) -> Content | None:
    """Return the gain of all methods over methods that learn each task alone."""
    pair = choice.get("together_or_apart")
    if pair is None or pair["verdict"] == NO_VERDICT:
        return None
    drawn, level = "", choice.get("task_confidence")  # not in reports of earlier versions
    if level is not None:
        drawn = " Gains are drawn to their mean."
    gains = {name: one for name, one in choice["tasks"].items() if one["verdict"] != NO_VERDICT}
    claim = "Learning together is better than learning alone"
    return _content(choice, gains, claim, drawn=drawn, level=level)


def _of_comparison(comparison: Mapping[str, Any] | None) -> Content | None:
    """Return the gain of the candidate over the best method that learns each task alone."""
    best = None if comparison is None else _best_baseline(comparison)
    if comparison is None or best is None or _has_no_verdict(comparison):
        return None
    gains = {
        task: gain
        for task, all_gains in comparison["by_task"].items()
        for gain in all_gains
        if _label(gain) == _label(best)
    }
    name, over = comparison["methods"][0]["algorithm"], _name(best)
    return _content(comparison, gains, f"{name} is better than {over}")


def _content(
    study: Mapping[str, Any],
    gains: Mapping[str, Mapping[str, Any]],
    claim: str,
    *,
    drawn: str = "",
    level: float | None = None,
) -> Content | None:
    """Return the known gains, the largest first.

    Parameters
    ----------
    claim
        What a gain above 0 means.
    drawn
        A sentence on how gains are estimated.
    level
        Confidence of the intervals; None for 95 %.
    """
    all_rows: list[Row] = [
        {
            "task": task,
            "gain": gain["gain"],
            **{end: finite(gain[end]) for end in ("low", "high")},
            "side": _side(gain["gain"]),
        }
        for task, gain in gains.items()
        if finite(gain["gain"]) is not None
    ]
    if not all_rows:
        return None
    all_rows.sort(key=lambda row: -row["gain"])
    rows = [all_rows[i] for i in spread(len(all_rows), MAX_NAMES)]
    counts = sum(row["gain"] > 0 for row in all_rows), len(all_rows)
    sentence = (
        f"{claim} on {counts[0]} of {counted(counts[1], 'task')}.{drawn} Lines are "
        f"{100 * (level or 0.95):.0f} % confidence intervals; one that crosses 0 may be chance."
    )
    title = f"{task_score_name(study)}: gain over learning alone (better to the right)"
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
